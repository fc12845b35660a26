/**
 * The metrics of several workers as one: counters and histograms are added up, and never fall when a worker ends, because
 * Prometheus would take that for a new start and count all of it again.
 */
import { AggregatorRegistry, Counter, Gauge, Registry } from "prom-client"

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
