/** An operator sees an account as its customer does: read only, for a while, in the audit log and in the customer's history. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { sessionStore } from "../../../src/store/sessions.ts"
import { openTestDatabase } from "../../store/harness.ts"
import { type Person, startTestGateway, type TestGateway } from "../../gateway/harness.ts"
import { type Answer, caller, makeOperator } from "./operator.ts"

let gateway: TestGateway
let customer: Person
let operator: Person
let ask: (path: string, body?: object, method?: string) => Promise<Answer>

beforeAll(async () => {
  gateway = await startTestGateway()
})
afterAll(() => gateway[Symbol.asyncDispose]())

async function begun(role: "support" | "owner" = "support") {
  customer = await gateway.person(100_000)
  operator = await makeOperator(gateway, role)
  ask = caller(gateway, operator)
  return await ask(`/operator/accounts/${customer.accountId}/see-as`, { reason: "they asked about a charge" })
}

const log = async () => {
  const { json } = await caller(gateway, await makeOperator(gateway))(`/operator/audit?subject=${customer.accountId}`)
  return json.data as {
    action: string
    reason: string | null
    operator: { id: string }
    after: { ended_at?: string }
  }[]
}
const history = async () => {
  const { json } = await caller(gateway, customer)("/account/activity")
  return (json.data as { action: string; actor: string }[]).filter(({ action }) => action.startsWith("account.see_as"))
}

test("the operator reads what the customer reads, and it says who looks and until when", async () => {
  const { status, json } = await begun()
  expect(status).toBe(200)
  const lastsMs = Date.parse(json.until) - Date.now()
  expect(lastsMs).toBeWithin(29 * 60_000, 30 * 60_000 + 1_000)
  const theirs = (await caller(gateway, customer)("/account")).json
  const seen = (await ask("/account")).json
  const { email } = (await caller(gateway, await makeOperator(gateway))(`/operator/accounts/${operator.accountId}`))
    .json
  expect(seen).toEqual({
    ...theirs,
    signed_in: { ...theirs.signed_in, id: operator.accountId, email },
    seen: { until: json.until },
  })
  expect((await ask("/account/sessions")).json.data.map(({ current }: { current: boolean }) => current)).toEqual([
    false,
  ])
  for (const path of ["/keys", "/usage", "/top-ups", "/account/memberships", "/account/second-factor", "/runs"])
    expect([path, (await ask(path)).json]).toEqual([path, (await caller(gateway, customer)(path)).json])
})

test("begin and end are in the audit log with the reason, and the customer sees both, but not who it was", async () => {
  await begun()
  expect((await ask("/auth/see-as/end", undefined, "POST")).status).toBe(204)
  // A second time there is nothing to end.
  expect((await ask("/auth/see-as/end", undefined, "POST")).status).toBe(204)
  expect((await ask("/account")).json).toMatchObject({ id: operator.accountId, seen: null })
  expect(await log()).toMatchObject([
    { action: "account.see_as_ended", operator: { id: operator.accountId } },
    { action: "account.see_as", operator: { id: operator.accountId }, reason: "they asked about a charge" },
  ])
  const rows = await history()
  expect(rows).toMatchObject([
    { action: "account.see_as_ended", actor: "operator" },
    { action: "account.see_as", actor: "operator" },
  ])
  expect(JSON.stringify(rows)).not.toContain(operator.accountId)
})

test("signing out ends it, and so does the loss of the role, each with its row", async () => {
  await begun()
  await ask("/auth/sign-out", undefined, "POST")
  expect((await log()).map(({ action }) => action)).toEqual(["account.see_as_ended", "account.see_as"])

  await begun()
  await caller(gateway, await makeOperator(gateway))(`/operator/accounts/${operator.accountId}/role`, {
    role: "customer",
    reason: "left",
  })
  expect((await log()).map(({ action }) => action)).toEqual(["account.see_as_ended", "account.see_as"])
  expect(await gateway.sql`select from seen_accounts where account_id = ${customer.accountId}`).toHaveLength(0)
})

test("a role that is gone without a word shows nothing any more", async () => {
  await begun()
  await gateway.sql`update accounts set role = 'customer' where id = ${operator.accountId}`
  expect((await ask("/account")).json).toMatchObject({ id: operator.accountId, seen: null })
})

test("it is over after half an hour, to the moment, and written down though nobody comes back", async () => {
  await begun()
  const later = (time: string) => gateway.sql`
    update seen_accounts set until = until - ${time}::interval where account_id = ${customer.accountId}`
  await later("00:29:30")
  expect((await ask("/account")).json).toMatchObject({ id: customer.accountId })
  await later("00:00:30")
  expect((await ask("/account")).json).toMatchObject({ id: operator.accountId, seen: null })
  while ((await log()).length < 2) await Bun.sleep(100)
  const [ended] = await log()
  expect(ended).toMatchObject({ action: "account.see_as_ended", operator: { id: operator.accountId } })
  expect(ended?.after.ended_at).toBeString()
})

test("what is written when it ends late is the time at which it was over", async () => {
  await using database = await openTestDatabase()
  await database.sql`
    insert into accounts (id, email, password_hash) values ('acc_1', 'one@example.com', 'x'), ('acc_2', 'two@example.com', 'x')`
  await database.sql`
    insert into seen_accounts (session_id, operator_id, account_id, until, request_id)
    values ('ses_1', 'acc_1', 'acc_2', now() - interval '1 hour', 'req_1'), ('ses_2', 'acc_1', 'acc_2', now() + interval '1 second', 'req_2')`
  expect(await sessionStore(database.db).endOverdueSeeing()).toEqual(["acc_2"])
  const rows = await database.sql<{ request_id: string; late: boolean }[]>`
    select request_id, (after->>'ended_at')::timestamptz < now() - interval '59 minutes' as late from audit_log`
  expect([...rows]).toEqual([{ request_id: "req_1:end", late: true }])
})

test("no reason, an operator's account, a deleted one and one's own are refused", async () => {
  const other = await makeOperator(gateway, "support")
  customer = await gateway.person()
  operator = await makeOperator(gateway, "owner")
  ask = caller(gateway, operator)
  const see = async (id: string, body: object = { reason: "a test" }) => {
    const { status, json } = await ask(`/operator/accounts/${id}/see-as`, body)
    return [status, json.code]
  }
  expect(await see(customer.accountId, {})).toEqual([400, "request.invalid"])
  expect(await see(customer.accountId, { reason: " " })).toEqual([400, "request.invalid"])
  expect(await see(other.accountId)).toEqual([400, "request.invalid"])
  expect(await see(operator.accountId)).toEqual([400, "request.invalid"])
  expect(await see("nobody")).toEqual([404, "resource.not_found"])
  await gateway.sql`update accounts set deleted_at = now() where id = ${customer.accountId}`
  expect(await see(customer.accountId)).toEqual([400, "request.invalid"])
  expect(await log()).toEqual([])
})

test("an account that becomes an operator's, or is deleted, is not shown from then on", async () => {
  for (const change of ["role = 'operator'", "deleted_at = now()"]) {
    await begun()
    await gateway.sql.unsafe(`update accounts set ${change} where id = '${customer.accountId}'`)
    expect((await ask("/account")).json).toMatchObject({ id: operator.accountId, seen: null })
  }
})

test("a webhook's path, which may be a secret, is not shown, in its settings and in the history", async () => {
  await begun()
  const owner = caller(gateway, customer)
  const url = "https://hooks.example.com:8443/services/T0SECRET?token=T0SECRET"
  const { json } = await owner("/account/webhook", { url }, "PUT")
  const seen = await Promise.all(
    ["/account/webhook", "/account/activity"].map(async (path) => JSON.stringify((await ask(path)).json)),
  )
  const csv = await (await gateway.dashboard(operator, "/account/activity/export.csv")).text()
  for (const text of [...seen, csv]) {
    expect(text).toContain("https://hooks.example.com:8443/…")
    expect(text).not.toContain("T0SECRET")
    expect(text).not.toContain(json.secret)
  }
  expect((await owner("/account/webhook")).json.webhook.url).toBe(url)
})

test("nothing of a key but its beginning and end is in what is shown", async () => {
  await begun()
  const { key } = await gateway.key(customer)
  for (const path of ["/keys", "/account/activity", "/usage"]) {
    expect(JSON.stringify((await ask(path)).json)).not.toContain(key.slice(13, -4))
  }
})

test("live events are the customer's, and the stream ends when it ends", async () => {
  await begun()
  const response = await gateway.dashboard(operator, "/events")
  const reader = response.body?.getReader()
  let heard = ""
  const ended = (async () => {
    for (;;) {
      const { done, value } = (await reader?.read()) ?? { done: true, value: undefined }
      if (done) return
      heard += new TextDecoder().decode(value)
    }
  })()
  while (!heard.includes(`"account_id":"${customer.accountId}"`)) await Bun.sleep(10)
  await gateway.topUp(customer, 25_000)
  while (!heard.includes("event: top-up")) await Bun.sleep(10)
  const before = performance.now()
  await ask("/auth/see-as/end", undefined, "POST")
  await ended
  expect(performance.now() - before).toBeLessThan(5_000)
})

test("a page that still shows the customer cannot change what is the operator's own", async () => {
  await begun()
  const headers = { "X-Account-Id": customer.accountId }
  await ask("/auth/see-as/end", undefined, "POST")
  const stale = await gateway.dashboard(operator, "/account/sessions", { method: "DELETE", headers })
  expect([stale.status, stale.headers.get("x-error-code")]).toEqual([409, "auth.other_account"])
  expect((await gateway.dashboard(operator, "/account/sessions", { headers })).status).toBe(200)
  expect((await gateway.dashboard(operator, "/account/sessions", { method: "DELETE" })).status).toBe(204)
})

test("two sessions of one operator are told apart: what one sees, the other does not", async () => {
  await begun()
  const { token, hash } = (await import("../../../src/accounts/bearer-tokens.ts")).createSessionToken()
  await gateway.sql`
    insert into sessions (token_hash, account_id, expires_at) values (${hash}, ${operator.accountId}, now() + interval '1 hour')`
  const other = caller(gateway, { ...operator, token })
  expect((await other("/account")).json).toMatchObject({ id: operator.accountId })
  expect((await ask("/account")).json).toMatchObject({ id: customer.accountId })
  // Nor is it the end of the one when the other ends what it sees.
  await other(`/operator/accounts/${customer.accountId}/see-as`, { reason: "a second look" })
  expect((await other("/auth/see-as/end", undefined, "POST")).status).toBe(204)
  expect((await ask("/account")).json).toMatchObject({ id: customer.accountId })
})
