/** Traces of calls, as a strict collector has them (docs/operating/traces.md). */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { systemClock } from "../../actors/kernel/clock.ts"
import { type Provider, soleCredential } from "../../src/catalogue/model.ts"
import { startSimulator } from "../../src/simulator/simulator.ts"
import { randomId } from "../../src/traces/tracing.ts"
import { type ReceivedSpan, type Receiver, startReceiver } from "../traces/receiver.ts"
import { backendOf, type Person, startTestGateway, type TestGateway } from "./harness.ts"

const told = startSimulator()
const telling: Provider = {
  id: "telling",
  label: "",
  baseUrl: told.url,
  credentials: [soleCredential("X")],
  headers: {},
  traceContext: true,
}
const backends = [backendOf(telling, "k")]

let receiver: Receiver
let gateway: TestGateway
let person: Person
let key: string

const collecting = ({ url }: Pick<Receiver, "url">, env: Readonly<Record<string, string>> = {}) => ({
  OTEL_EXPORTER_OTLP_ENDPOINT: url,
  OTEL_BSP_SCHEDULE_DELAY: "20",
  ...env,
})

beforeAll(async () => {
  receiver = startReceiver()
  gateway = await startTestGateway({
    env: collecting(receiver, { OTEL_RESOURCE_ATTRIBUTES: "deployment.environment.name=test", METRICS_PORT: "0" }),
    backends,
  })
  person = await gateway.person(1_000_000)
  key = (await gateway.key(person)).key
})
afterAll(async () => {
  await gateway[Symbol.asyncDispose]()
  await receiver[Symbol.asyncDispose]()
  await told.stop()
})

const ask = (model: string, more: object = {}) => ({ model, messages: [{ role: "user", content: "Hello" }], ...more })

/** A call's spans, once the one that ends last has come. */
async function traced(at: Receiver, response: Response): Promise<ReceivedSpan[]> {
  await response.text()
  const id = response.headers.get("x-request-id")
  return await at.trace(({ attributes }) => attributes["loket.request_id"] === id)
}
const call = async (body: object, path = "/v1/chat/completions", headers = {}) =>
  await traced(receiver, await gateway.post(path, key, body, { headers }))

/** Each span with those below it, in the order of their beginnings. */
function tree(spans: readonly ReceivedSpan[], parent?: ReceivedSpan): unknown[] {
  const known = new Set(spans.map(({ spanId }) => spanId))
  const isBelow = (span: ReceivedSpan) =>
    parent === undefined ? !known.has(span.parentSpanId) : span.parentSpanId === parent.spanId
  return spans
    .filter(isBelow)
    .toSorted((a, b) => Number(a.start - b.start))
    .map((span) => {
      const below = tree(spans, span)
      return below.length === 0 ? span.name : [span.name, ...below]
    })
}
const root = (spans: readonly ReceivedSpan[]): ReceivedSpan => {
  const found = spans.find(({ kind }) => kind === 2)
  if (found === undefined) throw new Error("no span of the call")
  return found
}
const attempts = (spans: readonly ReceivedSpan[]) => spans.filter(({ kind }) => kind === 3)

