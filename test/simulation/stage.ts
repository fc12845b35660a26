/**
 * What everything in a simulated world shares: time, chance, the turns of actors, the trace, and what is counted. All that
 * the gateway waits for settles in microtasks, native streams and signals included, so a step is whole when they have run.
 */
import { drainMicrotasks } from "bun:jsc"
import type { Random } from "../../actors/kernel/clock.ts"
import { SeededScheduler, VirtualClock, seededRandom } from "../kernel/virtual-time.ts"
import { InlineScheduler, type Scheduler } from "../../actors/kernel/turns.ts"
import type { Fault, Rates } from "./faults.ts"
import type { Plan } from "./plan.ts"

/** What a backend counted; whatever JSON can say, or nothing. */
export interface SaidCounts {
  readonly input?: number | undefined
  readonly output?: number | undefined
}

/** Who was asked, and for what. */
interface AskedOf {
  /** As records name it. */
  readonly member: string
  /** As costs name it. */
  readonly backend: string
  /** Of one answer, in tokens; and answers. */
  readonly mostTokens: number
  readonly choices: number
  /** Of the whole request, in characters. */
  readonly length: number
}

/** What one backend said. */
export interface Said extends AskedOf {
  counts: SaidCounts | undefined
  /** Its answer was read to its end. */
  whole: boolean
  /** When the gateway broke it off, on the monotonic clock. */
  brokenOffAt: number
  /** Something of an answer was sent. */
  begun: boolean
  /** The gateway has read words of a stream. */
  heard: boolean
  /** On the monotonic clock. */
  readonly askedAt: number
  /** Searches of its own that it counted. */
  searches: number
}

export class Stage {
  readonly clock = new VirtualClock()
  readonly random: Random
  readonly scheduler: Scheduler
  readonly counts = new Map<string, number>()
  /** What did not hold, in words. */
  readonly violations: string[] = []
  /** Kept only on replay. */
  readonly lines: string[] | undefined
  /** What backends said to each request id, each time that one was asked. */
  readonly said = new Map<string, Said[]>()
  /** What processes may keep of answers that may be asked for again. */
  readonly replayBytes: number
  steps = 0
  #hash = 0
  #calm = false
  readonly #rates: Rates
  readonly #shuffled: SeededScheduler | undefined

  constructor(plan: Plan, keepTrace: boolean) {
    this.random = seededRandom((plan.seed ^ 0x5f3759df) + plan.salt * 0x9e3779b1)
    this.#shuffled = plan.shuffled ? new SeededScheduler(this.random) : undefined
    this.scheduler = this.#shuffled ?? new InlineScheduler()
    this.#rates = plan.rates
    this.replayBytes = plan.replayBytes
    this.lines = keepTrace ? [] : undefined
  }

  get hash(): string {
    return this.#hash.toString(16).padStart(8, "0")
  }
  /** Nothing goes wrong any more. */
  get calm(): boolean {
    return this.#calm
  }
  stopFaults(): void {
    this.#calm = true
  }

  /** Whether this goes wrong now. */
  fails(fault: Fault): boolean {
    const rate = this.#rates[fault]
    if (this.#calm || rate === 0 || this.random() >= rate) return false
    this.count(fault)
    return true
  }

  /** Which of these goes wrong now, if one does. */
  fault<F extends Fault>(faults: readonly F[]): F | undefined {
    if (this.#calm) return undefined
    let left = this.random()
    for (const fault of faults) {
      left -= this.#rates[fault]
      if (left >= 0) continue
      this.count(fault)
      return fault
    }
    return undefined
  }

  /** A call has reached a backend; what comes of it is written into what is returned. */
  asked(requestId: string, of: AskedOf): Said {
    const nothing = { counts: undefined, whole: false, brokenOffAt: -Infinity, begun: false, heard: false, searches: 0 }
    const said: Said = { ...of, ...nothing, askedAt: this.clock.monotonic() }
    const all = this.said.get(requestId)
    if (all === undefined) this.said.set(requestId, [said])
    else all.push(said)
    return said
  }

  count(what: string): void {
    this.counts.set(what, (this.counts.get(what) ?? 0) + 1)
  }

  trace(line: string): void {
    const timed = `${this.clock.monotonic()} ${line}`
    this.#hash = Bun.hash.xxHash32(timed, this.#hash)
    this.lines?.push(timed)
  }

  violate(what: string): void {
    this.trace(`violated: ${what}`)
    this.violations.push(what)
  }

  /** The next thing that is due, and all that follows from it at once; false when nothing is due any more. */
  step(): boolean {
    if (!this.clock.runNext()) return false
    this.steps++
    this.settle()
    return true
  }

  settle(): void {
    do drainMicrotasks()
    while (this.#shuffled?.step() === true)
  }

  /** A delay in whole milliseconds, mostly short. */
  delay(mostMs: number): number {
    return Math.floor(this.random() ** 3 * mostMs)
  }
}
