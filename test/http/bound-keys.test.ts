/** Keys that expire, and keys that are bound: what they may not do, by whichever way it is tried. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "bun:test"
import { eventually } from "../contract/calling.ts"
import { expectFailure } from "../contract/expect-failure.ts"
import { type Init, type Person, startTestGateway, type TestGateway } from "../gateway/harness.ts"
import { reconcile } from "../money/reconcile.ts"

/** The one header that the trusted proxy writes. */
const PROXY = "x-forwarded-for"
let gateway: TestGateway
let person: Person
beforeAll(async () => {
  gateway = await startTestGateway({ env: { CLIENT_ADDRESS_HEADER: PROXY } })
})
afterAll(() => gateway[Symbol.asyncDispose]())
beforeEach(async () => void (person = await gateway.person(10_000)))
afterEach(() => reconcile(gateway.sql))

const messages = [{ role: "user", content: "Hello" }]
const paths = {
  chat: (model: string) => ["/v1/chat/completions", { model, messages }] as const,
  messages: (model: string) => ["/v1/messages", { model, messages, max_tokens: 10 }] as const,
  responses: (model: string) => ["/v1/responses", { model, input: "Hello" }] as const,
  count: (model: string) => ["/v1/messages/count_tokens", { model, messages }] as const,
}
const ask = (key: string, how: keyof typeof paths, model: string, init?: Init) => {
  const [path, body] = paths[how](model)
  return gateway.post(path, key, body, init)
}
const get = (key: string, path: string, headers: Readonly<Record<string, string>> = {}) =>
  fetch(gateway.url + path, { headers: { "x-api-key": key, ...headers } })
const outcome = async (response: Promise<Response>) => {
  const { status, headers } = await response
  return status === 200 ? 200 : headers.get("x-error-code")
}
const change = (id: string, body: unknown) =>
  gateway.dashboard(person, `/keys/${id}`, { method: "PATCH", body: JSON.stringify(body) })
const listed = async (key: string, init?: Readonly<Record<string, string>>) => {
  const { data } = (await (await get(key, "/v1/models", init)).json()) as { data: { id: string }[] }
  return data.map(({ id }) => id)
}
/** They are written some at a time. */
const toldOfRefused = (call: Readonly<Record<string, string>>) =>
  eventually(
    "the owner is not told of the call",
    async () => {
      const response = await gateway.dashboard(person, "/usage/refused")
      return ((await response.json()) as { data: Readonly<Record<string, string>>[] }).data
    },
    (data) => data.some((each) => Object.entries(call).every(([name, value]) => each[name] === value)),
  )
const inMs = (ms: number) => new Date(Date.now() + ms).toISOString()
const from = (address: string) => ({ headers: { [PROXY]: address } })
const NOT_ALLOWED = "auth.key_not_allowed"

