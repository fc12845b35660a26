/**
 * The fast way through a long stream. Its events are alike but for a few texts that the model writes, so an event that has
 * been parsed serves as a template: its whole text, as it stands in the stream, with gaps at those places. An event that has
 * the same text around the gaps, and in each gap one JSON string or number and nothing else, is the same but for these values,
 * whatever they hold: nothing else in it can have changed, and it need be neither cut into lines nor parsed.
 *
 * Correctness rests on structure. Gaps are found by reading the JSON, never by searching for a text; a gap is matched token
 * by token. What does not match exactly is no match, and goes the slow way.
 */

/** Places by their path of names, without the places in arrays: "choices.delta.content". */
export interface OpenPlaces {
  /** Strings that the model writes. */
  readonly texts: ReadonlySet<string>
  /** A number that differs from event to event, as a whole number without a sign; at most one. */
  readonly number?: string
}

/** An event's name and its JSON. */
interface TemplateEvent {
  readonly event: string
  readonly data: string
}

/** Larger events, and deeper ones, are not alike often enough. In UTF-16 units, and in levels. */
const LONGEST = 8_192
const DEEPEST = 16
/** A number of more digits may not be a safe integer. */
const MOST_DIGITS = 15

const QUOTE = 0x22
const COMMA = 0x2c
const OPEN_BRACKET = 0x5b
const BACKSLASH = 0x5c
const CLOSE_BRACKET = 0x5d
const OPEN_BRACE = 0x7b
const CLOSE_BRACE = 0x7d
const SPACE = 0x20
const ZERO = 0x30
const NINE = 0x39

export class EventTemplate {
  /** The text before, between and after the gaps. */
  readonly #around: readonly string[]
  readonly #gaps: readonly Gap[]
  /** The same in the event as it is sent; undefined where it is sent as it came. */
  readonly #sent: readonly string[] | undefined
  /** Its JSON is sent as it came, whatever goes around it: escapes keep their spelling. */
  readonly #keepsSpelling: boolean
  #number: number | undefined

  private constructor(
    around: readonly string[],
    gaps: readonly Gap[],
    sent: readonly string[] | undefined,
    keepsSpelling: boolean,
  ) {
    this.#around = around
    this.#gaps = gaps
    this.#sent = sent
    this.#keepsSpelling = keepsSpelling
  }

