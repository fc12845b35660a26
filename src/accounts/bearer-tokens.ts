/**
 * The bearer tokens of the gateway: API keys, management tokens and session tokens. Pure and fast, because the gateway's hot path
 * checks every key here.
 */

/**
 * An API key is `sk-loket-`, 40 base62 characters of secret, and 6 base62 characters of CRC-32 over what precedes them (decisions §1).
 * The checksum refuses a mistyped or invented key without a look-up. A management token has the same form and begins with
 * `mt-loket-`.
 */
export const API_KEY_PREFIX = "sk-loket-"
export const TOKEN_PREFIX = "mt-loket-"

const SECRET_LENGTH = 40
const CHECKSUM_LENGTH = 6
const BODY_LENGTH = API_KEY_PREFIX.length + SECRET_LENGTH
const KEY_LENGTH = BODY_LENGTH + CHECKSUM_LENGTH

const BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
const KEY_SHAPE = /^sk-loket-[0-9A-Za-z]{46}$/
const TOKEN_SHAPE = /^mt-loket-[0-9A-Za-z]{46}$/

export const createApiKey = (): string => create(API_KEY_PREFIX)
export const createToken = (): string => create(TOKEN_PREFIX)

/** Whether the text has the form and the checksum of a key; not whether such a key exists. */
export const checkApiKey = (text: string): boolean => isWhole(text, KEY_SHAPE)
/** The same of a management token. */
export const checkToken = (text: string): boolean => isWhole(text, TOKEN_SHAPE)

const isWhole = (text: string, shape: RegExp): boolean =>
  text.length === KEY_LENGTH && shape.test(text) && checksum(text.slice(0, BODY_LENGTH)) === text.slice(BODY_LENGTH)

function create(prefix: string): string {
  const body = prefix + randomBase62(SECRET_LENGTH)
  return body + checksum(body)
}

/** What is stored and looked up: SHA-256 of the whole key. The secret has 238 random bits, so no salt or stretching is needed. */
export const hashApiKey = (text: string): Uint8Array<ArrayBuffer> => {
  const hash = new Uint8Array(32)
  Bun.SHA256.hash(text, hash)
  return hash
}

/** The same as its actor is named by: in hexadecimal digits. */
export const apiKeyId = (text: string): string => Bun.SHA256.hash(text, "hex")

/** What may be shown of a key after its creation. */
export const apiKeyHints = (text: string): { prefix: string; last4: string } => ({
  prefix: text.slice(0, API_KEY_PREFIX.length + 4),
  last4: text.slice(-4),
})

function checksum(body: string): string {
  let rest = Bun.hash.crc32(body)
  let digits = ""
  while (digits.length < CHECKSUM_LENGTH) {
    digits = BASE62.charAt(rest % 62) + digits
    rest = Math.floor(rest / 62)
  }
  return digits
}

/** Bytes of 248 and more are thrown away: 256 is no multiple of 62, and a remainder alone would favour eight characters. */
function randomBase62(length: number): string {
  let text = ""
  while (text.length < length) {
    for (const byte of crypto.getRandomValues(new Uint8Array(length - text.length))) {
      if (byte < 248) text += BASE62.charAt(byte % 62)
    }
  }
  return text
}

/**
 * A session token of the dashboard is 256 random bits. Only its SHA-256 is stored, so a copy of the database opens no session. A fast
 * hash suffices, because nobody can guess 256 random bits.
 */
const SESSION_SHAPE = /^[A-Za-z0-9_-]{43}$/

export interface SessionToken {
  readonly token: string
  readonly hash: Uint8Array
}

export function createSessionToken(): SessionToken {
  const token = Buffer.from(crypto.getRandomValues(new Uint8Array(32))).toString("base64url")
  return { token, hash: sha256(token) }
}

/** The stored form of a token that a client sent, or undefined for what cannot be one. */
export const hashSessionToken = (token: string): Uint8Array | undefined =>
  SESSION_SHAPE.test(token) ? sha256(token) : undefined

function sha256(text: string): Uint8Array {
  const hash = new Uint8Array(32)
  Bun.SHA256.hash(text, hash)
  return hash
}
