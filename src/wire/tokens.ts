/**
 * Tokens, estimated and counted. First of a text, estimated in one pass over its characters: nothing is cut out, so a megabyte
 * takes a few milliseconds where a real tokenizer takes seventy and may be driven into quadratic time by its input. Still that is
 * more than all else that is done with a long prompt, and agents send the same texts with every call, so estimates are remembered.
 *
 * It follows how tokenizers split before they merge (words with the space before them, three digits, runs of
 * punctuation, runs of space), and puts an average price on each. The prices are a least-squares fit to o200k over
 * prose, code, JSON and base64, raised by a tenth, because being under costs the house and being over costs a client
 * only a part of its context window.
 *
 * Then from a backend's counts to the four priced buckets, in tokens. The one place that decides which counts can be read
 * (decisions §12.20, §13.2): upstream usage is hostile input, and an answer whose counts cannot be read is not charged.
 * How much of a readable count is charged is decided where the forwarded limit is known (actors/money/price.ts).
 */
import { type Tokens, totalTokens } from "../../actors/money/price.ts"
import { isObject, type Json, present } from "../language/json.ts"

const RAISE = 1.1
const WORD_AFTER_SPACE = 0.8 * RAISE
const WORD_AFTER_PUNCTUATION = 0.3 * RAISE
const WORD_AFTER_OTHER = 0.79 * RAISE
const CUT_IN_WORD = 1.58 * RAISE
const THREE_DIGITS = 1.15 * RAISE
const PUNCTUATION = 1.09 * RAISE
const SAME_PUNCTUATION = 0.04 * RAISE
const OTHER_PUNCTUATION = 0.3 * RAISE
const SPACES = 0.56 * RAISE
/** A longer run of white space takes another token. */
const LONGEST_SPACE = 10
// And what is no prose and no code must not be had for almost nothing, for it can be made up:
/** Letters that stand together often are a word no longer than so many, whoever puts a hundred of them in a row. */
const LETTERS_OF_TOKEN = 6
/** Vocabularies have long runs of these, which draw lines, and of others short ones. */
const DRAWN = "-=*#_./~%+!:;"
const LONGEST_SAME = 4
const RUN_OF_SAME = 0.3 * RAISE
/** A return that no line's end follows. */
const RETURN = 0.5 * RAISE
/** No vocabulary has a word of them. */
const CONTROL = 1 * RAISE

const SPACE = 0
const LOWER = 1
const UPPER = 2
const DIGIT = 3
const PUNCT = 4
const BREAK = 5
const BEYOND = 6
const CONTROLS = 7
const CARRIAGE_RETURN = 13

const kinds = Uint8Array.from({ length: 128 }, (_, code) => {
  if (code >= 97 && code <= 122) return LOWER
  if (code >= 65 && code <= 90) return UPPER
  if (code >= 48 && code <= 57) return DIGIT
  if (code === 32 || code === 9) return SPACE
  if (code === 10 || code === 13) return BREAK
  return code < 32 || code === 127 ? CONTROLS : PUNCT
})

const draws = Uint8Array.from({ length: 128 }, (_, code) => (DRAWN.includes(String.fromCharCode(code)) ? 1 : 0))

/** Not rounded: the sum over many texts is. */
export function textTokens(text: string): number {
  let tokens = 0
  let before = SPACE
  let letterBefore = 0
  let codeBefore = -1
  let run = 0
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    let kind = code < 128 ? (kinds[code] ?? PUNCT) : BEYOND
    run = kind === before ? run + 1 : 1
    if (kind === LOWER || kind === UPPER) {
      const letter = (code | 32) - SMALL_A
      const tokensBefore = tokens
      const first = at
      if (before === kind || before === UPPER) tokens += cutBetween[letterBefore * LETTERS + letter] ?? 0
      else tokens += wordAfter(before)
      letterBefore = letter
      // The rest of a word, which is most of a text.
      while (at + 1 < text.length) {
        const next = text.charCodeAt(at + 1) - SMALL_A
        if (next < 0 || next >= LETTERS) break
        tokens += cutBetween[letterBefore * LETTERS + next] ?? 0
        letterBefore = next
        kind = LOWER
        at++
      }
      if (Math.max(at - first, run) >= LETTERS_OF_TOKEN)
        tokens = Math.max(tokens, tokensBefore + (at - first + 1) / LETTERS_OF_TOKEN)
    } else if (kind === PUNCT) {
      if (run === 1) tokens += PUNCTUATION
      else if (code !== codeBefore) tokens += OTHER_PUNCTUATION
      else tokens += run > LONGEST_SAME && draws[code] === 0 ? RUN_OF_SAME : SAME_PUNCTUATION
    } else if (kind === DIGIT) {
      if (run % 3 === 1) tokens += THREE_DIGITS
      if (run === 1 && before === SPACE) tokens += SPACES
    } else if (kind === BEYOND) tokens += beyondAscii[code >> 4] ?? 0
    else if (kind === CONTROLS) tokens += CONTROL
    else if (code === CARRIAGE_RETURN && codeBefore === CARRIAGE_RETURN) tokens += RETURN
    // One space belongs to the word after it, and a line's end to the punctuation before it.
    else if (run % LONGEST_SPACE === (kind === SPACE ? 2 : 0)) tokens += SPACES
    before = kind
    codeBefore = code
  }
  return tokens
}

