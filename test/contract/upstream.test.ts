/** Backends over real HTTP: tries, classification, what travels, and the chain (decisions §7; gateway-api.md, "Errors"). */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { type Provider, soleCredential } from "../../src/catalogue/model.ts"
import { backendOf, type Person, startTestGateway, type TestGateway } from "../gateway/harness.ts"
import { startSimulator } from "../../src/simulator/simulator.ts"
import { ask, beginning, callsOf, ending, failureIn, formats, requestId, rowsOf } from "./calling.ts"
import { expectFailure } from "./expect-failure.ts"
import { covers } from "./rows.ts"

/** A word of the backend's that no client may ever see. */
const MARK = "s3cr3t-of-the-backend"

let gateway: TestGateway
let person: Person
let key: string

const withHeaders = startSimulator()
const nobody: Provider = {
  id: "nobody",
  label: "",
  baseUrl: "http://127.0.0.1:9",
  credentials: [soleCredential("X")],
  headers: {},
}
const overriding: Provider = {
  ...nobody,
  id: "overriding",
  baseUrl: withHeaders.url,
  headers: { "x-api-key": "of-the-provider", Authorization: "Bearer of-the-provider", "X-Region": "jakarta" },
}

beforeAll(async () => {
  gateway = await startTestGateway({
    env: { UPSTREAM_START_TIMEOUT_MS: "3000" },
    backends: [backendOf(nobody, "k"), backendOf(overriding, "k")],
  })
  person = await gateway.person(10_000_000)
  key = (await gateway.key(person)).key
})
afterAll(async () => {
  await gateway[Symbol.asyncDispose]()
  await withHeaders.stop()
})

/** Asks a model of this script; hands back the response, the backend's calls and the rows of its record. */
async function made(format: (typeof formats)[number], script: string, more: object = {}, wish: object = {}) {
  const model = await gateway.model({ format, script, ...wish })
  const response = await ask(gateway, key, format, model, { ...more })
  return { model, response, calls: () => callsOf(gateway, model), rows: () => rowsOf(gateway, requestId(response)) }
}

