/** What calls are charged, in its table: what was charged before there was one stays where it is, and nothing is charged or taken back twice. */
import { afterEach, expect, test } from "bun:test"
import { firstRequestId, newRequestId } from "../../src/http/edge.ts"
import { claims } from "../../src/reconciliation/claims.ts"
import { claimsSince } from "../../src/reconciliation/claims-since.ts"
import { checkClaim } from "../../src/reconciliation/reconcile.ts"
import { accountStore } from "../../src/store/accounts.ts"
import { openDatabase } from "../../src/store/database.ts"
import { migrate } from "../../src/store/migrate.ts"
import { migrations } from "../../src/store/migrations/index.ts"
import { accountViews } from "../../src/store/operator/accounts.ts"
import { proofPoint, prove, reconciliationStore } from "../../src/store/reconciliations.ts"
import { Books, voidOf } from "../money/books.ts"
import { directConnection, onPostgres, openPlace, openTestDatabase, type TestDatabase } from "./harness.ts"

const BEFORE = migrations.filter(({ name }) => name < "0089")
const BEFORE_RECORDS = migrations.filter(({ name }) => name < "0096")
const HOUR_MS = 3_600_000

let target: TestDatabase
let close: () => Promise<void>
afterEach(() => close())

/** As it was before there was the table. */
const openBefore = async () => {
  const place = await openPlace(BEFORE)
  const db = openDatabase({ url: place.url, connections: 2 })
  const direct = directConnection(place.url)
  close = async () => {
    await db.close()
    await direct.end()
    await place.remove()
  }
  target = { url: place.url, db, sql: direct.sql, close, [Symbol.asyncDispose]: close }
}
/** With all migrations, which found no calls. */
const openMigrated = async () => {
  target = await openTestDatabase({ connections: 2 })
  close = () => target.close()
}

/** What is booked of calls, and in which table. */
const booked = async () => {
  const rows = await target.sql<{ key: string; amount: bigint; of: string }[]>`
    select idempotency_key as key, amount_micro as amount, case when request_id is null then 'transfers'
      when exists (select from charges c where c.request_id = t.request_id) then 'charges' else 'records' end as of
    from all_transfers t where debit_account like 'acc%' or credit_account = 'house:revenue' or debit_account = 'house:revenue' order by 1`
  return rows.map(({ key, amount, of }) => `${key} ${amount} in ${of}`)
}
const rowsBefore = () => target.sql`select * from transfers order by id`

/** An account's ledger, page by page: what is after a page's last row is told without the rows before it. */
const pagedLedger = async (accountId: string, limit: number) => {
  const views = accountViews(target.db)
  let rows = await views.transfers(accountId, { before: undefined, limit })
  for (let page = rows; page.length === limit; rows = [...rows, ...page])
    page = await views.transfers(accountId, { before: page.at(-1)?.place, limit })
  return rows
}

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
  await openBefore()
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

  await migrate(target.url)
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
  const ledger = await pagedLedger(customer.accountId, 3)
  expect(new Set(ledger.map((row) => row.idempotencyKey)).size).toBe(ledger.length)
  expect(ledger.filter(({ reason }) => reason === "charge")).toHaveLength(10)
  for (const [n, { balanceMicro, amountMicro }] of ledger.entries())
    expect(balanceMicro - amountMicro).toBe(ledger[n + 1]?.balanceMicro ?? 0n)
  expect(String(ledger[0]?.balanceMicro)).toBe(String((await books.balance(customer.accountId)).posted))
})

