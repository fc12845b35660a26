/**
 * The fast way through a long stream. Its events are alike but for a few texts that the model writes, so an event that has
 * been parsed serves as a template: its whole text, as it stands in the stream, with gaps at those places. An event that has
 * the same text around the gaps, and in each gap one JSON string or number and nothing else, is the same but for these values,
 * whatever they hold: nothing else in it can have changed, and it need be neither cut into lines nor parsed. Streams of one
 * model are alike too, but for an id and a time: what was learned in one is the shape of which the next makes its template.
 *
 * Correctness rests on structure. Gaps are found by reading the JSON, never by searching for a text; a gap is matched token
 * by token. What does not match exactly is no match, and goes the slow way.
 */
import { endOfNumber, endOfOwn, endOfText, type Gap, GapFinder, lastHadEscape, type OpenPlaces } from "./json-gaps.ts"

/** An event's name and its JSON. */
interface NamedJson {
  readonly event: string
  readonly data: string
}

/** Larger events are not alike often enough. In UTF-16 units. */
const LONGEST = 8_192

/** Events of many streams that are alike, and what is sent for them. A stream's template is made of it. */
export class EventShape {
  readonly #around: readonly string[]
  readonly #gaps: readonly Gap[]
  /** The text around the gaps of what is sent. */
  readonly #sent: readonly string[]
  readonly #keepsSpelling: boolean

  private constructor(
    around: readonly string[],
    gaps: readonly Gap[],
    sent: readonly string[],
    keepsSpelling: boolean,
  ) {
    this.#around = around
    this.#gaps = gaps
    this.#sent = sent
    this.#keepsSpelling = keepsSpelling
  }

  /**
   * The shape of an event whose data is valid JSON, and of what is sent for it, which may not depend on what stands in the
   * open places but by repeating it. Undefined where there is none.
   */
  static of(came: NamedJson, sent: NamedJson, open: OpenPlaces): EventShape | undefined {
    if (came.data.length > LONGEST || hasLineEnd(came.data) || hasLineEnd(sent.data)) return undefined
    const gaps = new GapFinder(came.data, open).find()
    if (gaps === undefined || !gaps.some(({ kind }) => kind === "text")) return undefined
    const around = partsAround(came, gaps)
    if (sent.data === came.data) return new EventShape(around, gaps, partsAround(sent, gaps), true)
    const same = new GapFinder(sent.data, open).find()
    if (isSame(came.data, gaps, sent.data, same)) return new EventShape(around, gaps, partsAround(sent, same), false)
    // A number in a spelling of its own (1.0) is none of the stream's in what came, and is one in what is sent.
    return open.ofStream.size === 0 ? undefined : EventShape.of(came, sent, { ...open, ofStream: new Set() })
  }

