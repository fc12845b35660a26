/** What calls are charged, in its table: what was charged before there was one stays where it is, and nothing is charged or taken back twice. */
import { afterEach, beforeEach, expect, test } from "bun:test"
import { firstRequestId, newRequestId } from "../../src/http/request-id.ts"
import { claims } from "../../src/reconciliation/claims.ts"
import { claimsSince } from "../../src/reconciliation/claims-since.ts"
import { checkClaim } from "../../src/reconciliation/books.ts"
import { accountStore } from "../../src/store/accounts.ts"
import { openDatabase } from "../../src/store/database.ts"
import { migrate } from "../../src/store/migrate.ts"
import { migrations } from "../../src/store/migrations/index.ts"
import { accountViews } from "../../src/store/operator/accounts.ts"
import { proofPoint, prove } from "../../src/store/proofs.ts"
import { reconciliationStore } from "../../src/store/reconciliations.ts"
import { Books, voidOf } from "../money/books.ts"
import { directConnection, type EmptyDatabase, onPostgres, openEmptyDatabase, type TestDatabase } from "./harness.ts"

const BEFORE = migrations.filter(({ name }) => name < "0089")
const HOUR_MS = 3_600_000

let place: EmptyDatabase
let target: TestDatabase
let close: () => Promise<void>
beforeEach(async () => {
  place = await openEmptyDatabase()
  await migrate(place.url, BEFORE)
  const db = openDatabase({ url: place.url, connections: 2 })
  const direct = directConnection(place.url)
  close = async () => {
    await db.close()
    await direct.end()
    await place.remove()
  }
  target = { url: place.url, db, sql: direct.sql, close, [Symbol.asyncDispose]: close }
})
afterEach(() => close())

/** What is booked of calls, and in which table. */
const booked = async () => {
  const rows = await target.sql<{ key: string; amount: bigint; whole: boolean }[]>`
    select idempotency_key as key, amount_micro as amount, request_id is null as whole from all_transfers
    where debit_account like 'acc%' or credit_account = 'house:revenue' or debit_account = 'house:revenue' order by 1`
  return rows.map(({ key, amount, whole }) => `${key} ${amount} ${whole ? "in transfers" : "in charges"}`)
}
const rowsBefore = () => target.sql`select * from transfers order by id`

const agrees = async (all = claims) => {
  for (const claim of all) expect(await checkClaim(target.sql, claim)).toMatchObject({ claim: claim.name, shown: [] })
}
/** What is new since the last proof agrees, and with everything: then it is the next one. */
const goesOn = async (now: number, everything = false) => {
  const point = await proofPoint(target.sql, firstRequestId, now)
  if (!everything) await agrees(claimsSince(point.base!))
  await agrees()
  expect(await prove(target.sql, point, everything)).toBe(true)
}

test("through the migration calls are charged, taken back and sent again once, and the next proof goes on from the one before", async () => {
  const now = Date.now()
  const books = await Books.open(target)
  const customer = await books.customer(3_000_000n)
  const call = (atMs: number, more: { absorbed?: bigint } = {}) => {
    const settlement = books.settlement({ ...customer, id: newRequestId(atMs), ...more })
    return { ...settlement, opening: { ...settlement.opening, openedAt: atMs } }
  }
  const commit = (...settlements: ReturnType<typeof call>[]) => books.commit(customer.processId, { settlements })
  const id = ({ opening }: ReturnType<typeof call>) => opening.requestId

  const old = [now - 30 * HOUR_MS, now - 29 * HOUR_MS, now - 5 * HOUR_MS].map((at) => call(at, { absorbed: 1_000n }))
  await commit(...old)
  expect(await prove(target.sql, await proofPoint(target.sql, firstRequestId, now + 2 * HOUR_MS), true)).toBe(true)
  // After the proof, and before the migration.
  const between = call(now - 1_000)
  await commit(between)
  const before = [...(await rowsBefore())]

  await migrate(place.url)
  expect([...(await rowsBefore())]).toEqual(before)
  const late = call(now - 20 * HOUR_MS)
  const [fresh, taken] = [call(now), call(now + 1, { absorbed: 3_000n })]
  await commit(fresh, taken, late, ...old, between)
  await commit(voidOf(old[0]!), voidOf(taken), fresh, taken, late)
  await commit(voidOf(old[0]!), voidOf(taken), old[0]!)

  expect(await booked()).toEqual(
    [
      ...old.map((one) => `charge:${id(one)} 199000 in transfers`),
      ...old.map((one) => `absorb:${id(one)} 1000 in transfers`),
      `void:${id(old[0]!)} 199000 in transfers`,
      `void-absorb:${id(old[0]!)} 1000 in transfers`,
      `charge:${id(between)} 200000 in transfers`,
      // It sorts before what was proven.
      `charge:${id(late)} 200000 in transfers`,
      `charge:${id(fresh)} 200000 in charges`,
      `charge:${id(taken)} 197000 in charges`,
      `absorb:${id(taken)} 3000 in transfers`,
      `void:${id(taken)} 197000 in transfers`,
      `void-absorb:${id(taken)} 3000 in transfers`,
    ].sort(),
  )
  const spent = 2n * 199_000n + 3n * 200_000n
  expect(await books.balance(customer.accountId)).toEqual({ posted: 3_000_000n - spent, leased: 3_000_000n - spent })
  expect(await books.house("house:revenue")).toBe(spent + 2n * 1_000n)

  await goesOn(now + 2 * HOUR_MS)
  await commit(voidOf(fresh), call(now), call(now - 19 * HOUR_MS))
  await goesOn(now + 6 * HOUR_MS)
  await commit(call(now + 5 * HOUR_MS))
  await goesOn(now + 7 * HOUR_MS)
  await goesOn(now + 7 * HOUR_MS, true)

  // The account's ledger has them all, each once, with the balance after it.
  const ledger = await accountViews(target.db).transfers(customer.accountId, { before: undefined, limit: 100 })
  expect(new Set(ledger.map((row) => row.idempotencyKey)).size).toBe(ledger.length)
  expect(ledger.filter(({ reason }) => reason === "charge")).toHaveLength(10)
  for (const [n, { balanceMicro, amountMicro }] of ledger.entries())
    expect(balanceMicro - amountMicro).toBe(ledger[n + 1]?.balanceMicro ?? 0n)
  expect(String(ledger[0]?.balanceMicro)).toBe(String((await books.balance(customer.accountId)).posted))
})

