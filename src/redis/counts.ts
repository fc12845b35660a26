/**
 * Minute windows that all processes count together, in Redis or Valkey (`SCRIPT` in connection.ts). Nobody waits for it for long: who has no
 * answer in 80 ms goes by its share, and so does everybody from then on, until it answers again.
 *
 * It is exact again two seconds after that. Until then this process tells what it has admitted, and goes by its share: the
 * others may have been away as well, and every one of them is back within that time, if it can be. A set of data that has begun
 * anew (flushed, restarted, another server) is as if it had been away.
 */
import { type Clock, type Random, type Timer, sleep } from "../../actors/kernel/clock.ts"
import type { Amount, CountAnswered, Counted, CountState, SharedBucket, WindowCounts } from "../../actors/window.ts"
import type { Log } from "../log.ts"
import { FALL_REASONS, type FallReason, reasonOf, RedisConnection } from "./connection.ts"

export interface RedisTerms {
  readonly url: string
  /** What the names of all keys begin with. */
  readonly prefix: string
  readonly clock: Clock
  readonly random: Random
  readonly log: Log
  /** Waits that are nobody's to configure, shorter: for tests. */
  readonly waits?: RedisWaits | undefined
}

export type RedisWaits = Partial<typeof WAITS>

/** In milliseconds. */
const WAITS = {
  /** With what a look at the sockets may add to it, within 100. */
  answerMs: 80,
  connectMs: 500,
  beatMs: 250,
  pauseMs: 250,
  /** Longer than it takes anybody to be back: a connection that fails, a pause, one that does not, and a beat. */
  tellingMs: 2_000,
}
/** Beyond that the next ones go by the share: what waits takes memory. */
const MOST_WAITING = 10_000
/** A deadline that is seen so much later says that this process stood still. */
const LATE_MS = 20
/** What an answer's way may take of a time that is learnt from it; one that is off by more is of another clock. */
const CLOCK_MS = 500

interface Waiting {
  readonly askedMs: number
  /** In running time. */
  dueMs: number
  /** This process stood still meanwhile: it began to wait again. */
  again: boolean
  readonly answered: (reply: readonly unknown[] | undefined) => void
}

export class RedisCounts implements WindowCounts {
  readonly falls: Record<FallReason, number> = Object.fromEntries(FALL_REASONS.map((reason) => [reason, 0])) as Record<
    FallReason,
    number
  >
  /** What was asked and answered, and how long that took in all, in milliseconds. */
  readonly answers = { count: 0, tookMs: 0 }
  readonly #terms: RedisTerms
  readonly #waits: typeof WAITS
  #state: CountState = "away"
  #epoch = ""
  /** What is to be added to monotonic time for the server's; undefined before it was heard. */
  #offset: number | undefined
  #connection: RedisConnection | undefined
  /** In the order in which they were asked. */
  readonly #waiting = new Set<Waiting>()
  #deadline: Timer | undefined
  #exactTimer: Timer | undefined
  /** Since it was exact: one that fails in two ways by turns must not fill the log. */
  readonly #logged = new Set<FallReason>()
  #tell: () => void = () => {}
  #stopped = false

  constructor(terms: RedisTerms) {
    this.#terms = terms
    this.#waits = { ...WAITS, ...terms.waits }
  }

  get state(): CountState {
    return this.#state
  }
  get epoch(): string {
    return this.#epoch
  }
  get waiting(): number {
    return this.#waiting.size
  }

  /** From now on it is connected to. `tell` runs whenever windows are to tell what is owed. */
  start(tell: () => void): void {
    this.#tell = tell
    void this.#connect()
  }

