/**
 * Values at known places of a JSON text, where they stand in it: found by reading it, never by searching. And where a value
 * ends that begins at a place, judged token by token. And whether an object that comes in pieces has come whole.
 */

/** Places by their path of names, without the places in arrays: "choices.delta.content". */
export interface OpenPlaces {
  /** Strings that the model writes. */
  readonly texts: ReadonlySet<string>
  /** Strings and whole numbers that differ from stream to stream. */
  readonly ofStream: ReadonlySet<string>
  /** A number that differs from event to event, as a whole number without a sign; at most one. */
  readonly number?: string
}

export interface Gap {
  readonly path: string
  /** `own` is the stream's own, of a string or a number. */
  readonly kind: "text" | "number" | "own"
  readonly start: number
  readonly end: number
}

/** Deeper JSON is not read. */
const DEEPEST = 16
/** A number of more digits may not be a safe integer. */
const MAX_DIGITS = 15

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

/** Reads valid JSON for the open places in it. */
export class GapFinder {
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
    if (first === QUOTE) this.#string()
    else while (this.#at < this.#text.length && !endsValue(this.#text.charCodeAt(this.#at))) this.#at++
    const end = this.#at
    const { texts, number, ofStream } = this.#open
    if (first === QUOTE && texts.has(path)) this.#gaps.push({ path, kind: "text", start, end })
    else if (path === number && endOfNumber(this.#text, start) === end)
      this.#gaps.push({ path, kind: "number", start, end })
    else if (ofStream.has(path) && endOfOwn(this.#text, start) === end)
      this.#gaps.push({ path, kind: "own", start, end })
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

/** Whether the string that `endOfText` found last has a backslash in it. */
let hasEscape = false
export const lastHadEscape = (): boolean => hasEscape

/** The end of a JSON string that begins here and holds something; negative where there is none. Escapes are judged apart. */
export function endOfText(text: string, start: number): number {
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

export function endOfNumber(text: string, start: number): number {
  let at = start
  while (at < text.length && text.charCodeAt(at) >= ZERO && text.charCodeAt(at) <= NINE) at++
  const digits = at - start
  if (digits === 0 || digits > MAX_DIGITS || (digits > 1 && text.charCodeAt(start) === ZERO)) return -1
  return at
}

/** A string without escapes, or a number: written anew it is the same. */
export function endOfOwn(text: string, start: number): number {
  if (text.charCodeAt(start) !== QUOTE) return endOfNumber(text, start)
  const end = endOfText(text, start)
  return hasEscape ? -1 : end
}

/**
 * Whether the pieces of a JSON object seen so far make a whole one, without keeping them. Nothing is validated: only
 * brackets and strings are followed.
 */
export class JsonProgress {
  #depth = 0
  #begun = false
  #inString = false
  #escaped = false

  /** The object that began has ended. */
  get whole(): boolean {
    return this.#begun && this.#depth === 0
  }

  push(piece: string): void {
    for (const character of piece) this.#take(character)
  }

  #take(character: string): void {
    if (this.#inString) {
      if (this.#escaped) this.#escaped = false
      else if (character === "\\") this.#escaped = true
      else if (character === '"') this.#inString = false
      return
    }
    if (character === '"') this.#inString = true
    else if (character === "{" || character === "[") {
      this.#depth++
      this.#begun = true
    } else if (character === "}" || character === "]") this.#depth--
  }
}
