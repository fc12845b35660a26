/**
 * What people type into an account: e-mail address, password and time zone, and the codes of the second factor. A field is a
 * check of one value, with the sentence that explains a refusal, because the dashboard shows it.
 *
 * And what becomes of a password: argon2id, a few at a time. One hash takes tens of megabytes and a core for tens of
 * milliseconds, so a crowd at the sign-in door must wait outside and not take the gateway's threads; over a bounded queue it is
 * refused. Networks take turns, so that whoever sends a hundred at once waits for himself. In a full queue the network, or
 * the /48 of IPv6 networks, with the most who wait gives up one for one of fewer, so that a few keep nobody else out.
 */
import { type Static, Type } from "@sinclair/typebox"
import { Secret, TOTP } from "otpauth"
import { networkOf, siteOf } from "../../actors/network.ts"
import { NPWP } from "../config.ts"
import { Failure } from "../failure/failure.ts"
import type { StoredCredentials } from "../store/credentials.ts"
import type { PasswordThrottle } from "./rate-limits.ts"

/**
 * One `@`, a domain with a dot, no white space; whether mail arrives there only a mail can tell. At most 254 octets (RFC 5321). No angle
 * brackets, which end an address in a mail's head: `<ana@example.com` would be sent to `ana@example.com`, and be another account.
 * No controls of the text's direction, which would show it as another.
 */
export const Email = Type.RegExp(
  /^(?=[^]{3,254}$)[^\s@\p{Cc}\p{Cs}<>\u202a-\u202e\u2066-\u2069]{1,64}@[^\s@.\p{Cc}\p{Cs}<>\u202a-\u202e\u2066-\u2069()[\],;:"\\]+(?:\.[^\s@.\p{Cc}\p{Cs}<>\u202a-\u202e\u2066-\u2069()[\],;:"\\]+)+$/u,
  { description: "an e-mail address of at most 254 characters" },
)

/** An address to look for: what cannot be one is merely unknown, but the database takes no NUL. */
export const SomeEmail = Type.RegExp(/^[^\p{Cc}]{0,254}$/u, {
  description: "a string of at most 254 characters on one line",
})

/** Characters, not UTF-16 units: the `u` flag counts an emoji once. */
export const NewPassword = Type.RegExp(/^[^]{10,256}$/u, { description: "a string of 10 to 256 characters" })

/** A password to compare: any string, since what cannot be one is merely wrong. */
export const SomePassword = Type.String({ description: "a string" })

/** To whom receipts are made out, which are not changed once they are issued: at least a letter, a digit or a sign is to be seen. */
export const BuyerName = Type.RegExp(
  /^(?=[^]{1,200}$)(?=.*[\p{L}\p{N}\p{P}\p{S}])[^\p{Cc}\p{Cs}\u2028-\u202e\u2066-\u2069]+$/u,
  {
    description: "a name of 1 to 200 characters on one line, without controls of the text's direction",
  },
)
export const BuyerAddress = Type.RegExp(
  /^(?=[^]{1,500}$)(?=[^]*[\p{L}\p{N}\p{P}\p{S}])(?:[^\p{Cc}\p{Cs}\u2028-\u202e\u2066-\u2069]+(?:\n|$)){1,6}$/u,
  { description: "an address of at most 500 characters and 6 lines, without controls of the text's direction" },
)
export const Npwp = Type.String({
  pattern: NPWP,
  description: "an NPWP of 15 or 16 digits, such as 01.234.567.8-901.000",
})

/** What another version, or anything else, is refused with. */
export const agreeable = "the version of the texts that are in force, as `GET /about` tells it"
export const AgreedVersion = Type.String({ maxLength: 64, description: agreeable })

export const TimeZone = Type.RegExp(/^[A-Za-z][A-Za-z0-9_+/-]{0,63}$/, {
  description: "an IANA time zone such as Asia/Jakarta",
})
export type TimeZone = Static<typeof TimeZone>

/** Whether this runtime knows the zone. An offset such as +07:00 is none: `TimeZone` refused it. */
export function knownTimeZone(name: TimeZone): boolean {
  try {
    return new Intl.DateTimeFormat("en", { timeZone: name }).resolvedOptions().timeZone !== ""
  } catch {
    return false
  }
}

export const PERIOD_S = 30

export const RECOVERY_CODES = 10
/** Letters that look like digits are left out. 16 of 32 characters are 80 bits, too many to guess from a hash. */
const CODE_LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"
export const CODE_LENGTH = 16

/** Removes white space and dashes, which people type and paste. */
export const normalized = (code: string): string => code.toUpperCase().replaceAll(/[\s-]/g, "")

export const hashOf = (code: string): Uint8Array =>
  new Uint8Array(new Bun.CryptoHasher("sha256").update(normalized(code)).digest())

/** 32 letters divide 256, so every code is as likely as any other. */
export const newCodes = (): readonly string[] =>
  Array.from({ length: RECOVERY_CODES }, () =>
    [...crypto.getRandomValues(new Uint8Array(CODE_LENGTH))]
      .map((byte, at) => (at > 0 && at % 4 === 0 ? "-" : "") + CODE_LETTERS[byte % CODE_LETTERS.length])
      .join(""),
  )

/** The time step of a code of the app, if it is the current step, the one before or the next. Time in milliseconds. */
export function stepOf(secret: Uint8Array, typed: string, timestamp: number): number | undefined {
  const token = normalized(typed)
  if (!/^\d{6}$/.test(token)) return undefined
  const buffer = new Uint8Array(secret).buffer
  const delta = TOTP.validate({ token, secret: new Secret({ buffer }), period: PERIOD_S, timestamp, window: 1 })
  return delta === null ? undefined : Math.floor(timestamp / 1_000 / PERIOD_S) + delta
}

