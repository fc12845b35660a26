/**
 * Modelled backends: they read the request as a backend of its format would, and answer, or do one of the things that
 * backends do instead (decisions §6, §7). What a gone process would still be told is told to nobody.
 */
import type { Translated } from "../../src/language/request.ts"
import type { Fetch } from "../../src/upstream/client.ts"
import { type Answer, hasWords, replyOf, streamOf } from "./backend-answers.ts"
import { type Sending, sendingOf } from "./backend-sending.ts"
import { backendFaults } from "./faults.ts"
import { limits } from "./limits.ts"
import { arrival, type ProcessClock } from "./process-clock.ts"
import { models } from "./shop.ts"
import type { Said, SaidCounts, Stage } from "./stage.ts"
import { requestIdOf } from "./traces.ts"

type BackendFault = (typeof backendFaults)[number]

interface Asked {
  readonly format: Translated
  readonly requestId: string
  readonly streams: boolean
  readonly mostTokens: number
  readonly choices: number
  /** Tokens of its model's window; undefined where none is known. */
  readonly window: number | undefined
  /** The request, as it could be repeated. */
  readonly text: string
  readonly canSearch: boolean
  readonly member: string
  readonly backend: string
}

const refusals: Partial<Record<BackendFault, { readonly status: number; readonly retryAfter?: string }>> = {
  "backend says 400": { status: 400 },
  "backend says 401": { status: 401 },
  "backend says 408": { status: 408 },
  "backend says 413": { status: 413 },
  "backend says 422": { status: 422 },
  "backend says 429 without a wait": { status: 429 },
  "backend says 429 with a short wait": { status: 429, retryAfter: "1" },
  "backend says 429 with a long wait": { status: 429, retryAfter: "40" },
  "backend says 500": { status: 500 },
  "backend says 529": { status: 529 },
}

const nonsense = [-1, 1.5, 1e15, 3_000_000, Number.MAX_SAFE_INTEGER]

export const fetchFor =
  (stage: Stage, clock: ProcessClock): Fetch =>
  async (url, init) => {
    const signal = init.signal ?? new AbortController().signal
    const asked = read(url, init.body as string, new Headers(init.headers))
    stage.trace(`backend asked for ${asked.requestId}`)
    const said = stage.asked(asked.requestId, { ...asked, length: asked.text.length })
    const fault = stage.fault(backendFaults)
    await Promise.race([arrival(clock, 1 + stage.delay(fault === "backend is slow" ? 6_000 : 300)), aborted(signal)])
    if (signal.aborted || fault === "backend takes no connection") throw new Error("no connection")
    if (fault === "backend is silent before the head") {
      await aborted(signal)
      throw new Error("aborted")
    }
    const refusal = fault && refusals[fault]
    if (refusal !== undefined) {
      const { status, retryAfter } = refusal
      const headers = retryAfter === undefined ? {} : { "retry-after": retryAfter }
      return Response.json({ error: { type: "some_error", message: "refused" } }, { status, headers })
    }
    if (fault === "backend says that the prompt is too long") {
      const error = {
        message: "prompt is too long: 5000 tokens > 4000 maximum",
        type: "invalid_request_error",
        code: "context_length_exceeded",
      }
      return Response.json({ type: "error", error }, { status: 400 })
    }
    return answered(stage, { clock, asked, said, signal }, fault)
  }

interface Connection {
  readonly clock: ProcessClock
  readonly asked: Asked
  readonly said: Said
  /** The gateway breaks it off. */
  readonly signal: AbortSignal
}

function answered(stage: Stage, { clock, asked, said, signal }: Connection, fault: BackendFault | undefined) {
  const answer = answerTo(stage, asked, fault)
  said.counts = answer.usage
  if (answer.usage !== undefined && asked.format === "messages") said.searches = answer.ran
  const pieces = asked.streams ? streamOf(asked.format, answer) : [JSON.stringify(replyOf(asked.format, answer))]
  const sending = sendingOf({ stage, pieces, ...asked }, fault)
  const body = bodyOf(stage, sending, {
    signal,
    clock,
    // Whoever reads a stream may stop at its terminal event.
    told: (ended) => (said.whole ||= sending.intact && (asked.streams || ended)),
    broken: () => (said.brokenOffAt = clock.monotonic()),
    begun: () => (said.begun = true),
    read: (piece) => (said.heard ||= asked.streams && hasWords(piece)),
    streams: asked.streams,
  })
  return new Response(body, { headers: { "Content-Type": asked.streams ? "text/event-stream" : "application/json" } })
}

