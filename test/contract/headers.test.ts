/** Headers of answers: request ids, costs, rates, and what must not be told (gateway-api.md, "Common response headers"). */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { newRequestId } from "../../src/http/edge.ts"
import { type Person, startTestGateway, type TestGateway } from "../gateway/harness.ts"
import { bugs } from "./expect-failure.ts"
import { raw } from "./raw.ts"
import { covers } from "./rows.ts"

let gateway: TestGateway
let person: Person

beforeAll(async () => {
  gateway = await startTestGateway()
  person = await gateway.person(1_000_000)
})
afterAll(() => gateway[Symbol.asyncDispose]())

const hello = [{ role: "user", content: "Hello" }]
const key = async (limits: object = {}) => (await gateway.key(person, { ...limits })).key
const formats = ["chat", "messages", "responses"] as const
const paths = { chat: "/v1/chat/completions", messages: "/v1/messages", responses: "/v1/responses" }
const body = (format: (typeof formats)[number], model: string, more: object = {}) =>
  format === "responses"
    ? { model, input: "Hello", ...more }
    : { model, messages: hello, ...(format === "messages" && { max_tokens: 100 }), ...more }

describe(covers("1.request-id", "header.request-id"), () => {
  test("an id has its form, and sorts by the time of its creation", async () => {
    const ids: string[] = []
    for (let call = 0; call < 20; call++) {
      const { headers } = await fetch(`${gateway.url}/${call % 2 === 0 ? "healthz" : "nothing"}`)
      expect(headers.get("request-id")).toBe(headers.get("x-request-id"))
      ids.push(headers.get("x-request-id") ?? "")
      await Bun.sleep(2)
    }
    for (const id of ids) expect(id).toMatch(/^req_[A-Za-z0-9_-]{1,36}$/)
    expect(new Set(ids).size).toBe(ids.length)
    expect(ids).toEqual(ids.toSorted())
  })
  test("it does so over decades, and never comes twice", () => {
    const years = [2001, 2026, 2058].map((year) => newRequestId(Date.UTC(year, 0)))
    expect(years).toEqual(years.toSorted())
    const now = Date.now()
    expect(new Set(Array.from({ length: 10_000 }, () => newRequestId(now))).size).toBe(10_000)
  })
  test("the client's own idea of an id is not taken over", async () => {
    const { headers } = await fetch(`${gateway.url}/healthz`, { headers: { "X-Request-Id": "req_mine" } })
    expect(headers.get("x-request-id")).not.toBe("req_mine")
  })
  test("the dashboard's answers have one too", async () => {
    for (const path of ["/account", "/keys", "/usage", "/usage/export.csv", "/top-ups"]) {
      const response = await gateway.dashboard(person, path)
      expect([path, response.status]).toEqual([path, 200])
      expect(response.headers.get("x-request-id")).toMatch(/^req_/)
    }
  })
  test("what is no HTTP is refused without a request id, and the connection closed", async () => {
    // By Bun's own parser, before any code of the gateway: docs/reliability.md says so.
    const host = `Host: ${new URL(gateway.url).host}`
    for (const [status, ...lines] of [
      [400, "no line of a request"],
      [400, "GET /healthz HTTP/1.1", host, "no header"],
      [400, "POST /v1/messages HTTP/1.1", host, "Content-Length: 3", "Transfer-Encoding: chunked"],
      [431, "GET /healthz HTTP/1.1", host, `x: ${"a".repeat(17_000)}`],
      [505, "GET /healthz HTTP/9.9", host],
    ] as const) {
      const answer = await raw(gateway.url, `${lines.join("\r\n")}\r\n\r\n`)
      expect(answer).toMatch(new RegExp(`^HTTP/1\\.1 ${status} [A-Za-z ]+\r\nConnection: close\r\n\r\n$`))
    }
    expect(await raw(gateway.url, `BREW /healthz HTTP/1.1\r\n${host}\r\n\r\n`)).toBe("")
    // What is HTTP has one, however odd it is.
    expect(await raw(gateway.url, `TRACE /healthz HTTP/1.1\r\n${host}\r\n\r\n`)).toMatch(/\r\nX-Request-Id: req_/)
  })
})

