/** Calls from pages of other origins: only with a key that lists them (CORS). */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { readOrigin } from "../../src/accounts/keys.ts"
import { expectFailure } from "../contract/expect-failure.ts"
import { type Person, startTestGateway, type TestGateway } from "../gateway/harness.ts"

let gateway: TestGateway
let person: Person
let model: string

const PAGE = "https://app.example.com"
const CHAT = "/v1/chat/completions"
const messages = [{ role: "user", content: "Hello" }]
let listed: { id: string; key: string }

const preflight = (origin: string, path = CHAT, asked: Record<string, string> = {}) =>
  fetch(gateway.url + path, {
    method: "OPTIONS",
    headers: { Origin: origin, "Access-Control-Request-Method": "POST", ...asked },
  })
const call = (key: string, origin: string | undefined, more: object = {}) =>
  gateway.post(CHAT, key, { model, messages, ...more }, origin === undefined ? {} : { headers: { Origin: origin } })
const change = (id: string, body: object) =>
  gateway.dashboard(person, `/keys/${id}`, {
    method: "PATCH",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  })
const allowed = (response: Response) => response.headers.get("access-control-allow-origin")
/** Those of an answer that a browser goes by. */
const cors = ({ headers }: Response) => [...headers.keys()].filter((name) => name.startsWith("access-control-"))

beforeAll(async () => {
  gateway = await startTestGateway()
  person = await gateway.person(1_000_000)
  model = await gateway.model({ format: "chat" })
  listed = await gateway.key(person, { origins: [PAGE, "http://localhost:5173"] })
})
afterAll(() => gateway[Symbol.asyncDispose]())

describe("a pre-flight", () => {
  test("is answered for a page that a key lists, and for no other, on paths for keys alone", async () => {
    const response = await preflight(PAGE, CHAT, {
      "Access-Control-Request-Headers": "authorization, content-type, x-stainless-lang",
    })
    expect([response.status, await response.text()]).toEqual([204, ""])
    expect(Object.fromEntries(response.headers)).toMatchObject({
      "access-control-allow-origin": PAGE,
      "access-control-allow-methods": "POST",
      "access-control-allow-headers": "authorization, content-type, x-stainless-lang",
      "access-control-max-age": "600",
      vary: "Origin, Access-Control-Request-Headers",
      "x-request-id": expect.stringMatching(/^req_/),
    })
    expect(response.headers.has("access-control-allow-credentials")).toBeFalse()
    for (const origin of [
      "https://evil.example",
      "null",
      "*",
      `${PAGE}.evil.example`,
      "https://app.example.com:444",
      "http://app.example.com",
      PAGE.toUpperCase(),
    ]) {
      const refused = await preflight(origin)
      await expectFailure(refused, 405, "request.method_not_allowed")
      expect(cors(refused)).toEqual([])
    }
    for (const path of ["/v1/messages", "/v1/responses", "/v1/models", "/v1/models/a", "/v1/balance"])
      expect([path, (await preflight(PAGE, path)).status]).toEqual([path, 204])
    for (const path of ["/keys", "/account", "/usage", "/v1/keys", "/auth/sign-in", "/models", "/dashboard"])
      expect([path, (await preflight(PAGE, path)).status]).toEqual([path, 405])
    await expectFailure(await preflight(PAGE, "/v1/nothing"), 404, "route.not_found")
    await expectFailure(await preflight(PAGE, "/v1/embeddings"), 404, "route.not_found")
  })

  test("without what makes it one is a wrong method, and what it asks for is never more than names", async () => {
    const bare = await fetch(gateway.url + CHAT, { method: "OPTIONS", headers: { Origin: PAGE } })
    await expectFailure(bare, 405, "request.method_not_allowed")
    const put = { Origin: PAGE, "Access-Control-Request-Method": "POST" }
    await expectFailure(
      await fetch(gateway.url + CHAT, { method: "PUT", headers: put }),
      405,
      "request.method_not_allowed",
    )
    const answered = async (names: string) => {
      const response = await preflight(PAGE, CHAT, { "Access-Control-Request-Headers": names })
      return [response.status, response.headers.get("access-control-allow-headers")]
    }
    for (const names of ["x".repeat(2_048), Array(64).fill("a").join(", "), "Authorization,X-Api-Key"])
      expect(await answered(names)).toEqual([204, names])
    for (const names of ["a b", "a:b", "a, b:c", "x".repeat(2_049), Array(65).fill("a").join(", "), "*"])
      expect(await answered(names)).toEqual([204, null])
  })
})