describe.concurrent.each(formats)("%s", (format) => {
  describe(covers("7.retry", "6.held-back"), () => {
    test.each([
      ["fault=refuse", false],
      ["fault=refuse", true],
      ["fault=status&status=408", false],
      ["fault=status&status=500", true],
      ["fault=status&status=503&body=html", false],
      ["fault=status&status=529&body=empty", true],
      ["fault=cut&after=preamble", true],
      ["fault=reset&after=preamble", true],
      ["fault=garbage&after=preamble", true],
      ["fault=error-event&after=preamble", true],
      ["fault=cut&after=1", false],
      ["fault=reset&after=1", false],
    ])("a backend of %s (stream: %p) is tried again, unseen, up to three times", async (fault, stream) => {
      const good = await made(format, `${fault}&times=2&output=3`, { stream })
      expect(good.response.status).toBe(200)
      const text = await good.response.text()
      if (stream) {
        expect(text.match(beginning[format])).toHaveLength(1)
        expect(failureIn(format, text)).toBeUndefined()
        expect(text).toMatch(ending[format])
      }
      expect(good.calls()).toHaveLength(3)
      const [final, ...others] = await good.rows()
      expect(final).toMatchObject({ part: 0, status: "ok", attempts: 3, turns: 1 })
      // Tries that a backend has counted before it broke off are billed to the house, and charged to nobody.
      for (const row of others) expect(row).toMatchObject({ status: "upstream_error", charge_micro: 0n })

      const bad = await made(format, `${fault}&output=3`, { stream })
      await expectFailure(bad.response, 502, "dependency.upstream_unavailable")
      expect(bad.calls()).toHaveLength(3)
      const opened = stream && fault.includes("after=")
      expect((await bad.rows())[0]).toMatchObject({
        status: opened ? "aborted_stream" : "upstream_error",
        attempts: 3,
        charge_micro: 0n,
      })
    })

    test("a 429 with a short wait is tried again, and then told", async () => {
      const good = await made(format, "fault=status&status=429&retry_after=0&times=2")
      expect(good.response.status).toBe(200)
      expect(await good.rows()).toMatchObject([{ status: "ok", attempts: 3 }])
      const bad = await made(format, "fault=status&status=429&retry_after=0")
      expect(bad.response.status).toBe(429)
      expect(bad.response.headers.get("x-error-code")).toBe("upstream.rate_limited")
      expect(bad.calls()).toHaveLength(3)
    })

    test("a backend that nobody listens at is tried three times", async () => {
      const { response, rows } = await made(format, "", {}, { provider: "nobody" })
      await expectFailure(response, 502, "dependency.upstream_unavailable")
      expect(await rows()).toMatchObject([{ status: "upstream_error", attempts: 3 }])
    })

    test.each([
      ["status=400", 400, "upstream.invalid_request"],
      ["status=401", 502, "dependency.upstream_unavailable"],
      ["status=404", 502, "dependency.upstream_unavailable"],
      ["status=429", 429, "upstream.rate_limited"],
      ["status=429&retry_after=3", 429, "upstream.rate_limited"],
    ])("a backend of %s is tried once", async (status, expected, code) => {
      const { response, calls } = await made(format, `fault=status&${status}`)
      await expectFailure(response, expected, code)
      expect(calls()).toHaveLength(1)
    })

    test("a wait that the backend asks for is kept", async () => {
      const { response, calls } = await made(format, "fault=status&status=429&retry_after=1&times=1")
      expect(response.status).toBe(200)
      const [first, second] = calls()
      expect((second?.startedAt ?? 0) - (first?.endedAt ?? 0)).toBeGreaterThanOrEqual(990)
    })
  })

  describe(covers("7.start", "events.timeout"), () => {
    test.each([true, false])("all tries together have the start's time (stream: %p)", async (stream) => {
      const { response } = await made(format, "fault=silent", { stream })
      const { message } = await expectFailure(response, 502, "dependency.upstream_unavailable")
      expect(message).toBe("The model's backend did not begin to answer in time.")
    })
  })

  describe(covers("7.classification", "7.verbatim"), () => {
    test.each([
      [`status=400&message=${MARK}`, 400, "upstream.invalid_request"],
      [`status=422&message=${MARK}`, 400, "upstream.invalid_request"],
      [`status=400&message=${MARK} unsupported parameter: 'x'`, 400, "upstream.unsupported_feature"],
      [
        `status=400&message=${MARK} maximum context length is 100 tokens, you sent 120`,
        400,
        "upstream.context_length_exceeded",
      ],
      [`status=401&message=${MARK}`, 502, "dependency.upstream_unavailable"],
      [`status=403&message=${MARK}`, 502, "dependency.upstream_unavailable"],
      [`status=404&message=${MARK}&body=json`, 502, "dependency.upstream_unavailable"],
      [`status=418&message=${MARK}`, 502, "dependency.upstream_unavailable"],
      [`status=429&message=${MARK}`, 429, "upstream.rate_limited"],
    ])("%s is %d %s, in words of ours", async (status, expected, code) => {
      const { response, rows } = await made(format, `fault=status&${status}`)
      const headers = JSON.stringify([...response.headers])
      const copy = await response.clone().text()
      expect(copy).not.toContain(MARK)
      expect(headers).not.toContain(MARK)
      await expectFailure(response, expected, code)
      expect(await rows()).toMatchObject([{ status: "upstream_error", error_code: code, charge_micro: 0n }])
    })

    test("a context overflow carries the numbers that agents read", async () => {
      const { response } = await made(format, "fault=context")
      const { message } = await expectFailure(response, 400, "upstream.context_length_exceeded")
      expect(message).toMatch(/^prompt is too long: \d+ tokens > 200000 maximum$/)
      const told = await made(
        format,
        "fault=status&status=400&message=maximum context length is 100 tokens, you sent 120",
      )
      expect((await expectFailure(told.response, 400, "upstream.context_length_exceeded")).message).toBe(
        "prompt is too long: 120 tokens > 100 maximum",
      )
    })

    test.each([401, 403, 404])("a %d of a backend alerts the operator", async (status) => {
      const { model, response } = await made(format, `fault=status&status=${status}`)
      const id = requestId(response)
      const alerts = gateway.complaints.map((line) => JSON.parse(line)).filter((line) => line.request_id === id)
      expect(alerts).toMatchObject([{ level: "error", model, provider: "simulated", status }])
    })
    test("an alert is raised also when another model answers after all", async () => {
      const spare = await gateway.model({ format })
      const quota = "fault=status&status=429&code=insufficient_quota"
      const { response } = await made(format, quota, {}, { fallback: [spare] })
      expect(response.status).toBe(200)
      expect(gateway.complaints.some((line) => line.includes(requestId(response)))).toBeTrue()
    })
  })

  describe(covers("7.headers", "12.13"), () => {
    test("only allow-listed headers travel to the backend, with our credentials", async () => {
      const model = await gateway.model({ format })
      const client = {
        "anthropic-version": "2026-10-21",
        "anthropic-beta": "effort-2025-11-24,two-2026, claude-code-20250219",
        "x-stainless-lang": "js",
        "x-forwarded-for": "10.0.0.1",
        Cookie: "session=mine",
        "OpenAI-Organization": "org-of-the-client",
      }
      await (await ask(gateway, key, format, model, {}, { headers: client })).text()
      const headers = callsOf(gateway, model)[0]?.headers ?? {}
      const allowed = [
        "accept",
        "accept-encoding",
        "connection",
        "content-length",
        "content-type",
        "host",
        "user-agent",
      ]
      const ours = format === "messages" ? ["anthropic-beta", "anthropic-version", "x-api-key"] : ["authorization"]
      expect(Object.keys(headers).toSorted()).toEqual([...allowed, ...ours].toSorted())
      if (format === "messages") {
        expect(headers).toMatchObject({
          "x-api-key": "backend-secret",
          "anthropic-version": "2026-10-21",
          "anthropic-beta": "effort-2025-11-24,claude-code-20250219",
        })
      } else expect(headers["authorization"]).toBe("Bearer backend-secret")
      expect(JSON.stringify(headers)).not.toContain(key)
    })

    test("a provider's own headers override the credentials", async () => {
      const model = await gateway.model({ format, provider: "overriding" })
      await (await ask(gateway, key, format, model)).text()
      const call = withHeaders.calls.find((one) => one.model === model)
      expect(call?.headers["x-region"]).toBe("jakarta")
      expect(call?.headers[format === "messages" ? "x-api-key" : "authorization"]).toContain("of-the-provider")
    })

    test.each([true, false])("of the backend's headers only Retry-After comes back (stream: %p)", async (stream) => {
      const { response } = await made(format, "", { stream })
      await response.text()
      const known = [
        "cache-control",
        "content-length",
        "content-type",
        "date",
        "request-id",
        "transfer-encoding",
        "x-accel-buffering",
        "x-content-type-options",
        "x-cost-rp",
        "x-request-id",
      ]
      expect([...response.headers.keys()].filter((name) => !known.includes(name))).toEqual([])
      const limited = await made(format, "fault=status&status=429&retry_after=7", { stream })
      expect(limited.response.headers.get("retry-after")).toBe("7")
      await limited.response.text()
    })

    test("what a model does not take is stripped, and nothing is stored", async () => {
      const { response, calls } = await made(
        format,
        "",
        { temperature: 0.5, top_p: 0.9, ...(format !== "messages" && { store: true }), metadata: {} },
        { strip: ["temperature", "top_p", "top_k"] },
      )
      expect(response.status).toBe(200)
      const body = calls()[0]?.body ?? {}
      expect(body).not.toContainAnyKeys(["temperature", "top_p", "top_k"])
      if (format !== "messages") expect(body["metadata"]).toEqual({})
      if (format !== "messages") expect(body["store"]).toBeFalse()
    })
  })

  describe(covers("7.chain", "12.9", "12.10", "status.fallback_429", "status.fallback_oversize"), () => {
    test.each([true, false])("a 429 goes on to the next model, billed at its rates (stream: %p)", async (stream) => {
      const spare = await gateway.model({
        format,
        script: "input=10&output=4",
        input_micro: 700,
        output_micro: 900,
      })
      const first = await made(format, "fault=status&status=429", { stream }, { fallback: [spare] })
      const text = await first.response.text()
      expect(first.response.status).toBe(200)
      expect(text).toContain(`"model":"${spare}"`)
      const charge = 10 * 700 + 4 * 900
      expect(await first.rows()).toMatchObject([
        { part: 0, model: spare, status: "ok", charge_micro: BigInt(charge), attempts: 1 },
        { part: 1, model: first.model, status: "fallback_429", charge_micro: 0n, attempts: 1 },
      ])
      if (!stream) expect(first.response.headers.get("x-cost-rp")).toBe("0.0106")
      const id = requestId(first.response)
      expect(await gateway.usage(person, id)).toMatchObject({
        model: spare,
        status: "ok",
        charge_micro: charge,
        turns: 1,
      })
      const markers = await gateway.dashboard(person, `/usage?status=fallback_429&model=${first.model}`)
      expect(await markers.json()).toMatchObject({ data: [{ request_id: id, model: first.model, charge_micro: 0 }] })
      const finals = await gateway.dashboard(person, `/usage?model=${first.model}`)
      expect(await finals.json()).toMatchObject({ data: [] })
    })

    test("a marker says how long its model took", async () => {
      const spare = await gateway.model({ format, script: "ttft=600" })
      const second = await gateway.model({ format, script: "head=300&fault=error-event&error=rate-limited" })
      const throttled = "head=500&fault=error-event&error=rate-limited"
      const first = await made(format, throttled, { stream: true }, { fallback: [second, spare] })
      await first.response.text()
      const durations = async (model: string) => {
        const rows = await gateway.dashboard(person, `/usage?status=fallback_429&model=${model}`)
        return ((await rows.json()) as { data: { duration_ms: number }[] }).data.map(({ duration_ms: ms }) => ms)
      }
      const { duration_ms: whole } = await gateway.usage(person, requestId(first.response))
      const [[ofFirst = 0], [ofSecond = 0]] = await Promise.all([durations(first.model), durations(second)])
      expect(ofFirst).toBeGreaterThanOrEqual(490)
      expect(ofSecond).toBeGreaterThanOrEqual(290)
      expect(ofFirst + ofSecond).toBeLessThanOrEqual(Number(whole) - 590)
    })

    test("a prompt over the window of the first model goes to one that it fits", async () => {
      const spare = await gateway.model({ format })
      const first = await made(format, "", {}, { context_window: 1, fallback: [spare] })
      expect(first.response.status).toBe(200)
      expect(first.calls()).toEqual([])
      expect(await first.rows()).toMatchObject([
        { model: spare, status: "ok" },
        { model: first.model, status: "fallback_oversize", charge_micro: 0n, attempts: 0 },
      ])
    })

    test("a prompt that the backend says is too long goes on too", async () => {
      const spare = await gateway.model({ format })
      const first = await made(format, "fault=context", {}, { fallback: [spare] })
      expect(first.response.status).toBe(200)
      expect(await first.rows()).toMatchObject([
        { model: spare, status: "ok" },
        { model: first.model, status: "fallback_oversize", attempts: 1 },
      ])
    })

    test.each(["status=500", "status=400", "status=401"])("%s does not go on", async (status) => {
      const spare = await gateway.model({ format })
      const first = await made(format, `fault=status&${status}`, {}, { fallback: [spare] })
      expect(first.response.ok).toBeFalse()
      expect(callsOf(gateway, spare)).toEqual([])
      expect(await first.rows()).toMatchObject([{ model: first.model, status: "upstream_error" }])
    })

    test("models that cannot do what is asked, or have no backend, are passed over", async () => {
      const mute = await gateway.model({ format, supports_tools: false })
      const lost = await gateway.model({ format, provider: "unconfigured" })
      const small = await gateway.model({ format, context_window: 1 })
      const spare = await gateway.model({ format })
      const parameters = { type: "object", properties: {} }
      const tool = {
        chat: { type: "function", function: { name: "f", parameters } },
        messages: { name: "f", input_schema: parameters },
        responses: { type: "function", name: "f", parameters },
      }[format]
      const chain = [mute, lost, small, spare]
      const first = await made(format, "fault=status&status=429", { tools: [tool] }, { fallback: chain })
      expect(first.response.status).toBe(200)
      expect(await first.rows()).toMatchObject([{ model: spare, status: "ok" }, { status: "fallback_429" }])
      for (const model of [mute, lost, small]) expect(callsOf(gateway, model)).toEqual([])
    })

    test("when the whole chain is used up the last failure is told, with its wait", async () => {
      const last = await gateway.model({ format, script: "fault=status&status=429&retry_after=86400" })
      const first = await made(format, "fault=status&status=429&retry_after=9", {}, { fallback: [last] })
      const { retryAfterS } = await expectFailure(first.response, 429, "upstream.rate_limited")
      expect(retryAfterS).toBe(3600)
      expect(await first.rows()).toMatchObject([
        { model: last, status: "upstream_error", error_code: "upstream.rate_limited" },
        { model: first.model, status: "fallback_429" },
      ])
    })

    test("an in-stream 429 before content goes on unseen", async () => {
      const spare = await gateway.model({ format })
      const script = "fault=error-event&error=rate-limited&after=preamble"
      const first = await made(format, script, { stream: true }, { fallback: [spare] })
      const text = await first.response.text()
      expect(text.match(beginning[format])).toHaveLength(1)
      expect(text).toContain(`"model":"${spare}"`)
      expect(await first.rows()).toMatchObject([{ model: spare, status: "ok" }, { status: "fallback_429" }])
    })

    test("an in-stream 429 after content is told, and no other model is asked", async () => {
      const spare = await gateway.model({ format })
      const script = "fault=error-event&error=rate-limited&after=1"
      const first = await made(format, script, { stream: true }, { fallback: [spare] })
      const text = await first.response.text()
      expect(text.match(beginning[format])).toHaveLength(1)
      expect(failureIn(format, text)).toBeDefined()
      expect(callsOf(gateway, spare)).toEqual([])
      expect(await first.rows()).toMatchObject([{ model: first.model, status: "upstream_error", charge_micro: 0n }])
    })

    test("the tries of each model are counted for it alone", async () => {
      const spare = await gateway.model({ format, script: "fault=status&status=500&times=1" })
      const first = await made(format, "fault=status&status=429&retry_after=0", {}, { fallback: [spare] })
      expect(first.response.status).toBe(200)
      expect(await first.rows()).toMatchObject([
        { model: spare, status: "ok", attempts: 2 },
        { model: first.model, status: "fallback_429", attempts: 3 },
      ])
    })
  })
})

