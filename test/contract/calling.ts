/**
 * What the contract's tests say about calls in any of the three formats: how each asks, how its stream begins and ends,
 * and how it tells a failure. Written out here, so that the gateway's own codecs do not judge themselves.
 */
import type { Call } from "../../src/simulator/script.ts"
import type { Translated } from "../../src/language/request.ts"
import type { Init, TestGateway } from "../gateway/harness.ts"

export { eventually } from "../eventually.ts"

export const formats = ["chat", "messages", "responses"] as const satisfies readonly Translated[]

const paths: Record<Translated, string> = {
  chat: "/v1/chat/completions",
  messages: "/v1/messages",
  responses: "/v1/responses",
}

type Json = Readonly<Record<string, unknown>>

/** A small request. `more` is laid over it. */
function asking(format: Translated, model: string, more: Json = {}): Json {
  if (format === "responses") return { model, input: "Hello", ...more }
  return {
    model,
    messages: [{ role: "user", content: "Hello" }],
    ...(format === "messages" && { max_tokens: 100 }),
    ...more,
  }
}

export const ask = (
  gateway: TestGateway,
  key: string,
  format: Translated,
  model: string,
  more: Json = {},
  init: Init = {},
): Promise<Response> => gateway.post(paths[format], key, asking(format, model, more), init)

export const requestId = (response: Response): string => response.headers.get("x-request-id") ?? ""

/** The first event of a stream, which says nothing yet. */
export const beginning: Record<Translated, RegExp> = {
  chat: /"role":"assistant"/g,
  messages: /^event: message_start$/gm,
  responses: /^event: response\.created$/gm,
}

/** The event that says that an answer is whole. On chat `[DONE]` also ends a failure. */
export const ending: Record<Translated, RegExp> = {
  chat: /^data: \[DONE\]$/m,
  messages: /^event: message_stop$/m,
  responses: /^event: response\.(completed|incomplete)$/m,
}

/** An event with content. */
export const content: Record<Translated, RegExp> = {
  chat: /"delta":\{"content":"[^"]/g,
  messages: /"type":"text_delta"/g,
  responses: /^event: response\.output_text\.delta$/gm,
}

export interface Told {
  readonly message: string
  readonly type: string
  /** Messages has none. */
  readonly code: string | undefined
  readonly requestId: string | undefined
}

interface Event {
  readonly event: string
  readonly data: string
}

/** The one comment beside heartbeats: it opens the block of the last event. */
const COST = /^: cost_micro=(?<charge>0|[1-9]\d*) request_id=(?<id>req_[A-Za-z0-9_-]{1,36})\n/

/** A whole stream in blocks, without heartbeats, and what its comment says that it cost; throws without one, or where it is elsewhere. */
function blocksOf(text: string) {
  const blocks = text
    .replaceAll(/^: heartbeat\n/gm, "")
    .split("\n\n")
    .slice(0, -1)
  const last = blocks.pop() ?? ""
  const cost = COST.exec(last)
  if (cost?.groups === undefined) throw new Error(`no cost before the last event: ${JSON.stringify(last)}`)
  const { charge, id } = cost.groups
  return { blocks: [...blocks, last.slice(cost[0].length)], cost: { charge: Number(charge), requestId: id ?? "" } }
}

/** What a whole stream says that it cost, in micro-rupiah, and of which call. */
export const costIn = (text: string): { readonly charge: number; readonly requestId: string } => blocksOf(text).cost

/** The events of a whole stream, its comments left out. Bytes that are no event, comment or blank line throw. */
export function eventsOf(text: string): Event[] {
  const events: Event[] = []
  for (const block of blocksOf(text).blocks) {
    const match = /^(?:event: (?<event>.+)\n)?data: (?<data>.*)$/.exec(block)
    if (match?.groups === undefined) throw new Error(`not an event: ${JSON.stringify(block)}`)
    events.push({ event: match.groups["event"] ?? "", data: match.groups["data"] ?? "" })
  }
  return events
}

/** The failure that a stream tells in its last event (on chat the one before `[DONE]`), or undefined. */
export function failureIn(format: Translated, text: string): Told | undefined {
  const events = eventsOf(text)
  const last = events.at(-1)
  if (format === "chat") {
    const told = events.at(-2)
    if (last?.data !== "[DONE]" || told === undefined) return undefined
    const chunk = JSON.parse(told.data) as { error?: Record<string, string> }
    if (chunk.error === undefined) return undefined
    const { message = "", type = "", code, request_id } = chunk.error
    if (Object.keys(chunk).join() !== "error") throw new Error("an error chunk has one key")
    return { message, type, code, requestId: request_id }
  }
  if (last === undefined) return undefined
  const body = JSON.parse(last.data) as Record<string, unknown>
  if (format === "messages") {
    if (last.event !== "error" || body["type"] !== "error") return undefined
    const { message, type } = body["error"] as { message: string; type: string }
    return { message, type, code: undefined, requestId: String(body["request_id"]) }
  }
  if (last.event !== "response.failed") return undefined
  if (events[0]?.event !== "response.created") throw new Error("response.failed without response.created")
  const numbers = events.map(({ data }) => (JSON.parse(data) as { sequence_number: number }).sequence_number)
  if (numbers.some((number, index) => index > 0 && number <= (numbers[index - 1] ?? 0))) {
    throw new Error(`the events' numbers do not rise: ${numbers.join()}`)
  }
  const { status, error } = body["response"] as { status: string; error: Record<string, string> & { param: null } }
  if (status !== "failed" || error.param !== null) throw new Error(`not a failed response: ${last.data}`)
  return { message: error["message"] ?? "", type: error["type"] ?? "", code: error["code"], requestId: undefined }
}

/** A stream that is read piece by piece. */
export class Reading {
  text = ""
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>
  readonly #decoder = new TextDecoder()

  constructor(response: Response) {
    if (response.body === null) throw new Error("there is no body to read")
    this.#reader = response.body.getReader()
  }

  /** Reads on until the text so far matches; throws when the stream ends first. */
  async until(pattern: RegExp): Promise<string> {
    while (this.text.search(pattern) < 0) {
      const { done, value } = await this.#reader.read()
      if (done) throw new Error(`the stream ended without ${pattern}: ${this.text}`)
      this.text += this.#decoder.decode(value, { stream: true })
    }
    return this.text
  }

  async rest(): Promise<string> {
    for (;;) {
      const { done, value } = await this.#reader.read()
      if (done) return this.text
      this.text += this.#decoder.decode(value, { stream: true })
    }
  }
}

/** What a model's backend was called with, oldest first. */
export const callsOf = (gateway: TestGateway, model: string): Call[] =>
  gateway.simulator.calls.filter((call) => call.model.split("?")[0] === model)

export interface UsageRow {
  readonly part: number
  readonly model: string
  readonly status: string
  readonly attempts: number
  readonly charge_micro: bigint
  readonly error_code: string | null
  readonly flagged: boolean
  readonly turns: number
}

/** All rows of a request as Postgres has them now, the final one first. */
export const rowsOf = async (gateway: TestGateway, id: string): Promise<UsageRow[]> => [
  ...(await gateway.sql<UsageRow[]>`
    select part, model, status, attempts, charge_micro, error_code, flagged, turns
    from usage where request_id = ${id} order by part`),
]
