/**
 * `bun bench/ledger.ts`: what a commit of the ledger costs PostgreSQL, in CPU time of the session that it runs in, on a
 * database that was just made, on one that was analysed, and on one with a million records and no statistics, in turns. `embedded`
 * measures the embedded database instead, which is a thread of this process. Each commit settles what the one before it opened;
 * `OPENINGS` says for which share of them an opening is written. Of each size the lower quartile: other work on the machine only adds.
 */
import type { Sql } from "../src/store/database.ts"
import { openEmbedded } from "../src/store/embedded/open.ts"
import { migrate } from "../src/store/migrate.ts"
import { beginCommits, cpuOf, CUSTOMERS, type Prepare, type Session } from "./commits.ts"
import { percentile } from "./load.ts"
import { directConnection } from "../test/store/harness.ts"

const SERVER = process.env["DATABASE_URL"] ?? "postgres://root@127.0.0.1:5432/postgres"
const RECORDS = Number(process.env["RECORDS"] ?? 1_000_000)
const SIZES = [1, 8, 24]
const COMMITS = Number(process.env["COMMITS"] ?? 400)
const ROUNDS = 10

const fresh = async () => {}
const states: Readonly<Record<string, Prepare>> = {
  fresh,
  analysed: (sql) => sql.unsafe("analyze"),
  [`${RECORDS.toLocaleString("en")} records`]: fill,
}

/** Records of calls as they are left behind, without the statistics that would be gathered in time. */
async function fill(sql: Sql): Promise<void> {
  for (let from = 0; from < RECORDS; from += 100_000) {
    await sql.unsafe(`
      insert into usage (request_id, part, account_id, key_id, lease_id, model, endpoint, streamed, status, input_tokens,
          output_tokens, cache_read_tokens, cache_write_tokens, charge_micro, absorbed_micro, price_id, turns, attempts,
          error_code, flagged, opened_at, first_token_ms, duration_ms)
        select 'req_0' || lpad(n::text, 26, '0'), 0, 'acc_' || n % ${CUSTOMERS}, 'key_' || n % ${CUSTOMERS}, 0, 'm', 'chat', true,
          'ok', 100, 20, 0, 0, 200, 0, 1, 1, 1, null, false, timestamptz '2026-01-01' + n * interval '1 second', 3, 8
        from generate_series(${from}, ${Math.min(RECORDS, from + 100_000) - 1}) n`)
  }
}

/** Of this process, in microseconds: the embedded database is one of its threads. */
const ownCpu = async (): Promise<number> => process.cpuUsage().user + process.cpuUsage().system

/** In turns, so that what else the machine does falls on all of them. */
async function measure(sessions: readonly Session[]): Promise<void> {
  for (const size of SIZES) {
    const samples = new Map(sessions.map((session) => [session, { cpu: [] as number[], ms: [] as number[] }]))
    for (const session of sessions) for (let n = 0; n < 20; n++) await session.commit(size)
    for (let round = 0; round < ROUNDS; round++) {
      for (const [session, sample] of samples) {
        for (let n = 0; n < COMMITS / ROUNDS; n++) {
          const [before, startedAt] = [await session.cpu(), performance.now()]
          await session.commit(size)
          sample.ms.push(performance.now() - startedAt)
          sample.cpu.push((await session.cpu()) - before)
        }
      }
    }
    for (const [{ state }, { cpu, ms }] of samples) {
      const [used = 0, took = 0] = [cpu, ms].map((values) =>
        percentile(
          values.toSorted((a, b) => a - b),
          0.25,
        ),
      )
      console.log(
        `${`${size} a commit`.padStart(12)}  ${state.padEnd(20)}${used.toFixed(0).padStart(6)} µs, ${(used / size).toFixed(0).padStart(4)} a call` +
          `${took.toFixed(2).padStart(9)} ms`,
      )
    }
  }
}

async function onServer(): Promise<void> {
  const server = directConnection(SERVER)
  const names: string[] = []
  const sessions: Session[] = []
  try {
    for (const [state, prepare] of Object.entries(states)) {
      const name = `loket_bench_${crypto.randomUUID().replaceAll("-", "")}`
      names.push(name)
      await server.sql.unsafe(`create database ${name}`)
      const url = new URL(SERVER)
      url.pathname = `/${name}`
      await migrate(url.href)
      sessions.push(await beginCommits({ state, url: url.href, cpu: cpuOf, prepare }))
    }
    await measure(sessions)
  } finally {
    for (const session of sessions) await session.close()
    for (const name of names) await server.sql.unsafe(`drop database ${name} with (force)`)
    await server.end()
  }
}

async function onEmbedded(): Promise<void> {
  const embedded = await openEmbedded({ dataDir: "memory" })
  await migrate(embedded.url)
  const session = await beginCommits({ state: "embedded", url: embedded.url, cpu: ownCpu, prepare: fresh })
  await measure([session])
  await session.close()
  await embedded.close()
}

await (process.argv[2] === "embedded" ? onEmbedded() : onServer())
