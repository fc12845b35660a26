/**
 * Who asks, as backends are told (decisions §13.18): so that of all customers behind the operator's one account there, one
 * who abuses it can be told from the others. Opaque to a backend, and another one in each installation.
 */
import type { Json } from "../language/json.ts"

/** The client's own name of its end user, where it says one. */
export function readEndUser(value: Json | undefined): string | undefined {
  if (typeof value === "number") return String(value)
  return typeof value === "string" && value !== "" ? value : undefined
}

/** Characters of hexadecimal digits: 128 bits, and both parts together no longer than every backend takes (64). */
const ACCOUNT_DIGITS = 32
const OWN_DIGITS = 31

/**
 * The account, and after it the client's own end user where it names one: its users stay apart, and the operator still
 * finds the account that a backend complains of.
 */
export function endUser(secret: Uint8Array, accountId: string, own: string | undefined): string {
  const account = accountName(secret, accountId)
  return own === undefined ? account : `${account}-${digits(secret, [accountId, own]).slice(0, OWN_DIGITS)}`
}

/** Names of the accounts that call, so that a call needs no hash of its own. */
const known = new Map<string, { readonly secret: Uint8Array; readonly name: string }>()
const MOST_KNOWN = 10_000

function accountName(secret: Uint8Array, accountId: string): string {
  const before = known.get(accountId)
  if (before?.secret === secret) return before.name
  const name = digits(secret, [accountId]).slice(0, ACCOUNT_DIGITS)
  if (known.size >= MOST_KNOWN) known.clear()
  known.set(accountId, { secret, name })
  return name
}

/** As JSON, in which no two lists of texts are written alike. */
const digits = (secret: Uint8Array, said: readonly string[]): string =>
  new Bun.CryptoHasher("sha256", secret).update(JSON.stringify(said)).digest("hex")
