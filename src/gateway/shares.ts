/**
 * This process's share of what all processes on a database keep together. It is looked up when one comes or goes, and
 * again every few seconds, because a notice may be lost. While nobody answers the last known share holds.
 */
import type { Clock, Timer } from "../../actors/kernel/clock.ts"
import { type Share, whole } from "../../actors/share.ts"

export interface SharesPorts {
  readonly clock: Clock
  /** Answers undefined when this process takes no calls. Undefined itself where there is no other process. */
  readonly look: (() => Promise<Share | undefined>) | undefined
  readonly changed: (share: Share) => void
  readonly failed: (error: unknown) => void
}

const LOOK_MS = 2_000

export class Shares {
  readonly #ports: SharesPorts
  #current = whole
  #looking = false
  #lookAgain = false
  #timer: Timer | undefined
  #stopped = false

  constructor(ports: SharesPorts) {
    this.#ports = ports
  }

  get current(): Share {
    return this.#current
  }

  /** Looks now, and from now on every few seconds. */
  async follow(): Promise<void> {
    if (this.#ports.look === undefined) return
    await this.look()
    if (!this.#stopped) this.#timer = this.#ports.clock.after(LOOK_MS, () => void this.follow())
  }

  /** One look at a time, so that an older answer never overtakes a newer one. */
  async look(): Promise<void> {
    this.#lookAgain = true
    if (this.#looking) return
    this.#looking = true
    while (this.#lookAgain) {
      this.#lookAgain = false
      await this.#lookOnce()
    }
    this.#looking = false
  }

  stop(): void {
    this.#stopped = true
    this.#timer?.cancel()
  }

  async #lookOnce(): Promise<void> {
    try {
      const share = await this.#ports.look?.()
      if (share === undefined) return
      if (share.index === this.#current.index && share.count === this.#current.count) return
      this.#current = share
      this.#ports.changed(share)
    } catch (error) {
      this.#ports.failed(error)
    }
  }
}
