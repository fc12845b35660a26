/**
 * Runs PDF work off the event loop, in milliseconds. Reading: one worker, one file at a time, owners in turn, so that nobody's files
 * wait for all of another's. A file that takes too long takes the worker with it, and the next one gets a new worker. Drawing: each
 * paper in a thread of its own, which is ended when it is done or takes too long.
 */
import type { Clock } from "../../actors/kernel/clock.ts"
import { hasRoomForThread } from "../own-process.ts"
import type { PdfMeasure } from "./measure.ts"
import type { Paper } from "./paper.ts"
import type { Drawn, FromWorker, MeasuredFile, ToWorker } from "./worker.ts"

/** `endless`: it took longer than any honest file. Undefined: it could not be read, or not in time. */
type PdfReading = PdfMeasure | "endless" | undefined

export interface PdfReader {
  /** `base64` is the file. Files of one `owner` wait for each other; whoever sent an endless one has none read for a minute. */
  read(base64: MeasuredFile, owner: string): Promise<PdfReading>
}

/** Honest files of 20 MB take 50 ms. */
const MAX_TIME_MS = 2_000
/** One that is slow and has taken this much memory meanwhile is not waited for any longer. */
const SLOW_MS = 500
const LOOK_MS = 100
const MAX_GROWTH_BYTES = 256 * 1024 * 1024
const MAX_WAIT_MS = 5_000
const BARRED_MS = 60_000
const MOST_WAITING = 1_024
const MAX_WAITING_OF_ONE = 128

interface Job {
  readonly base64: MeasuredFile
  readonly answer: (reading: PdfReading) => void
}

/**
 * A compiled binary keeps every module in one file at its root, and the worker, which is an entry point of its own, under
 * its path below src/ (build.ts).
 */
const compiled = import.meta.url.includes("/$bunfs/") || import.meta.url.includes("/~BUN/")
const workerUrl = new URL(compiled ? "./pdf/worker.js" : "./worker.ts", import.meta.url)

export class PdfWorker implements PdfReader, Disposable {
  readonly #clock: Clock
  readonly #waiting = new Map<string, Job[]>()
  /** Until when, on the monotonic clock. They are few: each has taken half a second of the one worker. */
  readonly #barred = new Map<string, number>()
  #count = 0
  #worker: Worker | undefined
  #busy = false

  constructor(clock: Clock) {
    this.#clock = clock
  }

  read(base64: MeasuredFile, owner: string): Promise<PdfReading> {
    const jobs = this.#waiting.get(owner) ?? []
    const barred = (this.#barred.get(owner) ?? -Infinity) > this.#clock.monotonic()
    if (barred || this.#count >= MOST_WAITING || jobs.length >= MAX_WAITING_OF_ONE) return Promise.resolve(undefined)
    return new Promise((resolve) => {
      const job: Job = {
        base64,
        answer: (reading) => {
          timer.cancel()
          resolve(reading)
        },
      }
      const timer = this.#clock.after(MAX_WAIT_MS, () => this.#giveUp(owner, job))
      jobs.push(job)
      this.#waiting.set(owner, jobs)
      this.#count++
      this.#next()
    })
  }

  [Symbol.dispose](): void {
    this.#worker?.terminate()
    this.#worker = undefined
  }

  #giveUp(owner: string, job: Job): void {
    const jobs = this.#waiting.get(owner)
    const place = jobs?.indexOf(job) ?? -1
    if (jobs === undefined || place < 0) return
    jobs.splice(place, 1)
    if (jobs.length === 0) this.#waiting.delete(owner)
    this.#count--
    job.answer(undefined)
  }

  #next(): void {
    if (this.#busy) return
    const [turn] = this.#waiting
    if (turn === undefined) return
    const [owner, jobs] = turn
    const job = jobs.shift()
    // Whoever has had a turn stands at the end.
    this.#waiting.delete(owner)
    if (jobs.length > 0) this.#waiting.set(owner, jobs)
    if (job === undefined) return
    this.#count--
    this.#busy = true
    void this.#run(owner, job)
  }

  async #run(owner: string, { base64, answer }: Job): Promise<void> {
    const reading = await this.#measure(base64, owner)
    this.#busy = false
    if (reading === "endless") this.#bar(owner)
    answer(reading)
    this.#next()
  }

  #bar(owner: string): void {
    const now = this.#clock.monotonic()
    for (const [other, untilMs] of this.#barred) if (untilMs <= now) this.#barred.delete(other)
    this.#barred.set(owner, now + BARRED_MS)
    const jobs = this.#waiting.get(owner) ?? []
    this.#waiting.delete(owner)
    this.#count -= jobs.length
    for (const job of jobs) job.answer(undefined)
  }

  #measure(file: MeasuredFile, owner: string): Promise<PdfReading> {
    if (this.#worker === undefined && !hasRoomForThread()) return Promise.resolve(undefined)
    const worker = (this.#worker ??= new Worker(workerUrl))
    return new Promise((resolve) => {
      const waiting = new AbortController()
      const { signal } = waiting
      const end = (reading: PdfReading, broken: boolean) => {
        timer.cancel()
        waiting.abort()
        if (broken) {
          worker.terminate()
          if (this.#worker === worker) this.#worker = undefined
        }
        resolve(reading)
      }
      worker.addEventListener("message", ({ data }: MessageEvent<FromWorker>) => end(data, false), { signal })
      worker.addEventListener("error", () => end(undefined, true), { signal })
      const before = process.memoryUsage.rss()
      const startedAt = this.#clock.running()
      const look = () => {
        const tookMs = this.#clock.running() - startedAt
        const isLarge = process.memoryUsage.rss() - before > MAX_GROWTH_BYTES
        if (tookMs >= MAX_TIME_MS || isLarge) end("endless", true)
        else timer = this.#clock.after(Math.min(LOOK_MS, MAX_TIME_MS - tookMs), look)
      }
      let timer = this.#clock.after(SLOW_MS, look)
      worker.postMessage({ file, owner } satisfies ToWorker, [])
    })
  }
}

/** Two thousand rows take half a second. */
const MAX_DRAWING_MS = 15_000

/** The file. Rejects when the paper cannot be drawn, or not in time. Who calls bounds how many are drawn at once. */
export async function print(paper: Paper): Promise<Uint8Array> {
  if (!hasRoomForThread()) throw new Error("no file descriptor is left to draw it")
  const worker = new Worker(workerUrl)
  const { promise, resolve, reject } = Promise.withResolvers<Uint8Array>()
  worker.addEventListener("message", ({ data }: MessageEvent<Drawn>) => {
    if (typeof data.drawn === "string") reject(new Error(data.drawn))
    else resolve(data.drawn)
  })
  worker.addEventListener("error", ({ message }) => reject(new Error(message)))
  const timer = setTimeout(() => reject(new Error(`a paper was not drawn in ${MAX_DRAWING_MS} ms`)), MAX_DRAWING_MS)
  try {
    worker.postMessage({ paper } satisfies ToWorker, [])
    return await promise
  } finally {
    clearTimeout(timer)
    worker.terminate()
  }
}
