/**
 * What the gateway tells Prometheus, on a listener of its own (`METRICS_PORT`), because the numbers are the operator's
 * and not the customers'. Times in seconds and sizes in bytes, as Prometheus has them; money in micro-rupiah.
 *
 * Nothing is counted by key or account: those are as many as there are customers, and each would be a series.
 */
import { Counter, Gauge, Histogram, Registry } from "prom-client"
import type { SlotsView } from "../../actors/slots.ts"
import { Failure } from "../failure/failure.ts"
import type { Actors } from "../gateway/actors.ts"
import type { BodyBytes } from "../gateway/read-body.ts"
import type { FinishedCall } from "../gateway/ports.ts"
import type { LastReconciliation } from "../store/reconciliations.ts"
import type { Descriptors } from "./descriptors.ts"

/** From a short answer's first token to a long agent turn. */
const SECONDS = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300]

export interface Gauged {
  readonly actors: Actors
  /** Ids of the models on sale. */
  readonly models: () => readonly string[]
  /** Calls admitted and not settled yet. */
  readonly underWay: () => number
  /** The reconciliation that ended last, if there was one. */
  readonly reconciled: () => LastReconciliation | undefined
  readonly descriptors: Pick<Descriptors, "look">
  /** What is held of request bodies. */
  readonly bodies: Pick<BodyBytes, "held" | "total">
}

export class Metrics {
  readonly #registry = new Registry()
  readonly #calls = this.#counter("calls", "Calls that ended, by outcome.", ["endpoint", "model", "status"])
  readonly #tokens = this.#counter("tokens", "Tokens of charged calls.", ["model", "bucket"])
  readonly #charged = this.#counter("charge_micro", "Charged to customers, micro-rupiah.", ["model"])
  readonly #absorbed = this.#counter("absorbed_micro", "Over what was held and left: borne by the house.", ["model"])
  readonly #flagged = this.#counter("flagged", "Records that want an operator's look.", ["model", "status"])
  readonly #alerts = this.#counter("upstream_alerts", "A backend refused our own credentials or address.", ["model"])
  readonly #attempts = this.#counter("upstream_attempts", "Tries at backends.", ["model"])
  readonly #responses = this.#counter("http_responses", "Responses, by status and error code.", ["status", "code"])
  readonly #firstToken = this.#seconds("first_token_seconds", "From the call's arrival to its first content.")
  readonly #duration = this.#seconds("duration_seconds", "From the call's arrival to its end.")

  /** From now on tells what these have at the moment that it is asked. */
  watch({ actors, models, underWay, reconciled, descriptors, bodies }: Gauged): void {
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
      const seen = await descriptors.look()
      if (seen === undefined) return
      set({ state: "open" }, seen.open)
      set({ state: "limit" }, seen.limit)
    })
    this.#gauge("body_bytes", "Request bodies under way.", ["state"], (set) => {
      set({ state: "held" }, bodies.held)
      set({ state: "limit" }, bodies.total)
    })
    this.#gauge("process_uptime_seconds", "Since this process started.", [], (set) => set({}, process.uptime()))
  }

  finished({ endpoint, record }: FinishedCall): void {
    const { model, status, firstTokenMs } = record
    this.#calls.inc({ endpoint, model, status })
    this.#attempts.inc({ model }, record.attempts)
    if (record.flagged) this.#flagged.inc({ model, status })
    if (status === "ok") {
      const { input, output, cacheRead, cacheWrite } = record.tokens
      this.#tokens.inc({ model, bucket: "input" }, input)
      this.#tokens.inc({ model, bucket: "output" }, output)
      this.#tokens.inc({ model, bucket: "cache_read" }, cacheRead)
      this.#tokens.inc({ model, bucket: "cache_write" }, cacheWrite)
    }
    this.#charged.inc({ model }, Number(record.charge))
    this.#absorbed.inc({ model }, Number(record.absorbed))
    if (firstTokenMs !== undefined) this.#firstToken.observe({ endpoint, model }, firstTokenMs / 1_000)
    this.#duration.observe({ endpoint, model }, record.durationMs / 1_000)
  }

  /** Our own standing with a backend is at fault. */
  alerted({ model }: { readonly model: string }): void {
    this.#alerts.inc({ model })
  }

  responded({ status, headers }: Response): void {
    this.#responses.inc({ status, code: headers.get("x-error-code") ?? "" })
  }

  /** Answers `GET /metrics`, and nothing else. */
  async respond(request: Request): Promise<Response> {
    if (new URL(request.url).pathname !== "/metrics") return new Response("see /metrics\n", { status: 404 })
    if (request.method !== "GET" && request.method !== "HEAD") return new Response("GET only\n", { status: 405 })
    const text = await this.#registry.metrics()
    return new Response(text, { headers: { "Content-Type": this.#registry.contentType } })
  }

  #counter<L extends string>(name: string, help: string, labelNames: readonly L[]): Counter<L> {
    return new Counter({ name: `loket_${name}_total`, help, labelNames: [...labelNames], registers: [this.#registry] })
  }

  #seconds(name: string, help: string): Histogram<"endpoint" | "model"> {
    const labelNames = ["endpoint", "model"] as const
    return new Histogram({ name: `loket_${name}`, help, labelNames, buckets: SECONDS, registers: [this.#registry] })
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