describe("the spans of a call", () => {
  test("that is answered in one piece", async () => {
    const model = await gateway.model({ format: "chat", script: "input=20&output=30" })
    const spans = await call(ask(model))
    const [backend] = attempts(spans)
    expect(tree(spans)).toEqual([["POST /v1/chat/completions", "admit", backend?.name, "commit", ["settle", "commit"]]])
    expect(root(spans)).toMatchObject({
      parentSpanId: "",
      status: 0,
      attributes: {
        "http.request.method": "POST",
        "http.route": "/v1/chat/completions",
        "http.response.status_code": 200,
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": model,
        "gen_ai.response.model": model,
        "gen_ai.usage.input_tokens": 20,
        "gen_ai.usage.output_tokens": 30,
        "loket.status": "ok",
        "loket.attempts": 1,
      },
    })
    const { hostname, port } = new URL(gateway.simulator.url)
    expect(backend).toMatchObject({
      name: `chat ${model}?input=20&output=30`,
      status: 0,
      attributes: {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "simulated",
        "gen_ai.request.model": `${model}?input=20&output=30`,
        "gen_ai.usage.input_tokens": 20,
        "gen_ai.usage.output_tokens": 30,
        "http.response.status_code": 200,
        "server.address": hostname,
        "server.port": Number(port),
      },
    })
    expect(receiver.problems).toEqual([])
    expect(receiver.resources[0]).toMatchObject({
      "service.name": "loket",
      "deployment.environment.name": "test",
      "telemetry.sdk.name": "opentelemetry",
    })
  })

  test.each(["chat", "messages", "responses"] as const)(
    "that streams, on %s, and each lies within its parent",
    async (format) => {
      const model = await gateway.model({ format, script: "ttft=30&input=5&output=7" })
      const paths = { chat: "/v1/chat/completions", messages: "/v1/messages", responses: "/v1/responses" }
      const body =
        format === "responses" ? { model, input: "Hello", stream: true } : ask(model, { stream: true, max_tokens: 100 })
      const spans = await call(body, paths[format])
      const [backend] = attempts(spans)
      expect(tree(spans)).toEqual([
        [`POST ${paths[format]}`, "admit", [backend?.name, "relay"], "commit", ["settle", "commit"]],
      ])
      expect(backend?.attributes).toMatchObject({ "gen_ai.request.stream": true, "gen_ai.usage.output_tokens": 7 })
      expect(backend?.attributes["gen_ai.response.time_to_first_chunk"]).toBeGreaterThan(0.02)
      const { start, end } = root(spans)
      // The span of the call begins at a whole millisecond.
      for (const span of spans)
        expect([span.name, span.start >= start, span.end <= end]).toEqual([span.name, true, true])
    },
  )

  test("that is tried again", async () => {
    const model = await gateway.model({ format: "chat", script: "fault=status&status=503" })
    const spans = await call(ask(model))
    expect(
      attempts(spans).map(({ status, attributes }) => [
        status,
        attributes["error.type"],
        attributes["http.response.status_code"],
        attributes["http.request.resend_count"],
      ]),
    ).toEqual([
      [2, "dependency.upstream_unavailable", 503, undefined],
      [2, "dependency.upstream_unavailable", 503, 1],
      [2, "dependency.upstream_unavailable", 503, 2],
    ])
    expect(root(spans)).toMatchObject({
      status: 2,
      attributes: {
        "error.type": "dependency.upstream_unavailable",
        "http.response.status_code": 502,
        "loket.status": "upstream_error",
      },
    })
  })

  test("that fails in its stream", async () => {
    const model = await gateway.model({ format: "chat", script: "output=20&fault=cut&after=5" })
    const spans = await call(ask(model, { stream: true }))
    expect(root(spans)).toMatchObject({
      status: 2,
      attributes: { "error.type": "dependency.upstream_unavailable", "http.response.status_code": 200 },
    })
  })

  test("that its customer cannot pay for", async () => {
    const model = await gateway.model({ format: "chat" })
    const poor = (await gateway.key(await gateway.person())).key
    const spans = await traced(receiver, await gateway.post("/v1/chat/completions", poor, ask(model)))
    expect(tree(spans)).toEqual([["POST /v1/chat/completions", "admit"]])
    // A customer's mistake is no error of the server's.
    expect(root(spans)).toMatchObject({
      status: 0,
      attributes: { "error.type": "billing.insufficient_balance", "http.response.status_code": 402 },
    })
  })

  test("that nobody understands, without a word of it", async () => {
    const spans = await call(ask("what the client wrote"))
    expect(tree(spans)).toEqual(["POST /v1/chat/completions"])
    expect(root(spans).attributes).toMatchObject({ "error.type": "model.unknown", "http.response.status_code": 400 })
    expect(root(spans).attributes).not.toHaveProperty("gen_ai.request.model")
  })

  test("whose client leaves", async () => {
    const model = await gateway.model({ format: "chat", script: "ttft=50&pace=50&output=10" })
    const leaving = new AbortController()
    const response = await gateway.post("/v1/chat/completions", key, ask(model, { stream: true }), {
      signal: leaving.signal,
    })
    await response.body?.getReader().read()
    leaving.abort()
    const id = response.headers.get("x-request-id")
    const spans = await receiver.trace(({ attributes }) => attributes["loket.request_id"] === id)
    expect(root(spans).events).toEqual(["client-left"])
    expect(root(spans).attributes).toMatchObject({ "loket.status": "ok", "gen_ai.usage.output_tokens": 10 })
  })

  test("are none where nobody is known to call", async () => {
    const response = await gateway.post("/v1/chat/completions", "sk-nobody", ask("plain"))
    expect(response.status).toBe(401)
    const after = await call(ask("plain"))
    expect(after.length).toBeGreaterThan(1)
    expect(receiver.spans.filter(({ attributes }) => attributes["http.response.status_code"] === 401)).toEqual([])
  })
})

