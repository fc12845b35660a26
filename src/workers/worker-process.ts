/**
 * A worker and its supervisor: the process as the supervisor has it, with what it has said and questions to it, and the worker's own
 * side, which says where it listens, answers questions, and ends with its supervisor. Then the metrics of all workers as one.
 */
import type { Ready } from "../http/health.ts"
import type { Server } from "../server/server.ts"
import { AggregatorRegistry, Counter, Gauge, Registry } from "prom-client"

interface WorkerOptions {
  readonly command: readonly string[]
  readonly env: Readonly<Record<string, string | undefined>>
  /** Whole lines of its log. */
  readonly write: (lines: string) => void
  /** Whole lines of its standard error. */
  readonly complain: (lines: string) => void
}

/** So many characters of what it complained of last are kept. */
const LAST_WORDS = 1_000

export class WorkerProcess {
  /** Resolves with its address; rejects when it ends first. */
  readonly listening: Promise<string>
  /** Resolves when it has ended and its log has been passed on; how it ended, in words. */
  readonly ended: Promise<string>
  readonly startedAt = performance.now()
  /** What it has counted, as it was told last. */
  counted: readonly object[] = []
  /** Looks in a row at which it did not answer. */
  unanswered = 0
  #lastWords = ""
  #address: string | undefined
  #lastId = 0
  readonly #waiting = new Map<number, (answer: Answers[Question]) => void>()
  readonly #child: Bun.Subprocess<"ignore", "pipe", "pipe">