/** Quotes, colon and comma of a JSON member; commas of an array melt into their neighbours. */
const MEMBER_FRAME = 1.5
/** Encrypted thinking: base64 of the cipher of about four characters per token. */
const OPAQUE_CHARS_PER_TOKEN = 5

/** Of JSON that is read as JSON, keys and all. */
export function jsonTokens(value: Json | undefined, ofText: (text: string) => number): number {
  if (typeof value === "string") return ofText(value)
  let tokens = 1
  if (Array.isArray(value)) for (const item of value) tokens += 1 + jsonTokens(item, ofText)
  else if (!isObject(value)) return value === undefined ? 0 : textTokens(String(value))
  else for (const key of Object.keys(value)) tokens += MEMBER_FRAME + textTokens(key) + jsonTokens(value[key], ofText)
  return tokens
}

export const opaqueTokens = (value: Json | undefined): number =>
  typeof value === "string" ? value.length / OPAQUE_CHARS_PER_TOKEN : 0

/** Shorter texts are a small part of a long prompt, and would take the slots of those that are not. */
const MIN_REMEMBERED = 256
/** A power of two; sixteen bytes each. */
const SLOTS = 65_536

/**
 * Estimates of texts that an account has sent before, by a hash with a secret of the process, in a table of one size: what falls into a slot that is
 * taken takes it over. Accounts do not share theirs, or else the time that a call takes would tell whether somebody else has sent a text.
 */
export class RememberedTexts {
  readonly #secret: bigint
  /** Of each slot the rest of the hash, and the tokens. */
  readonly #hashes = new Float64Array(SLOTS).fill(-1)
  readonly #tokens = new Float64Array(SLOTS)

  constructor(secret: bigint) {
    this.#secret = secret
  }