function answerTo(stage: Stage, asked: Asked, fault: BackendFault | undefined): Answer {
  const { requestId, mostTokens, canSearch } = asked
  const output =
    fault === "backend counts more than was paid for" ? 3 * mostTokens : 1 + Math.floor(stage.random() * mostTokens)
  // Of those that could be asked to search, some have searched by themselves.
  const ran = Number(/\d+/.exec(requestId)?.[0] ?? 0) % 5 === 0 ? 2 : 0
  const words = [`${requestId} `, "is ", "answered."]
  if (fault === "backend says much") words.push("much ".repeat(9_000), "much ".repeat(9_000))
  const searches = canSearch && stage.random() < 0.6
  if (searches) stage.count("web search")
  if (fault === "backend counts nothing") return { words, usage: undefined, searches, ran }
  if (fault === "backend counts at the edge of what can be") return { words, usage: edge(stage, asked), searches, ran }
  const honest = { input: 5, output }
  if (fault !== "backend counts nonsense") return { words, usage: honest, searches, ran }
  const wrong = nonsense[Math.floor(stage.random() * nonsense.length)] ?? -1
  return {
    words,
    usage: stage.random() < 0.5 ? { ...honest, output: wrong } : { ...honest, input: wrong },
    searches,
    ran,
  }
}

/** As much as was asked for, one more, far more, nothing at all, or not said. */
function edge(stage: Stage, { mostTokens, choices, window = 1_000_000 }: Asked): SaidCounts {
  const most = mostTokens * choices
  const counts: readonly SaidCounts[] = [
    { input: 5, output: most },
    { input: 5, output: most },
    { input: 5, output: most + 1 },
    { input: 5, output: 80_000 },
    { input: window, output: 1 },
    { input: window + 1, output: most + 1 },
    { input: 0, output: 0 },
    { output: most },
    { input: -1, output: most },
    { input: 5, output: most + 0.5 },
  ]
  return counts[Math.floor(stage.random() * counts.length)] ?? {}
}

function read(url: string, text: string, headers: Headers): Asked {
  const body = JSON.parse(text) as Record<string, unknown>
  const format = url.endsWith("/messages") ? "messages" : url.endsWith("/responses") ? "responses" : "chat"
  const most = body["max_tokens"] ?? body["max_completion_tokens"] ?? body["max_output_tokens"]
  const tools = Array.isArray(body["tools"]) ? (body["tools"] as { name?: string }[]) : []
  const [provider, key] = (headers.get("x-api-key") ?? headers.get("Authorization")?.slice(7) ?? "").split("-")
  const name = String(body["model"])
  return {
    format,
    member: `${provider}/${key}/${name}`,
    backend: `${provider} ${format} ${name}`,
    requestId: requestIdOf(headers.get("traceparent")),
    streams: body["stream"] === true,
    mostTokens: typeof most === "number" ? most : 256,
    choices: typeof body["n"] === "number" ? body["n"] : 1,
    window:
      models.find(({ upstreams }) => upstreams.some(({ model }) => model === body["model"]))?.contextWindow ??
      undefined,
    text,
    canSearch: tools.some(({ name }) => name === "web_search"),
  }
}

interface BodyTerms {
  readonly signal: AbortSignal
  readonly clock: ProcessClock
  readonly streams: boolean
  /** The last piece was sent, and then the end. */
  readonly told: (ended: boolean) => void
  readonly broken: () => void
  /** A first piece goes out. */
  readonly begun: () => void
  /** The gateway asks for more, so it has this one. */
  readonly read: (piece: string) => void
}

/** Pieces as they are asked for, each after a pause; the gateway's own abort breaks it off. */
function bodyOf(
  stage: Stage,
  sending: Sending,
  { signal, clock, streams, told, broken, begun, read }: BodyTerms,
): ReadableStream<Uint8Array> {
  const { pieces, end, pause, patienceMs = Infinity, forever, noEventFrom = Infinity } = sending
  const encoder = new TextEncoder()
  let next = 0
  let sent: string | undefined
  let sentAt = clock.running()
  let eventAt = sentAt
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        if (sent !== undefined) read(sent)
        sent = undefined
        if (clock.running() - sentAt > patienceMs) {
          stage.violate("a backend had to wait for a client, and hangs up")
          return controller.error(new Error("the connection broke"))
        }
        await Promise.race([arrival(clock, pause()), aborted(signal)])
        if (signal.aborted) {
          broken()
          return controller.error(new Error("aborted"))
        }
        sentAt = clock.running()
        if (next < noEventFrom) eventAt = sentAt
        else if (streams && sentAt - eventAt > LONGEST_SILENCE_MS) {
          stage.violate("a backend that sends no event is waited for")
          return controller.error(new Error("the connection broke"))
        }
        const piece = pieces[next++] ?? forever
        if (piece !== undefined) {
          begun()
          sent = piece
          controller.enqueue(encoder.encode(piece))
          if (next === pieces.length) told(false)
          return
        }
        if (end === "hang") {
          await aborted(signal)
          broken()
        }
        told(true)
        if (end === "close") controller.close()
        else controller.error(new Error("the connection broke"))
      },
    },
    { highWaterMark: 0 },
  )
}

/** Of a stream's backend: until its first content, or between two events. */
const LONGEST_SILENCE_MS = Math.max(limits.upstreamStartMs, limits.upstreamIdleMs) + 1_000

const aborted = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (signal.aborted) resolve()
    else signal.addEventListener("abort", () => resolve())
  })
