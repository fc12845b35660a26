/**
 * What calls add up to, and what was found of the members of pools, for Prometheus. A call looks up one record of sums and adds to
 * it; series and their labels are made when somebody reads them. Times in seconds, money in micro-rupiah.
 */
import { Counter, type Metric, type Registry } from "prom-client"
import type { RetryBudget } from "../../actors/backend.ts"
import type { UsageRecord } from "../../actors/ledger.ts"
import type { BackendHealth } from "../gateway/backend-health.ts"
import type { PoolMember } from "../gateway/pools.ts"
import type { FinishedCall } from "../gateway/ports.ts"
import { counter, gauge } from "./process-metrics.ts"

/** From a short answer's first token to a long agent turn. */
const BOUNDS = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300]

type Labels = Readonly<Record<string, string | number>>

/** A histogram's numbers: how many times lie under each bound and not under the one before, and over the last. */
class Times {
  readonly #counts = Array.from({ length: BOUNDS.length + 1 }, () => 0)
  #sum = 0

  add(seconds: number): void {
    let index = 0
    while (index < BOUNDS.length && seconds > (BOUNDS[index] ?? 0)) index++
    this.#counts[index] = (this.#counts[index] ?? 0) + 1
    this.#sum += seconds
  }

  values(name: string, labels: Labels) {
    let below = 0
    const buckets = this.#counts.map((count, index) => {
      below += count
      return { metricName: `${name}_bucket`, labels: { le: BOUNDS[index] ?? "+Inf", ...labels }, value: below }
    })
    if (below === 0) return []
    return [
      ...buckets,
      { metricName: `${name}_sum`, labels, value: this.#sum },
      { metricName: `${name}_count`, labels, value: below },
    ]
  }
}

/** Of one endpoint and model. */
class Sums {
  readonly endpoint: string
  readonly model: string
  readonly byStatus = new Map<string, { calls: number; flagged: number }>()
  readonly tokens = { input: 0, output: 0, cache_read: 0, cache_write: 0 }
  readonly firstToken = new Times()
  readonly duration = new Times()
  attempts = 0
  charge = 0
  absorbed = 0
  cost = 0
  /** Calls, by who answered. */
  readonly underCost = new Map<string, number>()
  unknownCost = 0

  constructor(endpoint: string, model: string) {
    this.endpoint = endpoint
    this.model = model
  }

  add(record: UsageRecord): void {
    const { status, tokens } = record
    let counted = this.byStatus.get(status)
    if (counted === undefined) this.byStatus.set(status, (counted = { calls: 0, flagged: 0 }))
    counted.calls++
    if (record.flagged) counted.flagged++
    if (status === "ok") {
      this.tokens.input += tokens.input
      this.tokens.output += tokens.output
      this.tokens.cache_read += tokens.cacheRead
      this.tokens.cache_write += tokens.cacheWrite
    }
    this.attempts += record.attempts
    this.charge += Number(record.charge)
    this.absorbed += Number(record.absorbed)
    if (record.cost !== undefined) this.cost += Number(record.cost)
    else if (record.member !== undefined) this.unknownCost++
    const { member } = record
    if (member !== undefined && isUnderCost(record)) this.underCost.set(member, (this.underCost.get(member) ?? 0) + 1)
    if (record.firstTokenMs !== undefined) this.firstToken.add(record.firstTokenMs / 1_000)
    this.duration.add(record.durationMs / 1_000)
  }
}

/** The price of an answer is what was charged and what was absorbed of it. */
const isUnderCost = ({ status, charge, absorbed, cost }: UsageRecord): boolean =>
  status === "ok" && cost !== undefined && charge + absorbed < cost

type Add<L extends string> = (labels: Record<L, string>, value: number) => void

export class CallMetrics {
  readonly #byEndpoint = new Map<string, Map<string, Sums>>()
  readonly #registry: Registry

