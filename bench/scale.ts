/**
 * `bun bench/scale.ts`: gateways in processes of their own on one PostgreSQL. What one, two and four of them serve of many
 * accounts and of one account, what they make each other wait for, what another account feels of it; one at a distance from its
 * database; and a key of 10 calls a minute over four of them.
 *
 * The backend answers after 50 ms, so that a client's number of calls a second hardly depends on how fast the machine is: what
 * counts is CPU a call and who waits for what. All gateways share the test core, the rest is on the other one. `SECONDS` is how
 * long each row is measured; `ONLY=many,hot,distance,limit` picks parts. With `REDIS_URL` limits are measured with it too.
 */
import { ensureRequestLimit } from "../src/own-process.ts"
import { openDistance } from "../test/store/distance.ts"
import { type Backend, startBackend } from "./backend.ts"
import { type Child, LOAD_CORE, pinThisProcess } from "./child.ts"
import { benchKeys, startGateway } from "./gateway.ts"
import { type Measured, percentile, run } from "./load.ts"
import { type Postgres, RECONCILED, startPostgres } from "./postgres.ts"
import { bodyOf, OUTPUT } from "./rows.ts"
import { since, type LockWaits } from "./waits.ts"

ensureRequestLimit()
pinThisProcess(LOAD_CORE)
const SECONDS = Number(process.env["SECONDS"] ?? 4)
const PARTS = (process.env["ONLY"] ?? "many,hot,distance,limit").split(",")
/** Of one process, with the backend's time: about 400 calls a second. */
const CLIENTS = Number(process.env["CLIENTS"] ?? 24)
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
  const gateways: Child[] = []
  for (let n = 0; n < processes; n++)
    gateways.push(await startGateway({ bench: model }, { DATABASE_URL: far?.url ?? url, ...env }))
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

/** Clients at one gateway, spread over these keys. */
async function load(gateway: Child, keys: readonly string[], clients: number, ms: number): Promise<Measured[]> {
  const each = Math.max(1, Math.floor(clients / keys.length))
  return await Promise.all(
    keys.map((key) =>
      run({
        url: `${gateway.url}/v1/chat/completions`,
        headers: { Authorization: `Bearer ${key}`, "Content-Type": "application/json" },
        body,
        clients: each,
        durationMs: ms,
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
  readonly commits: number
  readonly waits: LockWaits
  /** Of the account that has nothing to do with it. */
  readonly other: readonly number[]
}

/** `keysOf`: of each gateway. `other` calls one after the other meanwhile, at all gateways in turns. */
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
  for (const { problem } of measured) if (problem !== undefined) console.error(problem)
  return {
    name,
    callsPerSecond: calls / SECONDS,
    failed: measured.reduce((sum, each) => sum + each.failed, 0),
    cpu: (cpu / calls) * 1e6,
    databaseCpu: (databaseCpu / calls) * 1e6,
    p50: percentile(all, 0.5),
    p99: percentile(all, 0.99),
    ...(await waits()),
    other: await felt,
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
  const { waits, commits, other } = row
  console.log(
    `| ${[
      row.name,
      shown(row.callsPerSecond),
      shown(row.cpu),
      shown(row.databaseCpu),
      `${shown(row.p50, 1)} / ${shown(row.p99, 1)}`,
      shown((row.callsPerSecond * SECONDS) / commits, 1),
      `${shown(waits.p99(commits), 1)} (${shown((waits.over(2) / commits) * 100, 1)} %)`,
      other.length === 0 ? "" : `${shown(percentile(other, 0.5), 1)} / ${shown(percentile(other, 0.99), 1)}`,
    ].join(" | ")} |${row.failed > 0 ? ` ${row.failed} FAILED` : ""}`,
  )
}

const HEAD = `| | calls/s | CPU a call, µs | PostgreSQL's, µs | last byte p50 / p99, ms | calls a commit | waits for locks, p99 of commits, ms (over 2 ms) | another account, p50 / p99, ms |
| --- | --- | --- | --- | --- | --- | --- | --- |`

async function onOneServer(house: House, accounts: "many" | "one"): Promise<void> {
  for (const processes of [1, 2, 4]) {
    const gateways = await group(house, processes)
    const [first] = gateways.gateways
    if (first === undefined) throw new Error("no gateway")
    const keys: string[] = []
    for (let n = 0; n < (accounts === "many" ? ACCOUNTS : 1); n++)
      keys.push(...(await benchKeys(first.url, BALANCE_RP, 1)))
    const [other = ""] = await benchKeys(first.url, BALANCE_RP, 1)
    const name = `${processes} ${processes === 1 ? "process" : "processes"}, ${accounts === "many" ? `${ACCOUNTS} accounts` : "one account"}`
    tell(await measure(name, house, gateways, keys, other))
    await gateways.stop()
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
const backend = await startBackend({ plain: { output: OUTPUT, stream: false, afterMs: 50 } })
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