  /**
   * The template for the stream in which an event came with this text, and this was sent for it; undefined where they are of
   * another shape.
   */
  templateFor(came: string, sent: string): EventTemplate | undefined {
    const first = this.#around[0] ?? ""
    if (!came.startsWith(first)) return undefined
    const kinds: Gap["kind"][] = []
    const around = [first]
    const written = [this.#sent[0] ?? ""]
    let at = first.length
    for (let place = 0; place < this.#gaps.length; place++) {
      const kind = this.#gaps[place]?.kind ?? "text"
      const end = kind === "text" ? endOfText(came, at) : kind === "number" ? endOfNumber(came, at) : endOfOwn(came, at)
      if (end < 0) return undefined
      const after = this.#around[place + 1] ?? ""
      const afterSent = this.#sent[place + 1] ?? ""
      if (kind === "own") {
        const value = came.slice(at, end)
        around.push(`${around.pop() ?? ""}${value}${after}`)
        written.push(`${written.pop() ?? ""}${value}${afterSent}`)
      } else {
        kinds.push(kind)
        around.push(after)
        written.push(afterSent)
      }
      at = end + after.length
    }
    const isVerbatim = around.every((text, place) => text === written[place])
    const template = new EventTemplate(around, kinds, isVerbatim ? undefined : written, this.#keepsSpelling)
    // Whatever the shape was learned from: this event it must turn into this one.
    const out: string[] = []
    if (template.match(came, 0, out) !== came.length) return undefined
    return (isVerbatim ? came : out.join("")) === sent ? template : undefined
  }
}

/** Events of one stream that are alike. */
export class EventTemplate {
  /** The text before, between and after the gaps. */
  readonly #around: readonly string[]
  readonly #kinds: readonly Gap["kind"][]
  /** The same in the event as it is sent; undefined where it is sent as it came. */
  readonly #sent: readonly string[] | undefined
  /** Its JSON is sent as it came, whatever goes around it: escapes keep their spelling. */
  readonly #keepsSpelling: boolean
  #number: number | undefined

  constructor(
    around: readonly string[],
    kinds: readonly Gap["kind"][],
    sent: readonly string[] | undefined,
    keepsSpelling: boolean,
  ) {
    this.#around = around
    this.#kinds = kinds
    this.#sent = sent
    this.#keepsSpelling = keepsSpelling
  }

  /** What stood in the gap for a number when an event last matched. */
  get number(): number | undefined {
    return this.#number
  }

  /**
   * Where an event of this shape ends that begins here; negative where it is of another one. An empty text is another one.
   * What is sent for it is added to `out`; nothing where that is its own text.
   */
  match(text: string, start: number, out: string[]): number {
    const around = this.#around
    const sent = this.#sent
    const length = out.length
    const end = this.#match(text, start, out)
    if (end < 0) out.length = length
    else if (sent !== undefined) out.push(sent[around.length - 1] ?? "")
    return end
  }

  #match(text: string, start: number, out: string[]): number {
    const around = this.#around
    const sent = this.#sent
    const first = around[0] ?? ""
    if (!text.startsWith(first, start)) return -1
    let at = start + first.length
    let number: number | undefined
    for (let place = 0; place < this.#kinds.length; place++) {
      const isText = this.#kinds[place] === "text"
      const end = isText ? endOfText(text, at) : endOfNumber(text, at)
      const after = around[place + 1] ?? ""
      if (end < 0 || !text.startsWith(after, end)) return -1
      if (!isText) number = Number(text.slice(at, end))
      const escaped = isText && lastHadEscape()
      const value = sent !== undefined || escaped ? text.slice(at, end) : ""
      const anew = escaped ? rewritten(value) : value
      if (anew === undefined) return -1
      if (sent !== undefined) out.push(sent[place] ?? "", this.#keepsSpelling ? value : anew)
      at = end + after.length
    }
    this.#number = number
    return at
  }
}

const hasLineEnd = (data: string): boolean => data.includes("\n") || data.includes("\r")

/** Of the event as it is written in a stream. */
function partsAround({ event, data }: NamedJson, gaps: readonly Gap[]): string[] {
  const text = copied(data)
  const parts = gaps.map(({ start }, place) => text.slice(gaps[place - 1]?.end ?? 0, start))
  const name = event === "" ? "" : `event: ${event}\n`
  return [`${name}data: ${parts[0] ?? ""}`, ...parts.slice(1), `${text.slice(gaps.at(-1)?.end ?? 0)}\n\n`]
}

/** A part of a text keeps the whole of it in memory, and a shape is kept for long. */
const copied = (text: string): string => Buffer.from(text).toString()

/** Whether what is sent has the same values at the same places, in the same order. */
const isSame = (came: string, gaps: readonly Gap[], sent: string, same: readonly Gap[] | undefined): same is Gap[] =>
  same?.length === gaps.length &&
  gaps.every(({ path, start, end }, place) => {
    const other = same[place]
    return other?.path === path && rewritten(came.slice(start, end)) === sent.slice(other.start, other.end)
  })

/** A JSON string or number as it is written anew; undefined where it is none. */
function rewritten(json: string): string | undefined {
  if (!json.includes("\\")) return json
  try {
    return JSON.stringify(JSON.parse(json))
  } catch {
    return undefined
  }
}
