/**
 * From the bytes of a request to an object that may be looked at (decisions §4.6 and §4.7). Everything after this
 * works on the parsed object and forwards it written anew, so of duplicate keys the last one is both what is priced and
 * what is sent. Depth is counted before parsing, because the parser itself accepts a million levels, and whatever walks
 * the object afterwards would run out of stack.
 */
import { isObject, type Json, type JsonObject } from "../chat/json.ts"
import { misshapen, shown } from "../chat/shape.ts"
import { Failure } from "../failure/failure.ts"

export const DEEPEST_NESTING = 64

const QUOTE = 0x22
const BACKSLASH = 0x5c
/** `[` and `{` are 0x5b and 0x7b, `]` and `}` are 0x5d and 0x7d: one bit apart. */
const CASE_BIT = 0x20
const OPENING = 0x7b
const CLOSING = 0x7d

const unreadable = (message: string): Failure => new Failure("request.invalid", { message })

export function parseBody(bytes: Uint8Array): JsonObject | Failure {
  if (bytes.length === 0) return unreadable("The request body is empty; it must be a JSON object.")
  if (nestsTooDeep(bytes)) return unreadable(`The request body nests deeper than ${DEEPEST_NESTING} levels.`)
  let body: Json
  try {
    body = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes)) as Json
  } catch {
    return unreadable("The request body is not valid JSON in UTF-8.")
  }
  return isObject(body) ? body : misshapen(`The request body is ${shown(body)}; it must be a JSON object.`)
}

/** The catalogue id that the client names. Whether there is such a model is the catalogue's to say. */
export function readModel(body: JsonObject): string | Failure {
  const model = body["model"]
  if (typeof model === "string" && model !== "") return model
  return unreadable(`'model' is ${shown(model)}; it must be the id of a model in the catalogue.`)
}

/**
 * Works on bytes: in UTF-8 no byte of a longer character looks like a bracket or a quote. Strings, which are nearly all
 * of a large body, are left by a native search for their closing quote.
 */
function nestsTooDeep(bytes: Uint8Array): boolean {
  let depth = 0
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at] ?? 0
    if (byte === QUOTE) {
      at = endOfString(bytes, at)
      if (at < 0) return false
    } else if ((byte | CASE_BIT) === OPENING) {
      if (++depth > DEEPEST_NESTING) return true
    } else if ((byte | CASE_BIT) === CLOSING) depth--
  }
  return false
}

/** Where the string that opens at `start` closes, or −1: then it is no JSON, and the parser says so. */
function endOfString(bytes: Uint8Array, start: number): number {
  for (let at = start + 1; ; at++) {
    at = bytes.indexOf(QUOTE, at)
    if (at < 0) return -1
    let slashes = 0
    while (bytes[at - 1 - slashes] === BACKSLASH) slashes++
    if (slashes % 2 === 0) return at
  }
}