  /** What `tokens` takes to find the texts of this account. */
  seedOf(accountId: string): bigint {
    return Bun.hash.wyhash(accountId, this.#secret)
  }

  /** As `textTokens`. */
  tokens(text: string, seed: bigint): number {
    if (text.length < MIN_REMEMBERED) return textTokens(text)
    const hash = Bun.hash.wyhash(text, seed)
    const slot = Number(hash & BigInt(SLOTS - 1))
    const rest = Number(hash / BigInt(SLOTS))
    if (this.#hashes[slot] === rest) return this.#tokens[slot] ?? 0
    const tokens = textTokens(text)
    this.#hashes[slot] = rest
    this.#tokens[slot] = tokens
    return tokens
  }
}

const wordAfter = (before: number): number => {
  if (before === SPACE) return WORD_AFTER_SPACE
  return before === PUNCT ? WORD_AFTER_PUNCTUATION : WORD_AFTER_OTHER
}

/** Tokens of one UTF-16 unit outside of ASCII, by script. */
function unitTokens(code: number): number {
  if (code < 0x250) return 0.8 // Latin with marks
  if (code < 0x370) return 1.5 // sounds and marks
  if (code >= 0x400 && code < 0x460) return 0.3 // Cyrillic
  if (code >= 0x460 && code < 0x530) return 0.7 // what few of its languages have
  if ((code >= 0x700 && code < 0x900) || (code >= 0xf00 && code < 0x1000)) return 1.5 // Syriac, Samaritan, Tibetan and other rare ones
  if (code < 0x1000) return 0.42 // Greek, Hebrew, Arabic, the scripts of India, Thai
  if (code >= 0x1100 && code < 0x1e00 && (code < 0x1780 || code >= 0x1800))
    return code >= 0x1200 && code < 0x1380 ? 2 : BY_BYTE // Ethiopic; Cherokee, runes, Mongolian, parts of Hangul
  if (code < 0x2000) return 1 // Burmese, Khmer, Vietnamese
  if (code >= 0x27c0 && code < 0x3000 && !(code >= 0x2b00 && code < 0x2c00)) return BY_BYTE // Braille, mathematics, Coptic, radicals
  if (code < 0x3040) return 1.1 // punctuation, symbols, boxes
  if (code < 0x3190) return 0.9 // kana, sounds of Chinese and Korean
  if (code >= 0x4e00 && code < 0xa000) return 0.9 // Han
  if (code < 0xac00) return BY_BYTE // squared words, Han that nobody writes; Javanese and its like
  if (code < 0xd800) return 0.8 // Hangul
  if (code < 0xdc00) return code >> 4 === 0xd83 ? 1.2 : 2.8 // of a pair: emoji, letters of mathematics; cuneiform, rare Han
  if (code < 0xe000) return 1.2 // the pair's other half
  return code < 0xfb00 || (code >= 0xfb50 && code < 0xfe00) ? BY_BYTE : 1.1 // private use, forms of Arabic; full-width forms
}

/** Nothing of a vocabulary. */
const BY_BYTE = 3
/** By sixteen units: scripts begin there. */
const beyondAscii = Float64Array.from({ length: 0x1000 }, (_, row) => unitTokens(row << 4))

// How likely a tokenizer is to cut a word between two letters: one row for each first letter, one digit of base 36 for
// each second one, 0 never and z always. Counted over o200k's own cuts in English and Indonesian prose, several other
// languages in Latin script, code, JSON and base64. It tells languages and random text apart where a word's length
// cannot: "th" is seldom cut, "ng" in the midst of an Indonesian word often, "qz" nearly always.

const rows = [
  "4000k21134000090a000101202",
  "6add2hcj53k1fe3lq15b9mif1w",
  "3b2a1gh05q108g29k1804hgg4j",
  "3af41c5j3h9cgv3en7138cje3j",
  "2320313c5f6010h4100092302d",
  "1ibk11hk1pe2ga1bp2611mjb6s",
  "7aki2kb26kw2c29is1458jjlbn",
  "29lc0ngk4libfm1eg4803g9eaf",
  "2200100am41000005000s0e2d1",
  "7iij2hmnfhgglc9mni5l4onrjs",
  "2dnf2odc3pali98ptb66cgbrau",
  "48e3196k5k83ke2csj1347fm1r",
  "41j31k3m8vog3722em2gahijbq",
  "6h10140c6k36c316ti1064qg1a",
  "5110602624100020n0010117e4",
  "2j572bc35na13k12i1204jh57u",
  "goilntpphuu1nfmlf6ec0npopt",
  "5g22141l563b211j5221947h1s",
  "5r851cm24j96bq263510433f8g",
  "9l332kl14oh7lk31u1112e6b1b",
  "603012232h1000c1p000j5e498",
  "2ngi0m5m3odgcl2frfdkiknljo",
  "2kka1lm11oleg22ft24c9h5ccu",
  "7jjkalul8utpimj1uii1kotefl",
  "5ibjbthsirk68221uf47wt9jfl",
  "7pri2mke4pppfcdpskld7objc2",
]

const LETTERS = 26
const SMALL_A = 97

/** Indexed by `first * LETTERS + second`, letters counted from 0, upper and lower case alike. */
const cutBetween = Float64Array.from(rows.join(""), (digit) => CUT_IN_WORD * (Number.parseInt(digit, 36) / 35))

/** A count as it arrived: any JSON, or nothing. */
export type Count = Json | undefined

interface CacheAndOutput {
  /** Absent cache counts are 0: most backends leave them out when there is no cache. */
  readonly cacheRead: Count
  readonly cacheWrite: Count
  readonly output: Count
}

/** Checks counts whose `input` excludes what was read from or written to a cache (the messages format). */
export const tokensFromDisjoint = (counts: CacheAndOutput & { readonly input: Count }): Tokens | undefined => {
  const input = checked(counts.input)
  const cacheRead = checked(orZero(counts.cacheRead))
  const cacheWrite = checked(orZero(counts.cacheWrite))
  const output = checked(counts.output)
  if (input === undefined || cacheRead === undefined || cacheWrite === undefined || output === undefined)
    return undefined
  return { input, cacheRead, cacheWrite, output }
}

/** Checks counts whose `prompt` includes what was read from and written to a cache (chat and responses). */
export const tokensFromInclusive = (counts: CacheAndOutput & { readonly prompt: Count }): Tokens | undefined => {
  const prompt = checked(counts.prompt)
  const cacheRead = checked(orZero(counts.cacheRead))
  const cacheWrite = checked(orZero(counts.cacheWrite))
  if (prompt === undefined || cacheRead === undefined || cacheWrite === undefined) return undefined
  // Judged after normalising, so a prompt that is less than its own cached part is a negative bucket and refused there.
  return tokensFromDisjoint({ input: prompt - cacheRead - cacheWrite, cacheRead, cacheWrite, output: counts.output })
}

/** An answer that has content was not made of nothing: zeros are no count of it. */
export const plausibleTokens = (tokens: Tokens | undefined, hasContent: boolean): Tokens | undefined =>
  tokens !== undefined && hasContent && totalTokens(tokens) === 0 ? undefined : tokens

/** A count that is no number of its own any more is over every bound all the same, and is charged up to that (decisions §13.2). */
const checked = (count: Count): number | undefined =>
  isCount(count) ? Math.min(count, Number.MAX_SAFE_INTEGER) : undefined

const isCount = (count: Count): count is number => typeof count === "number" && Number.isInteger(count) && count >= 0

/** What of an answer was thinking, for its client to see; undefined where that cannot be true. */
export const reasoningIn = (output: number, count: Count): number | undefined =>
  isCount(count) && count <= output ? count : undefined

/** More than any backend runs for one call: a count over it is not believed further. */
const MOST_SEARCHES = 100

/** Searches that a backend says it ran, which its operator pays for and no customer; undefined where it does not say. */
export const reportedSearches = (claim: Count): number | undefined =>
  isCount(claim) && Number.isSafeInteger(claim) ? boundedSearches(claim) : undefined
export const boundedSearches = (count: number): number => Math.min(count, MOST_SEARCHES)

const orZero = (count: Count): Count => (present(count) ? count : 0)
