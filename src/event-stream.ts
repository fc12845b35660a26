/**
 * A stream of server-sent events, parsed (WHATWG HTML, section 9.2.6): of backends by the gateway, and of the gateway by the
 * dashboard's page. So this file imports nothing. `data` is the data lines joined with a line feed; `event` is empty where the
 * stream names none. Sizes are in UTF-16 units, never more than the bytes.
 *
 * The parser is the hottest loop of the gateway: lines are found with `indexOf` over whole chunks, never per byte, and a
 * chunk without a line end is only put aside, so that one long line in small pieces stays linear.
 */
export interface SseEvent {
  readonly event: string
  readonly data: string
}

export class EventStreamParser<Overflow extends object> {
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
  readonly #overflowOf: () => Overflow
  #overflow: Overflow | undefined

  /** `maxEventSize` in UTF-16 units; what is given out instead of an event over it. */
  constructor(maxEventSize: number, overflow: () => Overflow) {
    this.#maxEventSize = maxEventSize
    this.#overflowOf = overflow
  }

  /**
   * The events that these bytes complete, in order. An event over the limit is the overflow, which is returned when the
   * events before it have been returned; nothing comes after it.
   */
  push(bytes: Uint8Array): SseEvent[] | Overflow {
    if (this.#overflow !== undefined) return this.#overflow
    const events: SseEvent[] = []
    this.#take(this.#decoder.decode(bytes, { stream: true }), events)
    return events.length === 0 && this.#overflow !== undefined ? this.#overflow : events
  }

  /**
   * What the stream's end cut off before its blank line, or undefined. The standard throws such an event away; here it
   * is handed out, because sloppy backends end right after `[DONE]`, and because a reader tells a whole JSON text from
   * half of one.
   */
  end(): SseEvent | Overflow | undefined {
    if (this.#overflow !== undefined) return this.#overflow
    const events: SseEvent[] = []
    this.#take(`${this.#decoder.decode()}\n\n`, events)
    return this.#overflow ?? events.find(({ data }) => data !== "")
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
      if (this.#overflow !== undefined) return
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
    if (this.#size > this.#maxEventSize) this.#overflow = this.#overflowOf()
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
