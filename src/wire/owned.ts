/**
 * What the gateway writes into every request itself: who asks, and at what price a backend is to compute.
 *
 * Who asks (decisions §13.18): so that of all customers behind the operator's one account at a backend, one who abuses it can
 * be told from the others. Opaque to a backend, and another one in each installation.
 */
import { type Json, type JsonObject, present } from "../language/json.ts"
import type { Endpoint } from "../language/request.ts"
import { notServed, shown } from "../language/shape.ts"
import type { Failure } from "../failure/failure.ts"

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

// At what price a backend computes (decisions §13.3). The catalogue's rates are those of the standard tier, so that is what
// every body asks for in so many words: left out, the backend's account would decide. A cheaper tier may be asked for.

const SERVED: readonly Json[] = ["auto", "default", "flex", "standard", "standard_only"]

/** Whatever is not one of these words, letter by letter, may be a dearer one to some backend. */
export function refuseTier({ service_tier: tier }: JsonObject): Failure | undefined {
  if (!present(tier) || SERVED.includes(tier)) return undefined
  return notServed(`'service_tier' is ${shown(tier)}; only the default tier and flex are served.`)
}

/** The tier to write, in a backend's format. */
export function serviceTier(backend: Endpoint, { service_tier: tier }: JsonObject): string {
  if (tier === "flex") return tier
  return backend === "messages" ? "standard_only" : "default"
}
