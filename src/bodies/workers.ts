/**
 * Large bodies on threads of their own, because parsing cannot let go of its thread. A worker answers one question at a
 * time, next for the account that has used least of the workers' time lately: turns by bodies would give whoever sends the
 * worst body most of it. A worker that takes too long is ended, and what lay there is lost. Milliseconds.
 */
import { type Clock, systemClock, type Timer } from "../../actors/kernel/clock.ts"
import { Failure } from "../failure/failure.ts"
import type { Log } from "../log.ts"
import type { Clerk } from "./bodies.ts"
import type { Answer, Question } from "./desk.ts"
import { RecentUse } from "./recent-use.ts"

export interface WorkersOptions {
  readonly log: Log
  readonly workers: number
  /** How long a body may wait for its turn. */
  readonly waitMs: number
  /** How long one question may take. */
  readonly turnMs?: number
  /** After so long without a body a worker is ended, and gives its memory back. */
  readonly idleMs?: number
  readonly clock?: Clock
}

const TURN_MS = 10_000
const IDLE_MS = 30_000
const MOST_WAITING = 64

interface Job {
  readonly question: Question
  readonly accountId: string
  readonly settle: (answer: Answer | Failure) => void
  readonly crash: (error: Error) => void
  wait?: Timer
}

/**
 * A compiled binary keeps every module in one file at its root, and the worker, which is an entry point of its own, under
 * its path below src/.
 */
const compiled = import.meta.url.includes("/$bunfs/") || import.meta.url.includes("/~BUN/")
const workerUrl = new URL(compiled ? "./bodies/worker.js" : "./worker.ts", import.meta.url)

export class BodyWorkers implements Clerk {
  readonly #options: WorkersOptions
  readonly #clock: Clock
  readonly #seats: Seat[]
  /** Where a body lies. */
  readonly #seatOf = new Map<number, Seat>()
  readonly #used: RecentUse
  /** Bodies to be read, by account. */
  readonly #waiting = new Map<string, Job[]>()
  #waits = 0

  constructor(options: WorkersOptions) {
    this.#options = options
    this.#clock = options.clock ?? systemClock
    const { turnMs = TURN_MS, idleMs = IDLE_MS, workers, log } = options
    this.#used = new RecentUse(this.#clock)
    const next = (seat: Seat) => this.#next(seat)
    const used = (accountId: string, ms: number) => this.#used.add(accountId, ms)
    const lost = (ids: Iterable<number>) => {
      for (const id of ids) this.#seatOf.delete(id)
    }
    this.#seats = Array.from(
      { length: workers },
      () => new Seat({ clock: this.#clock, log, turnMs, idleMs, next, used, lost }),
    )
  }

  /** Bodies that wait to be read. */
  get waiting(): number {
    return this.#waits
  }

  ask(question: Question, accountId: string): Promise<Answer | Failure> {
    return new Promise((settle, crash) => {
      const job: Job = { question, accountId, settle, crash }
      if (question.type === "read") return this.#queue(job)
      const seat = this.#seatOf.get(question.id)
      if (seat === undefined) settle(noRoom())
      else seat.put(job)
    })
  }

  free(id: number): void {
    this.#seatOf.get(id)?.free(id)
    this.#seatOf.delete(id)
  }

  stop(): void {
    for (const seat of this.#seats) seat.end("stopped")
  }

  #queue(job: Job): void {
    const free = this.#seats.find(({ isFree }) => isFree)
    if (free !== undefined) return this.#read(free, job)
    if (this.#waits >= MOST_WAITING) return job.settle(noRoom())
    this.#waits++
    const own = this.#waiting.get(job.accountId)
    if (own === undefined) this.#waiting.set(job.accountId, [job])
    else own.push(job)
    job.wait = this.#clock.after(this.#options.waitMs, () => {
      this.#leave(job)
      job.settle(noRoom())
    })
  }

  /** Of accounts that have used as much, what was begun goes before what is to be read. */
  #next(seat: Seat): void {
    const first = [...this.#waiting.values()].flatMap(([job]) => job ?? [])
    let next: Job | undefined
    for (const job of [...seat.begun, ...first])
      if (next === undefined || this.#used.by(job.accountId) < this.#used.by(next.accountId)) next = job
    if (next === undefined) return
    if (next.question.type !== "read") return seat.goOn(next)
    this.#leave(next)
    this.#read(seat, next)
  }

  #leave(job: Job): void {
    job.wait?.cancel()
    const own = this.#waiting.get(job.accountId)
    const place = own?.indexOf(job) ?? -1
    if (own === undefined || place < 0) return
    own.splice(place, 1)
    this.#waits--
    if (own.length === 0) this.#waiting.delete(job.accountId)
  }

