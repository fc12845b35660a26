/**
 * One command, several processes on one port: starts them, starts again what ends, replaces them one after the other, and stops
 * them. A worker is the whole gateway; this process takes no call and knows no money. Times in milliseconds.
 */
import { every } from "../../actors/kernel/clock.ts"
import { counting, type Log } from "../log.ts"
import { type Answers, CombinedMetrics, type Question, WORKER_VARIABLE, WorkerProcess } from "./worker-process.ts"

export interface SupervisorTerms {
  readonly workers: number
  /** Starts a worker. */
  readonly command: readonly string[]
  readonly env: Readonly<Record<string, string | undefined>>
  /** 0: the first worker's choice is everybody's. */
  readonly port: number
  readonly log: Log
  readonly write: (lines: string) => void
  /** Lines of the workers' standard error. */
  readonly complain: (lines: string) => void
  readonly times?: Partial<Times>
}

interface Times {
  /** Between two looks whether the workers live. */
  readonly lookMs: number
  /** Before a worker is started again that had not lived for `steadyMs`; doubled each time, up to the most. */
  readonly pauseMs: number
  readonly mostPauseMs: number
  readonly steadyMs: number
  /** For an answer of a worker's. */
  readonly answerMs: number
}

const TIMES: Times = { lookMs: 5_000, pauseMs: 500, mostPauseMs: 30_000, steadyMs: 60_000, answerMs: 1_000 }
/**
 * So many looks in a row that a worker did not answer. Counted and not timed: where this process was late itself, as after a nap of
 * the machine, there was one look.
 */
const UNANSWERED_LOOKS = 4

/** A place among the workers: whoever is in it is started again when it ends. */
interface Place {
  readonly number: number
  worker: WorkerProcess
  pauseMs: number
}