test("without calls before records are charges from the beginning, and what comes late or is taken back is in the next proof", async () => {
  await openMigrated()
  const now = Date.now()
  const books = await Books.open(target)
  const customer = await books.customer(3_000_000n)
  const call = (atMs: number, more: { absorbed?: bigint } = {}) => {
    const settlement = books.settlement({ ...customer, id: newRequestId(atMs), ...more })
    return { ...settlement, opening: { ...settlement.opening, openedAt: atMs } }
  }
  const commit = (...settlements: ReturnType<typeof call>[]) => books.commit(customer.processId, { settlements })
  const id = ({ opening }: ReturnType<typeof call>) => opening.requestId

  const [kept, taken, fresh] = [call(now - 9 * HOUR_MS, { absorbed: 1_000n }), call(now - 8 * HOUR_MS), call(now)]
  await commit(kept, taken)
  await goesOn(now, true)
  const late = call(now - 7 * HOUR_MS)
  await commit(fresh, late, kept)
  await commit(voidOf(taken), late)
  await commit(voidOf(taken), taken, fresh)
  expect(await booked()).toEqual(
    [
      `charge:${id(kept)} 199000 in records`,
      `absorb:${id(kept)} 1000 in transfers`,
      `charge:${id(taken)} 200000 in transfers`,
      `void:${id(taken)} 200000 in transfers`,
      `charge:${id(late)} 200000 in records`,
      `charge:${id(fresh)} 200000 in records`,
    ].sort(),
  )
  expect(await target.sql`select from charges`).toHaveLength(0)
  const spent = 199_000n + 2n * 200_000n
  expect(await books.balance(customer.accountId)).toEqual({ posted: 3_000_000n - spent, leased: 3_000_000n - spent })
  expect(await books.house("house:revenue")).toBe(spent + 1_000n)
  await goesOn(now)
  await commit(voidOf(late), call(now - 6 * HOUR_MS))
  await goesOn(now + 4 * HOUR_MS)
  await goesOn(now + 5 * HOUR_MS, true)
  const ledger = await pagedLedger(customer.accountId, 3)
  expect(ledger.filter(({ reason }) => reason === "charge")).toHaveLength(5)
  for (const [n, { balanceMicro, amountMicro }] of ledger.entries())
    expect(balanceMicro - amountMicro).toBe(ledger[n + 1]?.balanceMicro ?? 0n)
})

test("where there were calls records are charges from a coming month on, and calls on both sides of it are charged and taken back once", async () => {
  await openBefore()
  const now = Date.now()
  await migrate(target.url, BEFORE_RECORDS)
  const books = await Books.open(target)
  const customer = await books.customer(5_000_000n)
  const call = (atMs: number, more: { absorbed?: bigint } = {}) => {
    const settlement = books.settlement({ ...customer, id: newRequestId(atMs), ...more })
    return { ...settlement, opening: { ...settlement.opening, openedAt: atMs } }
  }
  const commit = (...settlements: ReturnType<typeof call>[]) => books.commit(customer.processId, { settlements })
  const id = ({ opening }: ReturnType<typeof call>) => opening.requestId

  const old = [now - 30 * HOUR_MS, now - 29 * HOUR_MS].map((at) => call(at))
  await commit(...old)
  expect(await prove(target.sql, await proofPoint(target.sql, firstRequestId, now - 20 * HOUR_MS), true)).toBe(true)
  await migrate(target.url)
  const [end] = await target.sql<{ at: Date; is_month: boolean }[]>`
    select call_at(until_call) as at, call_at(until_call) = date_trunc('month', call_at(until_call), 'UTC') as is_month from charges_end`
  expect(end?.is_month).toBe(true)
  expect((end?.at.getTime() ?? 0) - now).toBeGreaterThan(24 * HOUR_MS - 60_000)
  const before = call(now - 11 * HOUR_MS)
  await commit(before, ...old)
  // As if that month had begun ten hours ago.
  await target.sql`update charges_end set until_call = ${firstRequestId(now - 10 * HOUR_MS)}`
  const [after, fresh] = [call(now - 9 * HOUR_MS, { absorbed: 5_000n }), call(now)]
  await commit(after, before, fresh)
  await goesOn(now - 5 * HOUR_MS)
  const [lateBefore, lateAfter] = [call(now - 10.5 * HOUR_MS), call(now - 9.5 * HOUR_MS)]
  await commit(lateBefore, lateAfter, after, ...old)
  await goesOn(now)
  await commit(voidOf(old[0]!), voidOf(before), voidOf(after), voidOf(lateAfter))
  await commit(voidOf(old[0]!), voidOf(before), voidOf(after), lateAfter)
  expect(await booked()).toEqual(
    [
      `charge:${id(old[0]!)} 200000 in charges`,
      `void:${id(old[0]!)} 200000 in transfers`,
      `charge:${id(old[1]!)} 200000 in charges`,
      `charge:${id(before)} 200000 in transfers`,
      `void:${id(before)} 200000 in transfers`,
      `charge:${id(after)} 195000 in transfers`,
      `void:${id(after)} 195000 in transfers`,
      `absorb:${id(after)} 5000 in transfers`,
      `void-absorb:${id(after)} 5000 in transfers`,
      `charge:${id(lateBefore)} 200000 in transfers`,
      `charge:${id(lateAfter)} 200000 in transfers`,
      `void:${id(lateAfter)} 200000 in transfers`,
      `charge:${id(fresh)} 200000 in records`,
    ].sort(),
  )
  const spent = 3n * 200_000n
  expect(await books.balance(customer.accountId)).toEqual({ posted: 5_000_000n - spent, leased: 5_000_000n - spent })
  await goesOn(now + HOUR_MS)
  await goesOn(now + 4 * HOUR_MS)
  await goesOn(now + 4 * HOUR_MS, true)
})

