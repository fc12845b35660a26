/** Backends that answer without end: in bytes, in time, or both (decisions §7, §13.1). */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { gzipSync } from "node:zlib"
import { type Provider, soleCredential } from "../../src/catalogue/model.ts"
import { backendOf, type Person, startTestGateway, type TestGateway } from "../gateway/harness.ts"
import type { Backend } from "../../src/upstream/providers.ts"
import { ask, ending, eventually, failureIn, requestId, rowsOf } from "./calling.ts"
import { expectFailure } from "./expect-failure.ts"

/** By the model's name: what the backend answers. `left` counts calls whose connection the gateway closed. */
const answers = new Map<string, () => Response>()
const calls = new Map<string, number>()
const left = new Map<string, number>()
const count = (counts: Map<string, number>, name: string) => counts.set(name, (counts.get(name) ?? 0) + 1)

const backend = Bun.serve({
  hostname: "127.0.0.1",
  port: 0,
  idleTimeout: 0,
  fetch: async (request) => {
    const { model: id } = (await request.json()) as { model: string }
    const model = id.split("?")[1] ?? ""
    count(calls, model)
    request.signal.addEventListener("abort", () => count(left, model))
    return answers.get(model)?.() ?? new Response("{}", { status: 500 })
  },
})

let backends: Backend[]
let gateway: TestGateway
let person: Person
let key: string

beforeAll(async () => {
  const credentials: Provider["credentials"] = [soleCredential("X")]
  const provider = { id: "hostile", label: "", baseUrl: backend.url.origin, credentials, headers: {} }
  backends = [backendOf(provider, "k")]
  gateway = await startTestGateway({
    env: { UPSTREAM_IDLE_TIMEOUT_MS: "400", UPSTREAM_ANSWER_TIMEOUT_MS: "1500" },
    backends,
  })
  person = await gateway.person(10_000_000)
  key = (await gateway.key(person)).key
})
afterAll(async () => {
  await gateway[Symbol.asyncDispose]()
  await backend.stop(true)
})

let models = 0
async function made(answer: () => Response, more: Readonly<Record<string, unknown>> = {}) {
  const name = `hostile-${++models}`
  answers.set(name, answer)
  const model = await gateway.model({ format: "chat", provider: "hostile", script: name })
  const response = await ask(gateway, key, "chat", model, more)
  return { name, response, row: async () => (await rowsOf(gateway, requestId(response)))[0] }
}

const chunk = (content: string) => `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content } }] })}\n\n`

/** Says something first, then so every `everyMs`. */
const trickling = (first: string, then: string, everyMs: number) => () => {
  let timer: Timer | undefined
  const body = new ReadableStream({
    start(controller) {
      controller.enqueue(new TextEncoder().encode(first))
      timer = setInterval(() => controller.enqueue(new TextEncoder().encode(then)), everyMs)
    },
    cancel: () => clearInterval(timer),
  })
  return new Response(body, { headers: { "Content-Type": "text/event-stream" } })
}

/** Bytes without end, as fast as they are read. */
const flooding = (piece: string) => () =>
  new Response(new ReadableStream({ pull: (controller) => controller.enqueue(new TextEncoder().encode(piece)) }), {
    headers: { "Content-Type": "text/event-stream" },
  })

