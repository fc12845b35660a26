/**
 * Runs large bodies on threads of their own, because parsing cannot yield. A worker executes one command at a time. The account with
 * the least recent use of the workers comes next: turns by body would give most of the time to the account with the worst bodies. A
 * worker that takes too long is terminated, and its bodies are lost. Milliseconds.
 */
import { type Clock, systemClock, type Timer } from "../../actors/kernel/clock.ts"
import { Failure } from "../failure/failure.ts"
import type { Log } from "../log.ts"
import { hasRoomForThread } from "../own-process.ts"
import { type BodyExecutor, RecentUse } from "./bodies.ts"
import type { BodyReply, BodyCommand } from "./body-processor.ts"

export interface WorkersOptions {
  readonly log: Log
  readonly workers: number
  /** How long a body may wait for its turn. */
  readonly waitMs: number
  readonly clock?: Clock
}

/** How long one command may take. */
const TURN_MS = 10_000
/** A worker without bodies is terminated after this time, which frees its memory. */
const IDLE_MS = 30_000
const MOST_WAITING = 64

interface Job {
  readonly command: BodyCommand
  readonly accountId: string
  readonly settle: (answer: BodyReply | Failure) => void
  readonly crash: (error: Error) => void
  wait?: Timer
}

/**
 * A compiled binary keeps every module in one file at its root, and the worker, which is an entry point of its own, under
 * its path below src/.
 */
const compiled = import.meta.url.includes("/$bunfs/") || import.meta.url.includes("/~BUN/")
const workerUrl = new URL(compiled ? "./bodies/worker.js" : "./worker.ts", import.meta.url)

export class BodyWorkers implements BodyExecutor {
  readonly #options: WorkersOptions
  readonly #clock: Clock
  readonly #slots: WorkerSlot[]
  /** The slot of each body. */
  readonly #slotOf = new Map<number, WorkerSlot>()
  readonly #used: RecentUse
  /** Bodies to be read, by account. */
  readonly #waiting = new Map<string, Job[]>()
  #waitingCount = 0

  constructor(options: WorkersOptions) {
    this.#options = options
    this.#clock = options.clock ?? systemClock
    const { workers, log } = options
    this.#used = new RecentUse(this.#clock)
    const next = (slot: WorkerSlot) => this.#runNext(slot)
    const used = (accountId: string, ms: number) => this.#used.add(accountId, ms)
    const lost = (ids: Iterable<number>) => {
      for (const id of ids) this.#slotOf.delete(id)
    }
    this.#slots = Array.from({ length: workers }, () => new WorkerSlot({ clock: this.#clock, log, next, used, lost }))
  }

  /** Bodies that wait to be read. */
  get waiting(): number {
    return this.#waitingCount
  }

  ask(command: BodyCommand, accountId: string): Promise<BodyReply | Failure> {
    return new Promise((settle, crash) => {
      const job: Job = { command, accountId, settle, crash }
      if (command.type === "read") return this.#queue(job)
      const slot = this.#slotOf.get(command.id)
      if (slot === undefined) settle(noRoom())
      else slot.enqueue(job)
    })
  }

  free(id: number): void {
    this.#slotOf.get(id)?.free(id)
    this.#slotOf.delete(id)
  }

  stop(): void {
    for (const slot of this.#slots) slot.end("stopped")
  }

  #queue(job: Job): void {
    const free = this.#slots.find(({ isFree }) => isFree)
    if (free !== undefined) return this.#read(free, job)
    if (this.#waitingCount >= MOST_WAITING) return job.settle(noRoom())
    this.#waitingCount++
    const own = this.#waiting.get(job.accountId)
    if (own === undefined) this.#waiting.set(job.accountId, [job])
    else own.push(job)
    job.wait = this.#clock.after(this.#options.waitMs, () => {
      this.#dequeue(job)
      job.settle(noRoom())
    })
  }

  /** Among accounts with equal use, queued commands go before new bodies. */
  #runNext(slot: WorkerSlot): void {
    const first = [...this.#waiting.values()].flatMap(([job]) => job ?? [])
    let next: Job | undefined
    for (const job of [...slot.queued, ...first])
      if (next === undefined || this.#used.by(job.accountId) < this.#used.by(next.accountId)) next = job
    if (next === undefined) return
    if (next.command.type !== "read") return slot.resume(next)
    this.#dequeue(next)
    this.#read(slot, next)
  }

  #dequeue(job: Job): void {
    job.wait?.cancel()
    const own = this.#waiting.get(job.accountId)
    const place = own?.indexOf(job) ?? -1
    if (own === undefined || place < 0) return
    own.splice(place, 1)
    this.#waitingCount--
    if (own.length === 0) this.#waiting.delete(job.accountId)
  }

  #read(slot: WorkerSlot, job: Job): void {
    this.#slotOf.set(job.command.id, slot)
    slot.enqueue(job)
  }
}