  constructor(registry: Registry) {
    this.#registry = registry
    this.#counter("calls", "Calls that ended, by outcome.", ["endpoint", "model", "status"], (sums, add) => {
      const { endpoint, model } = sums
      for (const [status, { calls }] of sums.byStatus) add({ endpoint, model, status }, calls)
    })
    this.#counter("tokens", "Tokens of charged calls.", ["model", "bucket"], ({ model, tokens }, add) => {
      for (const [bucket, count] of Object.entries(tokens)) add({ model, bucket }, count)
    })
    this.#counter("charge_micro", "Charged to customers, micro-rupiah.", ["model"], ({ model, charge }, add) =>
      add({ model }, charge),
    )
    const overHeld = "Over what was held and left: borne by the house."
    this.#counter("absorbed_micro", overHeld, ["model"], ({ model, absorbed }, add) => add({ model }, absorbed))
    const costs = "What backends charge for final records, micro-rupiah; tries that failed are not in it."
    this.#counter("cost_micro", costs, ["model"], ({ model, cost }, add) => add({ model }, cost))
    const short = "Calls whose price was under their cost."
    this.#counter("under_cost", short, ["model", "member"], ({ model, underCost }, add) => {
      for (const [member, calls] of underCost) add({ model, member }, calls)
    })
    this.#counter("unknown_cost", "Calls whose cost is not known.", ["model"], ({ model, unknownCost }, add) => {
      if (unknownCost > 0) add({ model }, unknownCost)
    })
    this.#counter("flagged", "Records that want an operator's look.", ["model", "status"], (sums, add) => {
      for (const [status, { flagged }] of sums.byStatus) if (flagged > 0) add({ model: sums.model, status }, flagged)
    })
    this.#counter("upstream_attempts", "Tries at backends.", ["model"], ({ model, attempts }, add) =>
      add({ model }, attempts),
    )
    this.#times("first_token_seconds", "From the call's arrival to its first content.", ({ firstToken }) => firstToken)
    this.#times("duration_seconds", "From the call's arrival to its end.", ({ duration }) => duration)
  }

  finished({ endpoint, record }: FinishedCall): void {
    const { model } = record
    let byModel = this.#byEndpoint.get(endpoint)
    if (byModel === undefined) this.#byEndpoint.set(endpoint, (byModel = new Map<string, Sums>()))
    let sums = byModel.get(model)
    if (sums === undefined) byModel.set(model, (sums = new Sums(endpoint, model)))
    sums.add(record)
  }

  get #sums(): Sums[] {
    return [...this.#byEndpoint.values()].flatMap((byModel) => [...byModel.values()])
  }

  /** `of` adds what one endpoint and model have; what has the same labels is one series. */
  #counter<L extends string>(
    name: string,
    help: string,
    labelNames: readonly L[],
    of: (sums: Sums, add: Add<L>) => void,
  ): void {
    const counter: Counter<L> = new Counter<L>({
      name: `loket_${name}_total`,
      help,
      labelNames: [...labelNames],
      registers: [this.#registry],
      collect: () => {
        counter.reset()
        for (const sums of this.#sums) of(sums, (labels, value) => counter.inc(labels, value))
      },
    })
  }

  #times(suffix: string, help: string, of: (sums: Sums) => Times): void {
    const name = `loket_${suffix}`
    const metric = {
      name,
      get: () => ({
        name,
        help,
        type: "histogram",
        aggregator: "sum",
        values: this.#sums.flatMap((sums) => of(sums).values(name, { endpoint: sums.endpoint, model: sums.model })),
      }),
    }
    // All that the registry calls of a metric.
    this.#registry.registerMetric(metric as unknown as Metric)
  }
}

export interface WatchedPools {
  /** Of the models on sale, by their ids. */
  readonly members: () => readonly { readonly model: string; readonly isAlone: boolean; readonly place: PoolMember }[]
  readonly health: BackendHealth
  readonly budget: RetryBudget
  /** Monotonic milliseconds. */
  readonly now: () => number
}

/**
 * What Prometheus is told of the members of pools, as this process has found them. As many series as the catalogue
 * has members.
 */
export function watchPools(registry: Registry, { members, health, budget, now }: WatchedPools): void {
  gauge(registry, "member_under_way", "Calls at a member of a pool.", ["model", "member"], (set) => {
    for (const { model, place } of members()) set({ model, member: place.member.id }, place.own.capacity.inFlight)
  })
  const well = "1 for a member that is asked, 0 for one that is held back, or whose credential is."
  gauge(
    registry,
    "member_well",
    well,
    ["model", "member"],
    (set) => {
      for (const { model, isAlone, place } of members()) {
        if (place.state === "disabled") continue
        // Where there is nobody else, it is asked whatever came of it.
        const isWell =
          isAlone || [place.own, place.credential].every(({ circuit }) => circuit.state(now()) === "closed")
        set({ model, member: place.member.id }, isWell ? 1 : 0)
      }
    },
    "max",
  )
  const spent = "Failed calls that were not sent again, because too many others were."
  counter(registry, "retries_refused", spent, [], (add) => add({}, budget.refused))
  counter(registry, "member_tries", "Tries at members of pools.", ["model", "member", "outcome"], (add) => {
    for (const { model, member, everAnswered, everFailed } of health.views()) {
      add({ model, member, outcome: "answered" }, everAnswered)
      add({ model, member, outcome: "failed" }, everFailed)
    }
  })
}
