/**
 * What keys ask about themselves waits in the lines of their accounts, as what sessions and tokens ask does; and who sends a token waits
 * in the line of the network, before anybody knows whose it is.
 */
import { afterAll, beforeAll, describe, expect, spyOn, test } from "bun:test"
import { Accounts } from "../../src/accounts/accounts.ts"
import { createApiKey, createSessionToken, createToken } from "../../src/accounts/bearer-tokens.ts"
import { Children } from "../../src/accounts/children.ts"
import { KeyActors, RunActors } from "../../src/gateway/leasing-actors.ts"
import { type Person, startTestGateway, type TestGateway } from "../gateway/harness.ts"

const FROM = "X-From"
let gateway: TestGateway
beforeAll(async () => void (gateway = await startTestGateway({ env: { CLIENT_ADDRESS_HEADER: FROM } })))
afterAll(() => gateway[Symbol.asyncDispose]())

const ask = (key: string, path: string, method = "GET") =>
  fetch(`${gateway.url}${path}`, { method, headers: { authorization: `Bearer ${key}` } })

const keysOf = (person: Person, count: number) =>
  Promise.all(Array.from({ length: count }, async () => (await gateway.key(person)).key))

/** Makes runs of a key, and returns their ids. */
const runsOf = (person: Person, keyId: string, count: number) =>
  Promise.all(
    Array.from({ length: count }, async () => {
      const body = JSON.stringify({ key_id: keyId, budget_micro: 1_000_000 })
      return (await (await gateway.dashboard(person, "/runs", { method: "POST", body })).json()).id as string
    }),
  )

/** Keeps what a method is asked from being answered until it is opened, but what is asked of `free`. */
function holding<Name extends string>(
  of: { [Method in Name]: (...args: never[]) => unknown },
  name: Name,
  free?: string,
) {
  const gate = Promise.withResolvers<void>()
  const original = of[name]
  const begun: unknown[] = []
  const held = async function (this: unknown, ...args: never[]) {
    begun.push(name)
    if (free === undefined || args[0] !== free) await gate.promise
    return await original.apply(this, args)
  }
  of[name] = held
  return {
    open: () => gate.resolve(),
    /** Resolves with how many have begun, when no more of those who were sent do. */
    async begun(atLeast: number) {
      while (begun.length < atLeast) await Bun.sleep(5)
      await Bun.sleep(300)
      return begun.length
    },
    [Symbol.dispose]: () => void (of[name] = original),
  }
}

test("of an account few balances are looked up at once, however many keys ask; another account waits for none of them", async () => {
  const [crowd, other] = [await gateway.person(), await gateway.person()]
  const [keys, [own = ""]] = [await keysOf(crowd, 24), await keysOf(other, 1)]
  using held = holding(KeyActors.prototype, "viewIfActive")
  const asking = keys.map((key) => ask(key, "/v1/balance"))
  expect(await held.begun(16)).toBe(16)
  const others = ask(own, "/v1/balance")
  expect(await held.begun(17)).toBe(17)
  held.open()
  for (const answer of await Promise.all([...asking, others])) expect(answer.status).toBe(200)
})

test("of an account two receipts of runs are added up at once, its owner's too, and others are not waited for", async () => {
  const [person, other] = [await gateway.person(), await gateway.person()]
  const [key, foreign] = [await gateway.key(person), await gateway.key(other)]
  const [runs, [theirs = ""]] = [await runsOf(person, key.id, 6), await runsOf(other, foreign.id, 1)]
  using held = holding(RunActors.prototype, "viewIfActive")
  const asking = [
    ...runs.map((run) => ask(key.key, `/v1/runs/${run}`)),
    ...runs.map((run) => gateway.dashboard(person, `/runs/${run}`)),
  ]
  expect(await held.begun(2)).toBe(2)
  asking.push(ask(foreign.key, `/v1/runs/${theirs}`))
  expect(await held.begun(3)).toBe(3)
  held.open()
  for (const answer of await Promise.all(asking)) expect(answer.status).toBe(200)
})

