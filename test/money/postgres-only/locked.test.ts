/** Somebody holds the lock of one customer's balance: an operator's open transaction, a client that is stuck. */
import { afterEach, expect, test } from "bun:test"
import { systemClock } from "../../../actors/kernel/clock.ts"
import type { Connection } from "../../../src/store/connection.ts"
import { type Person, startTestGateway, type TestGateway } from "../../gateway/harness.ts"
import { directConnection } from "../../store/harness.ts"
import { reconcile } from "../reconcile.ts"

let gateway: TestGateway
let holder: Connection
let model: string
let locked: Customer
let other: Customer
/** Long enough that what waits for the lock waits until it is gone, unless a test says otherwise. */
async function start(settleDeadlineMs = 60_000): Promise<void> {
  let url = ""
  gateway = await startTestGateway({
    env: { SETTLE_DEADLINE_MS: String(settleDeadlineMs) },
    databaseUrl: (own) => {
      url = own
      return own
    },
  })
  holder = directConnection(url)
  model = await gateway.model({ format: "chat", script: "input=1&output=1" })
  locked = await customer()
  other = await customer()
  for (const { key } of [locked, other]) expect(await statusOf(ask(key))).toBe(200)
}
afterEach(async () => {
  await holder.end()
  await gateway[Symbol.asyncDispose]()
})

interface Customer {
  readonly person: Person
  readonly key: string
}

async function customer(): Promise<Customer> {
  const person = await gateway.person(100_000)
  const limits = { spending_limit_micro: 50_000_000_000, spending_period: "daily" }
  return { person, key: (await gateway.key(person, limits)).key }
}

const ask = (key: string) =>
  gateway.post("/v1/chat/completions", key, { model, messages: [{ role: "user", content: "Hello" }] })

async function statusOf(asked: Promise<Response>): Promise<number> {
  const response = await asked
  await response.text()
  return response.status
}

const lock = async ({ person }: Customer): Promise<void> => {
  await holder.sql`begin`
  await holder.sql`select from balances where account_id = ${person.accountId} for update`
}

/** What of one customer may be locked: `$1` is the account's id. */
const rows = {
  "an account": "select from accounts where id = $1 for update",
  "the keys": "select from api_keys where account_id = $1 for update",
  "the leases": "select from leases where account_id = $1 for update",
  "the keys' spending":
    "select from key_spend where key_id in (select id from api_keys where account_id = $1) for update",
  "the keys' budgets":
    "select from budget_leases where key_id in (select id from api_keys where account_id = $1) for update",
  "all of them, and the records":
    "select from accounts a join balances b on b.account_id = a.id join usage u on u.account_id = a.id where a.id = $1 for update",
}
for (const [what, statement] of Object.entries(rows))
  test(`${what} of one customer may be locked, and no other notices; the log says by whom`, async () => {
    await start()
    const [session] = await holder.sql<{ pid: number }[]>`select pg_backend_pid() as pid`
    await holder.sql`begin`
    await holder.sql.unsafe(statement, [locked.person.accountId])
    // Until somebody waits, if anybody has to.
    const waiting = Promise.all(Array.from({ length: 5 }, () => statusOf(ask(locked.key))))
    const took: number[] = []
    for (let n = 0; n < 20; n++) {
      const since = systemClock.running()
      expect(await statusOf(ask(other.key))).toBe(200)
      took.push(systemClock.running() - since)
      await Bun.sleep(50)
    }
    // A call that was booked together with the customer's waits once until that is given up.
    expect(took.filter((ms) => ms > 500).length).toBeLessThan(2)
    expect(Math.max(...took)).toBeLessThan(4_000)
    // One that no process has met yet needs more statements than who is known.
    const fresh = await customer()
    expect(await statusOf(ask(fresh.key))).toBe(200)
    const blocked =
      await gateway.sql`select from pg_stat_activity where ${session?.pid ?? 0} = any (pg_blocking_pids(pid))`
    if (blocked.length > 0) {
      const line = gateway.complaints.find((each) => each.includes('"event":"waits for a lock"'))
      expect(JSON.parse(line ?? "{}")).toMatchObject({ blocked_by: session?.pid, state: "idle in transaction" })
    }
    await holder.sql`rollback`
    for (const status of await waiting) expect([200, 503]).toContain(status)
    while ((await statusOf(ask(locked.key))) !== 200) await Bun.sleep(50)
    await reconcile(gateway.sql)
  })

test("a locked balance stops its own customer, and no other; what waited is charged once when the lock is gone", async () => {
  await start()
  const before = (await gateway.balance(locked.person)).balance_micro
  await lock(locked)
  const waiting = [statusOf(ask(locked.key)), statusOf(ask(locked.key))]
  const ended: number[] = []
  for (const status of waiting) void status.then((each) => ended.push(each))
  // Each is settled while the lock is held: nobody else would end them.
  for (let n = 0; n < 10; n++) expect(await statusOf(ask(other.key))).toBe(200)
  expect(ended).toEqual([])
  await holder.sql`commit`
  expect(await Promise.all(waiting)).toEqual([200, 200])
  const costs = await gateway.sql<{ charge_micro: bigint }[]>`
    select charge_micro from usage where account_id = ${locked.person.accountId}`
  expect(costs).toHaveLength(3)
  const [first] = costs
  expect((await gateway.balance(locked.person)).balance_micro).toBe(before - 2 * Number(first?.charge_micro))
  await reconcile(gateway.sql)
})

