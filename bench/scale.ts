/**
 * `bun bench/scale.ts`: gateways in processes of their own on one PostgreSQL. What one, two and four of them serve of many
 * accounts and of one account, what they make each other wait for, what another account feels of it; one at a distance from its
 * database; and a key of 10 calls a minute over four of them.
 *
 * All gateways are on the test core, the rest is on the other one. Where several are compared, each may use no more than its
 * share of that core, as if it had a slow one of its own, and they are measured in turns: what four serve beside what one does
 * then tells what they make each other wait for, and not who has the processor. The backend answers after 50 ms. `SECONDS` is
 * how long each row is measured, of the compared ones in each of `ROUNDS`; `ONLY=many,hot,distance,limit` picks parts. With
 * `REDIS_URL` limits are measured with it too.
 */
import { ensureRuntimeSettings } from "../src/own-process.ts"
import { openDistance } from "../test/store/distance.ts"
import { type Backend, startBackend } from "./backend.ts"
import { type Child, LOAD_CORE, pinThisProcess } from "./child.ts"
import { benchKeys, startGateway } from "./gateway.ts"
import { type Measured, percentile, run } from "./load.ts"
import { type Postgres, RECONCILED, startPostgres } from "./postgres.ts"
import { bodyOf, OUTPUT } from "./rows.ts"
import { holdToShare } from "./share.ts"
import { since } from "./waits.ts"

ensureRuntimeSettings()
pinThisProcess(LOAD_CORE)
const SECONDS = Number(process.env["SECONDS"] ?? 4)
const PARTS = (process.env["ONLY"] ?? "many,hot,distance,limit").split(",")
/** Of one process: enough to use its share of the core up. */
const CLIENTS = Number(process.env["CLIENTS"] ?? 64)
/** What a gateway may use of the test core where several are compared: four of them take two thirds of it, so that they have room beside what the kernel does there. */
const SHARE = Number(process.env["SHARE"] ?? 0.16)
const ROUNDS = Number(process.env["ROUNDS"] ?? 5)
const COUNTS = [1, 2, 4]
const BALANCE_RP = 100_000_000
const ACCOUNTS = 8
/** The least that the server counts a wait from; it also looks for a deadlock then, which costs it some. */
const SETTINGS = ["log_lock_waits=on", "deadlock_timeout=1ms", "track_functions=pl", "max_connections=300"]

interface House {
  readonly backend: Backend
  readonly postgres: Postgres
}

interface Group {
  readonly url: string
  readonly gateways: readonly Child[]
  stop(): Promise<void>
}

/** So many gateways on a database of their own. `distanceMs`: of a round trip. */
async function group({ backend, postgres }: House, processes: number, env = {}, distanceMs?: number): Promise<Group> {
  const url = await postgres.create()
  const far = distanceMs === undefined ? undefined : await openDistance(url, distanceMs / 2)
  const model = { baseUrl: `${backend.url}/plain`, format: "chat", upstreamModel: "bench" } as const
  const atonce = { ...model, baseUrl: `${backend.url}/atonce` }
  const gateways: Child[] = []
  for (let n = 0; n < processes; n++)
    gateways.push(await startGateway({ bench: model, atonce }, { DATABASE_URL: far?.url ?? url, ...env }))
  await postgres.execute(url, [RECONCILED])
  return {
    url,
    gateways,
    async stop() {
      for (const gateway of gateways) await gateway.stop()
      await far?.[Symbol.asyncDispose]()
    },
  }
}

const body = bodyOf("plain", "bench")

/** Clients at one gateway, spread over these keys: for so long, or until so many calls of each have begun. */
async function load(
  gateway: Child,
  keys: readonly string[],
  clients: number,
  durationMs: number,
  { calls = Number.POSITIVE_INFINITY, model = "bench" } = {},
): Promise<Measured[]> {
  const each = Math.max(1, Math.floor(clients / keys.length))
  return await Promise.all(
    keys.map((key) =>
      run({
        url: `${gateway.url}/v1/chat/completions`,
        headers: { Authorization: `Bearer ${key}`, "Content-Type": "application/json" },
        body: bodyOf("plain", model),
        clients: each,
        durationMs,
        calls,
        ending: "}",
      }),
    ),
  )
}

interface Row {
  readonly name: string
  readonly callsPerSecond: number
  readonly failed: number
  /** Microseconds a call: of the gateways, and of PostgreSQL. */
  readonly cpu: number
  readonly databaseCpu: number
  readonly p50: number
  readonly p99: number
  readonly callsACommit: number
  /** Milliseconds that commits waited for locks, p99, and the part of them that waited over 2. */
  readonly waitP99: number
  readonly waited: number
  /** Of the account that has nothing to do with it, ms; no number without one. */
  readonly other: Readonly<Record<"p50" | "p99", number>>
}

