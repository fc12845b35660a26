import { afterAll, beforeAll, expect, test } from "bun:test"
import { changeRole, type GivenRole } from "../../../src/store/operator/role.ts"
import { openDatabase } from "../../../src/store/database.ts"
import { startTestGateway, type TestGateway } from "../../gateway/harness.ts"
import { openTestDatabase } from "../../store/harness.ts"
import { caller, makeOperator } from "./operator.ts"

let gateway: TestGateway
let ask: ReturnType<typeof caller>
beforeAll(async () => {
  gateway = await startTestGateway()
  ask = caller(gateway, await makeOperator(gateway))
})
afterAll(() => gateway[Symbol.asyncDispose]())

const entry = async (subject: string) =>
  await gateway.sql`
    insert into audit_log (request_id, action, subject, before, after)
    values (${crypto.randomUUID()}, 'test', ${subject}, '{"a":1}', '{"a":2}')`

test("a customer is forbidden, nobody and a key are unauthorized, and a role that was taken away is gone at once", async () => {
  const person = await gateway.person(10_000)
  const { key } = await gateway.key(person)
  const asked = async (headers: Record<string, string>) => {
    const response = await fetch(`${gateway.url}/operator/audit`, { headers })
    return [response.status, response.headers.get("x-error-code")]
  }
  const bearer = { Authorization: `Bearer ${person.token}` }
  expect(await asked(bearer)).toEqual([403, "auth.forbidden"])
  expect(await asked({})).toEqual([401, "auth.unauthorized"])
  expect(await asked({ Authorization: `Bearer ${key}` })).toEqual([401, "auth.unauthorized"])
  expect(await asked({ "x-api-key": key })).toEqual([401, "auth.unauthorized"])
  await gateway.sql`update accounts set role = 'operator' where id = ${person.accountId}`
  expect(await asked(bearer)).toEqual([200, null])
  await gateway.sql`update accounts set role = 'customer' where id = ${person.accountId}`
  expect(await asked(bearer)).toEqual([403, "auth.forbidden"])
})

test("the log is read page by page, the newest first, and by subject", async () => {
  const subject = `acc_${crypto.randomUUID()}`
  for (let count = 0; count < 5; count++) await entry(subject)
  await entry("something else")
  const seen: number[] = []
  let path = `/operator/audit?subject=${subject}&limit=2`
  for (let pages = 0; path !== ""; pages++) {
    expect(pages).toBeLessThan(3)
    const { status, json } = await ask(path)
    expect(status).toBe(200)
    for (const { id, before, after } of json.data) {
      expect([before, after]).toEqual([{ a: 1 }, { a: 2 }])
      seen.push(id)
    }
    path = json.next_cursor === null ? "" : `/operator/audit?subject=${subject}&limit=2&cursor=${json.next_cursor}`
  }
  expect(seen).toHaveLength(5)
  expect(seen).toEqual([...seen].sort((a, b) => b - a))
})

test.each(["limit=0", "limit=101", "limit=x", "cursor=x", "cursor=MQAy"])("%s is refused", async (query) => {
  const { status, json } = await ask(`/operator/audit?${query}`)
  expect([status, json.code]).toEqual([400, "request.invalid"])
})

test("a row of the log is never changed, deleted or truncated", async () => {
  await entry("for ever")
  for (const statement of ["update audit_log set reason = 'x'", "delete from audit_log", "truncate audit_log"])
    expect(gateway.sql.unsafe(statement)).rejects.toThrow("never changed")
})

const byCommand = (role: GivenRole) => ({
  role,
  act: { requestId: `cmd_${crypto.randomUUID()}`, operatorId: undefined, address: undefined },
  keepsAnOwner: false,
})

test("a role is given and taken back in writing, and sessions end with each", async () => {
  await using database = await openTestDatabase()
  const { db, sql } = database
  await sql`insert into accounts (id, email, password_hash) values ('acc_1', 'One@Example.com', 'x')`
  const session = async () =>
    await sql`insert into sessions (token_hash, account_id, expires_at) values (${Buffer.from(crypto.randomUUID())}, 'acc_1', now() + interval '1 day')`
  const change = async (role: GivenRole, email = "one@example.com") => {
    const outcome = await changeRole(db, { email }, byCommand(role))
    return outcome?.kind === "changed" ? outcome.before : outcome
  }
  await session()
  expect(await change("support")).toBe("customer")
  expect(await sql`select * from sessions`).toBeEmpty()
  await session()
  expect(await change("support")).toBe("support")
  expect(await sql`select * from sessions`).toHaveLength(1)
  expect(await change("owner")).toBe("support")
  expect(await sql`select * from sessions`).toBeEmpty()
  expect(await change("customer")).toBe("owner")
  expect(await change("owner", "nobody@example.com")).toBeUndefined()
  const rows = await sql`select operator_id, action, subject, before, after from audit_log order by id`
  const row = { operator_id: null, action: "account.role", subject: "acc_1" }
  expect([...rows]).toEqual([
    { ...row, before: { role: "customer" }, after: { role: "support" } },
    { ...row, before: { role: "support" }, after: { role: "owner" } },
    { ...row, before: { role: "owner" }, after: { role: "customer" } },
  ])
})

test("a database that is away changes no role", async () => {
  const db = openDatabase({ url: "postgres://root@127.0.0.1:1/postgres", connections: 1 })
  expect(changeRole(db, { email: "one@example.com" }, byCommand("owner"))).rejects.toThrow()
  await db.close()
})
