/**
 * The fast way through a long stream. Its events are alike but for a few texts that the model writes, so an event that has
 * been parsed serves as a template: its exact text with gaps at those places. An event that has the same text around the
 * gaps, and in each gap one JSON string or number and nothing else, is the same JSON but for these values, whatever they
 * hold: nothing else in it can have changed, and it need not be parsed.
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

/** Larger events, and deeper ones, are not alike often enough. In UTF-16 units, and in levels. */
const LONGEST = 8_192
const DEEPEST = 16
/** A number of more digits may not be a safe integer. */
const MOST_DIGITS = 15

const QUOTE = 0x22
const BACKSLASH = 0x5c
const SPACE = 0x20
const ZERO = 0x30
const NINE = 0x39

export class EventTemplate {
  readonly #name: string
  /** The text before, between and after the gaps. */
  readonly #around: readonly string[]
  readonly #gaps: readonly Gap[]
  /** The same in the event as it is written; undefined where it is written as it came. */
  readonly #written: readonly string[] | undefined
  #number: number | undefined

  private constructor(name: string, around: readonly string[], gaps: readonly Gap[], written?: readonly string[]) {
    this.#name = name
    this.#around = around
    this.#gaps = gaps
    this.#written = written
  }

  /**
   * The template of an event whose data is valid JSON. `write` is the slow way: what is sent for such data, which may not
   * depend on what stands in the gaps but by repeating it. Undefined where no template can be made.
   */
  static of(
    { event: name, data }: TemplateEvent,
    open: OpenPlaces,
    write: (data: string) => string | undefined,
  ): EventTemplate | undefined {
    if (data.length > LONGEST) return undefined
    const gaps = new GapFinder(data, open).find()
    if (gaps === undefined || gaps.every(({ kind }) => kind === "number")) return undefined
    const around = partsAround(data, gaps)
    const sent = write(data)
    if (sent === data) return new EventTemplate(name, around, gaps)
    if (sent === undefined || data.includes(MARK) || gaps.some(({ kind }) => kind === "number")) return undefined
    const marks = gaps.map((_, place) => `"${MARK}${place}"`)
    const written = write(around.map((text, place) => text + (marks[place] ?? "")).join(""))
    const parts = written === undefined ? undefined : splitAt(written, marks)
    return parts && new EventTemplate(name, around, gaps, parts)
  }

  /** What stood in the gap for a number when an event last matched. */
  get number(): number | undefined {
    return this.#number
  }

  /** The data to send for an event of this shape; undefined where it is of another one. An empty text is another one. */
  match({ event, data }: TemplateEvent): string | undefined {
    const around = this.#around
    const written = this.#written
    const first = around[0] ?? ""
    if (event !== this.#name || !data.startsWith(first)) return undefined
    let at = first.length
    let out = written?.[0] ?? ""
    let number: number | undefined
    for (let place = 0; place < this.#gaps.length; place++) {
      const isText = this.#gaps[place]?.kind === "text"
      const end = isText ? endOfText(data, at) : endOfNumber(data, at)
      if (end < 0) return undefined
      const after = around[place + 1] ?? ""
      if (!data.startsWith(after, end)) return undefined
      if (!isText) number = Number(data.slice(at, end))
      else if (written !== undefined) {
        const text = rewritten(data.slice(at, end))
        if (text === undefined) return undefined
        out += text + (written[place + 1] ?? "")
      } else if (!isValid(data, at, end)) return undefined
      at = end + after.length
    }
    if (at !== data.length) return undefined
    this.#number = number
    return written === undefined ? data : out
  }
}

interface TemplateEvent {
  readonly event: string
  readonly data: string
}

interface Gap {
  readonly kind: "text" | "number"
  readonly start: number
  readonly end: number
}

/** Stands in the gaps while the slow way is asked once; an event that holds it makes no template. */
const MARK = "loket:gap:"

const partsAround = (text: string, gaps: readonly Gap[]): string[] => [
  ...gaps.map(({ start }, place) => text.slice(gaps[place - 1]?.end ?? 0, start)),
  text.slice(gaps.at(-1)?.end ?? 0),
]

/** The text around each of these, which must stand in it once and in this order. */
function splitAt(text: string, marks: readonly string[]): string[] | undefined {
  const parts: string[] = []
  let at = 0
  for (const mark of marks) {
    const found = text.indexOf(mark)
    if (found < at || text.includes(mark, found + 1)) return undefined
    parts.push(text.slice(at, found))
    at = found + mark.length
  }
  return [...parts, text.slice(at)]
}

/** The end of a JSON string that begins here and holds something; negative where there is none. Escapes are judged apart. */
function endOfText(data: string, start: number): number {
  if (data.charCodeAt(start) !== QUOTE) return -1
  for (let at = start + 1; at < data.length; at++) {
    const unit = data.charCodeAt(at)
    if (unit === QUOTE) return at === start + 1 ? -1 : at + 1
    if (unit < SPACE) return -1
    if (unit === BACKSLASH) at++
  }
  return -1
}

function endOfNumber(data: string, start: number): number {
  let at = start
  while (at < data.length && data.charCodeAt(at) >= ZERO && data.charCodeAt(at) <= NINE) at++
  const digits = at - start
  if (digits === 0 || digits > MOST_DIGITS || (digits > 1 && data.charCodeAt(start) === ZERO)) return -1
  return at
}

/** Whether what was found to be a string is one, escapes included. */
const isValid = (data: string, start: number, end: number): boolean => {
  const escape = data.indexOf("\\", start)
  return escape === -1 || escape >= end || rewritten(data.slice(start, end)) !== undefined
}

/** A JSON string as it is written anew; undefined where it is none. */
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
    const first = this.#text[start]
    if (first === "{" || first === "[") return depth < DEEPEST && this.#inside(first, path, depth)
    if (first === '"') {
      this.#string()
      if (this.#open.texts.has(path)) this.#gaps.push({ kind: "text", start, end: this.#at })
      return true
    }
    while (this.#at < this.#text.length && !/[\s,\]}]/.test(this.#text[this.#at] ?? "")) this.#at++
    if (path === this.#open.number && endOfNumber(this.#text, start) === this.#at)
      this.#gaps.push({ kind: "number", start, end: this.#at })
    return true
  }

  #inside(opening: "{" | "[", path: string, depth: number): boolean {
    this.#at++
    for (;;) {
      this.#skip()
      const next = this.#text[this.#at]
      if (next === "}" || next === "]") {
        this.#at++
        return true
      }
      if (next === ",") {
        this.#at++
        continue
      }
      const inner = opening === "{" ? this.#name(path) : path
      if (!this.#value(inner, depth + 1)) return false
    }
  }

  /** A name and its colon; the path of what follows. */
  #name(path: string): string {
    const start = this.#at
    this.#string()
    const name = JSON.parse(this.#text.slice(start, this.#at)) as string
    this.#skip()
    this.#at++
    return path === "" ? name : `${path}.${name}`
  }

  #string(): void {
    for (this.#at++; this.#text[this.#at] !== '"'; this.#at++) if (this.#text[this.#at] === "\\") this.#at++
    this.#at++
  }

  #skip(): void {
    while (/\s/.test(this.#text[this.#at] ?? "")) this.#at++
  }
}