describe("a key that expires", () => {
  test("works until its time and on no path after it, without anything being read again", async () => {
    const expiresAt = inMs(3_000)
    const { id, key } = await gateway.key(person, { expires_at: expiresAt, requests_per_minute: 100 })
    expect(await outcome(ask(key, "chat", "plain"))).toBe(200)
    // The actor has the key by now, and hears of nothing.
    await Bun.sleep(Date.parse(expiresAt) - Date.now() + 1)
    const calls = [ask(key, "chat", "plain"), ask(key, "messages", "plain"), ask(key, "responses", "plain")]
    const all = [...calls, ask(key, "count", "plain"), get(key, "/v1/models"), get(key, "/v1/balance")]
    for (const response of await Promise.all(all)) await expectFailure(response, 401, "auth.api_key_expired")
    const shown = (await (await gateway.dashboard(person, "/keys")).json()) as { data: object[] }
    expect(shown.data).toMatchObject([{ id, status: "expired", expires_at: expiresAt, revoked_at: null }])
    await toldOfRefused({ code: "auth.api_key_expired", key_id: id })
  })

  test("gets more time, loses it at once, and is given all again: each is in force when it was told", async () => {
    const { id, key } = await gateway.key(person)
    await change(id, { expires_at: inMs(0) })
    const look = () => outcome(get(key, "/v1/models"))
    expect(await look()).toBe("auth.api_key_expired")
    expect((await change(id, { expires_at: inMs(60_000) })).status).toBe(200)
    expect(await look()).toBe(200)
    expect((await change(id, { expires_at: "2026-01-01T00:00:00Z" })).status).toBe(200)
    expect(await look()).toBe("auth.api_key_expired")
    expect((await change(id, { expires_at: null })).status).toBe(200)
    expect(await look()).toBe(200)
  })

  test("ends no stream that is under way", async () => {
    const model = await gateway.model({ format: "chat", script: "input=10&output=20&pace=30" })
    const { id, key } = await gateway.key(person)
    const response = await gateway.post("/v1/chat/completions", key, { model, messages, stream: true })
    expect((await change(id, { expires_at: inMs(0) })).status).toBe(200)
    const text = await response.text()
    expect(await outcome(get(key, "/v1/models"))).toBe("auth.api_key_expired")
    expect(text).toEndWith("data: [DONE]\n\n")
    const record = await gateway.usage(person, response.headers.get("x-request-id") ?? "")
    expect(record).toMatchObject({ status: "ok", charge_micro: 110_000 })
  })

  test("that the database's clock finds over is over, also where this machine's is behind", async () => {
    const { id, key } = await gateway.key(person, { expires_at: inMs(60_000) })
    // What the database would answer if it were two minutes ahead.
    await gateway.sql`update api_keys set expires_at = now() - interval '1 ms' where id = ${id}`
    await eventually(
      "the key has not expired",
      () => outcome(get(key, "/v1/models")),
      (answer) => answer === "auth.api_key_expired",
    )
  })

  test("keeps its time when it is rotated, with both secrets; revoked is told before expired", async () => {
    const { id, key } = await gateway.key(person, { expires_at: inMs(60_000), models: ["plain"] })
    const rotated = await gateway.dashboard(person, `/keys/${id}/rotate`, { method: "POST", body: "{}" })
    const next = (await rotated.json()) as { key: string; models: string[] }
    expect(next.models).toEqual(["plain"])
    expect(await outcome(get(next.key, "/v1/models"))).toBe(200)
    await change(id, { expires_at: inMs(0) })
    for (const secret of [key, next.key]) expect(await outcome(get(secret, "/v1/models"))).toBe("auth.api_key_expired")
    await gateway.dashboard(person, `/keys/${id}/revoke`, { method: "POST" })
    expect(await outcome(get(next.key, "/v1/models"))).toBe("auth.api_key_revoked")
  })

  test("counts against its minute, as a revoked one does", async () => {
    const { id, key } = await gateway.key(person, { requests_per_minute: 2 })
    await change(id, { expires_at: inMs(0) })
    const codes = []
    for (let call = 0; call < 3; call++) codes.push(await outcome(get(key, "/v1/models")))
    expect(codes).toEqual(["auth.api_key_expired", "auth.api_key_expired", "rate_limit.rpm_exceeded"])
  })
})

