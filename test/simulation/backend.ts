/**
 * Modelled backends: they read the request as a backend of its format would, and answer, or do one of the things that
 * backends do instead (decisions §6, §7). What a gone process would still be told is told to nobody.
 */
import { type Clock, sleep } from "../../actors/kernel/clock.ts"
import type { Endpoint } from "../../src/chat/request.ts"
import type { Fetch } from "../../src/upstream/client.ts"
import { type Answer, errorEvent, replyOf, streamOf } from "./backend-answers.ts"
import { backendFaults } from "./faults.ts"
import type { Said, Stage } from "./stage.ts"

type BackendFault = (typeof backendFaults)[number]

interface Asked {
  readonly format: Endpoint
  readonly requestId: string
  readonly streams: boolean
  readonly mostTokens: number
  readonly canSearch: boolean
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

/** Only a part of the answer comes. */
const cuts: ReadonlySet<BackendFault> = new Set([
  "backend hangs up in mid-answer",
  "backend falls silent in mid-answer",
  "backend ends without a terminal event",
  "backend sends an error in its answer",
  "backend sends damaged bytes",
])

const nonsense = [-1, 1.5, 1e15, 3_000_000, Number.MAX_SAFE_INTEGER]

export const fetchFor =
  (stage: Stage, clock: Clock): Fetch =>
  async (url, init) => {
    const signal = init.signal ?? new AbortController().signal
    const asked = read(url, init.body as string)
    stage.trace(`backend asked for ${asked.requestId}`)
    const said = stage.asked(asked.requestId)
    const fault = stage.fault(backendFaults)
    await Promise.race([sleep(clock, 1 + stage.delay(fault === "backend is slow" ? 6_000 : 300)), aborted(signal)])
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
  readonly clock: Clock
  readonly asked: Asked
  readonly said: Said
  /** The gateway breaks it off. */
  readonly signal: AbortSignal
}

/** Counts that no gateway should believe, or that were not paid for. */
const wrongCounts: ReadonlySet<BackendFault> = new Set([
  "backend counts nonsense",
  "backend counts more than was paid for",
])

function answered(stage: Stage, { clock, asked, said, signal }: Connection, fault: BackendFault | undefined) {
  const answer = answerTo(stage, asked, fault)
  if (answer.usage !== undefined) said.counts = fault !== undefined && wrongCounts.has(fault) ? "beyond" : "honest"
  const pieces = asked.streams ? streamOf(asked.format, answer) : [JSON.stringify(replyOf(asked.format, answer))]
  const some = () => Math.floor(stage.random() * pieces.length)
  let end: "close" | "break" | "hang" = "close"
  let kept = pieces.length
  if (fault === "backend hangs up after the head") kept = 0
  if (fault !== undefined && cuts.has(fault)) kept = some()
  if (fault === "backend falls silent in mid-answer") end = "hang"
  if (fault?.startsWith("backend hangs up") === true) end = "break"
  if (fault === "backend sends an error in its answer")
    pieces[kept++] = asked.streams ? errorEvent(asked.format) : `{"error":{"message":"broken"}}`
  if (fault === "backend sends damaged bytes") pieces[kept++] = `data: {"id": \ufffd\n\n`
  const slow = fault === "backend is slow"
  const intact = end === "close" && (fault === undefined || !cuts.has(fault))
  const body = bodyOf(pieces.slice(0, kept), {
    end,
    signal,
    clock,
    pause: () => stage.delay(slow ? 5_000 : 40),
    // Whoever reads a stream may stop at its terminal event.
    told: (ended) => (said.whole ||= intact && (asked.streams || ended)),
  })
  return new Response(body, { headers: { "Content-Type": asked.streams ? "text/event-stream" : "application/json" } })
}

function answerTo(stage: Stage, { requestId, mostTokens, canSearch }: Asked, fault: BackendFault | undefined): Answer {
  const output =
    fault === "backend counts more than was paid for" ? 3 * mostTokens : 1 + Math.floor(stage.random() * mostTokens)
  const words = [`${requestId} `, "is ", "answered."]
  if (fault === "backend says much") words.push("much ".repeat(9_000), "much ".repeat(9_000))
  const searches = canSearch && stage.random() < 0.6
  if (searches) stage.count("web search")
  if (fault === "backend counts nothing") return { words, usage: undefined, searches }
  const honest = { input: 5, output }
  if (fault !== "backend counts nonsense") return { words, usage: honest, searches }
  const wrong = nonsense[Math.floor(stage.random() * nonsense.length)] ?? -1
  return { words, usage: stage.random() < 0.5 ? { ...honest, output: wrong } : { ...honest, input: wrong }, searches }
}

function read(url: string, text: string): Asked {
  const body = JSON.parse(text) as Record<string, unknown>
  const format = url.endsWith("/messages") ? "messages" : url.endsWith("/responses") ? "responses" : "chat"
  const most = body["max_tokens"] ?? body["max_completion_tokens"] ?? body["max_output_tokens"]
  const tools = Array.isArray(body["tools"]) ? (body["tools"] as { name?: string }[]) : []
  return {
    format,
    requestId: /req_\d+/.exec(text)?.[0] ?? "",
    streams: body["stream"] === true,
    mostTokens: typeof most === "number" ? most : 256,
    canSearch: tools.some(({ name }) => name === "web_search"),
  }
}

interface BodyTerms {
  readonly end: "close" | "break" | "hang"
  readonly signal: AbortSignal
  readonly clock: Clock
  readonly pause: () => number
  /** The last piece was sent, and then the end. */
  readonly told: (ended: boolean) => void
}

/** Pieces as they are asked for, each after a pause; the gateway's own abort breaks it off. */
function bodyOf(pieces: readonly string[], { end, signal, clock, pause, told }: BodyTerms): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder()
  let next = 0
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        await Promise.race([sleep(clock, pause()), aborted(signal)])
        if (signal.aborted) return controller.error(new Error("aborted"))
        const piece = pieces[next++]
        if (piece !== undefined) {
          controller.enqueue(encoder.encode(piece))
          if (next === pieces.length) told(false)
          return
        }
        if (end === "hang") await aborted(signal)
        told(true)
        if (end === "close") controller.close()
        else controller.error(new Error("the connection broke"))
      },
    },
    { highWaterMark: 0 },
  )
}

const aborted = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (signal.aborted) resolve()
    else signal.addEventListener("abort", () => resolve())
  })