  /** Resolves once it is exact, or will not be soon. A process that takes calls before admits its share beside what others count together. */
  async untilExact(): Promise<void> {
    const { clock } = this.#terms
    const { connectMs, answerMs, tellingMs } = this.#waits
    const sinceMs = clock.running()
    const mostMs = () => connectMs + answerMs + (this.#state === "telling" ? tellingMs : 0)
    while (this.#state !== "exact" && clock.running() - sinceMs < mostMs()) await sleep(clock, 20)
  }

  stop(): void {
    this.#stopped = true
    this.#leave()
  }

  take(window: string, { amount, limit }: Amount, answered: CountAnswered): void {
    this.#send("take", window, [String(amount), String(limit)], answered)
  }
  look(window: string, { amount, limit }: Amount, answered: CountAnswered): void {
    this.#send("look", window, [String(amount), String(limit)], answered)
  }
  add(window: string, added: readonly SharedBucket[], answered: CountAnswered): void {
    const buckets = added.flatMap(({ second, ms, by }) => [String(second), String(ms), String(by)])
    this.#send("add", window, buckets, answered)
  }

  timeOf(atMs: number): number {
    return Math.floor(atMs + (this.#offset ?? 0))
  }

  #send(what: string, window: string, args: readonly string[], answered: CountAnswered): void {
    const until = this.timeOf(this.#terms.clock.monotonic()) + this.#waits.answerMs + CLOCK_MS
    const asked = [what, this.#epoch, String(until), ...args]
    this.#run([this.#key("epoch"), this.#key(window)], asked, (reply) => {
      answered(reply === undefined ? undefined : this.#counted(reply))
    })
  }

  #key = (name: string): string => `${this.#terms.prefix}:${name}`

  /** `answered` runs once: with undefined when the connection fails or is late, or there is none. */
  #run(keys: readonly string[], args: readonly string[], answered: Waiting["answered"]): void {
    const connection = this.#connection
    if (connection === undefined || this.#waiting.size >= MOST_WAITING) return answered(undefined)
    const { clock } = this.#terms
    const dueMs = clock.running() + this.#waits.answerMs
    const waiting: Waiting = { askedMs: clock.monotonic(), dueMs, again: false, answered }
    this.#waiting.add(waiting)
    this.#deadline ??= clock.after(this.#waits.answerMs, () => this.#onDeadline())
    const heard = (reply: unknown) => {
      if (!this.#waiting.delete(waiting)) return
      this.answers.count++
      this.answers.tookMs += clock.monotonic() - waiting.askedMs
      if (Array.isArray(reply)) answered(reply)
      else this.#failed(new Error("ERR no array"), answered)
    }
    connection.script(keys, args).then(heard, (error: unknown) => {
      if (this.#waiting.delete(waiting)) this.#failed(error, answered)
    })
  }

  #failed(error: unknown, answered: Waiting["answered"]): void {
    this.#fall(reasonOf(error))
    answered(undefined)
  }

  /** One timer for all that waits: the first to be asked is the first to be late. */
  #onDeadline(): void {
    this.#deadline = undefined
    const [oldest] = this.#waiting
    if (oldest === undefined) return
    const { clock } = this.#terms
    const { answerMs } = this.#waits
    // What was asked may not have left before, and what came was not looked at: all that waits has its time once more.
    if (!oldest.again && clock.monotonic() - oldest.askedMs > answerMs + LATE_MS) {
      for (const waiting of this.#waiting) {
        waiting.again = true
        waiting.dueMs = clock.running() + answerMs
      }
    }
    const leftMs = oldest.dueMs - clock.running()
    if (leftMs <= 1) return this.#fall("late")
    this.#deadline = clock.after(leftMs, () => this.#onDeadline())
  }

  async #connect(): Promise<void> {
    const { clock, random, url } = this.#terms
    while (!this.#stopped) {
      try {
        const connection = await RedisConnection.open(url, this.#waits.connectMs)
        if (this.#stopped) return connection.close()
        this.#connection = connection
        await this.#beats(connection)
      } catch (error) {
        this.#fall(reasonOf(error))
      }
      await sleep(clock, this.#waits.pauseMs * (0.8 + 0.4 * random()))
    }
  }

  /** Resolves when the connection has failed. */
  async #beats(connection: RedisConnection): Promise<void> {
    while (this.#connection === connection) {
      await new Promise<void>((resolve) => {
        this.#run([this.#key("epoch")], ["beat", crypto.randomUUID()], (reply) => {
          if (reply !== undefined) this.#onBeat(reply)
          resolve()
        })
      })
      await sleep(this.#terms.clock, this.#waits.beatMs)
    }
  }

  #onBeat([epoch, nowMs]: readonly unknown[]): void {
    if (typeof epoch !== "string" || typeof nowMs !== "number") return this.#fall("error")
    this.#hearClock(nowMs)
    const isOnItsWay = this.#state === "exact" || this.#exactTimer !== undefined
    if (isOnItsWay && epoch === this.#epoch) return
    if (this.#state === "exact") this.#note("emptied")
    this.#epoch = epoch
    this.#state = "telling"
    this.#tell()
    this.#exactTimer?.cancel()
    this.#exactTimer = this.#terms.clock.wait(this.#waits.tellingMs, () => this.#onExact())
  }

  #onExact(): void {
    this.#exactTimer = undefined
    if (this.#state !== "telling") return
    this.#state = "exact"
    this.#logged.clear()
    this.#terms.log.info("limits exact")
  }

  #counted(reply: readonly unknown[]): Counted | undefined {
    const [epoch, nowMs, fits, used, emptyMs, waitMs] = reply
    if (typeof nowMs !== "number") return this.#refuse("error")
    // It was asked of another epoch, which may be known by now, or too long ago by a clock that was set anew.
    if (reply.length === 2) {
      this.#hearClock(nowMs)
      return epoch === this.#epoch ? undefined : this.#begunAnew()
    }
    if (typeof used !== "number" || typeof emptyMs !== "number" || typeof waitMs !== "number")
      return this.#refuse("error")
    this.#hearClock(nowMs)
    const heardMs = this.#terms.clock.monotonic()
    return {
      epoch: this.#epoch,
      atMs: nowMs - (this.#offset ?? 0),
      fits: fits === 1,
      used,
      emptyAtMs: heardMs + emptyMs,
      fitsAtMs: waitMs < 0 ? undefined : heardMs + waitMs,
    }
  }

  #refuse(reason: FallReason): undefined {
    this.#fall(reason)
    return undefined
  }

  /** The next beat says what it is now, and makes it where there is none. */
  #begunAnew(): undefined {
    if (this.#state !== "exact") return undefined
    this.#note("emptied")
    this.#state = "telling"
    // Not to be taken for exact again before it has beaten.
    this.#exactTimer?.cancel()
    this.#exactTimer = undefined
    return undefined
  }

  /** It stays as it is while it is nearly right: what is corrected must be found in the second in which it was counted. */
  #hearClock(serverMs: number): void {
    const offset = serverMs - Math.floor(this.#terms.clock.monotonic())
    if (this.#offset === undefined || Math.abs(offset - this.#offset) > CLOCK_MS) this.#offset = offset
  }

  #fall(reason: FallReason): void {
    if (this.#stopped) return
    this.#note(reason)
    this.#leave()
  }

  #note(reason: FallReason): void {
    if (this.#state !== "away") this.falls[reason]++
    if (this.#logged.has(reason)) return
    this.#logged.add(reason)
    this.#terms.log.warn("limits by shares", { reason })
  }

  #leave(): void {
    this.#state = "away"
    this.#exactTimer?.cancel()
    this.#exactTimer = undefined
    this.#deadline?.cancel()
    this.#deadline = undefined
    const connection = this.#connection
    this.#connection = undefined
    const waiting = [...this.#waiting]
    this.#waiting.clear()
    connection?.close()
    for (const { answered } of waiting) answered(undefined)
  }
}