interface WorkerSlotOptions {
  readonly clock: Clock
  readonly log: Log
  /** The slot can run the next command. */
  readonly next: (slot: WorkerSlot) => void
  /** Reports the worker's time for an account. */
  readonly used: (accountId: string, ms: number) => void
  /** These bodies are gone. */
  readonly lost: (ids: Iterable<number>) => void
}

/** One worker, started when it is needed. */
class WorkerSlot {
  readonly #options: WorkerSlotOptions
  #worker: Worker | undefined
  #running: Job | undefined
  #startedAt = 0
  /** Commands for bodies of this worker. */
  #queued: Job[] = []
  #deadline: Timer | undefined
  #idle: Timer | undefined
  readonly #bodyIds = new Set<number>()

  constructor(terms: WorkerSlotOptions) {
    this.#options = terms
  }

  get isFree(): boolean {
    return this.#running === undefined
  }
  get queued(): readonly Job[] {
    return this.#queued
  }

  enqueue(job: Job): void {
    this.#bodyIds.add(job.command.id)
    if (this.#running === undefined) this.#run(job)
    else this.#queued.push(job)
  }

  /** Runs one of the queued commands. */
  resume(job: Job): void {
    this.#queued = this.#queued.filter((other) => other !== job)
    this.#run(job)
  }

  free(id: number): void {
    if (!this.#bodyIds.delete(id)) return
    this.#worker?.postMessage({ type: "free", id }, [])
    if (this.#bodyIds.size === 0) this.#idle = this.#options.clock.after(IDLE_MS, () => this.end("idle"))
  }

  end(why: "idle" | "stopped" | "late" | "dead" | "no descriptors"): void {
    if (why === "idle" && this.#bodyIds.size > 0) return
    this.#deadline?.cancel()
    this.#idle?.cancel()
    this.#worker?.terminate()
    this.#worker = undefined
    const jobs = this.#running === undefined ? this.#queued : [this.#running, ...this.#queued]
    this.#running = undefined
    this.#queued = []
    this.#options.lost(this.#bodyIds)
    this.#bodyIds.clear()
    const isLost = why !== "idle" && why !== "stopped"
    if (isLost) this.#options.log.error("body worker ended", { why, jobs: jobs.length })
    for (const { settle } of jobs) settle(noRoom())
    if (isLost) this.#options.next(this)
  }

  #run(job: Job): void {
    const { command } = job
    this.#running = job
    this.#startedAt = this.#options.clock.monotonic()
    this.#idle?.cancel()
    if (this.#worker === undefined && !hasRoomForThread()) return this.end("no descriptors")
    this.#worker ??= this.#start()
    this.#worker.postMessage(command, command.type === "read" ? [command.bytes.buffer] : [])
    this.#deadline = this.#options.clock.after(TURN_MS, () => this.end("late"))
  }

  #start(): Worker {
    const worker = new Worker(workerUrl, { ref: false })
    const current = (then: () => void) => () => {
      if (this.#worker === worker) then()
    }
    worker.addEventListener("message", ({ data }: MessageEvent<BodyReply | { readonly crashed: string }>) =>
      current(() => this.#onReply(data))(),
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

  #onReply(answer: BodyReply | { readonly crashed: string }): void {
    this.#deadline?.cancel()
    const job = this.#running
    this.#running = undefined
    if (job !== undefined) this.#options.used(job.accountId, this.#options.clock.monotonic() - this.#startedAt)
    if ("crashed" in answer) job?.crash(new Error(answer.crashed))
    else job?.settle(answer)
    this.#options.next(this)
  }
}

const noRoom = (): Failure =>
  new Failure("gateway.capacity", { message: "Too many large requests are being read; retry shortly.", retryAfterS: 1 })
