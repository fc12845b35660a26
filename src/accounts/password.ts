/**
 * Passwords: argon2id, a few at a time. One hash takes tens of megabytes and a core for tens of milliseconds, so a crowd
 * at the sign-in door must wait outside and not take the gateway's threads; over a bounded queue it is refused.
 */
import { Failure } from "../failure/failure.ts"

export interface PasswordCost {
  /** KiB of memory of one hash. */
  readonly memoryKiB: number
  readonly passes: number
}

/** OWASP's recommendation for argon2id (Password Storage Cheat Sheet). */
export const passwordCost: PasswordCost = { memoryKiB: 19_456, passes: 2 }

/** How many are worked on at once, and how many may wait. */
const AT_ONCE = 2
const WAITING = 64

export class Passwords {
  readonly #cost: PasswordCost
  readonly #queue: (() => void)[] = []
  #busy = 0
  #decoy: Promise<string> | undefined

  constructor(cost: PasswordCost = passwordCost) {
    this.#cost = cost
  }

  hash(password: string): Promise<string | Failure> {
    return this.#inTurn(() => this.#hash(password))
  }

  /** Without a hash (no such account) it verifies against a decoy, so that the time taken does not tell who has an account. */
  verify(password: string, hash: string | undefined): Promise<boolean | Failure> {
    return this.#inTurn(async () => {
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

  async #inTurn<T>(work: () => Promise<T>): Promise<T | Failure> {
    if (this.#busy >= AT_ONCE) {
      if (this.#queue.length >= WAITING) return tooMany()
      // Whoever finishes hands its place over, so nobody who comes later can overtake.
      await new Promise<void>((resolve) => this.#queue.push(resolve))
    } else {
      this.#busy += 1
    }
    using _place = this.#place()
    return await work()
  }

  #place(): Disposable {
    return {
      [Symbol.dispose]: () => {
        const next = this.#queue.shift()
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