test("a reconciliation that began before the migration freezes nobody, and one that begins after it does", async () => {
  const store = reconciliationStore(target.db)
  const accounts = accountStore(target.db)
  const [older] = await target.sql<{ id: bigint }[]>`insert into reconciliations default values returning id`
  await migrate(place.url)
  const books = await Books.open(target)
  const { accountId, processId } = await books.customer()
  const frozen = async () => {
    const [row] = await target.sql`select frozen_reason from accounts where id = ${accountId}`
    return row?.["frozen_reason"]
  }
  const freeze = (id: bigint | undefined) => accounts.freeze(accountId, `reconciliation ${id}: it does not hold`)
  expect(await freeze(older?.id).then(() => "frozen", String)).toContain("did not read all of them")
  // As a process of the version before takes up what one of this version had begun.
  const day = await store.beginDay("2026-11-22", processId)
  const another = await books.process()
  await target.sql`update reconciliations set process_id = ${another} where id = ${day!}`
  expect(await freeze(day).then(() => "frozen", String)).toContain("did not read all of them")
  expect(await frozen()).toBe(null)
  // It lives, and yet one of this version takes the day from it: it can only begin it again.
  expect(await store.beginDay("2026-11-22", processId)).toBe(day)
  expect(await store.beginDay("2026-11-22", another)).toBeUndefined()

  await freeze(await store.beginDay("2026-11-23", processId))
  expect(await frozen()).toContain("it does not hold")
  await accounts.unfreeze(accountId)
  const asked = await store.begin()
  await freeze(asked)
  expect(await frozen()).toStartWith(`reconciliation ${asked}:`)
})

test("a charge is never changed or removed, and is of one call", async () => {
  await migrate(place.url)
  const insert = () =>
    target.sql`insert into charges (request_id, account_id, amount_micro) values (${newId}, 'acc_1', 5)`
  const newId = newRequestId(Date.now())
  await insert()
  const refusals = [
    insert(),
    target.sql`update charges set amount_micro = 6`,
    target.sql`delete from charges`,
    target.sql`update charges set request_id = 'req_0'`,
    target.sql`insert into charges (request_id, account_id, amount_micro) values ('req_0', 'acc_1', 0)`,
  ]
  expect(await Promise.all(refusals.map((refused) => refused.then(() => "done", String)))).toEqual([
    expect.stringContaining("duplicate key"),
    ...Array.from({ length: 3 }, () => expect.stringMatching(/charges\w* rows are never changed/)),
    expect.stringContaining("violates check constraint"),
  ])
})

/** A table's months, by the ends of their names. */
const bounds = async (table: string) => {
  const rows = await target.sql<{ name: string; bounds: string }[]>`
    select c.relname::text as name, pg_get_expr(c.relpartbound, c.oid) as bounds from pg_inherits i join pg_class c on c.oid = i.inhrelid
    where i.inhparent = ${table}::regclass order by 1`
  return rows.map(({ name, bounds: of }) => `${name.slice(table.length)} ${of}`)
}

test("charges have the months that records have", async () => {
  await migrate(place.url)
  expect(await bounds("charges")).toEqual(await bounds("usage"))
  expect((await bounds("charges")).length).toBeGreaterThanOrEqual(6)
})

test("a transfer's time of a charge is that of its call", async () => {
  await migrate(place.url)
  const at = Date.parse("2026-11-23T16:00:01.234Z")
  await target.sql`insert into charges (request_id, account_id, amount_micro) values (${newRequestId(at)}, 'acc_1', 5)`
  const [row] = await target.sql`select created_at from all_transfers`
  expect(row?.["created_at"]).toEqual(new Date(at))
})

test.if(onPostgres)("who may add transfers, and change none, may do the same with charges", async () => {
  const role = `loket_charges_${process.pid}`
  const { sql } = target
  await sql.unsafe(`create role ${role}; grant select, insert on transfers to ${role};
    alter default privileges in schema public grant select, insert, update, delete on tables to ${role}`)
  try {
    await migrate(place.url)
    const may = await sql<{ name: string; rights: string[] }[]>`
      select c.relname::text as name, array(select r from unnest(array['select', 'insert', 'update', 'delete', 'truncate']) r
        where has_table_privilege(${role}, c.oid, r)) as rights
      from pg_class c where (c.relname like 'charges%' and c.relkind in ('r', 'p')) or c.relname = 'all_transfers' order by 1`
    expect(may.length).toBeGreaterThan(6)
    for (const { name, rights } of may) {
      const all: Readonly<Record<string, string[]>> = { charges: ["select", "insert"], all_transfers: ["select"] }
      expect([name, rights]).toEqual([name, all[name] ?? []])
    }
  } finally {
    await sql.unsafe(`drop owned by ${role}; drop role ${role}`)
  }
})