/** `other` calls one after the other meanwhile, at all gateways in turns. */
async function measure(
  name: string,
  { postgres }: House,
  { gateways, url }: Group,
  keys: readonly string[],
  other: string | undefined,
  clients = CLIENTS,
): Promise<Row> {
  await Promise.all(gateways.map((gateway) => load(gateway, keys, clients, 1_500)))
  const waits = await since(postgres, url)
  const before = gateways.map((gateway) => gateway.cpu())
  const databaseBefore = postgres.cpu()
  const over = { is: false }
  const felt = other === undefined ? Promise.resolve([]) : feel(gateways, other, over)
  const measured = (await Promise.all(gateways.map((gateway) => load(gateway, keys, clients, SECONDS * 1_000)))).flat()
  over.is = true
  const calls = measured.reduce((sum, each) => sum + each.calls, 0)
  const cpu = gateways.reduce((sum, gateway, n) => sum + gateway.cpu() - (before[n] ?? 0), 0)
  const databaseCpu = postgres.cpu() - databaseBefore
  const all = Float64Array.from(measured.flatMap(({ totalMs }) => [...totalMs])).sort()
  const { waits: waited, commits } = await waits()
  const otherMs = Float64Array.from(await felt)
  for (const { problem } of measured) if (problem !== undefined) console.error(problem)
  return {
    name,
    callsPerSecond: calls / SECONDS,
    failed: measured.reduce((sum, each) => sum + each.failed, 0),
    cpu: (cpu / calls) * 1e6,
    databaseCpu: (databaseCpu / calls) * 1e6,
    p50: percentile(all, 0.5),
    p99: percentile(all, 0.99),
    callsACommit: calls / commits,
    waitP99: waited.p99(commits),
    waited: waited.over(2) / commits,
    other: { p50: percentile(otherMs, 0.5), p99: percentile(otherMs, 0.99) },
  }
}

/** One call after the other, until it is over; what each took, sorted. */
async function feel(gateways: readonly Child[], key: string, over: { is: boolean }): Promise<number[]> {
  const took: number[] = []
  for (let n = 0; !over.is; n++) {
    const startedAt = performance.now()
    const response = await fetch(`${gateways[n % gateways.length]?.url}/v1/chat/completions`, {
      method: "POST",
      headers: { Authorization: `Bearer ${key}` },
      body,
    })
    await response.text()
    took.push(performance.now() - startedAt)
  }
  return took.toSorted((a, b) => a - b)
}

const shown = (value: number, digits = 0): string => (Number.isNaN(value) ? "–" : value.toFixed(digits))

function tell(row: Row): void {
  const { other } = row
  console.log(
    `| ${[
      row.name,
      shown(row.callsPerSecond),
      shown(row.cpu),
      shown(row.databaseCpu),
      `${shown(row.p50, 1)} / ${shown(row.p99, 1)}`,
      shown(row.callsACommit, 1),
      `${shown(row.waitP99, 1)} (${shown(row.waited * 100, 1)} %)`,
      Number.isNaN(other.p50) ? "" : `${shown(other.p50, 1)} / ${shown(other.p99, 1)}`,
    ].join(" | ")} |${row.failed > 0 ? ` ${row.failed} FAILED` : ""}`,
  )
}

const HEAD = `| | calls/s | CPU a call, µs | PostgreSQL's, µs | last byte p50 / p99, ms | calls a commit | waits for locks, p99 of commits, ms (over 2 ms) | another account, p50 / p99, ms |
| --- | --- | --- | --- | --- | --- | --- | --- |`

/** Calls after which the compilers of a process have nothing more to do. */
const WARM = 15_000

async function warm(gateways: readonly Child[], keys: readonly string[]): Promise<void> {
  const calls = Math.ceil(WARM / keys.length)
  for (const gateway of gateways) await load(gateway, keys, 64, 60_000, { calls, model: "atonce" })
}

