/**
 * Session tokens of the dashboard: 256 random bits, stored as their SHA-256 only, so that a copy of the database opens no
 * session. A fast hash suffices: there is nothing to guess in 256 random bits.
 */
const SHAPE = /^[A-Za-z0-9_-]{43}$/

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
  SHAPE.test(token) ? sha256(token) : undefined

function sha256(text: string): Uint8Array {
  const hash = new Uint8Array(32)
  Bun.SHA256.hash(text, hash)
  return hash
}
