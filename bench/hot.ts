/**
 * `bun bench/hot.ts`: the ledgers of one, two and four processes on one PostgreSQL, and nothing else of a gateway, booking the
 * calls of one account at a rate. What they wait for each other, what a call waits for its commit, and what the calls of other
 * accounts wait that the same ledgers book. `RATE` is of all together, `SECONDS` how long each row is measured.
 */
import { systemClock } from "../actors/kernel/clock.ts"
import { Ledger, type LedgerCommand } from "../actors/ledger.ts"
import { micro } from "../actors/money/micro.ts"
import { openDatabase } from "../src/store/database.ts"
import { growLease } from "../src/store/leases.ts"
import { ledgerStore } from "../src/store/ledger.ts"
import { migrate } from "../src/store/migrate.ts"
import { type Customer, openingOf, settlementOf } from "./ledger-entries.ts"
import { percentile } from "./load.ts"
import { type Postgres, startPostgres } from "./postgres.ts"
import { since } from "./waits.ts"

const RATE = Number(process.env["RATE"] ?? 2_000)
const SECONDS = Number(process.env["SECONDS"] ?? 4)
const OTHERS = 8
/** Of each hundred calls. */
const OF_OTHERS = 5
const CALL_MS = 50
const TICK_MS = 5

interface Booker {
  readonly behaviour: Ledger
  readonly customers: readonly Customer[]
  close(): Promise<void>
}

async function booker(url: string, processId: string): Promise<Booker> {
  const database = openDatabase({ url, connections: 5 })
  const customers: Customer[] = []
  for (let n = 0; n <= OTHERS; n++) {
    const grown = await growLease(database, processId, `acc_${n}`, micro(1_000_000_000n), 0)
    if (grown === undefined) throw new Error("no lease")
    customers.push({ accountId: `acc_${n}`, keyId: `key_${n}`, leaseId: grown.lease.id })
  }
  let closed = false
  const behaviour: Ledger = new Ledger({
    clock: systemClock,
    self: (command: LedgerCommand) => behaviour.receive(command),
    store: ledgerStore({ database, processId, fenced: () => {}, archived: () => {} }),
    failed: (cause) => void (closed || console.error(String(cause))),
  })
  const close = () => {
    closed = true
    return database.close()
  }
  return { behaviour, customers, close }
}

/** What calls waited from their settlement to its commit: of the one account, and of the others. */
interface Waited {
  readonly hot: number[]
  readonly others: number[]
}

async function call({ behaviour }: Booker, customer: Customer, waited: number[]): Promise<void> {
  const opening = openingOf(customer)
  behaviour.receive({ type: "open", opening, reply: () => {} })
  await Bun.sleep(CALL_MS * (0.5 + Math.random()))
  const since = performance.now()
  const { promise, resolve } = Promise.withResolvers<unknown>()
  behaviour.receive({ type: "settle", settlement: settlementOf(opening), reply: resolve })
  await promise
  waited.push(performance.now() - since)
}

/** An open loop: calls begin at their time, whatever became of those before. */
async function callAtRate(bookers: readonly Booker[], seconds: number): Promise<Waited> {
  const waited: Waited = { hot: [], others: [] }
  const calls: Promise<void>[] = []
  const startedAt = performance.now()
  for (let n = 0; ;) {
    const elapsed = performance.now() - startedAt
    if (elapsed > seconds * 1_000) break
    for (; n < (elapsed * RATE) / 1_000; n++) {
      const booker = bookers[n % bookers.length] as Booker
      const isOthers = n % 100 < OF_OTHERS
      const customer = booker.customers[isOthers ? 1 + (n % OTHERS) : 0] as Customer
      calls.push(call(booker, customer, isOthers ? waited.others : waited.hot))
    }
    await Bun.sleep(TICK_MS)
  }
  await Promise.all(calls)
  waited.hot.sort((a, b) => a - b)
  waited.others.sort((a, b) => a - b)
  return waited
}

const both = (values: readonly number[]): string =>
  `${percentile(values, 0.5).toFixed(1)} / ${percentile(values, 0.99).toFixed(1)}`

async function measure(server: Postgres, processes: number): Promise<void> {
  const url = await server.create()
  await migrate(url)
  await server.execute(url, [
    `insert into accounts (id, email, password_hash) select 'acc_' || n, n || '@example.test', 'x' from generate_series(0, ${OTHERS}) n`,
    "insert into balances (account_id, posted_micro) select id, 1000000000000 from accounts",
    `insert into api_keys (id, account_id, name, key_hash, prefix, last4)
      select 'key_' || n, 'acc_' || n, 'k', n::text::bytea, 'sk', 'last' from generate_series(0, ${OTHERS}) n`,
  ])
  // Before any of them leases: one that is alone takes all there is.
  await server.execute(url, [`insert into processes (id) select 'prc_' || n from generate_series(0, ${processes}) n`])
  const bookers: Booker[] = []
  for (let n = 0; n < processes; n++) bookers.push(await booker(url, `prc_${n}`))
  await callAtRate(bookers, 1)
  const counted = await since(server, url)
  const before = server.cpu()
  const waited = await callAtRate(bookers, SECONDS)
  const cpu = server.cpu() - before
  const { waits, commits } = await counted()
  const calls = waited.hot.length + waited.others.length
  console.log(
    `| ${processes} | ${(calls / commits).toFixed(1)} | ${((cpu / calls) * 1e6).toFixed(0)} | ${waits.p99(commits).toFixed(1)} (${((waits.over(2) / commits) * 100).toFixed(1)} %) | ${both(waited.hot)} | ${both(waited.others)} |`,
  )
  for (const each of bookers) await each.close()
}

const server = await startPostgres([
  "log_lock_waits=on",
  "deadlock_timeout=1ms",
  "track_functions=pl",
  "max_connections=100",
])
if (server === undefined) throw new Error("there are no binaries of PostgreSQL")
try {
  console.log(`${RATE} calls a second of one account, and ${OF_OTHERS} % of others:

| processes | calls a commit | PostgreSQL's CPU a call, µs | waits for locks, p99 of commits, ms (over 2 ms) | to the commit, p50 / p99, ms | of others |
| --- | --- | --- | --- | --- | --- |`)
  for (const processes of [1, 2, 4]) await measure(server, processes)
} finally {
  await server.stop()
}
process.exit(0)