test("a key that ends its runs by the dozen has two of them ended at once, and none any more once it is revoked", async () => {
  const person = await gateway.person()
  const key = await gateway.key(person)
  const runs = await runsOf(person, key.id, 12)
  using ended = spyOn(RunActors.prototype, "ended")
  using held = holding(RunActors.prototype, "viewIfActive")
  const asking = runs.map((run) => ask(key.key, `/v1/runs/${run}/end`, "POST"))
  expect(await held.begun(2)).toBe(2)
  // Of each also the database tells.
  expect(new Set(ended.mock.calls.map(([runId]) => runId)).size).toBe(2)
  expect((await gateway.dashboard(person, `/keys/${key.id}/revoke`, { method: "POST" })).status).toBe(200)
  held.open()
  const statuses = (await Promise.all(asking)).map(({ status }) => status)
  expect(statuses.toSorted((a, b) => a - b)).toEqual([200, 200, ...Array.from({ length: 10 }, () => 401)])
  const [open] = await gateway.sql<{ count: number }[]>`
    select count(*)::int as count from runs where key_id = ${key.id} and ends_at > now()`
  expect(open?.count).toBe(10)
})

describe("a call's record", () => {
  const hello = [{ role: "user", content: "Hello" }]
  const call = async (key: string, more: object = {}) => {
    const answer = await gateway.post("/v1/chat/completions", key, { model: "plain", messages: hello, ...more })
    await answer.text()
    return answer.headers.get("x-request-id") ?? ""
  }

  test.each([false, true])(
    "is read by its key as its owner reads it, once the call has ended (streamed: %p)",
    async (stream) => {
      const person = await gateway.person(10_000)
      const { key } = await gateway.key(person, { requests_per_minute: 5, shows_balance: false })
      const id = await call(key, { stream })
      const told = await ask(key, `/v1/usage/${id}`)
      expect([told.status, told.headers.get("cache-control")]).toEqual([200, "no-store"])
      expect(told.headers.get("x-ratelimit-remaining")).toBe("3")
      const record = await told.json()
      expect(record).toMatchObject({ request_id: id, status: "ok", streamed: stream, turns: 1, markers: [] })
      expect(record.charge_micro).toBeGreaterThan(0)
      expect(record).toEqual(await gateway.usage(person, id))
    },
  )

  test("of another key, of a refused call or of none is the same 404, also for the key's parent and its child", async () => {
    const [person, stranger] = [await gateway.person(10_000), await gateway.person(10_000)]
    const parent = await gateway.key(person)
    const body = JSON.stringify({ name: "a token" })
    const { token } = await (
      await gateway.dashboard(person, `/keys/${parent.id}/tokens`, { method: "POST", body })
    ).json()
    const headers = { authorization: `Bearer ${token}` }
    const child = await (await fetch(`${gateway.url}/v1/keys`, { method: "POST", headers, body })).json()
    const [ofParent, ofChild] = [await call(parent.key), await call(child.key)]
    expect((await ask(child.key, `/v1/usage/${ofChild}`)).status).toBe(200)
    const refused = await call(parent.key, { model: "unheard-of" })
    const rows: [key: string, ids: string[]][] = [
      [parent.key, [ofChild, refused, "req_none", "%00", "x".repeat(300)]],
      [child.key, [ofParent]],
      [(await gateway.key(person)).key, [ofParent, ofChild]],
      [(await gateway.key(stranger)).key, [ofParent]],
    ]
    for (const [key, ids] of rows) {
      for (const id of ids) {
        const answer = await ask(key, `/v1/usage/${id}`)
        const { code, error } = await answer.json()
        expect([answer.status, code, error]).toEqual([404, "usage.not_found", expect.not.stringContaining("key")])
      }
    }
  })

  test("is not there while the call is under way", async () => {
    const { key } = await gateway.key(await gateway.person(10_000))
    const model = await gateway.model({ format: "chat", script: "output=20&pace=20" })
    const body = { model, messages: hello, stream: true }
    const answer = await gateway.post("/v1/chat/completions", key, body)
    const id = answer.headers.get("x-request-id") ?? ""
    const early = await ask(key, `/v1/usage/${id}`)
    expect([early.status, early.headers.get("x-error-code")]).toEqual([404, "usage.not_found"])
    await answer.text()
    expect((await ask(key, `/v1/usage/${id}`)).status).toBe(200)
  })

  test("is one request of the key's window, and not for a session or a key that is revoked", async () => {
    const person = await gateway.person(10_000)
    const { id: keyId, key } = await gateway.key(person, { requests_per_minute: 2 })
    const id = await call(key)
    expect((await ask(key, `/v1/usage/${id}`)).status).toBe(200)
    expect((await ask(key, `/v1/usage/${id}`)).headers.get("x-error-code")).toBe("rate_limit.rpm_exceeded")
    expect((await ask(person.token, `/v1/usage/${id}`)).headers.get("x-error-code")).toBe("auth.api_key_invalid")
    // The session's own route takes no key (gateway-api.md, "GET /usage/{request_id}").
    expect((await ask(key, `/usage/${id}`)).headers.get("x-error-code")).toBe("auth.unauthorized")
    expect(
      (await gateway.dashboard(person, `/keys/${keyId}`, { method: "PATCH", body: '{"requests_per_minute":9}' }))
        .status,
    ).toBe(200)
    await gateway.dashboard(person, `/keys/${keyId}/revoke`, { method: "POST" })
    expect((await ask(key, `/v1/usage/${id}`)).headers.get("x-error-code")).toBe("auth.api_key_revoked")
  })
})