export class Supervisor {
  /** The log that it was given. What is warned of by this one is in the metrics. */
  readonly log: Log
  readonly #terms: SupervisorTerms
  readonly #times: Times
  readonly #places: Place[] = []
  /** All that have not ended: also one that starts to replace another, and one that drains. */
  readonly #alive = new Set<WorkerProcess>()
  readonly #allListen = Promise.withResolvers<void>()
  readonly #stopping = Promise.withResolvers<void>()
  #isStopping = false
  #replacing: Promise<void> | undefined
  #replaceAgain = false
  #port: number
  #looks: { stop(): Promise<void> } | undefined
  readonly #metrics = new CombinedMetrics(() => ({
    wanted: this.#terms.workers,
    listening: this.#places.filter(({ worker }) => worker.isListening).length,
  }))

  constructor(terms: SupervisorTerms) {
    this.#terms = terms
    this.log = counting(terms.log, (level, event) => this.#metrics.logged(level, event))
    this.#times = { ...TIMES, ...terms.times }
    this.#port = terms.port
  }

  /** Resolves with the address when all workers take calls. Rejects when one ends before, and then none is left. */
  async start(): Promise<string> {
    try {
      // The first one migrates the database, and finds a port where none is given.
      const first = this.#spawn()
      const url = await first.listening
      this.#port = Number(new URL(url).port)
      const rest = Array.from({ length: this.#isStopping ? 0 : this.#terms.workers - 1 }, () => this.#spawn())
      await Promise.all(rest.map(({ listening }) => listening))
      for (const [index, worker] of [first, ...rest].entries()) this.#give(index + 1, worker)
      this.#looks = every(this.#times.lookMs, () => this.#look())
      this.#allListen.resolve()
      return url
    } catch (error) {
      await this.stop()
      throw error
    }
  }

  /**
   * Replaces the workers one after the other, each by one that takes calls already. One that does not start ends it: those that
   * were not replaced yet stay. Asked again meanwhile, it begins anew afterwards; before all listen, it waits until they do.
   */
  async replaceAll(): Promise<void> {
    this.#replaceAgain = this.#replacing !== undefined
    this.#replacing ??= this.#replaceEach().finally(() => {
      this.#replacing = undefined
    })
    await this.#replacing
    if (!this.#replaceAgain || this.#isStopping) return
    this.#replaceAgain = false
    await this.replaceAll()
  }

  /** Resolves when the last worker has ended, which drains first. */
  async stop(): Promise<void> {
    if (!this.#isStopping) {
      this.#isStopping = true
      this.#stopping.resolve()
      for (const worker of this.#alive) worker.signal("SIGTERM")
    }
    await Promise.all([...this.#alive].map(({ ended }) => ended))
    await this.#looks?.stop()
  }

  /** Answers `GET` of `/metrics`, of all workers together; of `/healthz`, of this process; of `/readyz`, when one worker is ready. */
  async respond(request: Request): Promise<Response> {
    const { pathname } = new URL(request.url)
    if (request.method !== "GET" && request.method !== "HEAD") return new Response("GET only\n", { status: 405 })
    if (pathname === "/healthz") return Response.json({ status: "ok" })
    if (pathname === "/readyz") return await this.#readiness()
    if (pathname !== "/metrics") return new Response("see /metrics, /healthz and /readyz\n", { status: 404 })
    await this.#askAll("metrics")
    const text = await this.#metrics.text([...this.#alive].map(({ counted }) => counted))
    return new Response(text, { headers: { "Content-Type": this.#metrics.contentType } })
  }

  async #readiness(): Promise<Response> {
    const answers = (await this.#askAll("readiness")).flatMap(({ answer }) => (answer === undefined ? [] : [answer]))
    const said = answers.find(({ isReady }) => isReady) ?? answers[0]
    if (said === undefined) return Response.json({ status: "not ready" }, { status: 503 })
    return Response.json(said.body, { status: said.isReady ? 200 : 503 })
  }

  /** Of all that listen, also of one that drains. */
  async #askAll<Q extends Question>(ask: Q): Promise<{ worker: WorkerProcess; answer: Answers[Q] | undefined }[]> {
    const listening = [...this.#alive].filter(({ isListening }) => isListening)
    return await Promise.all(
      listening.map(async (worker) => ({ worker, answer: await worker.ask(ask, this.#times.answerMs) })),
    )
  }

  #spawn(): WorkerProcess {
    const { command, env, workers, write, complain } = this.#terms
    const worker = new WorkerProcess({
      command,
      write,
      complain,
      env: {
        ...env,
        WORKERS: String(workers),
        [WORKER_VARIABLE]: "1",
        PORT: String(this.#port),
        REUSE_PORT: "true",
        // This process has the listener, and systemd knows this one.
        METRICS_PORT: "",
        NOTIFY_SOCKET: "",
      },
    })
    this.#alive.add(worker)
    void this.#forget(worker)
    return worker
  }

  async #forget(worker: WorkerProcess): Promise<void> {
    await worker.ended
    this.#alive.delete(worker)
    this.#metrics.ended(worker.counted)
  }

  #give(number: number, worker: WorkerProcess): void {
    const place = { number, worker, pauseMs: this.#times.pauseMs }
    this.#places.push(place)
    this.#logListening(place)
    void this.#keep(place)
  }

  #logListening({ number, worker }: Place): void {
    this.log.info("worker listening", { worker: number, pid: worker.pid })
  }

  /** As long as nobody else is put into the place. */
  async #keep(place: Place): Promise<void> {
    const { worker } = place
    const { mostPauseMs, pauseMs, steadyMs } = this.#times
    const how = await worker.ended
    const isOurs = () => place.worker === worker && !this.#isStopping
    if (!isOurs()) return
    this.log.error("worker ended", { worker: place.number, pid: worker.pid, how, because: worker.lastWords })
    this.#metrics.restarted(worker.unanswered >= UNANSWERED_LOOKS ? "frozen" : "ended")
    if (performance.now() - worker.startedAt >= steadyMs) place.pauseMs = pauseMs
    let fresh: WorkerProcess | undefined
    while (fresh === undefined) {
      await Promise.race([Bun.sleep(place.pauseMs), this.#stopping.promise])
      if (!isOurs()) return
      place.pauseMs = Math.min(mostPauseMs, 2 * place.pauseMs)
      try {
        fresh = this.#spawn()
      } catch (error) {
        // The program is just being replaced, or the machine has no memory or process for it now. It may have later.
        this.log.error("worker not started", { worker: place.number, error: String(error) })
      }
    }
    this.#put(place, fresh)
    await place.worker.listening.then(
      () => this.#logListening(place),
      () => {},
    )
  }

  #put(place: Place, worker: WorkerProcess): void {
    place.worker = worker
    void this.#keep(place)
  }

  async #replaceEach(): Promise<void> {
    await Promise.race([this.#allListen.promise, this.#stopping.promise])
    for (const place of this.#places) {
      if (this.#isStopping) return
      let fresh: WorkerProcess | undefined
      try {
        fresh = this.#spawn()
        await fresh.listening
      } catch (error) {
        const why = { error: String(error), because: fresh?.lastWords }
        if (!this.#isStopping) this.log.error("worker not replaced", { worker: place.number, ...why })
        return
      }
      // Whoever is there now: it may have ended meanwhile, and been started again.
      const old = place.worker
      this.#put(place, fresh)
      this.#logListening(place)
      this.#metrics.restarted("replaced")
      old.signal("SIGTERM")
      // The next one is replaced when this one is gone, so that there is never more than one process too many.
      await old.ended
    }
  }

  /** Also at one that drains: it would be waited for without an end. */
  async #look(): Promise<void> {
    for (const { worker, answer } of await this.#askAll("alive")) {
      worker.unanswered = answer === undefined ? worker.unanswered + 1 : 0
      if (worker.unanswered < UNANSWERED_LOOKS) continue
      this.log.error("worker frozen", { pid: worker.pid })
      worker.signal("SIGKILL")
    }
  }
}
