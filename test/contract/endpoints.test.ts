/** Paths, methods, the model endpoints, the free token count, and requests that hardly are any. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { type Person, startTestGateway, type TestGateway } from "../gateway/harness.ts"
import { bugs, expectFailure } from "./expect-failure.ts"
import { raw } from "./raw.ts"
import { covers } from "./rows.ts"

let gateway: TestGateway
let person: Person
let key: string

beforeAll(async () => {
  gateway = await startTestGateway({ env: { MAX_BODY_BYTES: "200000" } })
  person = await gateway.person(1_000_000)
  key = (await gateway.key(person)).key
})
afterAll(() => gateway[Symbol.asyncDispose]())

const hello = [{ role: "user", content: "Hello" }]
const get = (path: string, by = key) => fetch(gateway.url + path, { headers: { "x-api-key": by } })
const count = (model: string, by: string, more: object = {}) =>
  gateway.post("/v1/messages/count_tokens", by, { model, messages: hello, ...more })
/** A call as bytes, with these further header lines. */
const post = (lines: string, body: string | Uint8Array): Uint8Array =>
  Buffer.concat([
    Buffer.from(`POST /v1/chat/completions HTTP/1.1\r\nHost: gw\r\nx-api-key: ${key}\r\n${lines}\r\n\r\n`),
    Buffer.from(body),
  ])
const byCookie = (line: string, cookie: string) =>
  raw(gateway.url, `GET /account ${line}\r\nCookie: ${cookie}=${person.token}\r\n\r\n`)
/** One model as both SDK families read it. */
const item = (model: string) => ({
  id: model,
  object: "model",
  created: expect.any(Number),
  owned_by: "Simulated",
  context_window: 200_000,
  type: "model",
  display_name: model,
  created_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT/),
  max_input_tokens: 200_000,
  max_output_tokens: expect.any(Number),
  max_tokens: expect.any(Number),
  lifecycle: "active",
  deprecated_at: null,
  retires_at: null,
  line: null,
  capabilities: null,
  supports_vision: false,
  supports_tools: true,
  input_micro: expect.any(Number),
  output_micro: expect.any(Number),
  cache_read_micro: expect.any(Number),
  cache_write_micro: expect.any(Number),
  endpoints: expect.any(Array),
  features: {},
  fallback: [],
})
const METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND"]

/** Sends a method that `fetch` may refuse, and reads what every answer has. */
async function ask(
  method: string,
  path: string,
): Promise<{ status: number; code: string | undefined; allow: string[] }> {
  const request = `${method} ${path} HTTP/1.1\r\nHost: gw\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`
  const text = await raw(gateway.url, request, 1_000)
  const header = (name: string) => new RegExp(`^${name}: (.*)\r$`, "im").exec(text)?.[1]
  expect(header("x-request-id")).toMatch(/^req_/)
  expect(header("request-id")).toBe(header("x-request-id") ?? "")
  return {
    status: Number(/^HTTP\/1\.1 (\d+)/.exec(text)?.[1]),
    code: header("x-error-code"),
    allow: header("allow")?.split(", ") ?? [],
  }
}