describe("a key that is bound to models", () => {
  test("reaches no other, by any endpoint, and holds nothing for one", async () => {
    const other = await gateway.model({ format: "chat", endpoints: ["chat", "messages"] })
    const { key } = await gateway.key(person, { models: ["plain"] })
    expect(await outcome(ask(key, "chat", "plain"))).toBe(200)
    for (const how of ["chat", "messages", "count"] as const) {
      const { message } = await expectFailure(await ask(key, how, other), 403, NOT_ALLOWED)
      expect(message).toContain(other)
    }
    // What is not in the catalogue, and what an endpoint does not serve, is told as for every key.
    expect(await outcome(ask(key, "chat", "nowhere"))).toBe("model.unknown")
    expect(await outcome(ask(key, "responses", other))).toBe("request.invalid")
    expect((await gateway.balance(person)).held_micro).toBe(0)
    await toldOfRefused({ code: NOT_ALLOWED, model: other })
  })

  test("is not led out of its list by the answers that a backend keeps", async () => {
    const model = await gateway.model({ format: "responses" })
    const other = await gateway.model({ format: "responses" })
    const { key } = await gateway.key(person, { models: [model] })
    const body = { input: "Hello", previous_response_id: "resp_1" }
    expect(await outcome(gateway.post("/v1/responses", key, { ...body, model }))).toBe("request.unsupported_feature")
    expect(await outcome(gateway.post("/v1/responses", key, { ...body, model: other }))).toBe(NOT_ALLOWED)
  })

  test("is led by a retired id only to where its owner has let it", async () => {
    const [inside, outside] = [await gateway.model({ format: "chat" }), await gateway.model({ format: "chat" })]
    for (const [alias, target] of [
      [`old-${inside}`, inside],
      [`old-${outside}`, outside],
    ] as const) {
      await gateway.sql`insert into model_aliases (alias, target, until) values (${alias}, ${target}, now() + interval '1 hour')`
    }
    await gateway.refreshCatalogue()
    const { id, key } = await gateway.key(person, { models: [inside] })
    expect(await outcome(ask(key, "chat", `old-${inside}`))).toBe(200)
    expect(await outcome(ask(key, "chat", `old-${outside}`))).toBe(NOT_ALLOWED)
    // A name that was on the list when its model was retired goes on to the next model, and is no leave to ask for that one.
    expect((await change(id, { models: [`old-${outside}`] })).status).toBe(200)
    expect(await outcome(ask(key, "chat", `old-${outside}`))).toBe(200)
    expect(await outcome(ask(key, "chat", outside))).toBe(NOT_ALLOWED)
  })

  test.each([
    ["throttles", "fault=status&status=429", "upstream.rate_limited", {}],
    ["has no room", "input=1", "upstream.context_length_exceeded", { context_window: 2 }],
  ] as const)("is not rerouted out of its list by a model that %s", async (_, script, code, rest) => {
    const dear = await gateway.model({ format: "chat" })
    const listedOne = await gateway.model({ format: "chat" })
    const busy = await gateway.model({ format: "chat", script, fallback: [dear, listedOne], ...rest })
    const answered = async (models: readonly string[]) => {
      const { key } = await gateway.key(person, { models, fallback: "any" })
      const response = await ask(key, "chat", busy, { headers: { "X-Fallback": "any" } })
      return response.status === 200
        ? ((await response.json()) as { model: string }).model
        : await outcome(Promise.resolve(response))
    }
    expect(await answered([busy])).toBe(code)
    expect(await answered([busy, listedOne])).toBe(listedOne)
    expect(await answered([busy, dear, listedOne])).toBe(dear)
  })

  test("is shown those models alone, and in force at once when they change", async () => {
    const other = await gateway.model({ format: "responses" })
    const { id, key } = await gateway.key(person, { models: ["plain"] })
    expect(await listed(key)).toEqual(["plain"])
    expect(await outcome(get(key, "/v1/models/plain"))).toBe(200)
    expect(await outcome(get(key, `/v1/models/${other}`))).toBe("resource.not_found")
    expect((await change(id, { models: [other, other] })).status).toBe(200)
    expect(await listed(key)).toEqual([other])
    expect(await outcome(ask(key, "chat", "plain"))).toBe(NOT_ALLOWED)
    expect((await change(id, { models: null })).status).toBe(200)
    expect(await listed(key)).toContain("plain")
    expect(await outcome(ask(key, "chat", "plain"))).toBe(200)
  })
})

describe("a key that is bound to endpoints", () => {
  test("is refused on the others before its body is read, counting tokens with messages", async () => {
    const model = await gateway.model({ format: "messages", endpoints: ["chat", "messages"] })
    const { key } = await gateway.key(person, { endpoints: ["chat"] })
    expect(await outcome(ask(key, "chat", model))).toBe(200)
    expect(await outcome(gateway.post("/v1/messages", key, "no JSON"))).toBe(NOT_ALLOWED)
    expect(await outcome(ask(key, "count", model))).toBe(NOT_ALLOWED)
    const { message } = await expectFailure(await ask(key, "responses", model), 403, NOT_ALLOWED)
    expect(message).toBe("This API key is not for this endpoint, but for: chat.")
    expect(await outcome(get(key, "/v1/balance"))).toBe(200)
  })

  test("is shown the models that they serve", async () => {
    const model = await gateway.model({ format: "responses" })
    const { key } = await gateway.key(person, { endpoints: ["responses"] })
    const ids = await listed(key)
    expect(ids).toContain(model)
    expect(ids).not.toContain("plain")
  })
})

