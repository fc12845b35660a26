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
import type { BodyBytes } from "../gateway/read-body.ts"
import type { FinishedCall } from "../gateway/ports.ts"
import type { ProcessSign } from "../store/process-signs.ts"
import type { LastReconciliation } from "../store/reconciliations.ts"
import { CallMetrics } from "./call-metrics.ts"
import type { Descriptors } from "./descriptors.ts"

export interface Gauged {
  readonly actors: Actors
  /** Ids of the models on sale. */
  readonly models: () => readonly string[]
  /** Calls admitted and not settled yet. */
  readonly underWay: () => number
  /** The reconciliation that ended last, if there was one. */
  readonly reconciled: () => LastReconciliation | undefined
  readonly descriptors: Pick<Descriptors, "look">
  /** Of all processes on the database; undefined where there is one alone. */
  readonly processes: (() => Promise<readonly ProcessSign[]>) | undefined
  /** What is held of request bodies. */
  readonly bodies: Pick<BodyBytes, "held" | "total">
}

type SetProcess = (labels: { readonly process_id: string }, value: number) => void

export class Metrics {
  #looking: Promise<readonly ProcessSign[]> | undefined
  readonly #registry = new Registry()
  readonly #calls = new CallMetrics(this.#registry)
  /** By status and error code. */
  readonly #responses = new Map<number, Map<string, number>>()
  readonly #alerts = new Counter({
    name: "loket_upstream_alerts_total",
    help: "A backend refused our own credentials or address.",
    labelNames: ["model"],
    registers: [this.#registry],
  })

  constructor() {
    const counter = new Counter({
      name: "loket_http_responses_total",
      help: "Responses, by status and error code.",
      labelNames: ["status", "code"],
      registers: [this.#registry],
      collect: () => {
        counter.reset()
        for (const [status, byCode] of this.#responses)
          for (const [code, count] of byCode) counter.inc({ status, code }, count)
      },
    })
  }

  /** From now on tells what these have at the moment that it is asked. */
  watch({ actors, models, underWay, reconciled, descriptors, bodies, processes }: Gauged): void {
    this.#gauge("in_flight", "Calls admitted and not settled yet.", [], (set) => set({}, underWay()))
    this.#gauge(
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
    this.#gauge("ledger_backlog", "Openings and settlements that are not durable yet.", [], async (set) => {
      const view = await actors.ledger.view()
      if (!(view instanceof Failure)) set({}, view.backlog)
    })
    this.#gauge("ledger_lag_seconds", "How long the commit under way has been tried.", [], async (set) => {
      const view = await actors.ledger.view()
      if (!(view instanceof Failure)) set({}, view.lagMs / 1_000)
    })
    this.#gauge("actors", "Actors alive.", ["kind"], (set) => {
      for (const { kind, actors: alive } of actors.mailboxes()) if (alive !== undefined) set({ kind }, alive)
    })
    this.#gauge("mailbox_depth", "Commands that wait, in all mailboxes of a kind.", ["kind"], (set) => {
      for (const { kind, depth } of actors.mailboxes()) set({ kind }, depth)
    })
    this.#gauge("mailbox_age_seconds", "How long the oldest waiting command has waited.", ["kind"], (set) => {
      for (const { kind, oldestMs } of actors.mailboxes()) set({ kind }, oldestMs / 1_000)
    })
    const ofReconciliation =
      (of: (last: LastReconciliation) => number) => (set: (labels: object, value: number) => void) => {
        const last = reconciled()
        if (last !== undefined) set({}, of(last))
      }
    this.#gauge(
      "reconciliation_differences",
      "Found by the last one.",
      [],
      ofReconciliation((last) => last.differences),
    )
    this.#gauge(
      "reconciliation_not_compared",
      "Top-ups without an answer.",
      [],
      ofReconciliation((last) => last.notCompared),
    )
    this.#gauge(
      "reconciliation_success_timestamp_seconds",
      "When the last one ended.",
      [],
      ofReconciliation((last) => last.endedAt.getTime() / 1_000),
    )
    this.#gauge("process_memory_bytes", "Memory of this process.", ["kind"], (set) => {
      const { rss, heapUsed, external } = process.memoryUsage()
      set({ kind: "resident" }, rss)
      set({ kind: "heap" }, heapUsed)
      set({ kind: "external" }, external)
    })
    this.#gauge("process_descriptors", "File descriptors: a connection takes one.", ["state"], async (set) => {
      // Where that fails, it fails as a chore too, which is logged.
      const seen = await descriptors.look().catch(() => undefined)
      if (seen === undefined) return
      set({ state: "open" }, seen.open)
      set({ state: "limit" }, seen.limit)
    })
    this.#gauge("body_bytes", "Request bodies under way.", ["state"], (set) => {
      set({ state: "held" }, bodies.held)
      set({ state: "limit" }, bodies.total)
    })
    if (processes !== undefined) this.#watchProcesses(processes)
    this.#gauge("process_uptime_seconds", "Since this process started.", [], (set) => set({}, process.uptime()))
  }

  /** Every process tells of all, so that one that stands still is told of by its neighbours. */
  #watchProcesses(processes: () => Promise<readonly ProcessSign[]>): void {
    const each = (of: (sign: ProcessSign) => number | undefined) => async (set: SetProcess) => {
      // A database that is away has metrics of its own.
      const signs = await this.#signs(processes).catch(() => [])
      for (const sign of signs) {
        const value = of(sign)
        if (value !== undefined) set({ process_id: sign.processId }, value)
      }
    }
    const label = ["process_id"] as const
    this.#gauge(
      "process_leases",
      "Accounts that a process on the database holds money of.",
      label,
      each((sign) => sign.leases),
    )
    this.#gauge(
      "process_leased_micro",
      "What is left of that money.",
      label,
      each((sign) => Number(sign.leased)),
    )
    this.#gauge(
      "process_silence_seconds",
      "Since a process on the database last gave a sign of life.",
      label,
      each((sign) => sign.silentS),
    )
  }

  /** One look for all that is told at once. */
  #signs(processes: () => Promise<readonly ProcessSign[]>): Promise<readonly ProcessSign[]> {
    this.#looking ??= processes().finally(() => {
      this.#looking = undefined
    })
    return this.#looking
  }

  finished(call: FinishedCall): void {
    this.#calls.finished(call)
  }

  /** Our own standing with a backend is at fault. */
  alerted({ model }: { readonly model: string }): void {
    this.#alerts.inc({ model })
  }

  responded({ status, headers }: Response): void {
    const code = headers.get("x-error-code") ?? ""
    let byCode = this.#responses.get(status)
    if (byCode === undefined) this.#responses.set(status, (byCode = new Map<string, number>()))
    byCode.set(code, (byCode.get(code) ?? 0) + 1)
  }

  /** Answers `GET /metrics`; anything else is not found. */
  async respond(request: Request): Promise<Response> {
    if (new URL(request.url).pathname !== "/metrics")
      return new Response("see /metrics, /healthz and /readyz\n", { status: 404 })
    if (request.method !== "GET" && request.method !== "HEAD") return new Response("GET only\n", { status: 405 })
    const text = await this.#registry.metrics()
    return new Response(text, { headers: { "Content-Type": this.#registry.contentType } })
  }

  /** Read when it is asked for; what has gone since the last time is forgotten. */
  #gauge<L extends string>(
    name: string,
    help: string,
    labelNames: readonly L[],
    read: (set: (labels: Partial<Record<L, string>>, value: number) => void) => void | Promise<void>,
  ): void {
    const gauge: Gauge<L> = new Gauge<L>({
      name: `loket_${name}`,
      help,
      labelNames: [...labelNames],
      registers: [this.#registry],
      async collect() {
        gauge.reset()
        await read((labels, value) => gauge.set(labels as Record<L, string>, value))
      },
    })
  }
}