describe("traceparent", () => {
  const TRACE = randomId(16)
  const SPAN = randomId(8)
  const sampled = `00-${TRACE}-${SPAN}-01`

  test("of the client is what the call is below of, and tracestate goes no further", async () => {
    const model = await gateway.model({ format: "chat", provider: "telling" })
    const spans = await call(ask(model), undefined, { traceparent: sampled, tracestate: "vendor=what-it-keeps" })
    expect(root(spans)).toMatchObject({ traceId: TRACE, parentSpanId: SPAN })
    const [attempt] = attempts(spans)
    const headers = told.calls.at(-1)?.headers ?? {}
    expect(headers["traceparent"]).toBe(`00-${TRACE}-${attempt?.spanId}-01`)
    expect(headers).not.toHaveProperty("tracestate")
    for (const bytes of receiver.bodies) expect(Buffer.from(bytes).includes("what-it-keeps")).toBe(false)
  })

  test("goes to no backend whose provider does not say so", async () => {
    const model = await gateway.model({ format: "chat" })
    await call(ask(model), undefined, { traceparent: sampled, tracestate: "a=b" })
    const { headers } = gateway.simulator.calls.at(-1) ?? { headers: {} }
    expect(headers).not.toHaveProperty("traceparent")
    expect(headers).not.toHaveProperty("tracestate")
  })

  test("that is malformed counts as none", async () => {
    for (const traceparent of [`00-${TRACE}-${SPAN}`, `00-${"0".repeat(32)}-${SPAN}-01`, "x".repeat(5_000)]) {
      const spans = await call(ask("plain"), undefined, { traceparent })
      expect(root(spans).parentSpanId).toBe("")
      expect(root(spans).traceId).not.toBe(TRACE)
    }
  })

  test("takes a call out of the traces, which its backend is told", async () => {
    const model = await gateway.model({ format: "chat", provider: "telling" })
    const trace = randomId(16)
    const response = await gateway.post("/v1/chat/completions", key, ask(model), {
      headers: { traceparent: `00-${trace}-${SPAN}-00` },
    })
    await response.text()
    expect(told.calls.at(-1)?.headers["traceparent"]).toMatch(new RegExp(`^00-${trace}-(?!${SPAN})[0-9a-f]{16}-00$`))
    await call(ask("plain"))
    expect(receiver.spans.filter(({ traceId }) => traceId === trace)).toEqual([])
  })
})