export interface PasswordCost {
  /** KiB of memory of one hash. */
  readonly memoryKiB: number
  readonly passes: number
}

/** OWASP's recommendation for argon2id (Password Storage Cheat Sheet). */
export const passwordCost: PasswordCost = { memoryKiB: 19_456, passes: 2 }

/** How many are worked on at once, and how many may wait: of one network, and of all. */
const AT_ONCE = 2
const WAITING_OF_NETWORK = 32
const WAITING = 512

/** Told true when it is its turn, and false when it gave up its place. */
type Waiting = (isItsTurn: boolean) => void

export class Passwords {
  readonly #cost: PasswordCost
  /** By network; whose turn is next stands first. */
  readonly #queues = new Map<string, Waiting[]>()
  #waiting = 0
  #busy = 0
  #decoy: Promise<string> | undefined

  constructor(cost: PasswordCost = passwordCost) {
    this.#cost = cost
  }

  hash(password: string, network: string): Promise<string | Failure> {
    return this.#inTurn(network, () => this.#hash(password))
  }

  /** Without a hash (no such account) it verifies against a decoy, so that the time taken does not tell who has an account. */
  verify(password: string, hash: string | undefined, network: string): Promise<boolean | Failure> {
    return this.#inTurn(network, async () => {
      const decoy = await (this.#decoy ??= this.#hash("a decoy that nobody signs in with"))
      const matches = await Bun.password.verify(password, hash ?? decoy)
      return matches && hash !== undefined
    })
  }

  #hash(password: string): Promise<string> {
    return Bun.password.hash(password, {
      algorithm: "argon2id",
      memoryCost: this.#cost.memoryKiB,
      timeCost: this.#cost.passes,
    })
  }

  async #inTurn<T>(network: string, work: () => Promise<T>): Promise<T | Failure> {
    if (this.#busy >= AT_ONCE) {
      const queue = this.#queues.get(network) ?? []
      if (queue.length >= WAITING_OF_NETWORK || !this.#makeRoom(network)) return tooMany()
      this.#waiting += 1
      this.#queues.set(network, queue)
      // Whoever finishes hands its place over, so nobody who comes later can overtake.
      if (!(await new Promise<boolean>((resolve) => queue.push(resolve)))) return tooMany()
    } else {
      this.#busy += 1
    }
    using _place = this.#place()
    return await work()
  }

  /** A full queue takes one of a network's site, where another site has more, even without the one that it gives up. */
  #makeRoom(network: string): boolean {
    if (this.#waiting < WAITING) return true
    const counts = new Map<string, number>()
    for (const [each, queue] of this.#queues) {
      const site = siteOf(each)
      counts.set(site, (counts.get(site) ?? 0) + queue.length)
    }
    let [crowd, most] = ["", 0]
    for (const [site, count] of counts) if (count > most) [crowd, most] = [site, count]
    if (most - 1 <= (counts.get(siteOf(network)) ?? 0)) return false
    let [longest, waiting]: [string, Waiting[]] = ["", []]
    for (const [each, queue] of this.#queues)
      if (queue.length > waiting.length && siteOf(each) === crowd) [longest, waiting] = [each, queue]
    waiting.pop()?.(false)
    if (waiting.length === 0) this.#queues.delete(longest)
    this.#waiting -= 1
    return true
  }

  /** The first of the network whose turn it is, which then stands last. */
  #next(): Waiting | undefined {
    for (const [network, queue] of this.#queues) {
      const next = queue.shift()
      this.#queues.delete(network)
      if (queue.length > 0) this.#queues.set(network, queue)
      this.#waiting -= 1
      return next
    }
    return undefined
  }

  #place(): Disposable {
    return {
      [Symbol.dispose]: () => {
        const next = this.#next()
        if (next === undefined) this.#busy -= 1
        else next(true)
      },
    }
  }
}

const tooMany = (): Failure =>
  new Failure("gateway.capacity", {
    message: "Too many sign-ins are under way; retry shortly.",
    retryAfterS: 1,
  })

interface Parts {
  readonly passwords: Passwords
  readonly slowDown: PasswordThrottle
}

interface PasswordAttempt {
  /** Undefined where nobody has the address. */
  readonly found: StoredCredentials | undefined
  readonly password: string
  readonly email: string
  /** From which it is tried. */
  readonly address: string
}

/**
 * Whether a password is the account's own. Guesses are throttled, also those for unknown accounts. A thief of a session may guess no
 * faster than anybody else. Using a session does not make its network a known one; only a right password does.
 */
export async function verifyPassword(
  { passwords, slowDown }: Parts,
  { found, password, email, address }: PasswordAttempt,
): Promise<boolean | Failure> {
  const isKnown = found?.isKnownNetwork ?? false
  // As it is stored: the database finds it by spellings that are others here, such as one with a dotted capital I.
  const account = (found?.email ?? email).toLowerCase()
  const attempt = await slowDown.attempt({ account, address, isKnown })
  if (attempt instanceof Failure) return attempt
  const matches = await passwords.verify(password, found?.passwordHash, networkOf(address))
  if (matches instanceof Failure) {
    attempt.notChecked()
    return matches
  }
  if (matches) attempt.succeeded()
  return matches
}