test("what a record was charged is never changed, nor is the record removed; what is taken back is written", async () => {
  await openMigrated()
  const books = await Books.open(target)
  const customer = await books.customer()
  const charged = books.settlement(customer)
  await books.commit(customer.processId, { settlements: [charged] })
  const refused = [
    "update usage set charge_micro = charge_micro + 1",
    "update usage set charge_micro = 0",
    "update usage set account_id = 'acc_another'",
    "update usage set request_id = 'req_another'",
    "update usage set part = 7",
    "update usage set charge_micro = 0, status = 'billing_error', account_id = 'acc_another'",
    "delete from usage",
  ]
  for (const statement of refused)
    expect([statement, await target.sql.unsafe(statement).then(() => "done", String)]).toEqual([
      statement,
      expect.stringContaining("was charged is never changed"),
    ])
  await target.sql`update usage set flagged = true`
  await agrees()
  await target.sql`update usage set charge_micro = 0, status = 'billing_error'`
  expect(await booked()).toEqual([
    `charge:${charged.opening.requestId} 200000 in transfers`,
    `void:${charged.opening.requestId} 200000 in transfers`,
  ])
  expect(
    await target.sql.unsafe("update usage set charge_micro = 5, status = 'ok'").then(() => "done", String),
  ).toContain("was charged is never changed")
})

test.if(onPostgres)(
  "a batch that was being booked as before, while the schema came, is booked once when it is sent again",
  async () => {
    await openBefore()
    await migrate(target.url, BEFORE_RECORDS)
    const books = await Books.open(target)
    const customer = await books.customer()
    const call = books.settlement(customer)
    const migration = migrations.find(({ name }) => name.startsWith("0096"))
    const migrating = directConnection(target.url)
    try {
      await migrating.sql`begin`
      await migrating.sql`lock table usage in share row exclusive mode`
      const sent = books.commit(customer.processId, { settlements: [call] }).then(() => "booked", String)
      for (let waits = false; !waits;) {
        const [row] = await target.sql<{ waits: boolean }[]>`
        select exists (select from pg_locks where not granted and relation = 'usage'::regclass) as waits`
        waits = row?.waits ?? false
      }
      const { name = "", sql = "" } = migration ?? {}
      await migrating.sql.unsafe(sql)
      const sha256 = new Bun.CryptoHasher("sha256").update(sql).digest("hex")
      await migrating.sql`insert into schema_migrations ${migrating.sql({ name, sha256 })}`
      await migrating.sql`commit`
      expect(await sent).toContain("a record is its charge")
    } finally {
      await migrating.end()
    }
    await migrate(target.url)
    await books.commit(customer.processId, { settlements: [call] })
    expect(await booked()).toEqual([`charge:${call.opening.requestId} 200000 in records`])
    await agrees()
  },
)

