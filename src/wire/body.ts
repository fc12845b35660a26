/**
 * From the bytes of a request to an object that may be looked at (decisions §4.6 and §4.7). Everything after this
 * works on the parsed object and forwards it written anew, so of duplicate keys the last one is both what is priced and
 * what is sent. Depth and values are counted before parsing, because the parser itself accepts a million levels, and
 * whatever walks the object afterwards would run out of stack, or of time. Then the fields that every body gets.
 */
import { keepNumbers } from "../language/exact-numbers.ts"
import { isObject, type Json, type JsonObject, misshapen, notServed, present, shown } from "../language/json.ts"
import { Failure } from "../failure/failure.ts"
import { type Effort, EFFORTS, nearestEffort } from "../language/prompt.ts"
import type { Adaptation, Conversation, Endpoint } from "../language/request.ts"
import { estimateInputTokens } from "./estimate.ts"

export const DEEPEST_NESTING = 64
/** What a body costs grows with its values more than with its bytes (decisions §13.10). */
export const MAX_VALUES = 200_000
/** Numbers in lists beside these, where they are token ids: none of them is looked into, and vendors take 300,000. */
const MAX_TOKEN_IDS = 500_000
/** A body of more is too much work for the thread that serves everybody. */
export const MANY_VALUES = 5_000
/** Larger bodies are judged by their size before they are looked into (decisions §13.10). */
export const LARGE_BODY_BYTES = 256 * 1024

const SPACE = 0x20
const QUOTE = 0x22
const COMMA = 0x2c
const COLON = 0x3a
const BACKSLASH = 0x5c
/** `[` and `{` are 0x5b and 0x7b, `]` and `}` are 0x5d and 0x7d: one bit apart. */
const CASE_BIT = 0x20
const OPENING = 0x7b
const CLOSING = 0x7d
const ZERO = 0x30
const NINE = 0x39

const decoder = new TextDecoder("utf-8", { fatal: true })

const unreadable = (message: string): Failure => new Failure("request.invalid", { message })

export function parseBody(bytes: Uint8Array, extent?: Extent, takesTokenIds = false): JsonObject | Failure {
  if (bytes.length === 0) return unreadable("The request body is empty; it must be a JSON object.")
  const { depth, values: all, room } = extent ?? extentOf(bytes, MAX_VALUES + (takesTokenIds ? MAX_TOKEN_IDS : 0))
  const isOver = all > MAX_VALUES && takesTokenIds && depth <= DEEPEST_NESTING
  const values = isOver ? all - Math.min(listedIntegers(bytes), MAX_TOKEN_IDS) : all
  if (depth > DEEPEST_NESTING) return unreadable(`The request body nests deeper than ${DEEPEST_NESTING} levels.`)
  if (values + room > MAX_VALUES) return unreadable(`The request body has more than ${MAX_VALUES} values.`)
  let text: string
  let body: Json
  try {
    text = decoder.decode(bytes)
    body = JSON.parse(text) as Json
  } catch {
    return unreadable("The request body is not valid JSON in UTF-8.")
  }
  if (!isObject(body)) return misshapen(`The request body is ${shown(body)}; it must be a JSON object.`)
  keepNumbers(body, text)
  return body
}

/** The catalogue id that the client names. Whether there is such a model is the catalogue's to say. */
export function readModel(body: JsonObject): string | Failure {
  const model = body["model"]
  if (typeof model === "string" && model !== "") return model
  return unreadable(`'model' is ${shown(model)}; it must be the id of a model in the catalogue.`)
}

interface Extent {
  /** Levels of arrays and objects. */
  readonly depth: number
  /** As JSON has them: objects, arrays, texts, numbers, `true`, `false` and `null`, the outermost one too, without names. */
  readonly values: number
  /** Of objects whose names are numbers: how many values would take the room of what is not there. */
  readonly room: number
}

/**
 * How deep and how many: a value ends at a comma or closes what is not empty. Works on bytes, for in UTF-8 no byte of a
 * longer character looks like a bracket or a quote. Strings, which are nearly all of a large body, are left by a native
 * search for their closing quote. Counting stops past either limit; what is no JSON counts as anything.
 */
