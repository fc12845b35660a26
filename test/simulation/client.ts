/**
 * A modelled client: calls, reads as fast as it likes, leaves when it likes, and remembers what it was told. It knows a
 * whole answer of its format from one that broke off.
 */
import { sleep } from "../../actors/kernel/clock.ts"
import { unreachable } from "../../actors/unreachable.ts"
import { Failure } from "../../src/failure/failure.ts"
import { ORIGINAL_REQUEST_ID } from "../../src/gateway/replayable-call.ts"
import { IDEMPOTENCY_KEY } from "../../src/store/idempotency-keys.ts"
import type { ClientSide } from "../../src/wire/format.ts"
import { chatFormat } from "../../src/wire/chat/format.ts"
import { messagesFormat } from "../../src/wire/messages/format.ts"
import { responsesFormat } from "../../src/wire/responses/format.ts"
import { TROUBLE_LASTS_MS } from "./faults.ts"
import type { PlannedCall } from "./plan.ts"
import type { SimulatedProcess } from "./process.ts"
import { keys } from "./shop.ts"
import type { Stage } from "./stage.ts"
import { traceOf } from "./traces.ts"

/** Within which a process crashes that is to crash just after it answered. */
export const CRASH_AFTER_MS = 30

export type Told =
  /** An answer to its end. The cost is what a header said. */
  | { readonly kind: "whole"; readonly cost: string | undefined; readonly streamed: boolean }
  /** A failure of the catalogue, before an answer or in one. */
  | { readonly kind: "failure"; readonly code: string; readonly retryable: boolean }
  /** Its connection broke: the process went, or took it for gone. */
  | { readonly kind: "broken" }
  | { readonly kind: "left" }

export interface CallStory {
  readonly requestId: string
  readonly planned: PlannedCall
  readonly process: SimulatedProcess
  readonly begunAt: number
  /** When it began, and was told, by the wall clock that nobody's is behind or ahead of. */
  readonly begunOn: number
  toldOn: number
  /** How often its SDK has sent it before; undefined where it does not say. */
  readonly retries: number | undefined
  /** Undefined while it is under way. */
  told: Told | undefined
  /** Until it was told, nothing but the process's own lateness came between it and the database. */
  undisturbed: boolean
  /** The head of an answer came, and with it the request id. */
  sawHead: boolean
  /** The request id of the call whose answer this one was given. */
  original: string | undefined
  /** What was read of it. */
  text: string
  /** All of it was taken by its connection. */
  wasHandedOver: boolean
  /** When its process learnt that it has left, and when it was told, on the monotonic clock. */
  goneAt: number
  toldAt: number
}

/** What last went wrong had passed, and was felt no more, when the call began. */
export const isUndisturbed = ({ begunAt }: CallStory, troubledAt = Infinity): boolean =>
  troubledAt < begunAt - TROUBLE_LASTS_MS

const formats: Readonly<Record<PlannedCall["format"], ClientSide>> = {
  chat: chatFormat.client,
  messages: messagesFormat.client,
  responses: responsesFormat.client,
}

/** It has left, and its process does not know it yet. */
export const isMissing = ({ told, goneAt, process }: CallStory): boolean =>
  told?.kind === "left" && goneAt === Infinity && process.alive

/** Runs one call to its end, whatever the end is. */
export async function callOnce(stage: Stage, story: CallStory): Promise<void> {
  const { requestId, planned, process } = story
  stage.trace(`${requestId} calls ${planned.model} of ${process.id} with ${planned.format}`)
  const leaving = new AbortController()
  /** As the process sees it: it is told when it runs. */
  const gone = new AbortController()
  const isGone = () => {
    story.goneAt = stage.clock.monotonic()
    gone.abort()
  }
  leaving.signal.addEventListener("abort", () => seen(stage, story, isGone))
  const left = new Promise<"left">((resolve) => leaving.signal.addEventListener("abort", () => resolve("left")))
  if (planned.manners === "client leaves before the answer") {
    stage.count(planned.manners)
    stage.clock.after(planned.paceMs, () => leaving.abort())
  }
  process.responding++
  const broken = process.gone.then(() => "broken" as const)
  const told = await Promise.race([hear(stage, story, leaving, gone.signal), broken, left])
  process.responding--
  story.told = typeof told === "string" ? { kind: told } : told
  story.toldAt = stage.clock.monotonic()
  story.toldOn = stage.clock.now()
  if (told !== "broken" && story.told.kind === "broken" && process.alive) stage.count("client is cut off")
  const drains = stage.clock.monotonic() >= process.drainsSince
  story.undisturbed =
    process.alive && !drains && isUndisturbed(story, process.troubledAt(keys[planned.key]?.accountId ?? ""))
  if (stage.fails("process crashes just after it answered"))
    stage.clock.after(stage.delay(CRASH_AFTER_MS), () => process.crash())
  stage.trace(`${requestId} ends ${JSON.stringify(story.told)}`)
  stage.count(`told ${story.told.kind}${story.told.kind === "failure" ? ` ${story.told.code}` : ""}`)
}

/** A connection that has died is not always known to be dead. */
function seen(stage: Stage, { planned: { unseenMs = 0 }, process }: CallStory, run: () => void): void {
  if (unseenMs === 0) return process.clock.arrive(run)
  stage.count("client is gone and not missed")
  process.clock.io(unseenMs, run)
}

