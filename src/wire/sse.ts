/**
 * Server-sent events, as the three formats use them (WHATWG HTML, section 9.2.6). `data` is the data lines joined with
 * a line feed; `event` is empty where the stream names none. Sizes are in UTF-16 units, never more than the bytes.
 *
 * The parser is the hottest loop of the gateway: lines are found with `indexOf` over whole chunks, never per byte, and a
 * chunk without a line end is only put aside, so that one long line in small pieces stays linear.
 */
import { isObject, type JsonObject } from "../language/json.ts"
import { Failure } from "../failure/failure.ts"

export interface SseEvent {
  readonly event: string
  readonly data: string
}

/** No format's event comes near this; a backend that sends more is broken or hostile. */
const maxEventSize = 8 * 1024 * 1024

export class SseParser {
  readonly #decoder = new TextDecoder()
  readonly #maxEventSize: number
  /** Pieces of a line whose end has not come yet. */
  #pieces: string[] = []
  /** Size of the event under way: its data so far and the unfinished line. */
  #size = 0
  #event = ""
  /** Undefined until the event under way has a data line. */
  #data: string | undefined
  /** The last chunk ended in CR: a LF that opens the next one belongs to it. */
  #afterCr = false
  #failure: Failure | undefined

  constructor(limits: { readonly maxEventSize: number } = { maxEventSize }) {
    this.#maxEventSize = limits.maxEventSize
  }

  /**
   * The events that these bytes complete, in order. An event over the limit is a Failure, told when the events before
   * it have been handed out; nothing comes after it.
   */
  push(bytes: Uint8Array): SseEvent[] | Failure {
    if (this.#failure !== undefined) return this.#failure
    const events: SseEvent[] = []
    this.#take(this.#decoder.decode(bytes, { stream: true }), events)
    return events.length === 0 && this.#failure !== undefined ? this.#failure : events
  }

  /**
   * What the stream's end cut off before its blank line, or undefined. The standard throws such an event away; here it
   * is handed out, because sloppy backends end right after `[DONE]`, and because a reader tells a whole JSON text from
   * half of one.
   */
  end(): SseEvent | Failure | undefined {
    if (this.#failure !== undefined) return this.#failure
    const events: SseEvent[] = []
    this.#take(`${this.#decoder.decode()}\n\n`, events)
    return this.#failure ?? events.find(({ data }) => data !== "")
  }

  #take(chunk: string, events: SseEvent[]): void {
    if (chunk === "") return
    let start = this.#afterCr && chunk.startsWith("\n") ? 1 : 0
    this.#afterCr = chunk.endsWith("\r")
    let lf = chunk.indexOf("\n", start)
    let cr = chunk.indexOf("\r", start)
    while (lf !== -1 || cr !== -1) {
      const byCr = cr !== -1 && (lf === -1 || cr < lf)
      const end = byCr ? cr : lf
      this.#line(this.#joined(chunk.slice(start, end)), events)
      if (this.#failure !== undefined) return
      start = byCr && lf === cr + 1 ? end + 2 : end + 1
      if (lf !== -1 && lf < start) lf = chunk.indexOf("\n", start)
      if (cr !== -1 && cr < start) cr = chunk.indexOf("\r", start)
    }
    if (start < chunk.length) this.#putAside(start === 0 ? chunk : chunk.slice(start))
  }

  #joined(last: string): string {
    if (this.#pieces.length === 0) return last
    const line = this.#pieces.join("") + last
    for (const piece of this.#pieces) this.#size -= piece.length
    this.#pieces = []
    return line
  }

  #putAside(piece: string): void {
    this.#pieces.push(piece)
    this.#grow(piece.length)
  }

  #grow(by: number): void {
    this.#size += by
    if (this.#size > this.#maxEventSize) this.#failure = new Failure("dependency.upstream_unavailable")
  }

  #line(line: string, events: SseEvent[]): void {
    if (line === "") return this.#dispatch(events)
    if (line.startsWith("data:")) return this.#dataLine(value(line, 5))
    if (line.startsWith("event:")) this.#event = value(line, 6)
    else if (line === "data") this.#dataLine("")
    else if (line === "event") this.#event = ""
    // A comment, `id`, `retry` or an unknown field: none of them means anything to a gateway.
  }

  #dataLine(text: string): void {
    this.#data = this.#data === undefined ? text : `${this.#data}\n${text}`
    this.#grow(text.length + 1)
  }

  #dispatch(events: SseEvent[]): void {
    if (this.#data !== undefined) events.push({ event: this.#event, data: this.#data })
    this.#event = ""
    this.#data = undefined
    this.#size = 0
  }
}

/** One space after the colon is not part of the value. */
const value = (line: string, from: number): string => line.slice(line[from] === " " ? from + 1 : from)

/** An event as bytes to send. An empty name is left out. */
export const encodeSse = (event: string, data: string): string => {
  const name = event === "" ? "" : `event: ${event}\n`
  const isOneLine = !data.includes("\n") && !data.includes("\r")
  return `${name}data: ${isOneLine ? data : data.split(/\r\n|\r|\n/).join("\ndata: ")}\n\n`
}

/** The JSON object that an event carries; undefined when it carries anything else. */
export const eventObject = (event: SseEvent): JsonObject | undefined => {
  try {
    const parsed: unknown = JSON.parse(event.data)
    return isObject(parsed) ? parsed : undefined
  } catch {
    return undefined
  }
}

/** What kind of event it is: by its data, and where that does not say, by its name. */
export const eventType = ({ event }: SseEvent, { type }: JsonObject): string =>
  typeof type === "string" ? type : event