describe(covers("endpoint.method", "header.request-id"), () => {
  const paths: Record<string, string[]> = {
    "/models": ["GET", "HEAD"],
    "/v1/models": ["GET", "HEAD"],
    "/v1/models/plain": ["GET", "HEAD"],
    "/v1/chat/completions": ["POST"],
    "/v1/messages": ["POST"],
    "/v1/messages/count_tokens": ["POST"],
    "/v1/responses": ["POST"],
    "/v1/responses/input_tokens": ["POST"],
    "/usage": ["GET", "HEAD"],
    "/usage/req_1": ["GET", "HEAD"],
    "/usage/summary": ["GET", "HEAD"],
    "/auth/sign-in": ["POST"],
    "/account": ["GET", "PATCH", "DELETE", "HEAD"],
    "/keys": ["GET", "POST", "HEAD"],
    "/keys/key_1": ["PATCH"],
    "/keys/key_1/revoke": ["POST"],
    "/top-ups": ["GET", "POST", "HEAD"],
    "/webhooks/payments/simulated": ["POST"],
    "/healthz": ["GET", "HEAD"],
    "/readyz": ["GET", "HEAD"],
  }
  test.each(Object.keys(paths))("%s takes its methods and names them to all others", async (path) => {
    const allowed = paths[path] ?? []
    for (const method of METHODS) {
      const { status, code, allow } = await ask(method, path)
      if (allowed.includes(method)) {
        expect(status).not.toBe(405)
        expect(code).not.toBe("route.not_found")
      } else {
        expect({ status, code }).toEqual({ status: 405, code: "request.method_not_allowed" })
        expect(allow.toSorted()).toEqual(allowed.toSorted())
      }
    }
  })

  test("a HEAD is a GET without its body", async () => {
    const head = await fetch(`${gateway.url}/models`, { method: "HEAD" })
    expect(head.status).toBe(200)
    expect(await head.text()).toBe("")
    const { length } = await (await fetch(`${gateway.url}/models`)).bytes()
    expect(head.headers.get("content-length")).toBe(String(length))
  })
})

describe(covers("endpoint.images"), () => {
  test.each([
    "/v1/images/generations",
    "/v1/audio/transcriptions",
    "/v1/nothing",
    "/usage/a/b",
    "/v1/messages/",
    "/v1/models/",
    "/nothing/keys/key_1/revoke",
    "/top-ups/top_1/receipt_pdf",
  ])("%s is not there, whatever the method", async (path) => {
    for (const method of METHODS) {
      const { status, code } = await ask(method, path)
      expect({ method, status, code }).toEqual({ method, status: 404, code: "route.not_found" })
    }
  })
})

describe(covers("endpoint.models"), () => {
  test("the catalogue is public, and tells each model's prices and no cost of ours", async () => {
    const model = await gateway.model({ format: "chat", context_window: null, supports_vision: true })
    const response = await fetch(`${gateway.url}/models`)
    expect(response.headers.get("content-type")).toStartWith("application/json")
    const { object, data } = (await response.json()) as { object: string; data: Record<string, unknown>[] }
    expect(object).toBe("list")
    expect(data.find((item) => item["model"] === model)).toEqual({
      model,
      display_name: model,
      tier: "standard",
      provider: "Simulated",
      supports_vision: true,
      supports_tools: true,
      modality: "text",
      input_micro: 1_000,
      output_micro: 5_000,
      cache_read_micro: 100,
      cache_write_micro: 1_250,
      context_window: null,
      max_output_tokens: 8_192,
      endpoints: ["chat"],
      features: {},
      fallback: [],
    })
    expect(JSON.stringify(data)).not.toMatch(/upstream|simulated|backend/)
  })
})