describe("a call", () => {
  test("from a listed page may be read there, with the headers that clients need, streamed or refused too", async () => {
    const whole = await call(listed.key, PAGE)
    expect([whole.status, allowed(whole)]).toEqual([200, PAGE])
    const exposed = (whole.headers.get("access-control-expose-headers") ?? "").split(", ")
    expect(exposed.toSorted()).toEqual(
      [
        [
          "Idempotency-Original-Request-Id",
          "Idempotency-Replayed",
          "Retry-After",
          "X-Cost-Rp",
          "X-Dropped-Fields",
          "X-Error-Code",
          "X-Model",
        ],
        ["X-Request-Id", "X-Rerouted-From", "request-id", "x-should-retry"],
        ["Limit", "Limit-Tokens", "Remaining", "Remaining-Tokens", "Reset", "Reset-Tokens"].map(
          (name) => `X-RateLimit-${name}`,
        ),
        ["Limit-Micro", "Limit-Period", "Remaining-Micro", "Usage-Micro"].map((name) => `X-Key-${name}`),
        ["Limit-Micro", "Remaining-Micro", "Usage-Micro"].map((name) => `X-Run-${name}`),
      ]
        .flat()
        .toSorted(),
    )
    expect(whole.headers.get("vary")).toContain("Origin")
    const stream = await call(listed.key, PAGE, { stream: true })
    expect([allowed(stream), (await stream.text()).endsWith("data: [DONE]\n\n")]).toEqual([PAGE, true])
    const wrong = await call(listed.key, PAGE, { model: "nothing" })
    expect(allowed(wrong)).toBe(PAGE)
    await expectFailure(wrong, 400, "model.unknown")
    const list = await fetch(`${gateway.url}/v1/models`, { headers: { "x-api-key": listed.key, Origin: PAGE } })
    expect([list.status, allowed(list)]).toEqual([200, PAGE])
  })

  test("from another page is refused before anything is spent; one that no page makes is not asked", async () => {
    const before = gateway.simulator.calls.length
    for (const origin of ["https://evil.example", "null", "http://app.example.com"]) {
      const refused = await call(listed.key, origin)
      expect(cors(refused)).toEqual([])
      await expectFailure(refused, 403, "auth.key_not_allowed")
    }
    const counted = await gateway.post(
      "/v1/messages/count_tokens",
      listed.key,
      { model, messages },
      { headers: { Origin: "https://evil.example" } },
    )
    await expectFailure(counted, 403, "auth.key_not_allowed")
    expect(gateway.simulator.calls.length).toBe(before)
    expect((await call(listed.key, undefined)).status).toBe(200)
    // The dashboard's own page is on no list.
    expect((await call(listed.key, gateway.url)).status).toBe(200)
  })

  test("with a key that lists none works wherever it says it comes from, and nobody else's page reads it", async () => {
    const { key } = await gateway.key(person)
    for (const origin of [PAGE, "https://evil.example", "null", "app://obsidian.md"]) {
      const response = await call(key, origin)
      expect([origin, response.status, cors(response)]).toEqual([origin, 200, []])
    }
    const unknown = await call(`${key.slice(0, -1)}_`, PAGE)
    expect(cors(unknown)).toEqual([])
  })

  test("with a key that is paused or over its limit tells a listed page so", async () => {
    const { key, id } = await gateway.key(person, { origins: [PAGE], requests_per_minute: 1 })
    expect((await call(key, PAGE)).status).toBe(200)
    const over = await call(key, PAGE)
    expect([allowed(over), over.headers.has("retry-after")]).toEqual([PAGE, true])
    await expectFailure(over, 429, "rate_limit.rpm_exceeded")
    await gateway.dashboard(person, `/keys/${id}/revoke`, { method: "POST" })
    expect(allowed(await call(key, PAGE))).toBe(PAGE)
  })
})