/** One, two and four of the same four processes in turns, so that a machine that is slower for a while is so for all. */
async function onOneServer(house: House, accounts: "many" | "one"): Promise<void> {
  const all = await group(house, 4)
  const [first] = all.gateways
  if (first === undefined) throw new Error("no gateway")
  const keys: string[] = []
  for (let n = 0; n < (accounts === "many" ? ACCOUNTS : 1); n++)
    keys.push(...(await benchKeys(first.url, BALANCE_RP, 1)))
  const [other = ""] = await benchKeys(first.url, BALANCE_RP, 1)
  await warm(all.gateways, keys)
  const shares = all.gateways.map(({ pid }) => holdToShare(pid, SHARE))
  if (shares.includes(undefined)) console.error("no control groups: processes are not held to a share of the core")
  const rows = new Map<number, Row[]>(COUNTS.map((processes) => [processes, []]))
  for (let round = 0; round < ROUNDS; round++) {
    for (const [processes, measured] of rows) {
      const name = `${processes} ${processes === 1 ? "process" : "processes"}, ${accounts === "many" ? `${ACCOUNTS} accounts` : "one account"}`
      const gateways = all.gateways.slice(0, processes)
      measured.push(await measure(name, house, { ...all, gateways }, keys, other))
    }
  }
  for (const measured of rows.values()) tell(middleOf(measured))
  for (const processes of COUNTS.slice(1)) {
    const times = (rows.get(processes) ?? []).map(
      ({ callsPerSecond }, round) => callsPerSecond / (rows.get(1)?.[round]?.callsPerSecond ?? 0),
    )
    console.log(
      `${processes} processes serve ${shown(median(times), 2)} × what one serves, round by round ${times.map((each) => shown(each, 2)).join(" ")}`,
    )
  }
  for (const share of shares) share?.[Symbol.dispose]()
  await all.stop()
}

const median = (values: readonly number[]): number => percentile(Float64Array.from(values).sort(), 0.5)

/** Of rounds of one row: the median of each figure by itself. */
function middleOf(rows: readonly Row[]): Row {
  const of = (figure: (row: Row) => number) => median(rows.map(figure))
  return {
    name: rows[0]?.name ?? "",
    callsPerSecond: of((row) => row.callsPerSecond),
    failed: rows.reduce((sum, { failed }) => sum + failed, 0),
    cpu: of((row) => row.cpu),
    databaseCpu: of((row) => row.databaseCpu),
    p50: of((row) => row.p50),
    p99: of((row) => row.p99),
    callsACommit: of((row) => row.callsACommit),
    waitP99: of((row) => row.waitP99),
    waited: of((row) => row.waited),
    other: { p50: of((row) => row.other.p50), p99: of((row) => row.other.p99) },
  }
}

async function atADistance(house: House): Promise<void> {
  for (const clients of [64, 256]) {
    for (const distanceMs of [0, 30]) {
      const gateways = await group(house, 1, {}, distanceMs)
      const keys = await benchKeys(gateways.gateways[0]?.url ?? "", BALANCE_RP, 1)
      tell(await measure(`${distanceMs} ms away, c = ${clients}`, house, gateways, keys, undefined, clients))
      await gateways.stop()
    }
  }
}

/** Served of forty calls of a key that may make ten a minute: by one connection, and over one to each process. */
async function limits(house: House): Promise<void> {
  const redis = process.env["REDIS_URL"]
  for (const env of redis === undefined ? [{}] : [{}, { REDIS_URL: redis }]) {
    const gateways = await group(house, 4, env)
    for (const spread of [1, 4]) {
      const [first] = gateways.gateways
      const [key = ""] = await benchKeys(first?.url ?? "", BALANCE_RP, 1, { requests_per_minute: 10 })
      let served = 0
      for (let n = 0; n < 40; n++) {
        const response = await fetch(`${gateways.gateways[n % spread]?.url}/v1/chat/completions`, {
          method: "POST",
          headers: { Authorization: `Bearer ${key}` },
          body,
        })
        await response.text()
        if (response.ok) served++
      }
      console.log(
        `10 a minute, four processes, ${spread} of them asked, ${"REDIS_URL" in env ? "with" : "without"} Redis: ${served} served`,
      )
    }
    await gateways.stop()
  }
}

const postgres = await startPostgres(SETTINGS)
if (postgres === undefined) throw new Error("there are no binaries of PostgreSQL")
const backend = await startBackend({
  plain: { output: OUTPUT, stream: false, afterMs: 50 },
  atonce: { output: OUTPUT, stream: false },
})
const house = { postgres, backend }
try {
  console.log(HEAD)
  if (PARTS.includes("many")) await onOneServer(house, "many")
  if (PARTS.includes("hot")) await onOneServer(house, "one")
  if (PARTS.includes("distance")) await atADistance(house)
  if (PARTS.includes("limit")) await limits(house)
} finally {
  await postgres.stop()
}
process.exit(0)