  constructor({ command, env, write, complain }: WorkerOptions) {
    const { promise, resolve, reject } = Promise.withResolvers<string>()
    this.listening = promise
    const child = Bun.spawn([...command], {
      env,
      stdin: "ignore",
      stdout: "pipe",
      stderr: "pipe",
      serialization: "json",
      ipc: (message: FromWorker) => {
        if ("listening" in message) resolve((this.#address = message.listening))
        else if ("last" in message) this.counted = message.last
        else this.#answered(message)
      },
    })
    this.#child = child
    const heard = (lines: string) => {
      this.#lastWords = (this.#lastWords + lines).slice(-LAST_WORDS)
      complain(lines)
    }
    const passedOn = Promise.all([passLines(child.stdout, write), passLines(child.stderr, heard)])
    const end = async () => {
      await child.exited
      await passedOn
      const how = child.signalCode === null ? `code ${child.exitCode}` : String(child.signalCode)
      reject(new Error(`it ended with ${how}`))
      return how
    }
    this.ended = end()
    promise.catch(() => {})
  }

  get pid(): number {
    return this.#child.pid
  }

  /** What it complained of last, such as why it did not start. Undefined where it said nothing. */
  get lastWords(): string | undefined {
    return this.#lastWords.trim() || undefined
  }

  get isListening(): boolean {
    return this.#address !== undefined && !this.hasEnded
  }

  get hasEnded(): boolean {
    return this.#child.exitCode !== null || this.#child.signalCode !== null
  }

  signal(name: NodeJS.Signals): void {
    this.#child.kill(name)
  }

  /** Undefined when there is no answer within so many milliseconds. */
  async ask<Q extends Question>(ask: Q, withinMs: number): Promise<Answers[Q] | undefined> {
    const id = ++this.#lastId
    const { promise, resolve } = Promise.withResolvers<Answers[Question] | undefined>()
    this.#waiting.set(id, resolve)
    const timer = setTimeout(resolve, withinMs)
    try {
      const question: ToWorker = { id, ask }
      this.#child.send(question)
      return (await promise) as Answers[Q] | undefined
    } catch {
      // Its channel is closed: it is ending.
      return undefined
    } finally {
      clearTimeout(timer)
      this.#waiting.delete(id)
    }
  }

  #answered({ id, answer }: { readonly id: number; readonly answer: Answers[Question] }): void {
    // Also one that comes late: what it has counted only grows.
    if (Array.isArray(answer)) this.counted = answer
    this.#waiting.get(id)?.(answer)
  }
}

/** A line without an end that is longer than this is passed on in pieces. */
const LONGEST_LINE = 1024 * 1024

/** Processes that write to one file at once tear each other's lines, so only whole ones are passed on. */
export async function passLines(stream: ReadableStream<Uint8Array>, write: (lines: string) => void): Promise<void> {
  const decoder = new TextDecoder()
  let rest = ""
  for await (const chunk of stream) {
    const text = rest + decoder.decode(chunk, { stream: true })
    const whole = text.lastIndexOf("\n") + 1
    const end = text.length - whole > LONGEST_LINE ? text.length : whole
    if (end > 0) write(text.slice(0, end))
    rest = text.slice(end)
  }
  if (rest !== "") write(`${rest}\n`)
}

// What a supervisor and its workers say to each other, as JSON over the channel that a worker is started with.

/** A question is answered with its `id`; an answer that comes late is dropped. */
export type Question = "alive" | "metrics" | "readiness"

export interface Answers {
  readonly alive: true
  readonly metrics: object[]
  readonly readiness: Ready
}

interface ToWorker {
  readonly id: number
  readonly ask: Question
}

type FromWorker =
  /** It takes calls at this address. */
  | { readonly listening: string }
  | { readonly id: number; readonly answer: Answers[Question] }
  /** The last word of one that stops: all that it has counted. */
  | { readonly last: object[] }

/** Set in a worker's environment by its supervisor, and by nobody else. */
export const WORKER_VARIABLE = "LOKET_WORKER"

type AskedServer = Pick<Server, "url" | "metrics" | "readiness">

export const isWorker = (environment: Readonly<Record<string, string | undefined>>): boolean =>
  environment[WORKER_VARIABLE] !== undefined && process.send !== undefined

/** `orphaned`: the supervisor is gone, so that nobody would start this one again or stop it. */
export function serveAsWorker(server: AskedServer, orphaned: () => void): { readonly stopped: () => Promise<void> } {
  const answers: { readonly [Q in Question]: () => Answers[Q] | Promise<Answers[Q]> } = {
    alive: () => true,
    metrics: () => server.metrics(),
    readiness: () => server.readiness(),
  }
  process.on("message", ({ id, ask }: ToWorker) => {
    // What fails is not answered, and counts as late.
    void (async () => say({ id, answer: await answers[ask]() }))().catch(() => {})
  })
  if (process.connected) process.once("disconnect", orphaned)
  else orphaned()
  void say({ listening: server.url })
  return { stopped: async () => say({ last: await server.metrics() }) }
}

/** Resolves when it has left, or cannot. */
const say = (message: FromWorker): Promise<void> =>
  new Promise((resolve) => {
    if (process.connected) process.send?.(message, undefined, undefined, () => resolve())
    else resolve()
  })

// The metrics of several workers as one: counters and histograms are added up, and never fall when a worker ends, because
// Prometheus would take that for a new start and count all of it again.

type Values = readonly object[]

/** Why a worker was started once more. */
type Restart = "ended" | "frozen" | "replaced"

export class CombinedMetrics {
  readonly #own = new Registry()
  /** What workers that have ended had counted. */
  readonly #ended: Values[] = []
  #adding = Promise.resolve()
  readonly #restarts = new Counter({
    name: "loket_worker_restarts_total",
    help: "Workers that were started once more, by why: ended by themselves, frozen, or replaced on SIGHUP.",
    labelNames: ["why"],
    registers: [this.#own],
  })
  /** Of the supervisor's own log; workers count theirs under the same name. */
  readonly #logged = new Counter({
    name: "loket_log_events_total",
    help: "Warnings and errors of the log.",
    labelNames: ["level", "event"],
    registers: [this.#own],
  })

  constructor(workers: () => { readonly wanted: number; readonly listening: number }) {
    for (const why of ["ended", "frozen", "replaced"] as const) this.#restarts.inc({ why }, 0)
    const uptime: Gauge = new Gauge({
      name: "loket_process_uptime_seconds",
      help: "Since this process started.",
      registers: [this.#own],
      aggregator: "first",
      collect: () => uptime.set(process.uptime()),
    })
    const gauge: Gauge<"state"> = new Gauge({
      name: "loket_workers",
      help: "Processes that serve together on one port.",
      labelNames: ["state"],
      registers: [this.#own],
      collect: () => {
        const { wanted, listening } = workers()
        gauge.set({ state: "wanted" }, wanted)
        gauge.set({ state: "listening" }, listening)
      },
    })
  }

  logged(level: "warn" | "error", event: string): void {
    this.#logged.inc({ level, event })
  }

  restarted(why: Restart): void {
    this.#restarts.inc({ why })
  }

  /** A worker is gone: what it has counted stays counted, and what it was stays no longer. */
  ended(counted: Values): void {
    this.#ended.push(counted.filter(onlyGrows))
    this.#adding = this.#adding.then(() => this.#addUp())
  }

  async text(counted: readonly Values[]): Promise<string> {
    return await added([await this.#own.getMetricsAsJSON(), ...this.#ended, ...counted]).metrics()
  }

  get contentType(): string {
    return this.#own.contentType
  }

  /** However many have ended, they take the room of one. */
  async #addUp(): Promise<void> {
    const { length } = this.#ended
    const sum = await added(this.#ended).getMetricsAsJSON()
    this.#ended.splice(0, length, sum)
  }
}

const added = (counted: readonly Values[]) => AggregatorRegistry.aggregate(counted.map((values) => [...values]))

const onlyGrows = (metric: object): boolean =>
  "type" in metric && (metric.type === "counter" || metric.type === "histogram")