const strangers = {
  sessions: {
    path: "/account",
    token: () => createSessionToken().token,
    held: () => holding(Accounts.prototype, "session"),
  },
  "management tokens": {
    path: "/v1/keys",
    token: createToken,
    held: () => holding(Children.prototype, "authenticate"),
  },
  keys: {
    path: "/v1/balance",
    token: createApiKey,
    held: () => holding(KeyActors.prototype, "count"),
  },
}

test.each(Object.entries(strangers))(
  "of one network few %s that nobody has are looked up at once, and no other network waits for them",
  async (_, { path, token, held }) => {
    const from = (address: string) =>
      fetch(`${gateway.url}${path}`, { headers: { authorization: `Bearer ${token()}`, [FROM]: address } })
    using looking = held()
    // All of one customer's IPv6 networks are one.
    const crowd = Array.from({ length: 40 }, (__, n) => from(`2001:db8:1:${n.toString(16)}::1`))
    expect(await looking.begun(16)).toBe(16)
    const other = from("203.0.113.9")
    expect(await looking.begun(17)).toBe(17)
    looking.open()
    for (const { status } of await Promise.all([...crowd, other])) expect(status).toBe(401)
  },
)

test("who is known already is looked up again at once, whoever of the same network is not", async () => {
  const person = await gateway.person()
  using looking = holding(Accounts.prototype, "session", person.token)
  const from = { [FROM]: "198.51.100.7" }
  const body = Promise.withResolvers<string>()
  const late = new ReadableStream<Uint8Array>({
    async pull(controller) {
      controller.enqueue(new TextEncoder().encode(await body.promise))
      controller.close()
    },
  })
  const making = gateway.dashboard(person, "/keys", { method: "POST", headers: from, body: late })
  expect(await looking.begun(1)).toBe(1)
  const crowd = Array.from({ length: 16 }, () =>
    fetch(`${gateway.url}/account`, {
      headers: { authorization: `Bearer ${createSessionToken().token}`, ...from },
    }),
  )
  expect(await looking.begun(17)).toBe(17)
  body.resolve(JSON.stringify({ name: "a key" }))
  expect((await making).status).toBe(201)
  expect(await looking.begun(18)).toBe(18)
  looking.open()
  for (const { status } of await Promise.all(crowd)) expect(status).toBe(401)
})

test("a key that has called waits for no stranger of its network, and every one of a customer's hundred new keys is served", async () => {
  const person = await gateway.person(10_000)
  const keys = await keysOf(person, 101)
  const [known = "", ...others] = keys
  const address = { [FROM]: "198.51.100.20" }
  const balance = (key: string) =>
    fetch(`${gateway.url}/v1/balance`, { headers: { authorization: `Bearer ${key}`, ...address } })
  expect((await balance(known)).status).toBe(200)
  const looking = holding(KeyActors.prototype, "count")
  const crowd = Array.from({ length: 40 }, () => balance(createApiKey()))
  expect(await looking.begun(16)).toBe(16)
  // From here on nobody else is held.
  looking[Symbol.dispose]()
  expect((await balance(known)).status).toBe(200)
  const asking = others.map(balance)
  looking.open()
  for (const { status } of await Promise.all(crowd)) expect(status).toBe(401)
  for (const { status } of await Promise.all(asking)) expect(status).toBe(200)
})

test("where the look-ups of a network do not end, the next key of it is told after five seconds that the database is away", async () => {
  const address = { [FROM]: "198.51.100.30" }
  const balance = () =>
    fetch(`${gateway.url}/v1/balance`, { headers: { authorization: `Bearer ${createApiKey()}`, ...address } })
  using looking = holding(KeyActors.prototype, "count")
  const crowd = Array.from({ length: 16 }, balance)
  expect(await looking.begun(16)).toBe(16)
  const since = performance.now()
  const late = await balance()
  expect(performance.now() - since).toBeGreaterThan(4_900)
  expect([late.status, late.headers.get("x-error-code")]).toEqual([503, "dependency.database_unavailable"])
  looking.open()
  for (const { status } of await Promise.all(crowd)) expect(status).toBe(401)
})
