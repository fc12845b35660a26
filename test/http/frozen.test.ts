/** An account that is frozen: what its owner may still do, and when. */
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "bun:test"
import { eventually } from "../contract/calling.ts"
import { expectFailure } from "../contract/expect-failure.ts"
import { type Person, startTestGateway, type TestGateway } from "../gateway/harness.ts"
import { reconcile } from "../money/reconcile.ts"

const REASON = "a balance is not the sum of its transfers"
const hello = [{ role: "user", content: "Hello" }]

let gateway: TestGateway
let person: Person
let key: string
beforeAll(async () => {
  gateway = await startTestGateway()
})
afterAll(() => gateway[Symbol.asyncDispose]())
beforeEach(async () => {
  person = await gateway.person(10_000)
  key = (await gateway.key(person)).key
})
afterEach(() => reconcile(gateway.sql))

const freeze = () => gateway.server.accounts.freeze(person.accountId, REASON)
const unfreeze = () => gateway.server.accounts.unfreeze(person.accountId)
const ask = (model = "plain") => gateway.post("/v1/chat/completions", key, { model, messages: hello })
const become = (status: number) =>
  eventually("the key's state has not changed", ask, (response) => response.status === status)

test("its keys are refused on every path, with one message, until it is unfrozen", async () => {
  expect((await ask()).status).toBe(200)
  await freeze()
  await become(403)
  const paths = [
    ask(),
    gateway.post("/v1/messages", key, {}),
    gateway.post("/v1/responses", key, {}),
    gateway.post("/v1/messages/count_tokens", key, {}),
    fetch(`${gateway.url}/v1/models`, { headers: { "x-api-key": key } }),
  ]
  for (const response of await Promise.all(paths)) {
    const { message } = await expectFailure(response, 403, "auth.account_frozen")
    expect(message).toBe("The account is frozen; contact the operator.")
  }
  await unfreeze()
  expect((await become(200)).status).toBe(200)
})

test("a call under way ends and is settled as usual", async () => {
  const model = await gateway.model({ format: "chat", script: "input=10&output=20&pace=20" })
  const response = await gateway.post("/v1/chat/completions", key, { model, messages: hello, stream: true })
  await freeze()
  await become(403)
  expect(await response.text()).toEndWith("data: [DONE]\n\n")
  const record = await gateway.usage(person, response.headers.get("x-request-id") ?? "")
  expect(record).toMatchObject({ status: "ok", charge_micro: 110_000 })
})

test("its owner reads the dashboard, changes and revokes keys, and tops up; only a new key is refused", async () => {
  await freeze()
  await gateway.topUp(person, 10_000)
  for (const path of ["/account", "/keys", "/usage", "/top-ups"]) {
    expect([path, (await gateway.dashboard(person, path)).status]).toEqual([path, 200])
  }
  expect((await gateway.balance(person)).balance_micro).toBe(20_000_000_000)
  const body = JSON.stringify({ name: "another" })
  const refused = await gateway.dashboard(person, "/keys", { method: "POST", body })
  await expectFailure(refused, 403, "auth.account_frozen")
  const { data } = (await (await gateway.dashboard(person, "/keys")).json()) as { data: { id: string }[] }
  expect(data).toHaveLength(1)
  const revoked = await gateway.dashboard(person, `/keys/${data[0]?.id}/revoke`, { method: "POST" })
  expect(revoked.status).toBe(200)
  await unfreeze()
  expect((await gateway.dashboard(person, "/keys", { method: "POST", body })).status).toBe(201)
})

test("the first reason and time stay", async () => {
  const state = async () => {
    const [row] = await gateway.sql`select frozen_at, frozen_reason from accounts where id = ${person.accountId}`
    return row
  }
  await freeze()
  const first = await state()
  await gateway.server.accounts.freeze(person.accountId, "another reason")
  expect(await state()).toEqual(first)
  expect(first?.frozen_reason).toBe(REASON)
})
