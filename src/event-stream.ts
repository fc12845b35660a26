/**
 * A stream of server-sent events, parsed (WHATWG HTML, section 9.2.6): of backends by the gateway, and of the gateway by the
 * dashboard's page. So this file imports nothing. `data` is the data lines joined with a line feed; `event` is empty where the
 * stream names none. Sizes are in UTF-16 units, never more than the bytes.
 *
 * The parser is the hottest loop of the gateway: lines are found with `indexOf` over whole chunks, never per byte, a line is
 * cut out of its chunk only for its value, and a chunk without a line end is only put aside, so that one long line in small
 * pieces stays linear.
 */
export interface SseEvent {
  readonly event: string
  readonly data: string
}

export class EventStreamParser<Overflow extends object> {
  readonly #decoder = new TextDecoder()
  readonly #maxEventSize: number
  readonly #overflowOf: () => Overflow
  #overflow: Overflow | undefined
  /** What was fed last, and how far it has been read. */
  #text = ""
  #at = 0
  /** The next line feed and carriage return from there; negative where there is none. */
  #lf = -1
  #cr = -1
  /** The last chunk ended in CR: a LF that opens the next one belongs to it. */
  #afterCr = false
  /** Pieces of a line whose end has not come yet. */
  #pieces: string[] = []
  /** Size of the event under way: its data so far and the unfinished line. */
  #size = 0
  #event = ""
  /** Undefined until the event under way has a data line. */
  #data: string | undefined

  /** `maxEventSize` in UTF-16 units; what is given out instead of an event over it. */
  constructor(maxEventSize: number, overflow: () => Overflow) {
    this.#maxEventSize = maxEventSize
    this.#overflowOf = overflow
  }

  /** Bytes for `next`, which has nothing left of those before them. */
  feed(bytes: Uint8Array): void {
    this.#feed(this.#decoder.decode(bytes, { stream: true }))
  }

  /**
   * The next event; undefined where it has not come whole. An event over the limit is the overflow, and nothing comes after
   * it.
   */
  next(): SseEvent | Overflow | undefined {
    return this.#next() ?? this.#overflow
  }

  /** All events that these bytes complete, in order; the overflow once the events before it have been returned. */
  push(bytes: Uint8Array): SseEvent[] | Overflow {
    this.feed(bytes)
    const events: SseEvent[] = []
    for (let event = this.#next(); event !== undefined; event = this.#next()) events.push(event)
    return events.length === 0 && this.#overflow !== undefined ? this.#overflow : events
  }

  /**
   * For whoever knows an event by its whole text: the text in which the next event begins at `place`. It is empty where that
   * has begun before, and where an event in it may be over the limit. What is read of it is passed over by moving the place.
   */
  get ahead(): string {
    const isBetween = this.#data === undefined && this.#event === "" && this.#pieces.length === 0
    return isBetween && this.#text.length <= this.#maxEventSize && this.#overflow === undefined ? this.#text : ""
  }
  get place(): number {
    return this.#at
  }
  set place(at: number) {
    this.#at = at
  }

  /**
   * The stream is over: what its end cut off before a blank line is given out too, by `next`. The standard throws such an
   * event away; here it is not, because sloppy backends end right after `[DONE]`, and because a reader tells a whole JSON
   * text from half of one.
   */
  end(): void {
    this.#feed(`${this.#decoder.decode()}\n\n`)
  }

  #feed(text: string): void {
    if (text === "") return
    this.#text = text
    this.#at = this.#afterCr && text.startsWith("\n") ? 1 : 0
    this.#afterCr = text.endsWith("\r")
    this.#lf = text.indexOf("\n", this.#at)
    this.#cr = text.indexOf("\r", this.#at)
  }

  #next(): SseEvent | undefined {
    const text = this.#text
    while (this.#at < text.length && this.#overflow === undefined) {
      const start = this.#at
      if (this.#lf !== -1 && this.#lf < start) this.#lf = text.indexOf("\n", start)
      if (this.#cr !== -1 && this.#cr < start) this.#cr = text.indexOf("\r", start)
      const byCr = this.#cr !== -1 && (this.#lf === -1 || this.#cr < this.#lf)
      const end = byCr ? this.#cr : this.#lf
      if (end === -1) {
        this.#at = text.length
        this.#putAside(text.slice(start))
      } else {
        this.#at = byCr && this.#lf === end + 1 ? end + 2 : end + 1
        const event = this.#pieces.length === 0 ? this.#line(text, start, end) : this.#joined(text.slice(start, end))
        if (event !== undefined) return event
      }
    }
    return undefined
  }

  #joined(last: string): SseEvent | undefined {
    const line = this.#pieces.join("") + last
    for (const piece of this.#pieces) this.#size -= piece.length
    this.#pieces = []
    return this.#line(line, 0, line.length)
  }

  #putAside(piece: string): void {
    this.#pieces.push(piece)
    this.#grow(piece.length)
  }

  #grow(by: number): void {
    this.#size += by
    if (this.#size > this.#maxEventSize) this.#overflow = this.#overflowOf()
  }

  /** The event that a line completes; the line ends before `end`, and a line end or nothing stands there. */
  #line(text: string, start: number, end: number): SseEvent | undefined {
    if (start === end) return this.#dispatch()
    if (text.startsWith("data:", start)) this.#dataLine(value(text, start + 5, end))
    else if (text.startsWith("event:", start)) this.#event = value(text, start + 6, end)
    else if (end - start === 4 && text.startsWith("data", start)) this.#dataLine("")
    else if (end - start === 5 && text.startsWith("event", start)) this.#event = ""
    // A comment, `id`, `retry` or an unknown field: none of them means anything to a gateway.
    return undefined
  }

  #dataLine(text: string): void {
    this.#data = this.#data === undefined ? text : `${this.#data}\n${text}`
    this.#grow(text.length + 1)
  }

  #dispatch(): SseEvent | undefined {
    const event = this.#data === undefined ? undefined : { event: this.#event, data: this.#data }
    this.#event = ""
    this.#data = undefined
    this.#size = 0
    return event
  }
}

/** One space after the colon is not part of the value. */
const value = (text: string, from: number, end: number): string =>
  text.slice(from < end && text.charCodeAt(from) === SPACE ? from + 1 : from, end)

const SPACE = 0x20
