/**
 * The bytes of request bodies that are held at one time, from reading until the call no longer needs them. An account may
 * hold as many as are left free for the others, and whoever comes next still finds room, however many came before. An eighth
 * is left for those that hold little, so that many accounts that take all they can do not leave the others nothing. What
 * does not fit is refused at once, for a body half read is of no use to anybody.
 */
export class BodyBytes {
  readonly total: number
  /** What any account may hold, also of the part that is left for that. */
  readonly little: number
  #held = 0
  readonly #byAccount = new Map<string, number>()

  constructor(total: number) {
    this.total = total
    this.little = Math.min(MOST_LITTLE, Math.floor(total / 64))
  }

  get held(): number {
    return this.#held
  }

  heldBy(accountId: string): number {
    return this.#byAccount.get(accountId) ?? 0
  }

  /** Nothing yet, of this account. */
  share(accountId: string): BodyShare {
    return new BodyShare(
      (bytes) => this.#change(accountId, bytes),
      (bytes) => this.heldBy(accountId) + bytes <= this.little,
    )
  }

  #change(accountId: string, bytes: number): boolean {
    const mine = this.heldBy(accountId) + bytes
    const all = this.#held + bytes
    const room = mine <= this.little ? all <= this.total : mine <= Math.floor((this.total * 7) / 8) - all
    if (bytes > 0 && !room) return false
    this.#held = all
    if (mine > 0) this.#byAccount.set(accountId, mine)
    else this.#byAccount.delete(accountId)
    return true
  }
}

const MOST_LITTLE = 1024 * 1024

/** What one call holds. */
export class BodyShare implements Disposable {
  readonly #change: (bytes: number) => boolean
  readonly #isLittle: (bytes: number) => boolean
  #bytes = 0

  constructor(change: (bytes: number) => boolean, isLittle: (bytes: number) => boolean) {
    this.#change = change
    this.#isLittle = isLittle
  }

  /** Whether the account would hold little with so many bytes of this call. */
  isLittle(bytes: number): boolean {
    return this.#isLittle(bytes - this.#bytes)
  }

  /** Holds so many bytes in all, if there is room for them. */
  hold(bytes: number): boolean {
    if (bytes !== this.#bytes && !this.#change(bytes - this.#bytes)) return false
    this.#bytes = bytes
    return true
  }

  [Symbol.dispose](): void {
    this.hold(0)
  }
}