  #read(seat: Seat, job: Job): void {
    this.#seatOf.set(job.question.id, seat)
    seat.put(job)
  }
}

interface SeatTerms {
  readonly clock: Clock
  readonly log: Log
  readonly turnMs: number
  readonly idleMs: number
  /** It is free for the next question. */
  readonly next: (seat: Seat) => void
  /** So much of its time was used for an account. */
  readonly used: (accountId: string, ms: number) => void
  /** These bodies lie nowhere any more. */
  readonly lost: (ids: Iterable<number>) => void
}

/** One worker, started when it is needed. */
class Seat {
  readonly #terms: SeatTerms
  #worker: Worker | undefined
  #running: Job | undefined
  #begunAt = 0
  /** Questions about bodies that lie here. */
  #begun: Job[] = []
  #turn: Timer | undefined
  #idle: Timer | undefined
  readonly #ids = new Set<number>()

  constructor(terms: SeatTerms) {
    this.#terms = terms
  }

  get isFree(): boolean {
    return this.#running === undefined
  }
  get begun(): readonly Job[] {
    return this.#begun
  }

  put(job: Job): void {
    this.#ids.add(job.question.id)
    if (this.#running === undefined) this.#begin(job)
    else this.#begun.push(job)
  }

  /** With one of those that were begun. */
  goOn(job: Job): void {
    this.#begun = this.#begun.filter((other) => other !== job)
    this.#begin(job)
  }

  free(id: number): void {
    if (!this.#ids.delete(id)) return
    this.#worker?.postMessage({ type: "free", id }, [])
    if (this.#ids.size === 0) this.#idle = this.#terms.clock.after(this.#terms.idleMs, () => this.end("idle"))
  }

  end(why: "idle" | "stopped" | "late" | "dead"): void {
    if (why === "idle" && this.#ids.size > 0) return
    this.#turn?.cancel()
    this.#idle?.cancel()
    this.#worker?.terminate()
    this.#worker = undefined
    const jobs = this.#running === undefined ? this.#begun : [this.#running, ...this.#begun]
    this.#running = undefined
    this.#begun = []
    this.#terms.lost(this.#ids)
    this.#ids.clear()
    if (why === "late" || why === "dead") this.#terms.log.error("body worker ended", { why, jobs: jobs.length })
    for (const { settle } of jobs) settle(noRoom())
    if (why === "late" || why === "dead") this.#terms.next(this)
  }

  #begin(job: Job): void {
    const { question } = job
    this.#running = job
    this.#begunAt = this.#terms.clock.monotonic()
    this.#idle?.cancel()
    this.#worker ??= this.#start()
    this.#worker.postMessage(question, question.type === "read" ? [question.bytes.buffer] : [])
    this.#turn = this.#terms.clock.after(this.#terms.turnMs, () => this.end("late"))
  }

  #start(): Worker {
    const worker = new Worker(workerUrl, { ref: false })
    const current = (then: () => void) => () => {
      if (this.#worker === worker) then()
    }
    worker.addEventListener("message", ({ data }: MessageEvent<Answer | { readonly crashed: string }>) =>
      current(() => this.#answered(data))(),
    )
    worker.addEventListener(
      "error",
      current(() => this.end("dead")),
    )
    worker.addEventListener(
      "close",
      current(() => this.end("dead")),
    )
    return worker
  }

  #answered(answer: Answer | { readonly crashed: string }): void {
    this.#turn?.cancel()
    const job = this.#running
    this.#running = undefined
    if (job !== undefined) this.#terms.used(job.accountId, this.#terms.clock.monotonic() - this.#begunAt)
    if ("crashed" in answer) job?.crash(new Error(answer.crashed))
    else job?.settle(answer)
    this.#terms.next(this)
  }
}

const noRoom = (): Failure =>
  new Failure("gateway.capacity", { message: "Too many large requests are being read; retry shortly.", retryAfterS: 1 })
