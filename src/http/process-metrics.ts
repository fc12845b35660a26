/**
 * What Prometheus is told of this process, its database and its neighbours: read when somebody asks. The delay of the event
 * loop alone is measured all the time, ten times a second. Times in seconds, sizes in bytes, money in micro-rupiah.
 */
import { Counter, Gauge, Histogram, type Registry } from "prom-client"
import type { GateLoad } from "../store/gate.ts"
import type { ProcessSign } from "../store/session-lock.ts"
import type { BodyMemory } from "../gateway/read-body.ts"
import type { CallDeduplication } from "../gateway/call-deduplication.ts"
import type { RedisCounts } from "../redis/counts.ts"
import type { Tracing } from "../traces/tracing.ts"
import type { Descriptors } from "./connection.ts"

export interface Watched {
  readonly descriptors: Pick<Descriptors, "look">
  /** Of all processes on the database; undefined where there is one alone. */
  readonly processes: (() => Promise<readonly ProcessSign[]>) | undefined
  /** The log that the embedded database would have to read again; undefined on a server. */
  readonly redoBytes: (() => Promise<number>) | undefined
  /** By name. */
  readonly pools: Readonly<Record<string, { readonly load: GateLoad }>>
  /** Calls that were withdrawn, and are kept on the local disk because the database does not have them yet. */
  readonly withdrawalsKept: () => number
  /** Undefined without a collector of traces. */
  readonly tracing: Pick<Tracing, "counts" | "waiting"> | undefined
  /** The keys' windows of all processes; undefined without Redis. */
  readonly counts: Pick<RedisCounts, "state" | "falls" | "answers"> | undefined
  /** What is held of request bodies. */
  readonly bodies: Pick<BodyMemory, "held" | "total">
  /** Memory of responses that can be replayed, and the outcomes of duplicate calls. */
  readonly deduplication: Pick<CallDeduplication, "replayBytes" | "maxReplayBytes" | "outcomes">
}

const LOOK_MS = 100
const DELAYS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30]

type Read<L extends string> = (tell: (labels: Record<L, string>, value: number) => void) => void | Promise<void>

/**
 * Read when it is asked for; what has gone since the last time is forgotten. The name is without `loket_`. `aggregator` is what
 * is told of several workers together.
 */
export function gauge<L extends string>(
  registry: Registry,
  name: string,
  help: string,
  labelNames: readonly L[],
  read: Read<L>,
  aggregator: "sum" | "max" | "min" | "omit" = "sum",
): void {
  const metric: Gauge<L> = new Gauge<L>({
    name: `loket_${name}`,
    help,
    labelNames: [...labelNames],
    registers: [registry],
    aggregator,
    async collect() {
      metric.reset()
      await read((labels, value) => metric.set(labels, value))
    },
  })
}

/** The same of what only grows. The name is without `loket_` and `_total`. */
export function counter<L extends string>(
  registry: Registry,
  name: string,
  help: string,
  labelNames: readonly L[],
  read: Read<L>,
): void {
  const metric: Counter<L> = new Counter<L>({
    name: `loket_${name}_total`,
    help,
    labelNames: [...labelNames],
    registers: [registry],
    async collect() {
      metric.reset()
      await read((labels, value) => metric.inc(labels, value))
    },
  })
}

/** Measures how late a timer is, from now on until it is stopped. */
export function watchEventLoop(registry: Registry): { stop(): void } {
  const delay = new Histogram({
    name: "loket_event_loop_delay_seconds",
    help: "How late a timer was, of ten a second: how long whatever came then had to wait.",
    buckets: DELAYS,
    registers: [registry],
  })
  let timer: ReturnType<typeof setTimeout>
  const look = () => {
    const due = performance.now() + LOOK_MS
    timer = setTimeout(() => {
      delay.observe(Math.max(0, performance.now() - due) / 1_000)
      look()
    }, LOOK_MS)
    timer.unref()
  }
  look()
  return { stop: () => clearTimeout(timer) }
}

