/**
 * `bun bench/ledger.ts`: what a commit of the ledger costs PostgreSQL, in CPU time of the session that it runs in, on a
 * database that was just made, on one that was analysed, and on one with a million records and no statistics, in turns. `embedded`
 * measures the embedded database instead, which is a thread of this process. Each commit settles what the one before it opened;
 * `OPENINGS` says for which share of them an opening is written. Of each size the lower quartile: other work on the machine only adds.
 */
import { growLease } from "../src/store/leases.ts"
import { ledgerStore } from "../src/store/ledger.ts"
import { openDatabase, type Sql } from "../src/store/database.ts"
import { openEmbedded } from "../src/store/embedded/open.ts"
import { migrate } from "../src/store/migrate.ts"
import { newRequestId } from "../src/http/request-id.ts"
import type { Opening, Settlement } from "../actors/ledger.ts"
import { micro, zero } from "../actors/money/micro.ts"
import { percentile } from "./load.ts"
import { directConnection } from "../test/store/harness.ts"

const SERVER = process.env["DATABASE_URL"] ?? "postgres://root@127.0.0.1:5432/postgres"
const RECORDS = Number(process.env["RECORDS"] ?? 1_000_000)
const CUSTOMERS = Number(process.env["CUSTOMERS"] ?? 8)
const SIZES = [1, 8, 24]
const OPENINGS = Number(process.env["OPENINGS"] ?? 0)
const COMMITS = Number(process.env["COMMITS"] ?? 400)
const ROUNDS = 10
const processId = "prc_bench"

interface Customer {
  readonly accountId: string
  readonly keyId: string
  readonly leaseId: bigint
}

const fresh = async () => {}
type Prepare = (sql: Sql) => Promise<unknown>
const states: Readonly<Record<string, Prepare>> = {
  fresh,
  analysed: (sql) => sql.unsafe("analyze"),
  [`${RECORDS.toLocaleString("en")} records`]: fill,
}

/** Records of calls as they are left behind, without the statistics that would be gathered in time. */
async function fill(sql: Sql): Promise<void> {
  for (let from = 0; from < RECORDS; from += 100_000) {
    await sql.unsafe(`
      with made as (
        insert into usage (request_id, part, account_id, key_id, lease_id, model, endpoint, streamed, status, input_tokens,
          output_tokens, cache_read_tokens, cache_write_tokens, charge_micro, absorbed_micro, price_id, turns, attempts,
          error_code, flagged, opened_at, first_token_ms, duration_ms)
        select 'req_0' || lpad(n::text, 26, '0'), 0, 'acc_' || n % ${CUSTOMERS}, 'key_' || n % ${CUSTOMERS}, 0, 'm', 'chat', true,
          'ok', 100, 20, 0, 0, 200, 0, 1, 1, 1, null, false, timestamptz '2026-01-01' + n * interval '1 second', 3, 8
        from generate_series(${from}, ${Math.min(RECORDS, from + 100_000) - 1}) n returning request_id, account_id
      )
      insert into transfers (idempotency_key, debit_account, credit_account, amount_micro, reason)
      select 'charge:' || request_id, account_id, 'house:revenue', 200, 'charge' from made`)
  }
}

async function customers(sql: Sql): Promise<void> {
  await sql`insert into processes (id) values (${processId})`
  await sql.unsafe(`
    insert into accounts (id, email, password_hash) select 'acc_' || n, n || '@example.test', 'x' from generate_series(0, ${CUSTOMERS - 1}) n;
    insert into balances (account_id, posted_micro) select id, 1000000000000 from accounts;
    insert into api_keys (id, account_id, name, key_hash, prefix, last4)
      select 'key_' || n, 'acc_' || n, 'k', n::text::bytea, 'sk', 'last' from generate_series(0, ${CUSTOMERS - 1}) n`)
}

const openingOf = ({ accountId, keyId, leaseId }: Customer): Opening => ({
  requestId: newRequestId(Date.now()),
  accountId,
  keyId,
  leaseId,
  model: "gpt-4o-mini",
  endpoint: "chat",
  streamed: true,
  hold: micro(500_000n),
  priceId: 1n,
  openedAt: Date.now(),
  starts: { daily: Date.UTC(2026, 10, 19, 17), monthly: Date.UTC(2026, 9, 31, 17), total: 0 },
})

const settlementOf = (opening: Opening): Settlement => ({
  opening,
  records: [
    {
      part: 0,
      model: opening.model,
      priceId: 1n,
      status: "ok",
      tokens: { input: 100, output: 20, cacheRead: 0, cacheWrite: 0 },
      charge: micro(200n),
      absorbed: zero,
      excess: zero,
      turns: 1,
      attempts: 1,
      errorCode: undefined,
      flagged: false,
      firstTokenMs: 3,
      durationMs: 8,
      member: "openai/default/gpt-4o-mini",
      cost: micro(150n),
    },
  ],
  voided: false,
})

/** Of this process, in microseconds: the embedded database is one of its threads. */
const ownCpu = async (): Promise<number> => process.cpuUsage().user + process.cpuUsage().system

/** CPU time of a process of the server so far, in microseconds. */
async function cpuOf(pid: number): Promise<number> {
  const [ns] = (await Bun.file(`/proc/${pid}/schedstat`).text()).split(" ")
  return Number(ns) / 1_000
}

interface Session {
  readonly state: string
  readonly commit: (size: number) => Promise<void>
  /** CPU time so far of what the commits run in, in microseconds. */
  readonly cpu: () => Promise<number>
  readonly close: () => Promise<void>
}

interface Place {
  readonly state: string
  readonly url: string
  readonly cpu: (pid: number) => Promise<number>
  readonly prepare: Prepare
}

async function begin({ state, url, cpu, prepare }: Place): Promise<Session> {
  const direct = directConnection(url)
  await customers(direct.sql)
  await prepare(direct.sql)
  await direct.end()
  const database = openDatabase({ url, connections: 1 })
  const [session] = await database.run((sql) => sql<{ pid: number }[]>`select pg_backend_pid() as pid`)
  const store = ledgerStore({ database, processId, fenced: () => {} })
  const accounts = await Promise.all(
    Array.from({ length: CUSTOMERS }, async (_, n): Promise<Customer> => {
      const grown = await growLease(database, processId, `acc_${n}`, micro(100_000_000_000n), 0)
      if (grown === undefined) throw new Error("no lease")
      return { accountId: `acc_${n}`, keyId: `key_${n}`, leaseId: grown.lease.id }
    }),
  )
  let open: Opening[] = []
  return {
    state,
    async commit(size) {
      const settlements = open.map(settlementOf)
      open = Array.from({ length: Math.ceil(size / CUSTOMERS) }, () => accounts.map(openingOf))
        .flat()
        .slice(0, size)
      await store.commit({ openings: open.slice(0, Math.round(size * OPENINGS)), settlements }, false)
    },
    cpu: () => cpu(session?.pid ?? 0),
    close: () => database.close(),
  }
}

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
      sessions.push(await begin({ state, url: url.href, cpu: cpuOf, prepare }))
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
  const session = await begin({ state: "embedded", url: embedded.url, cpu: ownCpu, prepare: fresh })
  await measure([session])
  await session.close()
  await embedded.close()
}

await (process.argv[2] === "embedded" ? onEmbedded() : onServer())