interface Sampling {
  readonly sampler: string
  readonly arg?: string
  readonly flags: string
  readonly isSampled: boolean
}
const samplings: readonly Sampling[] = [
  { sampler: "always_on", flags: "00", isSampled: true },
  { sampler: "always_off", flags: "01", isSampled: false },
  { sampler: "traceidratio", arg: "0", flags: "01", isSampled: false },
  { sampler: "traceidratio", arg: "1", flags: "00", isSampled: true },
  { sampler: "parentbased_always_on", flags: "00", isSampled: false },
  { sampler: "parentbased_always_on", flags: "01", isSampled: true },
  { sampler: "parentbased_always_off", flags: "01", isSampled: false },
  // Whoever pays for the traces says how many there are: a client's yes is none.
  { sampler: "parentbased_traceidratio", arg: "0", flags: "01", isSampled: false },
]
test("who is sampled is decided by the operator, and a client may only say no", async () => {
  for (const { sampler, arg = "", flags, isSampled } of samplings) {
    const to = startReceiver()
    const env = collecting(to, { OTEL_TRACES_SAMPLER: sampler, OTEL_TRACES_SAMPLER_ARG: arg })
    await using sampling = await startTestGateway({ env })
    const of = (await sampling.key(await sampling.person(1_000_000))).key
    // Also an id that a sampler by the trace's id would take.
    const traceparent = `00-${"0".repeat(31)}1-${randomId(8)}-${flags}`
    await (await sampling.post("/v1/chat/completions", of, ask("plain"), { headers: { traceparent } })).text()
    await sampling.server.stop()
    expect([sampler, arg, flags, to.spans.length > 0]).toEqual([sampler, arg, flags, isSampled])
    await to[Symbol.asyncDispose]()
  }
})

test("a ratio samples about as many", async () => {
  const to = startReceiver()
  const env = collecting(to, { OTEL_TRACES_SAMPLER: "parentbased_traceidratio", OTEL_TRACES_SAMPLER_ARG: "0.3" })
  await using sampling = await startTestGateway({ env })
  const of = (await sampling.key(await sampling.person(1_000_000))).key
  const traceparent = `00-${randomId(16)}-${randomId(8)}-01`
  for (let n = 0; n < 200; n++)
    await (await sampling.post("/v1/chat/completions", of, ask("plain"), { headers: { traceparent } })).text()
  await sampling.server.stop()
  const calls = to.spans.filter(({ kind }) => kind === 2).length
  // Six standard deviations of 60.
  expect(Math.abs(calls - 60)).toBeLessThan(39)
  await to[Symbol.asyncDispose]()
})

test("OTEL_PROPAGATORS=none neither reads a traceparent nor sends one on", async () => {
  const to = startReceiver()
  await using alone = await startTestGateway({ env: collecting(to, { OTEL_PROPAGATORS: "none" }), backends })
  const model = await alone.model({ format: "chat", provider: "telling" })
  const of = (await alone.key(await alone.person(1_000_000))).key
  const traceparent = `00-${randomId(16)}-${randomId(8)}-00`
  const spans = await traced(to, await alone.post("/v1/chat/completions", of, ask(model), { headers: { traceparent } }))
  expect(root(spans).parentSpanId).toBe("")
  expect(told.calls.at(-1)?.headers).not.toHaveProperty("traceparent")
  await to[Symbol.asyncDispose]()
})

test("OTEL_SDK_DISABLED sends nothing", async () => {
  const to = startReceiver()
  await using off = await startTestGateway({ env: collecting(to, { OTEL_SDK_DISABLED: "true" }) })
  const of = (await off.key(await off.person(1_000_000))).key
  await (await off.post("/v1/chat/completions", of, ask("plain"))).text()
  await off.server.stop()
  expect(to.headers).toEqual([])
  await to[Symbol.asyncDispose]()
})

const upstreamOf = (model: string) => ({ upstreams: [{ provider: "marking", format: "chat" as const, model }] })