describe(covers("endpoint.v1-models", "endpoint.v1-model"), () => {
  test("the list satisfies both SDK families", async () => {
    const model = await gateway.model({ format: "messages" })
    const response = await get("/v1/models")
    expect(response.status).toBe(200)
    const list = (await response.json()) as { data: { id: string }[] }
    const ids = list.data.map(({ id }) => id)
    expect(list).toMatchObject({ object: "list", has_more: false, first_id: ids[0], last_id: ids.at(-1) })
    expect(list.data.find(({ id }) => id === model)).toEqual(item(model))
  })
  test("who asks for the page after the last one, whatever has_more says, gets an empty one", async () => {
    await gateway.model({ format: "messages" })
    type Page = { data: { id: string }[]; first_id: string | null; last_id: string | null }
    const page = async (query: string) => (await (await get(`/v1/models?${query}`)).json()) as Page
    const ids = (await page("limit=1000")).data.map(({ id }) => id)
    const [first = "", ...rest] = ids
    const over = { data: [], has_more: false, first_id: null, last_id: null }
    expect(await page(`after_id=${encodeURIComponent(ids.at(-1) ?? "")}`)).toMatchObject(over)
    expect(await page(`before_id=${encodeURIComponent(first)}`)).toMatchObject(over)
    const second = await page(`after_id=${encodeURIComponent(first)}`)
    expect(second.data.map(({ id }) => id)).toEqual(rest)
    expect(second).toMatchObject({ first_id: rest[0], last_id: rest.at(-1) })
    expect((await page(`before_id=${encodeURIComponent(rest[0] ?? "")}`)).data.map(({ id }) => id)).toEqual([first])
    expect((await page("after_id=no-such-model")).data).toHaveLength(ids.length)
  })
  test("each feature stands with the endpoints on which it is served, beside the prices and the chain", async () => {
    const last = await gateway.model({ format: "chat" })
    const model = await gateway.model({
      format: "messages",
      endpoints: ["chat", "messages"],
      features: ["structured_outputs", "web_search", "reasoning"],
      fallback: [last],
    })
    const seen: Record<string, unknown> = {
      max_output_tokens: expect.any(Number),
      endpoints: expect.arrayContaining(["chat", "messages"]),
      // There is no search server here.
      features: { structured_outputs: ["messages"], reasoning: expect.arrayContaining(["messages", "chat"]) },
      fallback: [last],
    }
    expect(await (await get(`/v1/models/${model}`)).json()).toMatchObject(seen)
    const { data } = (await (await get("/models")).json()) as { data: { model: string }[] }
    expect(data.find((one) => one.model === model)).toMatchObject(seen)
  })
  test.each(["plain-id", "vendor/family/model-1", "model:1", "50% off", "ünï", "a+b c"])(
    "one model is found by its id %j, encoded or as it is",
    async (id) => {
      const model = await gateway.model({ format: "chat", model: id })
      for (const path of [encodeURIComponent(id), encodeURI(id)]) {
        const response = await get(`/v1/models/${path}`)
        expect(response.status).toBe(200)
        expect(await response.json()).toEqual(item(model))
      }
      const call = await gateway.post("/v1/chat/completions", key, { model, messages: hello })
      expect(await call.json()).toMatchObject({ model })
    },
  )
  test("an unknown id is no resource, however it is written", async () => {
    for (const id of ["nothing", "PLAIN", "a/b", "%ff", "%00", "__proto__", "plain%20"]) {
      await expectFailure(await get(`/v1/models/${id}`), 404, "resource.not_found")
    }
  })
})