describe(covers("12.2", "3.large-limit"), () => {
  test("n multiplies what is held, and all answers are billed", async () => {
    const { response, calls, rows } = await made("chat", "input=10&output=5", { n: 3 })
    expect(((await response.json()) as { choices: unknown[] }).choices).toHaveLength(3)
    expect(calls()[0]?.body?.["n"]).toBe(3)
    expect(await rows()).toMatchObject([{ status: "ok", charge_micro: 10_000n + 15n * 5_000n }])
  })

  test("a thinking budget is lowered with the limit", async () => {
    const dear = { max_output_tokens: 8_000_000, output_micro: 5_000_000, pass: ["thinking"] }
    const budget = { type: "enabled", budget_tokens: 7_000_000 }
    for (const format of ["messages", "chat"] as const) {
      const { key } = await gateway.key(await gateway.person(10_000))
      const model = await gateway.model({ format, ...dear })
      const response = await ask(gateway, key, format, model, { max_tokens: 8_000_000, thinking: budget })
      expect(response.status).toBe(200)
      const { max_tokens: limit, thinking } = callsOf(gateway, model)[0]?.body ?? {}
      expect(limit).toBeWithin(16, 1_001)
      expect((thinking as { budget_tokens?: number }).budget_tokens ?? 0).toBeLessThan(Number(limit))
    }
  })
})