describe.each(formats)("%s", (format) => {
  test(`${covers("header.cost")} an answer in one piece tells its cost, exactly`, async () => {
    for (const [rates, script, cost] of [
      [{ input_micro: 1_234_500, output_micro: 0 }, "input=1&output=1", "1.2345"],
      [{ input_micro: 1, output_micro: 0 }, "input=1&output=1", "0.000001"],
      [{ input_micro: 0, output_micro: 0 }, "input=5&output=5", "0"],
      [{ input_micro: 1_000_000, output_micro: 0 }, "input=30&output=1", "30"],
    ] as const) {
      const model = await gateway.model({ format, script, ...rates })
      const response = await gateway.post(paths[format], await key(), body(format, model))
      expect(response.status).toBe(200)
      expect(response.headers.get("x-cost-rp")).toBe(cost)
      const record = await gateway.usage(person, response.headers.get("x-request-id") ?? "")
      expect(Number(record["charge_micro"]) / 1_000_000).toBe(Number(cost))
    }
  })
  test(`${covers("header.cost")} a stream does not, and neither does a failure`, async () => {
    const model = await gateway.model({ format })
    const broken = await gateway.model({ format, script: "fault=status&status=400" })
    const streamed = await gateway.post(paths[format], await key(), body(format, model, { stream: true }))
    expect(streamed.headers.get("content-type")).toStartWith("text/event-stream")
    expect(streamed.headers.has("x-cost-rp")).toBeFalse()
    expect(streamed.headers.get("x-request-id")).toMatch(/^req_/)
    await streamed.text()
    const failed = await gateway.post(paths[format], await key(), body(format, broken))
    expect(failed.status).toBe(400)
    expect(failed.headers.has("x-cost-rp")).toBeFalse()
  })
  test(`${covers("12.16")} a stream's rate headers have its hold in them, an answer's its charge`, async () => {
    const model = await gateway.model({ format, script: "input=100&output=10&pace=20" })
    const limits = {
      requests_per_minute: 10,
      tokens_per_minute: 100_000,
      spending_limit_micro: 1_000_000_000,
      spending_period: "monthly",
    }
    const whole = await gateway.post(paths[format], await key(limits), body(format, model))
    expect(whole.headers.get("x-ratelimit-limit")).toBe("10")
    expect(whole.headers.get("x-ratelimit-remaining")).toBe("9")
    expect(whole.headers.get("x-ratelimit-remaining-tokens")).toBe(String(100_000 - 110))
    expect(whole.headers.get("x-key-usage-micro")).toBe(String(100 * 1_000 + 10 * 5_000))
    expect(whole.headers.get("x-key-limit-period")).toBe("monthly")

    const by = await key(limits)
    const streamed = await gateway.post(paths[format], by, body(format, model, { stream: true }))
    expect(streamed.headers.get("x-ratelimit-remaining")).toBe("9")
    expect(Number(streamed.headers.get("x-key-usage-micro"))).toBeGreaterThan(100 * 1_000 + 10 * 5_000)
    await streamed.text()
    const after = await fetch(`${gateway.url}/v1/models`, { headers: { "x-api-key": by } })
    expect(after.headers.get("x-ratelimit-remaining-tokens")).toBe(String(100_000 - 110))
    expect(after.headers.get("x-key-usage-micro")).toBe(String(100 * 1_000 + 10 * 5_000))
  })
  test("nothing of the backend's headers travels to the client", async () => {
    const model = await gateway.model({ format })
    const { headers } = await gateway.post(paths[format], await key(), body(format, model))
    const known =
      /^(content-(type|length)|date|x-request-id|request-id|x-cost-rp|cache-control|vary|x-content-type-options)$/
    expect([...headers.keys()].filter((name) => !known.test(name))).toEqual([])
  })
})

test(`${covers("header.cost")} a responses answer whose keepalives have been sent tells no cost`, async () => {
  await using beating = await startTestGateway({ env: { HEARTBEAT_MS: "200" } })
  const model = await beating.model({ format: "responses", script: "ttft=500" })
  const { key: owned } = await beating.key(await beating.person(1_000_000), {})
  const response = await beating.post(paths.responses, owned, body("responses", model))
  expect(response.headers.has("x-cost-rp")).toBeFalse()
  // A proxy that gathers the answer would keep its keepalives too.
  expect(response.headers.get("x-accel-buffering")).toBe("no")
  expect(await response.text()).toMatch(/^ +\{.*\}$/s)
  expect(bugs(beating)).toEqual([])
})

test("none of this was a bug", () => {
  expect(bugs(gateway)).toEqual([])
})
