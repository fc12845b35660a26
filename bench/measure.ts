/** One target under one row's load, for some seconds. */
import type { Backend } from "./backend.ts"
import { percentile, run } from "./load.ts"
import { bodyOf, calls, endingOf, headersOf, PACE_MS, type Row } from "./rows.ts"
import type { Target } from "./targets.ts"

/** CPU in microseconds, other times in milliseconds. */
export interface Sample {
  readonly calls: number
  readonly failed: number
  /** How the first of these ended. */
  readonly problem: string | undefined
  readonly callsPerSecond: number
  readonly firstByteP50: number
  readonly firstByteP99: number
  readonly totalP50: number
  readonly totalP99: number
  /** Of the target's process for each call, and of PostgreSQL's. Of a paced stream: for each event. */
  readonly cpu: number
  readonly databaseCpu: number | undefined
  /** Of their cores: what the target used, and what load, backend and PostgreSQL used. */
  readonly targetShare: number
  readonly loadShare: number
  /** Opened to the backend for each call. */
  readonly connections: number
  readonly memoryMib: number
}

/** Undefined when the target cannot serve the row. */
export async function measure(
  target: Target,
  row: Row,
  backend: Backend,
  durationMs: number,
): Promise<Sample | undefined> {
  const request = target.request(calls[row.call].answer, row.kind)
  if (request === undefined) return undefined
  const load = {
    url: request.url,
    headers: { ...request.headers, ...headersOf(row.call) },
    body: bodyOf(row.call, request.model),
    clients: row.clients,
    ending: endingOf(row.call),
  }
  const opened = backend.connections
  const before = usage(target)
  if (row.call !== "paced") {
    const measured = await run({ ...load, durationMs })
    return sample(target, measured, used(target, before), backend.connections - opened, measured.calls)
  }
  // Each client makes one call. What an event costs is taken while all streams are under way.
  const running = run({ ...load, durationMs: 1, rampMs: 10 * PACE_MS })
  await Bun.sleep(15 * PACE_MS)
  const middle = usage(target)
  await Bun.sleep(25 * PACE_MS)
  const window = used(target, middle)
  const events = (row.clients * window.elapsedMs) / PACE_MS
  return sample(target, await running, window, backend.connections - opened, events)
}

interface Usage {
  readonly elapsedMs: number
  readonly targetUs: number
  readonly databaseUs: number
  readonly loadUs: number
  readonly memoryMib: number
}

function usage({ child, database }: Target): Usage {
  const { user, system } = process.cpuUsage()
  return {
    elapsedMs: performance.now(),
    targetUs: (child?.cpu() ?? 0) * 1e6,
    databaseUs: (database?.cpu() ?? 0) * 1e6,
    loadUs: user + system,
    memoryMib: child?.memory() ?? 0,
  }
}

function used(target: Target, before: Usage): Usage {
  const after = usage(target)
  return {
    elapsedMs: after.elapsedMs - before.elapsedMs,
    targetUs: after.targetUs - before.targetUs,
    databaseUs: after.databaseUs - before.databaseUs,
    loadUs: after.loadUs - before.loadUs,
    memoryMib: after.memoryMib,
  }
}

function sample(
  { database }: Target,
  measured: Awaited<ReturnType<typeof run>>,
  { elapsedMs, targetUs, databaseUs, loadUs, memoryMib }: Usage,
  connections: number,
  units: number,
): Sample {
  return {
    calls: measured.calls,
    failed: measured.failed,
    problem: measured.problem,
    callsPerSecond: measured.calls / measured.seconds,
    firstByteP50: percentile(measured.firstByteMs, 0.5),
    firstByteP99: percentile(measured.firstByteMs, 0.99),
    totalP50: percentile(measured.totalMs, 0.5),
    totalP99: percentile(measured.totalMs, 0.99),
    cpu: targetUs / units,
    databaseCpu: database && databaseUs / units,
    targetShare: targetUs / 1_000 / elapsedMs,
    loadShare: (databaseUs + loadUs) / 1_000 / elapsedMs,
    connections: connections / measured.calls,
    memoryMib,
  }
}
