/**
 * The form of an API key (decisions §1), and of a management token, which begins with `mt-loket-`: `sk-loket-`, 40 base62 characters of secret, 6 base62 characters of CRC-32 over
 * what precedes them. Pure and quick, because the gateway's hot path checks every key here: a mistyped or made-up key is
 * refused by its checksum, without a look-up.
 */
export const API_KEY_PREFIX = "sk-loket-"
/** As long as that of a key. */
export const TOKEN_PREFIX = "mt-loket-"

const SECRET_LENGTH = 40
const CHECKSUM_LENGTH = 6
const BODY_LENGTH = API_KEY_PREFIX.length + SECRET_LENGTH
const KEY_LENGTH = BODY_LENGTH + CHECKSUM_LENGTH

const BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
const SHAPE = /^sk-loket-[0-9A-Za-z]{46}$/
const TOKEN_SHAPE = /^mt-loket-[0-9A-Za-z]{46}$/

export const createApiKey = (): string => create(API_KEY_PREFIX)
export const createToken = (): string => create(TOKEN_PREFIX)

/** Whether the text has the form and the checksum of a key; not whether such a key exists. */
export const checkApiKey = (text: string): boolean => isWhole(text, SHAPE)
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