describe("a list", () => {
  test("that changes is in force when that is told, for pre-flights and calls", async () => {
    const mine = "https://mine.example"
    const { key, id } = await gateway.key(person)
    expect((await preflight(mine)).status).toBe(405)
    expect((await change(id, { origins: [mine, "https://MINE.example:443"] })).status).toBe(200)
    expect([(await preflight(mine)).status, allowed(await call(key, mine))]).toEqual([204, mine])
    expect(await (await gateway.dashboard(person, "/keys")).json()).toMatchObject({
      data: expect.arrayContaining([expect.objectContaining({ id, origins: [mine] })]),
    })
    await change(id, { origins: ["https://other.example"] })
    expect((await preflight(mine)).status).toBe(405)
    await expectFailure(await call(key, mine), 403, "auth.key_not_allowed")
    await change(id, { origins: null })
    expect((await preflight("https://other.example")).status).toBe(405)
    expect(cors(await call(key, "https://other.example"))).toEqual([])
    await change(id, { origins: [mine] })
    await gateway.dashboard(person, `/keys/${id}/revoke`, { method: "POST" })
    expect((await preflight(mine)).status).toBe(405)
  })

  test.each([
    [[]],
    [["*"]],
    [["https://*.example.com"]],
    [["null"]],
    [["http://app.example.com"]],
    [["https://app.example.com/"]],
    [["https://app.example.com/path"]],
    [["https://app.example.com?a"]],
    [["https://user@app.example.com"]],
    [["ftp://app.example.com"]],
    [["chrome-extension://abc"]],
    [["app.example.com"]],
    [["https://"]],
    [["https://app.example.com:99999"]],
    [[`https://${"a".repeat(300)}.example`]],
    [[1]],
    ["https://app.example.com"],
    [Array.from({ length: 17 }, (_, index) => `https://a${index}.example`)],
  ])("of %j is refused", async (origins) => {
    await expectFailure(await change(listed.id, { origins }), 400, "request.invalid")
  })

  test("of 16 is taken, and an origin is written as browsers do", async () => {
    const origins = Array.from({ length: 16 }, (_, index) => `https://a${index}.example`)
    expect((await change(listed.id, { origins: [...origins.slice(0, 15), PAGE] })).status).toBe(200)
    expect(readOrigin("HTTPS://App.Example.com:443")).toBe(PAGE)
    expect(readOrigin("https://bücher.example")).toBe("https://xn--bcher-kva.example")
    expect(readOrigin("http://[::1]:8080")).toBe("http://[::1]:8080")
    const long = `https://${"a.".repeat(125)}bc`
    expect([long.length, readOrigin(long), readOrigin(`${long}d`)]).toEqual([260, long, undefined])
  })
})

test("a child's pages are some of its parent's as they are when a call comes", async () => {
  const parent = await gateway.key(person, { origins: [PAGE, "https://two.example"] })
  const made = await gateway.dashboard(person, `/keys/${parent.id}/tokens`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: '{"name":"t"}',
  })
  const { token } = (await made.json()) as { token: string }
  const child = (body: object) => gateway.post("/v1/keys", token, { name: "c", ...body })
  await expectFailure(await child({ origins: ["https://three.example"] }), 400, "request.invalid")
  const own = (await (await child({ origins: [PAGE] })).json()) as { key: string }
  const heir = (await (await child({})).json()) as { key: string }
  expect([allowed(await call(own.key, PAGE)), allowed(await call(heir.key, "https://two.example"))]).toEqual([
    PAGE,
    "https://two.example",
  ])
  await expectFailure(await call(own.key, "https://two.example"), 403, "auth.key_not_allowed")
  // What a child is refused by itself may be read where its calls may.
  for (const wishes of [{ origins: [PAGE] }, {}]) {
    const { key } = (await (await child({ ...wishes, requests_per_minute: 1 })).json()) as { key: string }
    expect((await call(key, PAGE)).status).toBe(200)
    const over = await call(key, PAGE)
    expect(allowed(over)).toBe(PAGE)
    await expectFailure(over, 429, "rate_limit.rpm_exceeded")
    expect(cors(await call(key, "https://evil.example"))).toEqual([])
  }
  await change(parent.id, { origins: null })
  await expectFailure(await call(own.key, PAGE), 403, "auth.key_not_allowed")
  await expectFailure(await child({ origins: [PAGE] }), 400, "request.invalid")
})

test("of a frozen account no pre-flight is answered once it is looked at, and no call is made", async () => {
  const other = await gateway.person(10_000)
  const { key, id } = await gateway.key(other, { origins: ["https://frozen.example"] })
  expect((await preflight("https://frozen.example")).status).toBe(204)
  await gateway.freeze(other, "a test")
  await expectFailure(await call(key, "https://frozen.example"), 403, "auth.account_frozen")
  // Any change has all of them read again.
  await change(listed.id, { origins: [PAGE] })
  expect(id).toStartWith("key_")
  expect((await preflight("https://frozen.example")).status).toBe(405)
})