describe("a backend's answer", () => {
  test.each([
    [
      "that is a bomb",
      () => new Response(gzipSync(Buffer.alloc(200_000_000, 0x20)), { headers: { "Content-Encoding": "gzip" } }),
    ],
    ["without end", flooding(" ".repeat(65_536))],
    ["of more values than any answer has", () => new Response(`{"choices":[${"[],".repeat(250_000)}[]]}`)],
    [
      "that nests too deep to be written",
      () => new Response(`{"choices":[${"[".repeat(110_000)}${"]".repeat(110_000)}]}`),
    ],
    ["of a length that no answer has", () => new Response(Buffer.alloc(300_000_000, 0x20))],
  ])("%s is given up within its bounds, and not asked for again", async (_, answer) => {
    const { name, response, row } = await made(answer)
    await expectFailure(response, 502, "dependency.upstream_unavailable")
    expect(calls.get(name)).toBe(1)
    expect(await row()).toMatchObject({ status: "upstream_error", charge_micro: 0n })
  })

  const asJson = { headers: { "Content-Type": "application/json" } }
  const sse = { headers: { "Content-Type": "text/event-stream" } }
  const overflow = { error: { code: "context_length_exceeded", message: "maximum context length is 777 tokens" } }
  const answered = {
    choices: [{ index: 0, message: { content: "Hi" } }],
    usage: { prompt_tokens: 1, completion_tokens: 1 },
  }

  test("that is a failure in one piece where a stream was asked for is told for what it is", async () => {
    const { name, response, row } = await made(() => Response.json(overflow), { stream: true })
    await expectFailure(response, 400, "upstream.context_length_exceeded")
    expect(calls.get(name)).toBe(1)
    expect(await row()).toMatchObject({ status: "upstream_error", charge_micro: 0n })
  })

  test.each([
    ["after blank lines", "application/json"],
    ["by a name in capitals", "Application/JSON; charset=utf-8"],
  ])("that is such a failure %s too", async (_, contentType) => {
    const parts = ["\n", "   \n\n", JSON.stringify(overflow)]
    const body = () =>
      new ReadableStream({
        async pull(controller) {
          const part = parts.shift()
          if (part === undefined) return controller.close()
          controller.enqueue(new TextEncoder().encode(part))
          await Bun.sleep(50)
        },
      })
    const { name, response } = await made(() => new Response(body(), { headers: { "Content-Type": contentType } }), {
      stream: true,
    })
    await expectFailure(response, 400, "upstream.context_length_exceeded")
    expect(calls.get(name)).toBe(1)
  })

  test.each([
    ["an answer in one piece", () => Response.json(answered)],
    ["no JSON", () => new Response("{", asJson)],
    ["an object without end", () => new Response(`{"error":{"message":"${"x".repeat(20_000_000)}`, asJson)],
    ["too many values", () => new Response(`{"error":[${"[],".repeat(250_000)}[]]}`, asJson)],
    ["nothing", () => new Response("", asJson)],
  ])("that is %s where a stream was asked for is none", async (_, answer) => {
    const { response, row } = await made(answer, { stream: true })
    await expectFailure(response, 502, "dependency.upstream_unavailable")
    expect(await row()).toMatchObject({ charge_micro: 0n })
  })

  test.each([
    ["as why it ended", { finish_reason: "error" }],
    ["in a choice of its own", { finish_reason: "stop", error: { code: 502, message: "s3cr3t" } }],
  ])("that tells %s that it failed is a failure, and free", async (_, choice) => {
    const usage = { prompt_tokens: 1, completion_tokens: 1 }
    const last = { choices: [{ index: 0, delta: { content: "" }, ...choice }], usage }
    const streamed = `${chunk("Hello")}data: ${JSON.stringify(last)}\n\ndata: [DONE]\n\n`
    const { response, row } = await made(() => new Response(streamed, sse), { stream: true })
    expect(failureIn("chat", await response.text())).toMatchObject({ code: "upstream_unavailable" })
    expect(await row()).toMatchObject({ status: "upstream_error", charge_micro: 0n })
    const whole = { choices: [{ index: 0, message: { content: "Hello" }, ...choice }], usage }
    const { response: inOnePiece } = await made(() => Response.json(whole))
    await expectFailure(inOnePiece, 502, "dependency.upstream_unavailable")
  })

  const quota = { error: { code: "insufficient_quota", message: "You exceeded your current quota." } }
  test.each([
    ["in one piece", () => Response.json(quota), {}],
    ["in one piece, for a stream", () => Response.json(quota), { stream: true }],
    ["in a stream", () => new Response(`data: ${JSON.stringify(quota)}\n\n`, sse), { stream: true }],
  ])("that says %s, under 200, that the operator has to pay is an alert", async (_, answer, more) => {
    const { response } = await made(answer, more)
    await expectFailure(response, 429, "upstream.rate_limited")
    const id = requestId(response)
    const alerts = gateway.complaints.map((line) => JSON.parse(line)).filter((line) => line.request_id === id)
    expect(alerts).toMatchObject([{ level: "error", provider: "hostile" }])
  })

  test("that is over before it has begun is none, and the backend is asked again", async () => {
    const counted = { choices: [], usage: { prompt_tokens: 1, completion_tokens: 1 } }
    const whole = `${chunk("Hello")}data: ${JSON.stringify(counted)}\n\ndata: [DONE]\n\n`
    const streams = ["data: [DONE]\n\n", whole]
    const answered = await made(() => new Response(streams.shift(), sse), { stream: true })
    expect(await answered.response.text()).toContain("Hello")
    expect(calls.get(answered.name)).toBe(2)
    expect(await answered.row()).toMatchObject({ status: "ok", attempts: 2 })
    const silent = await made(() => new Response("data: [DONE]\n\n", sse), { stream: true })
    await expectFailure(silent.response, 502, "dependency.upstream_unavailable")
    expect(calls.get(silent.name)).toBe(3)
  })

  test("that is a stream by another name is one, as it comes", async () => {
    const { response, row } = await made(
      () => {
        const said = trickling(`\n${chunk("Hello")}`, ": on\n\n", 100)()
        return new Response(said.body, asJson)
      },
      { stream: true },
    )
    const reader = response.body?.getReader()
    const first = await reader?.read()
    expect(new TextDecoder().decode(first?.value)).toContain("Hello")
    await reader?.cancel()
    await eventually("it is booked", row, (found) => found !== undefined)
  })

  test.each([
    ["nests too deep to be written", `${"[".repeat(110_000)}${"]".repeat(110_000)}`],
    ["has more values than any answer", `[${"[],".repeat(250_000)}[]]`],
  ])("with an event that %s is broken off there", async (_, extra) => {
    const event = `data: {"choices":[{"index":0,"delta":{"content":"x"}}],"extra":${extra}}\n\n`
    const first = await made(() => new Response(event, sse), { stream: true })
    await expectFailure(first.response, 502, "dependency.upstream_unavailable")
    expect(calls.get(first.name)).toBe(1)
    const later = await made(() => new Response(chunk("Hello") + event, sse), { stream: true })
    expect(failureIn("chat", await later.response.text())).toMatchObject({ code: "upstream_unavailable" })
    expect(await later.row()).toMatchObject({ status: "upstream_error", charge_micro: 0n })
  })

  test("of events without end is given up within its bounds", async () => {
    const { name, response, row } = await made(flooding(chunk("x".repeat(65_536))), { stream: true, max_tokens: 5 })
    let bytes = 0
    let text = ""
    for await (const piece of response.body ?? []) {
      bytes += piece.length
      text = (text + new TextDecoder().decode(piece)).slice(-2_000)
    }
    expect(failureIn("chat", text.slice(text.indexOf("\n\n") + 2))).toMatchObject({ code: "upstream_unavailable" })
    expect(bytes).toBeLessThan(40_000_000)
    expect(calls.get(name)).toBe(1)
    expect(await row()).toMatchObject({ status: "upstream_error", charge_micro: 0n })
  })

  test.concurrent.each([
    ["a byte at a time of an event that never ends", "x"],
    ["comments", ": still here\n\n"],
  ])("that trickles, %s, has fallen silent", async (_, piece) => {
    const first = `${chunk("Hello")}${piece === "x" ? "data: " : ""}`
    const { name, response, row } = await made(trickling(first, piece, 40), { stream: true })
    const text = await response.text()
    expect(failureIn("chat", text)).toMatchObject({ code: "upstream_timeout" })
    expect(text).toContain("fell silent")
    expect(await row()).toMatchObject({ status: "upstream_error", charge_micro: 0n })
    await eventually(
      "the backend is left",
      () => left.get(name),
      (times) => times === 1,
    )
  })

  test.concurrent("whose events never end ends in time", async () => {
    const { name, response, row } = await made(trickling(chunk("Hello"), chunk("again"), 100), { stream: true })
    const text = await response.text()
    expect(failureIn("chat", text)).toMatchObject({ code: "upstream_timeout" })
    expect(text).toContain("did not come to an end")
    expect(await row()).toMatchObject({ status: "upstream_error", charge_micro: 0n })
    await eventually(
      "the backend is left",
      () => left.get(name),
      (times) => times === 1,
    )
  })

  test.concurrent("that does not stream and trickles ends in time", async () => {
    const { name, response } = await made(trickling("{", " ", 100))
    await expectFailure(response, 502, "dependency.upstream_unavailable")
    expect(calls.get(name)).toBe(1)
  })

  test("that repeats a large request in one event is no larger than it may be", async () => {
    // Each backslash of the request is two bytes of it, and two of the repetition.
    const instructions = "\\".repeat(4_500_000)
    const name = `hostile-${++models}`
    answers.set(name, () => {
      const response = {
        id: "resp_1",
        object: "response",
        created_at: 1,
        model: name,
        instructions,
        status: "completed",
      }
      const usage = { input_tokens: 10, output_tokens: 5, total_tokens: 15 }
      const events = [
        { type: "response.created", response: { ...response, status: "in_progress" } },
        { type: "response.output_text.delta", item_id: "m", output_index: 0, content_index: 0, delta: "Hello" },
        { type: "response.completed", response: { ...response, output: [], usage } },
      ]
      const text = events.map(
        (event, n) => `event: ${event.type}\ndata: ${JSON.stringify({ ...event, sequence_number: n })}\n\n`,
      )
      return new Response(text.join(""), { headers: { "Content-Type": "text/event-stream" } })
    })
    // Of the usual patience: so large an answer takes a busy machine more than a second.
    await using patient = await startTestGateway({ backends })
    const model = await patient.model({ format: "responses", provider: "hostile", script: name, context_window: null })
    const own = await patient.key(await patient.person(10_000_000))
    const response = await ask(patient, own.key, "responses", model, { stream: true, instructions })
    expect(await response.text()).toMatch(ending.responses)
    expect((await rowsOf(patient, requestId(response)))[0]).toMatchObject({ status: "ok", charge_micro: 35_000n })
  })
})

