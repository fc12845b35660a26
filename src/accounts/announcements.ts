/** Announces prices and retirements to who used the models, a batch of accounts at a time. Milliseconds. */
import type { AnnouncementStore } from "../store/announcements.ts"
import { DatabaseUnavailable } from "../store/database.ts"

const ACCOUNTS = 200
const FEWER = 5
/** Of one look; the next one goes on from there. */
const LOOK_MS = 20_000

export class Announcements {
  readonly #store: AnnouncementStore
  readonly #sendsMail: boolean
  #stopped = false
  /** Fewer where accounts have so much usage that a batch takes too long. */
  #accounts = ACCOUNTS

  constructor(store: AnnouncementStore, sendsMail: boolean) {
    this.#store = store
    this.#sendsMail = sendsMail
  }

  /** Finds what is to be announced, and writes the mails of some accounts. */
  async look(): Promise<void> {
    // Without a mail server nothing is written that nobody would send.
    if (!this.#sendsMail) return
    const until = performance.now() + LOOK_MS
    const isOver = () => this.#stopped || performance.now() > until
    await this.#store.look()
    // Those who were told something that is no longer true come first.
    while (!isOver() && (await this.#store.takeBackNext(ACCOUNTS)));
    while (!isOver() && (await this.#tellNext()));
  }

  stop(): void {
    this.#stopped = true
  }

  async #tellNext(): Promise<boolean> {
    try {
      const goesOn = await this.#store.tellNext(this.#accounts)
      this.#accounts = Math.min(ACCOUNTS, this.#accounts * FEWER)
      return goesOn
    } catch (error) {
      if (!(error instanceof DatabaseUnavailable) || this.#accounts === 1) throw error
      this.#accounts = Math.max(1, Math.floor(this.#accounts / FEWER))
      return true
    }
  }
}
