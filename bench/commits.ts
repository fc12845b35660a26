/** Commits of the ledger on a database, one after the other: each settles what the one before it opened. */
import type { Opening } from "../actors/ledger.ts"
import { micro } from "../actors/money/micro.ts"
import { openDatabase, type Sql } from "../src/store/database.ts"
import { growLease } from "../src/store/leases.ts"
import { ledgerStore } from "../src/store/ledger.ts"
import { directConnection } from "../test/store/harness.ts"
import { type Customer, openingOf, settlementOf } from "./ledger-entries.ts"

/** Accounts that pay for them. */
export const CUSTOMERS = Number(process.env["CUSTOMERS"] ?? 8)
/** For which share of the calls an opening is written. */
const OPENINGS = Number(process.env["OPENINGS"] ?? 0)
const processId = "prc_bench"

export type Prepare = (sql: Sql) => Promise<unknown>

async function customers(sql: Sql): Promise<void> {
  await sql`insert into processes (id) values (${processId})`
  await sql.unsafe(`
    insert into accounts (id, email, password_hash) select 'acc_' || n, n || '@example.test', 'x' from generate_series(0, ${CUSTOMERS - 1}) n;
    insert into balances (account_id, posted_micro) select 'acc_' || n, 1000000000000 from generate_series(0, ${CUSTOMERS - 1}) n;
    insert into api_keys (id, account_id, name, key_hash, prefix, last4)
      select 'key_' || n, 'acc_' || n, 'k', n::text::bytea, 'sk', 'last' from generate_series(0, ${CUSTOMERS - 1}) n`)
}

/** CPU time of a process of the server so far, in microseconds. */
export async function cpuOf(pid: number): Promise<number> {
  const [ns] = (await Bun.file(`/proc/${pid}/schedstat`).text()).split(" ")
  return Number(ns) / 1_000
}

export interface Session {
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

export async function beginCommits({ state, url, cpu, prepare }: Place): Promise<Session> {
  const direct = directConnection(url)
  await customers(direct.sql)
  await prepare(direct.sql)
  await direct.end()
  const database = openDatabase({ url, connections: 1 })
  const [session] = await database.run((sql) => sql<{ pid: number }[]>`select pg_backend_pid() as pid`)
  const store = ledgerStore({ database, processId, fenced: () => {}, archived: () => {} })
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
