/**
 * Passwords: argon2id, a few at a time. One hash takes tens of megabytes and a core for tens of milliseconds, so a crowd
 * at the sign-in door must wait outside and not take the gateway's threads; over a bounded queue it is refused. Networks
 * take turns, so that whoever sends a hundred at once waits for himself.
 */
import { Failure } from "../failure/failure.ts"
import type { StoredCredentials } from "../store/credentials.ts"
import { networkOf, type PasswordThrottle } from "./rate-limits.ts"

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

export class Passwords {
  readonly #cost: PasswordCost
  /** By network; whose turn is next stands first. */
  readonly #queues = new Map<string, (() => void)[]>()
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
      // The empty string is no password, and Bun throws for it.
      const matches = await Bun.password.verify(password === "" ? "\u0000" : password, hash ?? decoy)
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
      if (queue.length >= WAITING_OF_NETWORK || this.#waiting >= WAITING) return tooMany()
      this.#waiting += 1
      this.#queues.set(network, queue)
      // Whoever finishes hands its place over, so nobody who comes later can overtake.
      await new Promise<void>((resolve) => queue.push(resolve))
    } else {
      this.#busy += 1
    }
    using _place = this.#place()
    return await work()
  }

  /** The first of the network whose turn it is, which then stands last. */
  #next(): (() => void) | undefined {
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
        else next()
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
  const attempt = await slowDown.attempt({ account: email.toLowerCase(), address, isKnown })
  if (attempt instanceof Failure) return attempt
  const matches = await passwords.verify(password, found?.passwordHash, networkOf(address))
  if (matches instanceof Failure) {
    attempt.notChecked()
    return matches
  }
  if (matches) attempt.succeeded()
  return matches
}