test("a reconciliation that began before the migration freezes nobody, and one that begins after it does", async () => {
  await openBefore()
  const store = reconciliationStore(target.db)
  const accounts = accountStore(target.db)
  const [older] = await target.sql<{ id: bigint }[]>`insert into reconciliations default values returning id`
  await migrate(target.url)
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

/** As in a database that had calls before: records are charges from a coming month on. */
const migrateWithCalls = async () => {
  await migrate(target.url, BEFORE_RECORDS)
  await target.sql`insert into charges (request_id, account_id, amount_micro) values (${newRequestId(1)}, 'acc_0', 1)`
  await migrate(target.url)
}

test("a charge is never changed or removed, and is of one call", async () => {
  await openBefore()
  await migrateWithCalls()
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

test("charges have the months that records have, until records are charges", async () => {
  await openBefore()
  await migrate(target.url, BEFORE_RECORDS)
  expect(await bounds("charges")).toEqual(await bounds("usage"))
  expect((await bounds("charges")).length).toBeGreaterThanOrEqual(6)
  const last = (await bounds("usage")).at(-3)?.split(" ")[0]
  await target.sql.unsafe(`drop table charges${last}`)
  await migrate(target.url)
  await target.sql.unsafe(`drop table usage${last}`)
  expect(await target.sql`select make_months_1() as made`).toMatchObject([{ made: [`usage${last}`] }])
})

test("a transfer's time of a charge is that of its call", async () => {
  await openBefore()
  await migrateWithCalls()
  const at = Date.parse("2026-11-23T16:00:01.234Z")
  await target.sql`insert into charges (request_id, account_id, amount_micro) values (${newRequestId(at)}, 'acc_1', 5)`
  const [row] = await target.sql`select created_at from all_transfers where amount_micro = 5`
  expect(row?.["created_at"]).toEqual(new Date(at))
})

test.if(onPostgres)("who may add transfers, and change none, may do the same with charges", async () => {
  await openBefore()
  const role = `loket_charges_${process.pid}`
  const { sql } = target
  await sql.unsafe(`create role ${role}; grant select, insert on transfers to ${role};
    alter default privileges in schema public grant select, insert, update, delete on tables to ${role}`)
  try {
    await migrate(target.url)
    const may = await sql<{ name: string; rights: string[] }[]>`
      select c.relname::text as name, array(select r from unnest(array['select', 'insert', 'update', 'delete', 'truncate']) r
        where has_table_privilege(${role}, c.oid, r)) as rights
      from pg_class c where (c.relname like 'charges%' and c.relkind in ('r', 'p')) or c.relname = 'all_transfers' order by 1`
    expect(may.length).toBeGreaterThan(6)
    for (const { name, rights } of may) {
      const all: Readonly<Record<string, string[]>> = {
        charges: ["select", "insert"],
        charges_end: ["select"],
        all_transfers: ["select"],
      }
      expect([name, rights]).toEqual([name, all[name] ?? []])
    }
  } finally {
    await sql.unsafe(`drop owned by ${role}; drop role ${role}`)
  }
})

test("a page of the ledger has the right balance wherever it begins, whether or not days and months are summed", async () => {
  await openMigrated()
  let drawn = 17
  const random = () => (drawn = (drawn * 16_807) % 2_147_483_647) / 2_147_483_647
  const books = await Books.open(target)
  const customer = await books.customer(1_000_000_000n)
  const month = Date.UTC(2026, 8, 28)
  const settlements = Array.from({ length: 80 }, (_, n) => {
    // Of days around a month's end, many in one hour, some opened long after they came.
    const atMs =
      month + Math.floor(random() * 120) * HOUR_MS * (n % 3 === 0 ? 1 : 0.01) + Math.floor(random() * HOUR_MS)
    const settlement = books.settlement({ ...customer, id: newRequestId(atMs) })
    return { ...settlement, opening: { ...settlement.opening, openedAt: atMs + Math.floor(random() * 0.98 * HOUR_MS) } }
  })
  await books.commit(customer.processId, { settlements })
  await books.commit(customer.processId, { settlements: settlements.filter((_, n) => n % 9 === 0).map(voidOf) })
  /** As for an account that has so many calls that its days are summed. */
  const sumDays = async () => {
    await target.sql`delete from call_late`
    for (const span of ["day", "month"])
      await target.sql`
        with summed as (
          insert into usage_spans
          select account_id, 0, ${span === "month"}, date_trunc(${span}, hour at time zone 'UTC')::date as since, model, key_id, endpoint, status,
            sum(calls), sum(input_tokens), sum(output_tokens), sum(cache_read_tokens), sum(cache_write_tokens), sum(charge_micro), sum(cache_reads)
          from usage_hours group by 1, 4, 5, 6, 7, 8 returning account_id, is_month, since
        )
        insert into usage_span_accounts select distinct account_id, is_month, since from summed`
    await target.sql`select sum_usage_groups_1(account_id, is_month, since) from usage_span_accounts`
  }
  for (const isSummed of [false, true]) {
    if (isSummed) await sumDays()
    const ledger = await pagedLedger(customer.accountId, 7)
    expect(ledger.filter(({ reason }) => reason === "charge")).toHaveLength(80)
    // Places that nobody was given, as of times that are none, are answered too.
    for (const call of ["req_0", "req_ZZZZZZZZZ", "req_zzzzzzzzz", "req_a"])
      expect(
        await accountViews(target.db).transfers(customer.accountId, { before: { transfer: 1n, call }, limit: 7 }),
      ).toBeArray()
    for (const [n, { balanceMicro, amountMicro }] of ledger.entries())
      expect([n, balanceMicro - amountMicro]).toEqual([n, ledger[n + 1]?.balanceMicro ?? 0n])
    expect(String(ledger[0]?.balanceMicro)).toBe(String((await books.balance(customer.accountId)).posted))
  }
})
