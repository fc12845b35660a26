/** Roles that owners give and take: in writing, at once, and never the last owner's. */
import { afterEach, beforeEach, expect, test } from "bun:test"
import { changeRole } from "../../../src/store/operator/role.ts"
import { openTestDatabase } from "../../store/harness.ts"
import { startTestGateway, type Person, type TestGateway } from "../../gateway/harness.ts"
import { caller, makeOperator } from "./operator.ts"

let gateway: TestGateway
let owner: Person

beforeEach(async () => {
  gateway = await startTestGateway()
  owner = await makeOperator(gateway)
})
afterEach(() => gateway[Symbol.asyncDispose]())

const give = (by: Person, to: Person, role: string, reason: string | undefined = "asked for it") =>
  caller(gateway, by)(`/operator/accounts/${to.accountId}/role`, { role, reason })
const roleOf = async ({ accountId }: Person) => {
  const [row] = await gateway.sql<{ role: string; operator_role: string | null }[]>`
    select role, operator_role from accounts where id = ${accountId}`
  return row === undefined ? undefined : [row.role, row.operator_role]
}

test("an owner gives a role with a reason; the account signs in anew, and it is in the audit log", async () => {
  const person = await gateway.person()
  const given = await give(owner, person, "support", "new in support")
  expect(given).toMatchObject({ status: 200, json: { role: "operator", operator_role: "support" } })
  expect((await gateway.dashboard(person, "/account")).status).toBe(401)
  const { json } = await caller(gateway, owner)(`/operator/audit?subject=${person.accountId}`)
  expect(json.data).toMatchObject([
    {
      action: "account.role",
      operator: { id: owner.accountId },
      before: { role: "customer" },
      after: { role: "support" },
      reason: "new in support",
    },
  ])
  expect((await give(owner, person, "customer")).json).toMatchObject({ role: "customer", operator_role: null })
  expect((await give(owner, person, "customer")).status).toBe(200)
  expect(await gateway.sql`select from audit_log where action = 'account.role'`).toHaveLength(2)
})

test("a role that is taken away is gone with the commit, whichever process is asked", async () => {
  const other = await makeOperator(gateway)
  const before = await caller(gateway, other)("/operator/overview")
  // As another process does: nothing but the database tells this one.
  await gateway.sql`update accounts set operator_role = 'support' where id = ${other.accountId}`
  const denied = await caller(gateway, other)("/operator/exchange-rates", { currency: "USD", rupiah: "16000" })
  await gateway.sql`update accounts set role = 'customer' where id = ${other.accountId}`
  const after = await caller(gateway, other)("/operator/overview")
  expect([before.status, denied.status, denied.json.code, after.status, after.json.code]).toEqual([
    200,
    403,
    "auth.forbidden",
    403,
    "auth.forbidden",
  ])
})

test("what is no role, has no reason or is nobody's changes nothing", async () => {
  const person = await gateway.person()
  for (const role of ["king", "operator", ""]) expect((await give(owner, person, role)).status).toBe(400)
  expect((await give(owner, person, "owner", " ")).status).toBe(400)
  expect((await give(owner, { ...person, accountId: "acc_none" }, "owner")).status).toBe(404)
  expect(await roleOf(person)).toEqual(["customer", null])
  await gateway.sql`update accounts set deleted_at = now() where id = ${person.accountId}`
  expect((await give(owner, person, "owner")).status).toBe(404)
})

test("the last owner stays one", async () => {
  await gateway.sql`update accounts set role = 'customer', operator_role = null where id <> ${owner.accountId}`
  for (const role of ["finance", "support", "customer"]) {
    const refused = await give(owner, owner, role)
    expect([refused.status, refused.json.code]).toEqual([400, "request.invalid"])
    expect(refused.json.error).toContain("last owner")
  }
  expect((await give(owner, owner, "owner")).status).toBe(200)
  expect(await roleOf(owner)).toEqual(["operator", "owner"])
  const second = await makeOperator(gateway)
  await gateway.sql`update accounts set deleted_at = now() where id = ${second.accountId}`
  expect((await give(owner, owner, "customer")).status).toBe(400)
  const third = await makeOperator(gateway, "finance")
  expect((await give(owner, owner, "customer")).status).toBe(400)
  await gateway.sql`update accounts set operator_role = null where id = ${third.accountId}`
  // With one beside it, it may go; and then that one may not.
  const leave = async (person: Person) => {
    const body = JSON.stringify({ password: "correct horse battery" })
    return (await gateway.dashboard(person, "/account", { method: "DELETE", body })).status
  }
  expect(await leave(owner)).toBe(204)
  expect(await leave(third)).toBe(400)
  expect((await gateway.dashboard(third, "/account")).status).toBe(200)
})

test("owners who demote each other at once leave one", async () => {
  await using database = await openTestDatabase()
  const { db, sql } = database
  const ids = ["acc_1", "acc_2", "acc_3", "acc_4"]
  for (const id of ids)
    await sql`insert into accounts (id, email, password_hash, role) values (${id}, ${`${id}@example.com`}, 'x', 'operator')`
  const outcomes = await Promise.all(
    ids.map((id) => {
      const act = { requestId: `req_${id}`, operatorId: id, address: undefined }
      return changeRole(db, { id }, { role: "support", act, reason: "x", keepsAnOwner: true })
    }),
  )
  expect(outcomes.map((outcome) => outcome?.kind ?? "").sort()).toEqual(["changed", "changed", "changed", "last-owner"])
  expect(await sql`select from accounts where coalesce(operator_role, 'owner') = 'owner'`).toHaveLength(1)
})