export function extentOf(bytes: Uint8Array, mostValues: number = MAX_VALUES, mostLevels = DEEPEST_NESTING): Extent {
  // One that has just opened may still turn out empty.
  const enough = mostValues + 1
  let depth = 0
  let deepest = 0
  let values = 1
  let room = 0
  /** By depth, where an object names a number: the room that the object there has. */
  let roomAt: number[] | undefined
  let isEmpty = false
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at] ?? 0
    if (byte === QUOTE) {
      isEmpty = false
      const start = at
      at = endOfString(bytes, at)
      if (at < 0) break
      if (at - start > LONGEST_INDEX || !mayBeginIndex(bytes[start + 1] ?? 0)) continue
      const needed = indexNamed(bytes, start, at) / PLACES_OF_VALUE
      const known = roomAt?.[depth] ?? 0
      if (needed <= known) continue
      roomAt ??= []
      roomAt[depth] = needed
      room += needed - known
      if (values + room > enough) break
    } else if (byte === COMMA) {
      if (++values + room > enough) break
    } else if ((byte | CASE_BIT) === OPENING) {
      if (++depth > deepest) deepest = depth
      if (roomAt !== undefined) roomAt[depth] = 0
      if (deepest > mostLevels || ++values + room > enough) break
      isEmpty = true
    } else if ((byte | CASE_BIT) === CLOSING) {
      depth--
      if (isEmpty) values--
      isEmpty = false
    } else if (byte > SPACE) isEmpty = false
  }
  return { depth: deepest, values, room }
}

/** A place in an object takes 8 bytes, and a value about 64. */
const PLACES_OF_VALUE = 8
/** Bytes of a name of three digits and its opening quote, each escaped. */
const LONGEST_INDEX = 19

const mayBeginIndex = (byte: number): boolean => (byte >= ZERO && byte <= NINE) || byte === BACKSLASH

/**
 * The number that a string is as a name, or 0. The engine keeps what has such a name in a list that begins at 0: `{"999":0}` takes 8 KB. Larger
 * numbers take no room but their own.
 */
function indexNamed(bytes: Uint8Array, start: number, end: number): number {
  let next = end + 1
  while ((bytes[next] ?? COLON) <= SPACE) next++
  if (bytes[next] !== COLON) return 0
  const written = String.fromCharCode(...bytes.subarray(start + 1, end))
  const name = written.replace(/\\u00(3\d)/g, (_, code: string) => String.fromCharCode(Number.parseInt(code, 16)))
  return /^\d{1,3}$/.test(name) ? Number(name) : 0
}

/** Levels of one input. Beyond some twenty thousand `JSON.stringify` takes a second for 60 KB, in which nobody else is served. */
const DEEPEST_WRITTEN = 10_000

/** The inputs of all tool calls in one request, which are JSON within its texts: together they may have as many values as a body. */
export class ToolInputs {
  #left = MAX_VALUES

  /** Whether this one may be parsed. */
  take(text: string): boolean {
    const { depth, values, room } = extentOf(Buffer.from(text), this.#left, DEEPEST_WRITTEN)
    if (depth > DEEPEST_WRITTEN || values + room > this.#left) return false
    this.#left -= values + room
    return true
  }
}

/** How many of the values are integers that stand in a list, as token ids do. */
function listedIntegers(bytes: Uint8Array): number {
  let count = 0
  let hasDigits = false
  let hasOther = false
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at] ?? 0
    if (byte >= ZERO && byte <= NINE) hasDigits = true
    else if (byte === COMMA || (byte | CASE_BIT) === OPENING || (byte | CASE_BIT) === CLOSING) {
      if (hasDigits && !hasOther) count++
      hasDigits = hasOther = false
    } else if (byte === QUOTE) {
      hasOther = true
      at = endOfString(bytes, at)
      if (at < 0) break
    } else if (byte > SPACE) hasOther = true
  }
  return count
}

/** A native search costs as much as looking at so many bytes. */
const NEAR_BYTES = 32

/** Where the string that opens at `start` closes, or −1: then it is no JSON, and the parser says so. */
function endOfString(bytes: Uint8Array, start: number): number {
  for (let at = start + 1; at < bytes.length; at++) {
    for (const near = at + NEAR_BYTES; at < near; at++) {
      const byte = bytes[at]
      if (byte === QUOTE) return at
      if (byte === BACKSLASH) at++
    }
    // What is escaped ends before this place.
    const from = at
    at = bytes.indexOf(QUOTE, from)
    if (at < 0) return -1
    let slashes = 0
    while (at - 1 - slashes >= from && bytes[at - 1 - slashes] === BACKSLASH) slashes++
    if (slashes % 2 === 0) return at
  }
  return -1
}