describe("a key that is bound to a rate", () => {
  const rates = { input_micro: 10, output_micro: 10, cache_read_micro: 10, cache_write_micro: 10 }

  test.each(Object.keys(rates))("is for models whose %s is not above it", async (rate) => {
    const model = await gateway.model({ format: "chat", ...rates, [rate]: 11 })
    const { id, key } = await gateway.key(person, { max_rate_micro: 11 })
    expect(await outcome(ask(key, "chat", model))).toBe(200)
    expect((await change(id, { max_rate_micro: 10 })).status).toBe(200)
    const { message } = await expectFailure(await ask(key, "chat", model), 403, NOT_ALLOWED)
    expect(message).toBe(`This API key is for models of at most 10 micro-rupiah a token; ${model} has a rate of 11.`)
    expect(await listed(key)).not.toContain(model)
  })

  test("goes by the rates in force when a call comes, also of a chain", async () => {
    const cheap = { format: "chat", ...rates } as const
    const next = await gateway.model(cheap)
    const busy = await gateway.model({ ...cheap, script: "fault=status&status=429", fallback: [next] })
    const { key } = await gateway.key(person, { max_rate_micro: 10, fallback: "any" })
    expect(await outcome(ask(key, "chat", busy))).toBe(200)
    await gateway.sql`
      insert into prices (model, input_micro, output_micro, cache_read_micro, cache_write_micro, effective_at)
      values (${next}, 10, 10, 10, 11, now())`
    await gateway.refreshCatalogue()
    expect(await outcome(ask(key, "chat", busy))).toBe("upstream.rate_limited")
    expect(await outcome(ask(key, "chat", next))).toBe(NOT_ALLOWED)
  })
})

const allPaths = (key: string, address: string) => [
  ask(key, "chat", "plain", from(address)),
  ask(key, "count", "plain", from(address)),
  ask(key, "messages", "plain", from(address)),
  ask(key, "responses", "plain", from(address)),
  get(key, "/v1/models", { [PROXY]: address }),
  get(key, "/v1/models/plain", { [PROXY]: address }),
  get(key, "/v1/balance", { [PROXY]: address }),
]

describe("a key that is bound to networks", () => {
  test("is refused from elsewhere on every path, and uses up no window there", async () => {
    const { key } = await gateway.key(person, { networks: ["203.0.113.0/24", "2001:db8::/32"], requests_per_minute: 1 })
    for (const response of await Promise.all(allPaths(key, "198.51.100.7"))) {
      expect(response.headers.get("x-ratelimit-limit")).toBeNull()
      const { message } = await expectFailure(response, 403, NOT_ALLOWED)
      expect(message).toBe("This API key may not be used from 198.51.100.7.")
    }
    expect(await outcome(ask(key, "chat", "plain", from("203.0.113.9")))).toBe(200)
    expect(await outcome(ask(key, "chat", "plain", from("2001:db8::9")))).toBe("rate_limit.rpm_exceeded")
  })

  test.each([
    ["the first address of a network", "203.0.113.0", 200],
    ["the last one", "203.0.113.255", 200],
    ["the one after it", "203.0.114.0", NOT_ALLOWED],
    ["an IPv4 address within an IPv6 one", "::ffff:203.0.113.9", 200],
    ["an IPv6 address", "2001:db8:ffff::1", 200],
    ["one beyond it", "2001:db9::", NOT_ALLOWED],
    // Only the last word is the proxy's own.
    ["what the client wrote before the proxy's word", "203.0.113.9, 198.51.100.7", NOT_ALLOWED],
    ["the proxy's word after the client's", "198.51.100.7, 203.0.113.9", 200],
    ["no address, so that it is the peer's own", "unknown", NOT_ALLOWED],
  ])("goes by %s", async (_, address, expected) => {
    const { key } = await gateway.key(person, { networks: ["203.0.113.0/24", "2001:db8::/32"] })
    expect(await outcome(ask(key, "chat", "plain", from(address)))).toBe(expected)
  })

  test("is bound to others at once, with every secret that it has", async () => {
    const { id, key } = await gateway.key(person, { networks: ["203.0.113.0/24"] })
    const rotated = await gateway.dashboard(person, `/keys/${id}/rotate`, { method: "POST", body: "{}" })
    const secrets = [key, ((await rotated.json()) as { key: string }).key]
    const codes = (address: string) =>
      Promise.all(secrets.map((secret) => outcome(ask(secret, "chat", "plain", from(address)))))
    expect(await codes("203.0.113.9")).toEqual([200, 200])
    expect((await change(id, { networks: ["198.51.100.7"] })).status).toBe(200)
    expect(await codes("203.0.113.9")).toEqual([NOT_ALLOWED, NOT_ALLOWED])
    expect(await codes("198.51.100.7")).toEqual([200, 200])
    expect((await change(id, { networks: null })).status).toBe(200)
    expect(await codes("203.0.113.9")).toEqual([200, 200])
  })
})