describe("what is exported", () => {
  test.each(["http/protobuf", "http/json"])(
    "in %s holds nothing of what people and backends write",
    async (protocol) => {
      const MARK = "m4rked"
      const to = startReceiver()
      /** It answers with the status that is its model's name, and with marked words. */
      const marking = Bun.serve({
        port: 0,
        hostname: "127.0.0.1",
        async fetch(request) {
          const { model } = (await request.json()) as { model: string }
          const choices = [{ index: 0, finish_reason: "stop", message: { role: "assistant", content: MARK } }]
          const usage = { prompt_tokens: 3, completion_tokens: 4, total_tokens: 7 }
          const error = { message: MARK, type: MARK, code: MARK }
          return Response.json(model === "200" ? { id: MARK, model: MARK, choices, usage } : { error }, {
            status: Number(model),
            headers: { "X-Request-Id": MARK },
          })
        },
      })
      const env = collecting(to, { OTEL_EXPORTER_OTLP_PROTOCOL: protocol, OTEL_EXPORTER_OTLP_HEADERS: `x-key=${MARK}` })
      await using marked = await startTestGateway({
        env,
        backends: [
          backendOf({ ...telling, headers: { "X-Own": MARK } }, `${MARK}-backend`),
          backendOf({ ...telling, id: "marking", baseUrl: marking.url.origin }, "k"),
        ],
      })
      const customer = await marked.person(1_000_000)
      const of = (await marked.key(customer, { name: `${MARK} key` })).key
      const good = await marked.model({ format: "chat", provider: "telling" })
      const failing = await marked.model({ format: "chat", provider: "marking", ...upstreamOf("400") })
      const away = await marked.model({ format: "chat", provider: "marking", ...upstreamOf("503") })
      const answering = await marked.model({ format: "chat", provider: "marking", ...upstreamOf("200") })
      const content = `${MARK} prompt`
      const bodies = [good, failing, away, answering].flatMap((model) =>
        [true, false].map((stream) => ({
          model,
          stream,
          user: MARK,
          metadata: { note: MARK },
          messages: [
            { role: "system", content },
            { role: "user", content },
          ],
          tools: [
            { type: "function", function: { name: MARK, parameters: { type: "object", properties: { [MARK]: {} } } } },
          ],
        })),
      )
      const wrong = [
        { model: MARK, messages: [{ role: "user", content }] },
        { model: good, messages: MARK },
        `{"${MARK}`,
      ]
      const headers = {
        "User-Agent": MARK,
        tracestate: `v=${MARK}`,
        baggage: `user=${MARK}`,
        traceparent: `${MARK}-x`,
        Cookie: `session=${MARK}`,
        "X-Forwarded-For": MARK,
      }
      for (const body of [...bodies, ...wrong])
        await (await marked.post(`/v1/chat/completions?q=${MARK}`, of, body, { headers })).text()
      await marked.server.stop()
      expect(to.problems).toEqual([])
      expect(to.spans.filter(({ kind }) => kind === 2)).toHaveLength(11)
      const exported = Buffer.concat(to.bodies).toString("latin1")
      for (const secret of [MARK, of, of.slice(-20), customer.token, "backend-secret", "@example.com", "correct horse"])
        expect([secret, exported.includes(secret)]).toEqual([secret, false])
      expect(marked.complaints.filter((line) => line.includes("traces"))).toEqual([])
      await to[Symbol.asyncDispose]()
    },
  )
})

test("a collector that hangs holds up no call, and not the end", async () => {
  const to = startReceiver()
  to.answer = () => new Promise(() => {})
  const { complaints, ...hung } = await startTestGateway({
    env: collecting(to, { METRICS_PORT: "0", OTEL_EXPORTER_OTLP_TIMEOUT: "300" }),
  })
  const of = (await hung.key(await hung.person(1_000_000))).key
  const began = systemClock.running()
  for (let n = 0; n < 20; n++) expect((await hung.post("/v1/chat/completions", of, ask("plain"))).status).toBe(200)
  expect(systemClock.running() - began).toBeLessThan(5_000)
  while (complaints.length === 0) await Bun.sleep(10)
  expect(complaints.map((line) => JSON.parse(line) as unknown)).toMatchObject([
    { level: "warn", event: "traces not sent", error: "TimeoutError" },
  ])
  const metrics = await (await fetch(hung.server.metricsUrl ?? "")).text()
  expect(metrics).toMatch(/^loket_trace_spans_waiting 1\d\d$/m)
  const stopping = systemClock.running()
  await hung[Symbol.asyncDispose]()
  expect(systemClock.running() - stopping).toBeLessThan(6_000)
  await to[Symbol.asyncDispose]()
})

test("metrics say what became of the spans", async () => {
  await call(ask("plain"))
  const metrics = await (await fetch(gateway.server.metricsUrl ?? "")).text()
  expect(Number(/^loket_trace_spans_total\{outcome="sent"\} (\d+)$/m.exec(metrics)?.[1])).toBeGreaterThan(10)
  expect(metrics).toContain('loket_trace_spans_total{outcome="full"} 0')
})
