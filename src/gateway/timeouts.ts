/**
 * The timers of a call, in milliseconds of running time. `Timeouts`: how long it waits for its backends, for the first content,
 * then for each silence, and for the whole. Only time in which a backend is waited for counts as its silence. One timer for a
 * call's life. `IdleTimer`: how long nothing has been written to its client.
 */
import type { Clock, Timer } from "../../actors/kernel/clock.ts"
import { Failure, type FailureDetail } from "../failure/failure.ts"
import type { Fault } from "../upstream/client.ts"

/** `stopped`: the process ends, or the client left too long ago. */
export type TimeoutReason = "start" | "idle" | "whole" | "stopped"

/** What a client is told when the gateway broke a backend's answer off (gateway-api.md, "Events" 5). */
const details: Record<TimeoutReason, FailureDetail> = {
  start: { message: "The model's backend did not begin to answer in time.", stream: "upstream_timeout" },
  idle: { message: "The model's backend fell silent in the middle of its answer.", stream: "upstream_timeout" },
  whole: { message: "The model's backend did not come to an end in time.", stream: "upstream_timeout" },
  stopped: { message: "The gateway had to stop before the answer was whole." },
}

export interface TimeoutLimits {
  /** Up to the first content: all tries, all models of the chain. */
  readonly upstreamStartMs: number
  /** For a silence of the backend after that. */
  readonly upstreamIdleMs: number
  /** For everything: a backend that is never silent must end some day too. */
  readonly upstreamAnswerMs: number
}

export class Timeouts {
  readonly #clock: Clock
  readonly #limits: TimeoutLimits
  readonly #onTimeout: (reason: TimeoutReason) => void
  readonly #abort = new AbortController()
  readonly #startedAt: number
  #turnBeganAt: number
  #timer: Timer
  #waitingSince: number | undefined
  #hasContent = false
  #reason: TimeoutReason | undefined

  /** `onTimeout` has to call `stop`. */
  constructor(clock: Clock, limits: TimeoutLimits, onTimeout: (reason: TimeoutReason) => void) {
    this.#clock = clock
    this.#limits = limits
    this.#onTimeout = onTimeout
    this.#startedAt = this.#turnBeganAt = clock.running()
    this.#timer = this.#after(Math.min(limits.upstreamStartMs, limits.upstreamAnswerMs))
  }

  /** Aborts when no backend is waited for any longer. */
  get signal(): AbortSignal {
    return this.#abort.signal
  }
  get reason(): TimeoutReason | undefined {
    return this.#reason
  }
  /** What is left for the start, of the latest turn. */
  get startLeftMs(): number {
    return this.#turnBeganAt + this.#limits.upstreamStartMs - this.#clock.running()
  }
  get #totalLeftMs(): number {
    return this.#startedAt + this.#limits.upstreamAnswerMs - this.#clock.running()
  }

  /** Content has come. */
  onContent(): void {
    if (this.#hasContent) return
    this.#hasContent = true
    // The silence allowed from here on may be shorter than what was left for the start.
    if (this.#reason === undefined && this.#waitingSince !== undefined) this.#restartTimer(this.#limits.upstreamIdleMs)
  }

  /** A backend is asked for one more turn: its tries have the time of a start again. */
  beginTurn(): void {
    this.#turnBeganAt = this.#clock.running()
  }
  /** A backend is waited for from now on. */
  startWaiting(): void {
    this.#waitingSince = this.#clock.running()
    if (this.#hasContent && this.#reason === undefined) this.#restartTimer(this.#limits.upstreamIdleMs)
  }
  /** The backend sent something: an event, or a piece of an answer that has no events. What it thinks unseen is a beginning too. */
  onActivity(isAnswering = false): void {
    if (isAnswering) this.onContent()
    if (this.#waitingSince !== undefined) this.#waitingSince = this.#clock.running()
  }
  /** No backend is waited for until the next `startWaiting`. */
  stopWaiting(): void {
    this.#waitingSince = undefined
  }

  /** Breaks off the backend that is waited for, and any that is asked later. */
  stop(reason: TimeoutReason): void {
    if (this.#reason !== undefined) return
    this.#reason = reason
    this.#timer.cancel()
    this.#abort.abort()
  }

  /** The call is over. */
  end(): void {
    this.#timer.cancel()
  }

  /** A broken connection's fault, with the reason where it was the gateway that broke it. */
  explain(fault: Fault): Fault {
    if (this.#reason === undefined) return fault
    const failure = new Failure("dependency.upstream_unavailable", details[this.#reason])
    return { ...fault, failure, retryAfterMs: undefined }
  }

  #check(): void {
    if (this.#totalLeftMs <= 1) return this.#onTimeout("whole")
    if (!this.#hasContent) {
      if (this.startLeftMs <= 1) return this.#onTimeout("start")
      return this.#restartTimer(this.startLeftMs)
    }
    const waited = this.#waitingSince === undefined ? 0 : this.#clock.running() - this.#waitingSince
    if (waited + 1 >= this.#limits.upstreamIdleMs) return this.#onTimeout("idle")
    this.#restartTimer(this.#limits.upstreamIdleMs - waited)
  }

  #restartTimer(delayMs: number): void {
    this.#timer.cancel()
    this.#timer = this.#after(Math.min(delayMs, this.#totalLeftMs))
  }

  #after(delayMs: number): Timer {
    return this.#clock.after(delayMs, () => this.#check())
  }
}

export interface IdleTimerPorts {
  readonly clock: Clock
  readonly limits: { readonly heartbeatMs: number }
}

export class IdleTimer {
  readonly #clock: Clock
  readonly #heartbeatMs: number
  readonly #onIdle: () => void
  #lastActivityAt = 0
  #timer: Timer | undefined
  #hasEnded = false

  /** `onIdle` is run after each `heartbeatMs` without a write. */
  constructor({ clock, limits }: IdleTimerPorts, onIdle: () => void) {
    this.#clock = clock
    this.#heartbeatMs = limits.heartbeatMs
    this.#onIdle = onIdle
  }

  /** Starts to measure. */
  start(): void {
    this.activity()
    this.#schedule(this.#heartbeatMs)
  }

  /** Something was written. */
  activity(): void {
    this.#lastActivityAt = this.#clock.monotonic()
  }

  end(): void {
    this.#hasEnded = true
    this.#timer?.cancel()
  }

  #schedule(delayMs: number): void {
    this.#timer = this.#clock.wait(delayMs, () => {
      const silentMs = this.#clock.monotonic() - this.#lastActivityAt
      if (silentMs + 1 >= this.#heartbeatMs) this.#onIdle()
      const again = this.#heartbeatMs - (this.#clock.monotonic() - this.#lastActivityAt)
      if (!this.#hasEnded) this.#schedule(Math.max(1, again))
    })
  }
}