/** What the client hears of a backend's 400. */
async function refused(error: object, more: object): Promise<string> {
  const { response } = await made(() => Response.json({ error }, { status: 400 }), { ...more })
  return (await expectFailure(response, 400, "upstream.invalid_request")).message
}

test("a refusal names the field that the client sent, and nothing else of the backend's", async () => {
  const own = { temperature: 1, messages: [{ role: "user", content: "Halo" }] }
  const error = { message: "s3cr3t", type: "invalid_request_error", param: "temperature" }
  expect(await refused(error, own)).toBe("The model's backend rejected 'temperature' of the request.")
  const deep = "messages[0].content.s3cr3t"
  expect(await refused({ ...error, param: deep }, own)).toBe(
    "The model's backend rejected 'messages.0.content' of the request.",
  )
  expect(await refused({ ...error, param: "s3cr3t" }, own)).toBe("The model's backend rejected the request.")
})

test("a refusal whose body never ends is told for its status, and does not keep its connection", async () => {
  await using patient = await startTestGateway({ backends })
  answers.set("refusal", () => {
    const begun = new ReadableStream({ start: (controller) => controller.enqueue(new TextEncoder().encode("{")) })
    return new Response(begun, { status: 422 })
  })
  const model = await patient.model({ format: "chat", provider: "hostile", script: "refusal" })
  const { key: its } = await patient.key(await patient.person(100_000))
  await expectFailure(await ask(patient, its, "chat", model), 400, "upstream.invalid_request")
  await eventually(
    "its connection is open",
    () => left.get("refusal"),
    (times) => times === 1,
  )
})
