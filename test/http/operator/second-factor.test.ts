/** Operators have their routes in sessions alone in which they have shown a second factor. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { TOTP } from "otpauth"
import { secondFactorStore } from "../../../src/store/second-factors.ts"
import { openDatabase } from "../../../src/store/database.ts"
import { startTestGateway, type TestGateway } from "../../gateway/harness.ts"
import { caller, makeOperator } from "./operator.ts"

let gateway: TestGateway
let url = ""
const databaseUrl = (own: string) => (url = own)
beforeAll(async () => {
  gateway = await startTestGateway({ env: { OPERATOR_SECOND_FACTOR: "true" }, databaseUrl })
})
afterAll(() => gateway[Symbol.asyncDispose]())

const PASSWORD = "correct horse battery"

test("without it every route of theirs is a 403 that says so; with it, in that session alone, all open", async () => {
  const operator = await makeOperator(gateway)
  const ask = caller(gateway, operator)
  const routes = gateway.server.routes.filter(({ path }) => path.startsWith("/operator/"))
  expect(routes.length).toBeGreaterThan(20)
  for (const { method, path } of routes) {
    const { status, json } = await ask(path.replaceAll(/:\w+/g, "x"), method === "GET" ? undefined : {}, method)
    expect([method, path, status, json.code]).toEqual([method, path, 403, "auth.second_factor_required"])
  }
  // What is a customer's is an operator's too.
  expect((await ask("/account")).status).toBe(200)
  expect((await ask("/account/second-factor")).json.needed).toBe(true)
  const { json: app } = await ask("/account/second-factor", { password: PASSWORD })
  const code = new TOTP({ secret: app.secret }).generate()
  const confirmed = await ask("/account/second-factor/confirm", { code })
  expect(confirmed.status).toBe(200)
  expect((await ask("/operator/overview")).status).toBe(200)
  expect((await ask("/account/second-factor")).json.needed).toBe(false)
  // Removed, they close again, also in the session that removed it.
  const [recovery] = confirmed.json.recovery_codes
  const removed = await ask("/account/second-factor", { password: PASSWORD, code: recovery }, "DELETE")
  expect([removed.status, (await ask("/operator/overview")).status]).toEqual([204, 403])
})

test("who has the machine resets a lost one, which is in the audit log", async () => {
  const operator = await makeOperator(gateway)
  const ask = caller(gateway, operator)
  const { json: app } = await ask("/account/second-factor", { password: PASSWORD })
  await ask("/account/second-factor/confirm", { code: new TOTP({ secret: app.secret }).generate() })
  const database = openDatabase({ url, connections: 1 })
  const by = { act: { requestId: "cmd_reset", operatorId: undefined, address: undefined }, reason: "phone lost" }
  expect(await secondFactorStore(database).remove(operator.accountId, by)).toBe(true)
  await database.close()
  expect((await ask("/account")).status).toBe(401)
  const [row] = await gateway.sql`select action, subject, reason from audit_log where request_id = 'cmd_reset'`
  expect(row as unknown).toEqual({
    action: "account.second_factor_reset",
    subject: operator.accountId,
    reason: "phone lost",
  })
})

test("a customer is asked for none, and told that the routes are for operators", async () => {
  const ask = caller(gateway, await gateway.person())
  const { status, json } = await ask("/operator/overview")
  expect([status, json.code]).toEqual([403, "auth.forbidden"])
  expect((await ask("/account/second-factor")).json.needed).toBe(false)
})