  /**
   * The template of an event whose data is valid JSON, and of what is sent for it, which may not depend on what stands in the
   * open places but by repeating it. Undefined where no template can be made.
   */
  static of(came: TemplateEvent, sent: TemplateEvent, open: OpenPlaces): EventTemplate | undefined {
    if (came.data.length > LONGEST || hasLineEnd(came.data) || hasLineEnd(sent.data)) return undefined
    const gaps = new GapFinder(came.data, open).find()
    if (gaps === undefined || gaps.every(({ kind }) => kind === "number")) return undefined
    const around = partsAround(came, gaps)
    if (sent.data === came.data) {
      const parts = sent.event === came.event ? undefined : partsAround(sent, gaps)
      return new EventTemplate(around, gaps, parts, true)
    }
    const same = new GapFinder(sent.data, open).find()
    if (!isSame(came.data, gaps, sent.data, same)) return undefined
    return new EventTemplate(around, gaps, partsAround(sent, same), false)
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
    for (let place = 0; place < this.#gaps.length; place++) {
      const isText = this.#gaps[place]?.kind === "text"
      const end = isText ? endOfText(text, at) : endOfNumber(text, at)
      const after = around[place + 1] ?? ""
      if (end < 0 || !text.startsWith(after, end)) return -1
      if (!isText) number = Number(text.slice(at, end))
      const escaped = isText && hasEscape
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

interface Gap {
  readonly path: string
  readonly kind: "text" | "number"
  readonly start: number
  readonly end: number
}

const hasLineEnd = (data: string): boolean => data.includes("\n") || data.includes("\r")

/** Of the event as it is written in a stream. */
function partsAround({ event, data }: TemplateEvent, gaps: readonly Gap[]): string[] {
  const parts = gaps.map(({ start }, place) => data.slice(gaps[place - 1]?.end ?? 0, start))
  const name = event === "" ? "" : `event: ${event}\n`
  return [`${name}data: ${parts[0] ?? ""}`, ...parts.slice(1), `${data.slice(gaps.at(-1)?.end ?? 0)}\n\n`]
}

/** Whether what is sent has the same values at the same places, in the same order. */
const isSame = (came: string, gaps: readonly Gap[], sent: string, same: readonly Gap[] | undefined): same is Gap[] =>
  same?.length === gaps.length &&
  gaps.every(({ path, start, end }, place) => {
    const other = same[place]
    return other?.path === path && rewritten(came.slice(start, end)) === sent.slice(other.start, other.end)
  })

/** Whether the string that `endOfText` found last has a backslash in it. */
let hasEscape = false

/** The end of a JSON string that begins here and holds something; negative where there is none. Escapes are judged apart. */
function endOfText(text: string, start: number): number {
  hasEscape = false
  if (text.charCodeAt(start) !== QUOTE) return -1
  for (let at = start + 1; at < text.length; at++) {
    const unit = text.charCodeAt(at)
    if (unit === QUOTE) return at === start + 1 ? -1 : at + 1
    if (unit < SPACE) return -1
    if (unit !== BACKSLASH) continue
    hasEscape = true
    at++
  }
  return -1
}

function endOfNumber(text: string, start: number): number {
  let at = start
  while (at < text.length && text.charCodeAt(at) >= ZERO && text.charCodeAt(at) <= NINE) at++
  const digits = at - start
  if (digits === 0 || digits > MOST_DIGITS || (digits > 1 && text.charCodeAt(start) === ZERO)) return -1
  return at
}

/** A JSON string or number as it is written anew; undefined where it is none. */
function rewritten(json: string): string | undefined {
  if (!json.includes("\\")) return json
  try {
    return JSON.stringify(JSON.parse(json))
  } catch {
    return undefined
  }
}

/** Reads valid JSON for the open places in it. */
class GapFinder {
  readonly #text: string
  readonly #open: OpenPlaces
  readonly #gaps: Gap[] = []
  #at = 0

  constructor(text: string, open: OpenPlaces) {
    this.#text = text
    this.#open = open
  }

  /** Undefined where the text is too deep. */
  find(): readonly Gap[] | undefined {
    return this.#value("", 0) ? this.#gaps : undefined
  }

  #value(path: string, depth: number): boolean {
    this.#skip()
    const start = this.#at
    const first = this.#text.charCodeAt(start)
    if (first === OPEN_BRACE || first === OPEN_BRACKET) return depth < DEEPEST && this.#inside(first, path, depth)
    if (first === QUOTE) {
      this.#string()
      if (this.#open.texts.has(path)) this.#gaps.push({ path, kind: "text", start, end: this.#at })
      return true
    }
    while (this.#at < this.#text.length && !endsValue(this.#text.charCodeAt(this.#at))) this.#at++
    if (path === this.#open.number && endOfNumber(this.#text, start) === this.#at)
      this.#gaps.push({ path, kind: "number", start, end: this.#at })
    return true
  }

  #inside(opening: number, path: string, depth: number): boolean {
    this.#at++
    for (;;) {
      this.#skip()
      const next = this.#text.charCodeAt(this.#at)
      if (next === CLOSE_BRACE || next === CLOSE_BRACKET) {
        this.#at++
        return true
      }
      if (next === COMMA) {
        this.#at++
        continue
      }
      const inner = opening === OPEN_BRACE ? this.#name(path) : path
      if (!this.#value(inner, depth + 1)) return false
    }
  }

  /** A name and its colon; the path of what follows. */
  #name(path: string): string {
    const start = this.#at
    this.#string()
    const written = this.#text.slice(start, this.#at)
    const name = written.includes("\\") ? (JSON.parse(written) as string) : written.slice(1, -1)
    this.#skip()
    this.#at++
    return path === "" ? name : `${path}.${name}`
  }

  #string(): void {
    for (this.#at++; this.#text.charCodeAt(this.#at) !== QUOTE; this.#at++)
      if (this.#text.charCodeAt(this.#at) === BACKSLASH) this.#at++
    this.#at++
  }

  #skip(): void {
    while (this.#text.charCodeAt(this.#at) <= SPACE) this.#at++
  }
}

const endsValue = (unit: number): boolean =>
  unit <= SPACE || unit === COMMA || unit === CLOSE_BRACKET || unit === CLOSE_BRACE