const dry = (key: string, how: "chat" | "messages", model: string, address = "203.0.113.9") =>
  ask(key, how, model, { headers: { "X-Dry-Run": "true", [PROXY]: address } })
const refusedBy = async (response: Promise<Response>) => {
  const answer = await response
  expect(answer.status).toBe(200)
  return ((await answer.json()) as { refused_by: { code: string } | null }).refused_by?.code
}

test("a dry run tells what a key is bound to, and tells nothing elsewhere", async () => {
  const other = await gateway.model({ format: "chat" })
  const { id, key } = await gateway.key(person, {
    models: ["plain"],
    endpoints: ["chat"],
    networks: ["203.0.113.0/24"],
    expires_at: "2099-01-01T00:00:00Z",
  })
  expect(await refusedBy(dry(key, "chat", "plain"))).toBeUndefined()
  expect(await refusedBy(dry(key, "chat", other))).toBe(NOT_ALLOWED)
  expect(await refusedBy(dry(key, "messages", "plain"))).toBe(NOT_ALLOWED)
  for (let many = 0; many < 70; many++) {
    expect(await outcome(dry(key, "chat", "plain", "198.51.100.7"))).toBe(NOT_ALLOWED)
  }
  expect(await refusedBy(dry(key, "chat", "plain"))).toBeUndefined()
  await change(id, { requests_per_minute: 1 })
  expect((await ask(key, "chat", "plain", { headers: { [PROXY]: "203.0.113.9" } })).status).toBe(200)
  expect(await refusedBy(dry(key, "chat", "plain"))).toBe("rate_limit.rpm_exceeded")
  expect(await outcome(dry(key, "chat", "plain", "198.51.100.7"))).toBe(NOT_ALLOWED)
  await change(id, { expires_at: "2026-01-01T00:00:00Z" })
  expect(await outcome(dry(key, "chat", "plain"))).toBe("auth.api_key_expired")
})

test("without a trusted proxy nobody's header says where a call comes from", async () => {
  await using bare = await startTestGateway()
  const owner = await bare.person(10_000)
  const here = await bare.key(owner, { networks: ["127.0.0.0/8", "::1"] })
  const elsewhere = await bare.key(owner, { networks: ["203.0.113.0/24"] })
  const headers = { "x-forwarded-for": "203.0.113.9", "x-real-ip": "203.0.113.9", forwarded: "for=203.0.113.9" }
  const [path, body] = paths.chat("plain")
  expect(await outcome(bare.post(path, elsewhere.key, body, { headers }))).toBe(NOT_ALLOWED)
  expect(await outcome(bare.post(path, here.key, body, { headers }))).toBe(200)
})