test("who waits for a locked balance for too long is told so, and not charged; the next is refused at once", async () => {
  await start(3_000)
  const before = (await gateway.balance(locked.person)).balance_micro
  await lock(locked)
  const [session] = await holder.sql<{ pid: number }[]>`select pg_backend_pid() as pid`
  expect(await statusOf(ask(locked.key))).toBe(503)
  const line = gateway.complaints.find((each) => each.includes('"event":"waits for a lock"'))
  expect(JSON.parse(line ?? "{}")).toMatchObject({ blocked_by: session?.pid, state: "idle in transaction" })
  // It has been apart for longer than calls are admitted: this one has no record, because no backend was asked.
  expect(await statusOf(ask(locked.key))).toBe(503)
  expect(await statusOf(ask(other.key))).toBe(200)
  await holder.sql`commit`
  while ((await statusOf(ask(locked.key))) !== 200) await Bun.sleep(50)
  const records = await gateway.sql<{ status: string; charge_micro: bigint }[]>`
    select status, charge_micro from usage where account_id = ${locked.person.accountId} order by request_id`
  expect(records.map(({ status }) => status)).toEqual(["ok", "billing_error", "ok"])
  const last = records.at(-1)
  expect((await gateway.balance(locked.person)).balance_micro).toBe(before - Number(last?.charge_micro))
  await reconcile(gateway.sql)
})

test("who changes a locked key is told so within seconds, however often, and other people's pages go on", async () => {
  await start()
  const { data } = (await (await gateway.dashboard(locked.person, "/keys")).json()) as { data: { id: string }[] }
  await holder.sql`begin`
  await holder.sql`select from api_keys where account_id = ${locked.person.accountId} for update`
  const since = systemClock.running()
  const changes = Array.from({ length: 20 }, () =>
    gateway.dashboard(locked.person, `/keys/${data[0]?.id}`, {
      method: "PATCH",
      body: JSON.stringify({ requests_per_minute: 5 }),
      headers: { "Content-Type": "application/json" },
    }),
  )
  await Bun.sleep(50)
  // There are half as many connections, and each is free again after 1.5 s.
  expect((await gateway.dashboard(other.person, "/keys")).status).toBe(200)
  expect(systemClock.running() - since).toBeLessThan(4_900)
  for (const change of changes) {
    const refused = await change
    expect([refused.status, refused.headers.get("x-error-code")]).toEqual([503, "dependency.database_unavailable"])
  }
  expect(gateway.complaints.some((line) => line.includes('"event":"waits for a lock"'))).toBeTrue()
  expect(gateway.complaints.filter((line) => line.includes("unhandled"))).toEqual([])
  await holder.sql`rollback`
  const changed = await gateway.dashboard(locked.person, `/keys/${data[0]?.id}`, {
    method: "PATCH",
    body: JSON.stringify({ requests_per_minute: 5 }),
    headers: { "Content-Type": "application/json" },
  })
  expect(changed.status).toBe(200)
})

test("calls that claim a key for nothing, and wait for it, leave places at the database to others", async () => {
  await start()
  const poor = await gateway.person()
  const { key } = await gateway.key(poor)
  await holder.sql`begin`
  await holder.sql`lock table idempotency_keys in exclusive mode`
  // Ten are all the places that there are.
  const claiming = Array.from({ length: 80 }, (_, n) =>
    gateway.post(
      "/v1/chat/completions",
      key,
      { model, messages: [{ role: "user", content: "Hello" }] },
      { headers: { "Idempotency-Key": `claim-${n}` } },
    ),
  )
  for (let waits = 0; waits < 4;) {
    const [row] = await gateway.sql<{ n: number }[]>`
      select count(*)::int as n from pg_locks where relation = 'idempotency_keys'::regclass and not granted`
    waits = row?.n ?? 0
  }
  const pages = await Promise.all(
    Array.from({ length: 5 }, () => statusOf(gateway.dashboard(other.person, "/account"))),
  )
  expect(pages).toEqual([200, 200, 200, 200, 200])
  await holder.sql`commit`
  const codes = await Promise.all(
    claiming.map(async (asked) => {
      const answer = await asked
      await answer.text()
      return answer.headers.get("x-error-code")
    }),
  )
  expect(new Set(codes).has("billing.insufficient_balance")).toBeTrue()
})

test("whoever repeats a call whose key cannot be claimed is told what its first one is told", async () => {
  await start()
  await holder.sql`begin`
  await holder.sql`lock table idempotency_keys in exclusive mode`
  const body = { model, messages: [{ role: "user", content: "Hello" }] }
  const asking = Array.from({ length: 3 }, async () => {
    const headers = { "Idempotency-Key": "locked" }
    const answer = await gateway.post("/v1/chat/completions", other.key, body, { headers })
    await answer.text()
    return answer.headers.get("x-error-code")
  })
  const code = "dependency.database_unavailable"
  expect(await Promise.all(asking)).toEqual([code, code, code])
  await holder.sql`commit`
})
