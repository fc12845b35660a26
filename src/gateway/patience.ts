/**
 * How long a call waits for its backends: a deadline for the start, then one for each silence, and one for the whole. Measured
 * only while the gateway waits for a backend. One timer for a call's life. Times in milliseconds.
 */
import type { Clock, Timer } from "../../actors/kernel/clock.ts"
import { Failure, type FailureDetail } from "../failure/failure.ts"
import type { Fault } from "../upstream/client.ts"

/** What a relay reads from. */
export interface ByteSource {
  read(): Promise<{ done: false; value: Uint8Array } | { done: true; value?: Uint8Array | undefined }>
  /** Nothing more of it is wanted. */
  close(): void
}

export interface PatienceOptions {
  readonly clock: Clock
  /** For everything up to the first content: all tries, all models of the chain. */
  readonly startMs: number
  /** For a silence of the backend after that. */
  readonly idleMs: number
  /** For everything: a backend that is never silent must end some day too. */
  readonly wholeMs: number
}

type Reason = "start" | "idle" | "whole" | "given-up"

/** What a client is told when the gateway broke a backend's answer off (gateway-api.md, "Events" 5). */
const brokenOff: Record<Reason, FailureDetail> = {
  start: { message: "The model's backend did not begin to answer in time.", stream: "upstream_timeout" },
  idle: { message: "The model's backend fell silent in the middle of its answer.", stream: "upstream_timeout" },
  whole: { message: "The model's backend did not come to an end in time.", stream: "upstream_timeout" },
  "given-up": { message: "The gateway had to stop before the answer was whole." },
}

export class Patience implements Disposable {
  readonly #options: PatienceOptions
  readonly #abort = new AbortController()
  readonly #startedAt: number
  #timer: Timer
  #waitingSince: number | undefined
  #started = false
  #why: Reason | undefined

  constructor(options: PatienceOptions) {
    this.#options = options
    this.#startedAt = options.clock.running()
    this.#timer = options.clock.after(Math.min(options.startMs, options.wholeMs), () => this.#look())
  }

  get signal(): AbortSignal {
    return this.#abort.signal
  }
  get givenUp(): boolean {
    return this.#why === "given-up"
  }
  /** What is left for the start. */
  get startLeftMs(): number {
    return this.#startedAt + this.#options.startMs - this.#options.clock.running()
  }
  get #wholeLeftMs(): number {
    return this.#startedAt + this.#options.wholeMs - this.#options.clock.running()
  }

  /** Content has come. */
  started(): void {
    if (this.#started) return
    this.#started = true
    // The silence allowed from here on may be shorter than what was left for the start.
    if (this.#why === undefined) this.#again(this.#options.idleMs)
  }

  /** The backend that is waited for gave a sign of life: an event, or a piece of an answer that has no events. */
  heard(): void {
    if (this.#waitingSince !== undefined) this.#waitingSince = this.#options.clock.running()
  }

  /** Stops waiting for any backend at once. */
  giveUp(): void {
    this.#stop("given-up")
  }

  /** Sharpens a broken connection's fault when it was ours to break. */
  blame(fault: Fault): Fault {
    if (this.#why === undefined) return fault
    const failure = new Failure("dependency.upstream_unavailable", brokenOff[this.#why])
    return { ...fault, failure, retryAfterMs: undefined }
  }

  async during<T>(wait: Promise<T>): Promise<T> {
    this.#waitingSince = this.#options.clock.running()
    try {
      return await wait
    } finally {
      this.#waitingSince = undefined
    }
  }

  /** The same bytes; at the end the connection is given back. */
  source(body: ReadableStream<Uint8Array>): ByteSource {
    const reader = body.getReader()
    return { read: () => reader.read(), close: () => void finish(reader, this.#options.clock) }
  }

  [Symbol.dispose](): void {
    this.#timer.cancel()
  }

  #look(): void {
    if (this.#wholeLeftMs <= 1) return this.#stop("whole")
    if (!this.#started) {
      if (this.startLeftMs <= 1) return this.#stop("start")
      return this.#again(this.startLeftMs)
    }
    const waited = this.#waitingSince === undefined ? 0 : this.#options.clock.running() - this.#waitingSince
    if (waited + 1 >= this.#options.idleMs) return this.#stop("idle")
    this.#again(this.#options.idleMs - waited)
  }

  #again(delayMs: number): void {
    this.#timer.cancel()
    this.#timer = this.#options.clock.after(Math.min(delayMs, this.#wholeLeftMs), () => this.#look())
  }

  #stop(why: Reason): void {
    if (this.#why !== undefined) return
    this.#why = why
    this.#timer.cancel()
    this.#abort.abort()
  }
}

/** How long a backend may take to close a stream after its last event, for the connection to be used again. */
const CLOSE_MS = 1_000

/**
 * Always read or cancel: a body that is left alone keeps its connection. Not a wait of the call's own, which may be at
 * its next backend by then.
 */
async function finish(reader: ReadableStreamDefaultReader<Uint8Array>, clock: Clock): Promise<void> {
  const timer = clock.after(CLOSE_MS, () => void reader.cancel().catch(() => {}))
  try {
    while (!(await reader.read()).done);
  } catch {
    // The connection broke; there is nothing left to give back.
  } finally {
    timer.cancel()
  }
}