describe(covers("endpoint.count-tokens"), () => {
  test("is free, outside the window, and more for a longer prompt", async () => {
    const poor = await gateway.person()
    const { key: once } = await gateway.key(poor, { requests_per_minute: 1, tokens_per_minute: 1 })
    const model = await gateway.model({ format: "messages" })
    const counts: number[] = []
    for (const system of ["", "Be brief.", "Be brief. ".repeat(100)]) {
      const response = await count(model, once, { system })
      expect(response.status).toBe(200)
      const body = (await response.json()) as { input_tokens: number }
      expect(Object.keys(body)).toEqual(["input_tokens"])
      counts.push(body.input_tokens)
    }
    expect(counts).toEqual(counts.toSorted((a, b) => a - b))
    expect(new Set(counts).size).toBe(3)
    expect(gateway.simulator.calls.some((call) => call.model === model)).toBeFalse()
    // The window is untouched: the one call a minute is still there.
    expect((await get("/v1/models", once)).status).toBe(200)
    await expectFailure(await get("/v1/models", once), 429, "rate_limit.rpm_exceeded")
    expect((await count(model, once)).status).toBe(200)
  })
  test("takes the same keys and refuses the same bodies as the endpoint itself", async () => {
    const model = await gateway.model({ format: "messages" })
    expect((await count(model, key, { max_tokens: 5 })).status).toBe(200)
    await expectFailure(await count("nothing", key), 400, "model.unknown")
    await expectFailure(await count(model, key, { messages: [] }), 400, "request.invalid_request")
    await expectFailure(await count(model, "sk-loket-wrong"), 401, "auth.api_key_invalid")
  })
  test("on responses it is counted too, for nothing, in the words of that format", async () => {
    const poor = await gateway.person()
    const { key: once, id } = await gateway.key(poor, { requests_per_minute: 1 })
    const model = await gateway.model({ format: "responses" })
    const counted = async (more: object) => {
      const response = await gateway.post("/v1/responses/input_tokens", once, { model, ...more })
      return [response.status, await response.json()] as const
    }
    const tokens = async (more: object) => {
      const [status, body] = await counted(more)
      expect([status, body]).toEqual([200, { object: "response.input_tokens", input_tokens: expect.any(Number) }])
      return (body as { input_tokens: number }).input_tokens
    }
    const short = await tokens({ input: "Hello" })
    expect(await tokens({ input: "Hello ".repeat(500) })).toBeGreaterThan(short + 300)
    expect(await tokens({ input: "Hello", instructions: "Be brief. ".repeat(100) })).toBeGreaterThan(short + 100)
    const tools = [{ type: "function", name: "find_train", parameters: { type: "object" } }]
    expect(await tokens({ input: hello, tools })).toBeGreaterThan(short)
    expect(await counted({ input: "" })).toMatchObject([400, { code: "request.invalid" }])
    expect(await counted({ input: "Hello", previous_response_id: "resp_1" })).toMatchObject([
      400,
      { code: "request.unsupported_feature" },
    ])
    const chat = await gateway.model({ format: "chat" })
    expect(await counted({ model: chat, input: "Hello" })).toMatchObject([400, { code: "request.invalid" }])
    expect(gateway.simulator.calls.some((call) => call.model === model)).toBeFalse()
    await gateway.dashboard(poor, `/keys/${id}/revoke`, { method: "POST" })
    expect(await counted({ input: "Hello" })).toMatchObject([401, { code: "auth.api_key_revoked" }])
  })
})

test(`${covers("retired")} a retired id answers as its target at its rate until its grace ends`, async () => {
  const model = await gateway.model({ format: "chat", script: "input=10&output=2" })
  await gateway.sql`insert into model_aliases (alias, target, until) values ('retired', ${model}, now() + interval '1 hour'),
    ('removed', ${model}, now() - interval '1 hour')`
  await gateway.refreshCatalogue()
  const response = await gateway.post("/v1/chat/completions", key, { model: "retired", messages: hello })
  expect(await response.json()).toMatchObject({ model })
  const record = await gateway.usage(person, response.headers.get("x-request-id") ?? "")
  expect(record).toMatchObject({ model, charge_micro: 10 * 1_000 + 2 * 5_000 })
  const removed = await gateway.post("/v1/chat/completions", key, { model: "removed", messages: hello })
  await expectFailure(removed, 400, "model.unknown")
})