async function hear(stage: Stage, story: CallStory, leaving: AbortController, gone: AbortSignal): Promise<Told> {
  const { requestId, planned, process } = story
  if (planned.manners === "client asks for many answers") stage.count(planned.manners)
  if (planned.run !== undefined) stage.count("call is one of a run")
  if (keys[planned.key]?.parentId !== undefined) stage.count("call is a child's")
  const [format, request] = requestOf(planned, requestId, { signal: gone, retries: story.retries })
  const ends = () => (story.wasHandedOver = true)
  const connection = { takeEnd: () => ({ ends, abandon() {} }) }
  const response = await process.call(format, request, requestId, connection)
  if (response instanceof Failure) return { kind: "failure", code: response.code, retryable: response.retryable }
  story.sawHead = true
  story.original = response.headers.get(ORIGINAL_REQUEST_ID) ?? undefined
  if (story.original !== undefined) stage.count(`replayed${planned.stream ? ", streamed" : ""}`)
  const cost = response.headers.get("X-Cost-Rp") ?? undefined
  // What does not stream goes out in one piece.
  if (!planned.stream && !gone.aborted) story.wasHandedOver = true
  try {
    await readAll(stage, response, story, leaving)
  } catch {
    return { kind: "broken" }
  }
  const { text } = story
  if (leaving.signal.aborted) return { kind: "left" }
  const end = endOf(planned, text)
  if (end === "whole") return { kind: "whole", cost, streamed: planned.stream }
  if (end === "failure") return { kind: "failure", code: "in the answer", retryable: true }
  // A reply that is cut short is told by the connection; a stream that ends silently is told by nothing.
  stage.violate(`${requestId} saw its answer end without a terminal event: ${text.slice(-200)}`)
  return { kind: "broken" }
}

/** What is sent, and how the gateway reads it. */
export function requestOf(
  planned: PlannedCall,
  requestId: string,
  { signal, retries }: { readonly signal?: AbortSignal; readonly retries?: number | undefined } = {},
): [ClientSide, Request] {
  const format = formats[planned.format]
  const request = new Request(`http://gateway.invalid${format.path}`, {
    method: "POST",
    headers: {
      ...headersOf(planned),
      traceparent: traceOf(requestId),
      ...(retries !== undefined && { "x-stainless-retry-count": String(retries) }),
    },
    body: JSON.stringify(bodyOf(planned, isSentAgain(planned) ? nameOf(planned) : requestId)),
    ...(signal && { signal }),
  })
  return [format, request]
}

async function readAll(stage: Stage, response: Response, story: CallStory, leaving: AbortController): Promise<void> {
  const { planned, process } = story
  const decoder = new TextDecoder()
  const reader = response.body?.getReader()
  if (reader === undefined) return
  leaving.signal.addEventListener("abort", () => seen(stage, story, () => void reader.cancel().catch(() => {})))
  for (let reads = 1; ; reads++) {
    if (process.clock.stands) await process.clock.heard()
    const { done, value } = await reader.read()
    if (done) break
    story.text += decoder.decode(value, { stream: true })
    if (reads === 1 && planned.manners === "client leaves in mid-answer") {
      stage.count(planned.manners)
      leaving.abort()
    }
    if (reads === 1 && planned.manners === "client leaves late") {
      stage.count(planned.manners)
      stage.clock.after(planned.paceMs, () => leaving.abort())
    }
    if (leaving.signal.aborted) break
    if (stage.calm) continue
    if (planned.manners === "client reads slowly") {
      if (reads === 1) stage.count(planned.manners)
      await sleep(stage.clock, planned.paceMs)
    }
    if (planned.manners === "client stops reading" && reads === 1) {
      stage.count(planned.manners)
      await sleep(stage.clock, 20_000)
    }
  }
}

/** How what was read of an answer ends. */
export function endOf({ format, stream }: PlannedCall, text: string): "whole" | "failure" | "nothing" {
  if (!stream) {
    const body = JSON.parse(text) as { status?: unknown }
    return format === "responses" && body.status === "failed" ? "failure" : "whole"
  }
  switch (format) {
    case "chat":
      if (!text.trimEnd().endsWith("data: [DONE]")) return "nothing"
      return /^data: \{"error"/m.test(text) ? "failure" : "whole"
    case "messages":
      if (text.includes("event: error")) return "failure"
      return text.includes("event: message_stop") ? "whole" : "nothing"
    case "responses":
      if (text.includes("event: response.failed")) return "failure"
      return /^event: response\.(completed|incomplete)/m.test(text) ? "whole" : "nothing"
    default:
      return unreachable(format)
  }
}

/** The same each time that it is sent. */
export const nameOf = ({ number, asksOther }: PlannedCall): string =>
  `${asksOther === true ? "diff" : "same"}_${number}`

const isSentAgain = ({ keyed, sdk }: PlannedCall): boolean => keyed !== undefined || sdk !== undefined

function headersOf(planned: PlannedCall): Record<string, string> {
  const { key, run, keyed } = planned
  return {
    "x-api-key": keys[key]?.secret ?? "",
    ...(keyed !== undefined && { [IDEMPOTENCY_KEY]: nameOf(planned) }),
    ...(run && { "x-run-id": run.name }),
    ...(run?.budgetRp !== undefined && { "x-run-budget-rp": String(run.budgetRp) }),
  }
}

function bodyOf(planned: PlannedCall, name: string) {
  const content = `${name} ${"abcd ".repeat(planned.promptLength / 5)}`
  const common = { model: planned.model, ...(planned.stream && { stream: true }) }
  if (planned.format === "responses") return { ...common, input: content, max_output_tokens: planned.maxTokens }
  const messages = [{ role: "user", content }]
  if (planned.format === "chat")
    return { ...common, messages, max_tokens: planned.maxTokens, ...(planned.choices > 1 && { n: planned.choices }) }
  const tools = [{ type: "web_search_20250305", name: "web_search", max_uses: 3 }]
  return { ...common, messages, max_tokens: planned.maxTokens, ...(planned.searches && { tools }) }
}