// Fields that the gateway writes into every request: the end user and the service tier.
//
// The end-user id (decisions §13.18) tells the customers behind the operator's one account at a backend apart, so that one who abuses
// it can be found. It is opaque to the backend, and differs in each installation.

/** The client's own name of its end user, if it sends one. */
export function readEndUser(value: Json | undefined): string | undefined {
  if (typeof value === "number") return String(value)
  return typeof value === "string" && value !== "" ? value : undefined
}

/** Hexadecimal digits: 128 bits. Both parts together are no longer than every backend accepts (64). */
const ACCOUNT_DIGITS = 32
const OWN_DIGITS = 31

/**
 * The account's id, followed by the client's own end user if it names one. The client's users stay distinct, and the operator can
 * still find the account that a backend complains about.
 */
export function endUser(secret: Uint8Array, accountId: string, own: string | undefined): string {
  const account = accountName(secret, accountId)
  return own === undefined ? account : `${account}-${hmacHex(secret, [accountId, own]).slice(0, OWN_DIGITS)}`
}

/**
 * For backends that keep prompts by a key, where a client tells none: one of the conversation that it names, else one of the account. Such
 * backends look at the prompt's beginning beside the key, so conversations that open alike find what they share, and others stay apart.
 */
export function cacheKey(secret: Uint8Array, accountId: string, conversation: Conversation): string {
  const names = "name" in conversation ? [conversation.name] : []
  return hmacHex(secret, ["cache", accountId, ...names]).slice(0, KEY_DIGITS)
}

/** 128 bits. */
const KEY_DIGITS = 32

/** A cache of account names, so that a call needs no hash. */
const accountNames = new Map<string, { readonly secret: Uint8Array; readonly name: string }>()
const MAX_KNOWN = 10_000

function accountName(secret: Uint8Array, accountId: string): string {
  const before = accountNames.get(accountId)
  if (before?.secret === secret) return before.name
  const name = hmacHex(secret, [accountId]).slice(0, ACCOUNT_DIGITS)
  if (accountNames.size >= MAX_KNOWN) accountNames.clear()
  accountNames.set(accountId, { secret, name })
  return name
}

/** JSON is the input of the hash, because it is different for different lists. */
const hmacHex = (secret: Uint8Array, said: readonly string[]): string =>
  new Bun.CryptoHasher("sha256", secret).update(JSON.stringify(said)).digest("hex")

// The service tier (decisions §13.3). The catalogue's rates are those of the standard tier, so every body asks for it explicitly:
// without the field, the backend's account would decide. A client may ask for a cheaper tier.

const SERVED: readonly Json[] = ["auto", "default", "flex", "standard", "standard_only"]

/** Any other word may be a more expensive tier at some backend. */
export function checkServiceTier({ service_tier: tier }: JsonObject): Failure | undefined {
  if (!present(tier) || SERVED.includes(tier)) return undefined
  return notServed(`'service_tier' is ${shown(tier)}; only the default tier and flex are served.`)
}

/** The tier to write, in a backend's format. */
export function serviceTier(backend: Endpoint, { service_tier: tier }: JsonObject): string {
  if (tier === "flex") return tier
  return backend === "messages" ? "standard_only" : "default"
}

// What the operator sets of a backend.

/** Where formats, and servers of theirs, have the effort. */
const PLACES_OF_EFFORT = ["reasoning", "output_config"]

/** A copy with the nearest effort that the backend takes. What is no effort stays. */
export function withEfforts(body: JsonObject, known: readonly Effort[]): JsonObject {
  const nearest = (asked: Json | undefined) => {
    const effort = EFFORTS.find((one) => one === asked)
    return (effort && nearestEffort(known, effort)) ?? asked
  }
  const written: JsonObject = { ...body }
  if (present(body["reasoning_effort"])) written["reasoning_effort"] = nearest(body["reasoning_effort"])
  for (const name of PLACES_OF_EFFORT) {
    const place = body[name]
    if (isObject(place) && present(place["effort"])) written[name] = { ...place, effort: nearest(place["effort"]) }
  }
  return written
}

/** A template may put what is set into the prompt. */
export const setTokens = ({ set }: Adaptation): number =>
  set === undefined ? 0 : estimateInputTokens({ messages: undefined, tools: [], schemas: [set] })