describe(covers("auth.either", "auth.version"), () => {
  test("the key is taken from either header, on every path, however the bearer is written", async () => {
    const model = await gateway.model({ format: "messages" })
    for (const headers of [
      { "x-api-key": key },
      { "X-API-KEY": ` ${key} ` },
      { Authorization: `Bearer ${key}` },
      { Authorization: `bearer ${key}` },
      { Authorization: `BEARER   ${key}  ` },
      { Authorization: `Bearer ${key}`, "x-api-key": key },
      { Authorization: `Bearer ${key}`, "x-api-key": "" },
      { Authorization: "Bearer ", "x-api-key": key },
      { Authorization: "Basic c2VjcmV0", "x-api-key": key },
      { Authorization: "Bearer sk-ant-oat01-of-a-vendor", "x-api-key": key },
    ] as Record<string, string>[]) {
      expect((await fetch(`${gateway.url}/v1/models`, { headers })).status).toBe(200)
      const body = JSON.stringify({ model, max_tokens: 5, messages: hello })
      const response = await fetch(`${gateway.url}/v1/messages`, { method: "POST", headers, body })
      expect(response.status).toBe(200)
    }
  })
  test("of two keys the bearer counts, and a bearer that is none is told where the other is none either", async () => {
    const revoked = await gateway.key(person)
    await gateway.dashboard(person, `/keys/${revoked.id}/revoke`, { method: "POST" })
    const code = async (authorization: string, other: string) =>
      (await fetch(`${gateway.url}/v1/models`, { headers: { authorization, "x-api-key": other } })).headers.get(
        "x-error-code",
      )
    expect(await code(`Bearer ${revoked.key}`, key)).toBe("auth.api_key_revoked")
    expect(await code(`Bearer ${key}`, revoked.key)).toBeNull()
    expect(await code("Bearer sk-ant-oat01", revoked.key)).toBe("auth.api_key_revoked")
    expect(await code("Bearer sk-ant-oat01", "sk-ant-api03")).toBe("auth.api_key_invalid")
    expect(await code("Bearer mt-loket-of-nobody", key)).toBe("auth.management_token")
    expect(await code(`Bearer ${person.token}`, key)).toBe("auth.api_key_invalid")
  })
  test("any version and any query string are accepted", async () => {
    const model = await gateway.model({ format: "messages" })
    for (const version of ["2023-06-01", "2026-10-21", "1999-01-01", "not a date"]) {
      const init = { headers: { "anthropic-version": version } }
      const body = { model, max_tokens: 5, messages: hello }
      expect((await gateway.post("/v1/messages?beta=true&x=%ff", key, body, init)).status).toBe(200)
    }
    expect((await get("/v1/models?limit=1000&after_id=a")).status).toBe(200)
  })
})

test(`${covers("11.health")} healthz and readyz answer anybody`, async () => {
  expect(await (await fetch(`${gateway.url}/healthz`)).json()).toEqual({ status: "ok" })
  const ready = await fetch(`${gateway.url}/readyz`)
  expect(ready.status).toBe(200)
  expect(await ready.json()).toEqual({ status: "ready", database: true, ledger: true, draining: false })
})

