/**
 * What the gateway tells Prometheus, on a listener of its own (`METRICS_PORT`), because the numbers are the operator's
 * and not the customers'. Times in seconds and sizes in bytes, as Prometheus has them; money in micro-rupiah.
 *
 * Nothing is counted by key or account: those are as many as there are customers, and each would be a series.
 */
import { Counter, Gauge, Registry } from "prom-client"
import type { SlotsView } from "../../actors/slots.ts"
import { Failure } from "../failure/failure.ts"
import type { Actors } from "../gateway/actors.ts"
import type { FinishedCall } from "../gateway/ports.ts"
import type { LastReconciliation } from "../store/reconciliations.ts"
import { CallMetrics, type WatchedPools, watchPools } from "./call-metrics.ts"
import { counter, gauge, type Watched, watchEventLoop, watchProcess } from "./process-metrics.ts"

export interface Gauged extends Watched {
  readonly actors: Actors
  /** Ids of the models on sale. */
  readonly models: () => readonly string[]
  /** Calls admitted and not settled yet. */
  readonly underWay: () => number
  /** The reconciliation that ended last, if there was one. */
  readonly reconciled: () => LastReconciliation | undefined
  readonly memberPools: WatchedPools
}

export class Metrics {
  readonly #registry = new Registry()
  readonly #calls = new CallMetrics(this.#registry)
  /** By status and error code. */
  readonly #responses = new Map<number, Map<string, number>>()
  /** By event, of which there are as many as the sources name. */
  readonly #logged = new Map<string, { readonly level: string; count: number }>()
  #eventLoop: { stop(): void } | undefined
  readonly #alerts = new Counter({
    name: "loket_upstream_alerts_total",
    help: "A backend refused our own credentials or address.",
    labelNames: ["model"],
    registers: [this.#registry],
  })

  readonly #exchangeRates = new Counter({
    name: "loket_exchange_rate_readings_total",
    help: "Readings of the source of exchange rates.",
    labelNames: ["outcome"],
    registers: [this.#registry],
  })

  readonly #removed = new Counter({
    name: "loket_retention_removed_rows_total",
    help: "Rows whose time was over, and that this process removed.",
    labelNames: ["kind"],
    registers: [this.#registry],
  })
  readonly #retention = new Gauge({
    name: "loket_retention_success_timestamp_seconds",
    help: "When this process last removed all that was over its time; 0 before.",
    registers: [this.#registry],
    aggregator: "max",
  })

  constructor() {
    counter(this.#registry, "http_responses", "Responses, by status and error code.", ["status", "code"], (add) => {
      for (const [status, byCode] of this.#responses)
        for (const [code, count] of byCode) add({ status: String(status), code }, count)
    })
    counter(this.#registry, "log_events", "Warnings and errors of the log.", ["level", "event"], (add) => {
      for (const [event, { level, count }] of this.#logged) add({ level, event }, count)
    })
  }

  /** From now on tells what these have at the moment that it is asked. */
  watch({ actors, models, underWay, reconciled, memberPools, ...watched }: Gauged): void {
    gauge(this.#registry, "in_flight", "Calls admitted and not settled yet.", [], (set) => set({}, underWay()))
    gauge(
      this.#registry,
      "slots",
      "Concurrency slots: the gateway's own and each busy model's.",
      ["of", "state"],
      async (set) => {
        const tell = (of: string, { cap, taken, waiting }: SlotsView) => {
          set({ of, state: "cap" }, cap)
          set({ of, state: "taken" }, taken)
          set({ of, state: "waiting" }, waiting)
        }
        const gate = await actors.gate.view()
        if (!(gate instanceof Failure)) tell("gateway", gate)
        for (const id of models()) {
          const slots = await actors.models.viewIfActive(id)
          if (slots !== undefined) tell(id, slots)
        }
      },
    )
    gauge(this.#registry, "ledger_backlog", "Openings and settlements that are not durable yet.", [], async (set) => {
      const view = await actors.ledger.view()
      if (!(view instanceof Failure)) set({}, view.backlog)
    })
    gauge(
      this.#registry,
      "ledger_lag_seconds",
      "How long the commit under way has been tried.",
      [],
      async (set) => {
        const view = await actors.ledger.view()
        if (!(view instanceof Failure)) set({}, view.lagMs / 1_000)
      },
      "max",
    )
    gauge(this.#registry, "actors", "Actors alive.", ["kind"], (set) => {
      for (const { kind, actors: alive } of actors.mailboxes()) if (alive !== undefined) set({ kind }, alive)
    })
    gauge(this.#registry, "mailbox_depth", "Commands that wait, in all mailboxes of a kind.", ["kind"], (set) => {
      for (const { kind, depth } of actors.mailboxes()) set({ kind }, depth)
    })
    gauge(
      this.#registry,
      "mailbox_age_seconds",
      "How long the oldest waiting command has waited.",
      ["kind"],
      (set) => {
        for (const { kind, oldestMs } of actors.mailboxes()) set({ kind }, oldestMs / 1_000)
      },
      "max",
    )
    const ofReconciliation =
      (of: (last: LastReconciliation) => number) => (set: (labels: object, value: number) => void) => {
        const last = reconciled()
        if (last !== undefined) set({}, of(last))
      }
    gauge(
      this.#registry,
      "reconciliation_differences",
      "Found by the last one.",
      [],
      ofReconciliation((last) => last.differences),
      "max",
    )
    gauge(
      this.#registry,
      "reconciliation_not_compared",
      "Top-ups without an answer.",
      [],
      ofReconciliation((last) => last.notCompared),
      "max",
    )
    gauge(
      this.#registry,
      "reconciliation_success_timestamp_seconds",
      "When the last one ended.",
      [],
      ofReconciliation((last) => last.endedAt.getTime() / 1_000),
      "max",
    )
    watchPools(this.#registry, memberPools)
    watchProcess(this.#registry, watched)
    this.#eventLoop = watchEventLoop(this.#registry)
  }

  /** Measures no more. */
  stop(): void {
    this.#eventLoop?.stop()
  }

  finished(call: FinishedCall): void {
    this.#calls.finished(call)
  }

  /** Our own standing with a backend is at fault. */
  alerted({ model }: { readonly model: string }): void {
    this.#alerts.inc({ model })
  }

  /** The source of exchange rates was asked: `same`, `changed`, `jump` or `failed`. */
  exchangeRatesRead(outcome: string): void {
    this.#exchangeRates.inc({ outcome })
  }

  /** A round of what is kept no longer has ended; how many rows of each kind it removed. */
  keptNoLonger(removed: Readonly<Record<string, number>>): void {
    for (const [kind, rows] of Object.entries(removed)) this.#removed.inc({ kind }, rows)
    this.#retention.setToCurrentTime()
  }

  logged(level: "warn" | "error", event: string): void {
    const logged = this.#logged.get(event)
    if (logged === undefined) this.#logged.set(event, { level, count: 1 })
    else logged.count++
  }

  responded({ status, headers }: Response): void {
    const code = headers.get("x-error-code") ?? ""
    let byCode = this.#responses.get(status)
    if (byCode === undefined) this.#responses.set(status, (byCode = new Map<string, number>()))
    byCode.set(code, (byCode.get(code) ?? 0) + 1)
  }

  /** All of it, as values that a supervisor adds to those of other workers. */
  values(): Promise<object[]> {
    return this.#registry.getMetricsAsJSON()
  }

  /** Answers `GET /metrics`; anything else is not found. */
  async respond(request: Request): Promise<Response> {
    if (new URL(request.url).pathname !== "/metrics")
      return new Response("see /metrics, /healthz and /readyz\n", { status: 404 })
    if (request.method !== "GET" && request.method !== "HEAD") return new Response("GET only\n", { status: 405 })
    const text = await this.#registry.metrics()
    return new Response(text, { headers: { "Content-Type": this.#registry.contentType } })
  }
}