export function watchProcess(registry: Registry, watched: Watched): void {
  const { descriptors, processes, redoBytes, pools, withdrawalsKept, tracing, counts, bodies, deduplication } = watched
  gauge(registry, "process_memory_bytes", "Memory of this process.", ["kind"], (set) => {
    const { rss, heapUsed, external } = process.memoryUsage()
    set({ kind: "resident" }, rss)
    set({ kind: "heap" }, heapUsed)
    set({ kind: "external" }, external)
  })
  gauge(registry, "process_descriptors", "File descriptors: a connection takes one.", ["state"], async (set) => {
    // Where that fails, it fails as a chore too, which is logged.
    const seen = await descriptors.look().catch(() => undefined)
    if (seen === undefined) return
    set({ state: "open" }, seen.open)
    set({ state: "limit" }, seen.limit)
  })
  // Of several workers their supervisor tells its own: one that is replaced would look like a start.
  gauge(
    registry,
    "process_uptime_seconds",
    "Since this process started.",
    [],
    (set) => set({}, process.uptime()),
    "omit",
  )
  gauge(registry, "body_bytes", "Request bodies under way.", ["state"], (set) => {
    set({ state: "held" }, bodies.held)
    set({ state: "limit" }, bodies.total)
  })
  gauge(registry, "kept_answer_bytes", "Memory that answers hold which may be asked for again.", ["state"], (set) => {
    set({ state: "held" }, deduplication.replayBytes)
    set({ state: "limit" }, deduplication.maxReplayBytes)
  })
  counter(registry, "repeats", "Calls that repeated another one, by what became of them.", ["outcome"], (add) => {
    for (const [outcome, count] of Object.entries(deduplication.outcomes)) add({ outcome }, count)
  })
  gauge(registry, "withdrawals_kept", "Withdrawn calls on disk that the database does not have yet.", [], (set) =>
    set({}, withdrawalsKept()),
  )
  if (tracing !== undefined) watchTraces(registry, tracing)
  if (counts !== undefined) watchCounts(registry, counts)
  watchPools(registry, pools)
  if (redoBytes !== undefined)
    gauge(registry, "embedded_redo_bytes", "The log that a start would have to read again.", [], async (set) => {
      const bytes = await redoBytes().catch(() => undefined)
      if (bytes !== undefined) set({}, bytes)
    })
  if (processes !== undefined) watchProcesses(registry, processes)
}

function watchTraces(registry: Registry, tracing: Pick<Tracing, "counts" | "waiting">): void {
  counter(registry, "trace_spans", "Spans of sampled calls, by what became of them.", ["outcome"], (add) => {
    for (const [outcome, count] of Object.entries(tracing.counts)) add({ outcome }, count)
  })
  gauge(registry, "trace_spans_waiting", "Spans that wait for the collector.", [], (set) => set({}, tracing.waiting))
}

function watchCounts(registry: Registry, counts: NonNullable<Watched["counts"]>): void {
  gauge(registry, "limits_by_shares", "1 while keys' limits go by shares, because Redis is away.", [], (set) =>
    set({}, counts.state === "exact" ? 0 : 1),
  )
  counter(registry, "redis_falls", "How often limits went from Redis back to shares, by why.", ["reason"], (add) => {
    for (const [reason, count] of Object.entries(counts.falls)) add({ reason }, count)
  })
  counter(registry, "redis_answers", "What Redis was asked for limits and has answered.", [], (add) =>
    add({}, counts.answers.count),
  )
  counter(registry, "redis_answer_seconds", "How long these answers took, together.", [], (add) =>
    add({}, counts.answers.tookMs / 1_000),
  )
}

function watchPools(registry: Registry, pools: Watched["pools"]): void {
  const each =
    (of: (load: GateLoad) => number): Read<"pool"> =>
    (tell) => {
      for (const [pool, { load }] of Object.entries(pools)) tell({ pool }, of(load))
    }
  gauge(registry, "database_pool", "Connections, and statements that wait for one.", ["pool", "state"], (set) => {
    for (const [pool, { load }] of Object.entries(pools)) {
      set({ pool, state: "limit" }, load.size)
      set({ pool, state: "busy" }, load.inside)
      set({ pool, state: "waiting" }, load.waiting)
    }
  })
  const counted = (name: string, help: string, of: (load: GateLoad) => number) =>
    counter(registry, `database_pool_${name}`, help, ["pool"], each(of))
  counted("waits", "Statements that had to wait for a connection.", ({ waits }) => waits)
  counted("wait_seconds", "How long they waited, together.", ({ waitedMs }) => waitedMs / 1_000)
  counted("refusals", "Statements that got none in time.", ({ refused }) => refused)
}

/** Every process tells of all, so that one that stands still is told of by its neighbours. */
function watchProcesses(registry: Registry, processes: () => Promise<readonly ProcessSign[]>): void {
  let looking: Promise<readonly ProcessSign[]> | undefined
  /** One look for all that is told at once. */
  const look = () => {
    looking ??= processes().finally(() => {
      looking = undefined
    })
    return looking
  }
  const each = (name: string, help: string, of: (sign: ProcessSign) => number | undefined) =>
    gauge(
      registry,
      `process_${name}`,
      help,
      ["process_id"],
      async (set) => {
        // A database that is away has metrics of its own.
        const signs = await look().catch(() => [])
        for (const sign of signs) {
          const value = of(sign)
          if (value !== undefined) set({ process_id: sign.processId }, value)
        }
      },
      "max",
    )
  // All workers of a machine tell the same.
  each("leases", "Accounts that a process on the database holds money of.", ({ leases }) => leases)
  each("leased_micro", "What is left of that money.", ({ leased }) => Number(leased))
  each("silence_seconds", "Since a process on the database last gave a sign of life.", ({ silentS }) => silentS)
  each("lock_held", "0 of a process that died and is not closed yet.", ({ lockHeld }) => (lockHeld ? 1 : 0))
}