describe("over a raw socket", () => {
  test.each(["a b{}", "[::", "", "a/b?c", "x:99999"])("a Host of %j is told as an error", async (host) => {
    const answer = await raw(gateway.url, `GET /healthz HTTP/1.1\r\nHost: ${host}\r\n\r\n`)
    expect(answer).toStartWith("HTTP/1.1 400")
    expect(answer).toMatch(/^X-Request-Id: req_/im)
    expect(answer).toContain('"code":"request.invalid"')
  })
  test.each(["x", "gw", "gw:80", "[::1]", "api.example.com"])("a Host of %j is served", async (host) => {
    expect(await raw(gateway.url, `GET /healthz HTTP/1.1\r\nHost: ${host}\r\n\r\n`)).toStartWith("HTTP/1.1 200")
    const target = `GET http://${host}/healthz HTTP/1.1\r\nHost: ${host}\r\n\r\n`
    expect(await raw(gateway.url, target)).toStartWith("HTTP/1.1 200")
  })
  test("HTTP/1.0 without a Host is served, as load balancers' checks are sent", async () => {
    expect(await raw(gateway.url, "GET /healthz HTTP/1.0\r\n\r\n")).toStartWith("HTTP/1.1 200")
    expect(await raw(gateway.url, "OPTIONS /nothing HTTP/1.0\r\n\r\n")).toStartWith("HTTP/1.1 404")
    const body = JSON.stringify({ model: "plain", messages: hello })
    const call = `POST /v1/chat/completions HTTP/1.0\r\nx-api-key: ${key}\r\nContent-Length: ${body.length}\r\n\r\n${body}`
    const answer = await raw(gateway.url, call, 1_000)
    expect(answer).toStartWith("HTTP/1.1 200")
    expect(answer).toMatch(/^X-Request-Id: req_/im)
  })
  test("without a Host nobody is on this machine, where a cookie needs no https", async () => {
    expect(await byCookie("HTTP/1.1\r\nHost: localhost", "session")).toStartWith("HTTP/1.1 200")
    expect(await byCookie("HTTP/1.0", "session")).toStartWith("HTTP/1.1 401")
    expect(await byCookie("HTTP/1.0", "__Host-session")).toStartWith("HTTP/1.1 200")
  })
  test("what is no HTTP gets no page, no stack, and at most a bare 400", async () => {
    for (const bytes of [
      "\x16\x03\x01\x02\x00 hello\r\n\r\n",
      "GET /models HTTP/1.1\r\n\r\n",
      "GET  HTTP/1.1\r\nHost: x\r\n\r\n",
      "FOO /models HTTP/1.1\r\nHost: x\r\n\r\n",
      "GET /models HTTP/9.9\r\nHost: x\r\n\r\n",
      `GET /models HTTP/1.1\r\nHost: x\r\nX: ${"a".repeat(100_000)}\r\n\r\n`,
      "POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
      "POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
      "POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ]) {
      const answer = await raw(gateway.url, bytes)
      expect(answer).toMatch(/^$|^HTTP\/1\.1 (?:4\d\d|505) /)
      expect(answer).not.toMatch(/<html|<!doctype|\bat .*\.ts|node_modules/i)
    }
  })
  test(`${covers("limit.body")} a body that says it is too long is refused before it is sent`, async () => {
    const answer = await raw(gateway.url, post("Content-Length: 99999999999", ""))
    expect(answer).toStartWith("HTTP/1.1 413")
    expect(answer).toContain('"code":"request.too_large"')
  })
  test(`${covers("limit.body")} a body that does not say how long it is is refused when it is too long`, async () => {
    const chunk = `${(200_001).toString(16)}\r\n${" ".repeat(200_001)}\r\n`
    for (const end of ["0\r\n\r\n", ""]) {
      const answer = await raw(gateway.url, post("Transfer-Encoding: chunked", chunk + end))
      expect(answer).toStartWith("HTTP/1.1 413")
      expect(answer).toContain('"code":"request.too_large"')
    }
  })
  test("a body in pieces is as good as one in one piece", async () => {
    const body = JSON.stringify({ model: "plain", messages: hello })
    const pieces = body.replaceAll(/./g, "1\r\n$&\r\n")
    expect(await raw(gateway.url, post("Transfer-Encoding: chunked", `${pieces}0\r\n\r\n`), 1_000)).toStartWith(
      "HTTP/1.1 200",
    )
  })
  test("a body that breaks off is nobody's success, and the gateway lives on", async () => {
    for (const body of ['{"model":"plain",', ""]) {
      expect(await raw(gateway.url, post("Content-Length: 100", body), 150, 150)).not.toContain(" 200 ")
    }
    expect(await raw(gateway.url, post("Transfer-Encoding: chunked", "zz\r\n{}\r\n0\r\n\r\n"))).toMatch(
      /^$|^HTTP\/1\.1 400/,
    )
    expect((await fetch(`${gateway.url}/healthz`)).status).toBe(200)
  })
  test("two requests on one connection have two ids", async () => {
    const one = "GET /healthz HTTP/1.1\r\nHost: gw\r\n\r\n"
    const ids = [...(await raw(gateway.url, one + one)).matchAll(/^X-Request-Id: (.*)\r$/gim)].map((match) => match[1])
    expect(new Set(ids).size).toBe(2)
  })
})

test("none of this was a bug", () => {
  expect(bugs(gateway)).toEqual([])
})
