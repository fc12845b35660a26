/** Old months in files: each call is found as before, and the books are compared as before, whenever the archiving was killed. */
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "bun:test"
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { firstRequestId } from "../../src/http/edge.ts"
import { archiveMonth, archivesIn, damagedArchives, monthsBefore, obstacle } from "../../src/store/archives.ts"
import { usageCsv } from "../../src/http/dashboard/usage-rows.ts"
import { accountViews, type TransferRow } from "../../src/store/operator/accounts.ts"
import { personalExport } from "../../src/store/personal-export.ts"
import type { Sql } from "../../src/store/sql.ts"
import { usageStore } from "../../src/store/usage.ts"
import { loket } from "../command/loket.ts"
import { voidOf } from "../money/books.ts"
import { type BrokenBooks, openBooks } from "../reconciliation/world.ts"
import { directConnection, onPostgres, openPlace, openTestDatabase, type Place } from "./harness.ts"
import { readTemplate, reset, schemaOf, type Template } from "./reset.ts"

const at = (time: string): number => Date.parse(`${time}Z`)
const idAt = (time: string, suffix = "a"): string => firstRequestId(at(time)) + suffix.padEnd(18, "0")
const BEFORE = firstRequestId(at("2026-07-01"))
const MANY = 2_500

/** All tests have this one, because no other test has any use for a database whose months are others. */
let place: Place
let unused: Template
/** Where the months begin that a new database has. */
let until: string
let world: BrokenBooks
let directory: string
beforeAll(async () => {
  place = await openPlace()
  await using target = await openTestDatabase({ place })
  unused = await readTemplate(target.sql)
  const [now] = await target.sql<{ until: string }[]>`
    select substring(pg_get_expr(relpartbound, oid) from 'TO \\(''([^'']*)''') as until from pg_class where oid = 'usage_before'::regclass`
  until = now!.until
})
beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), "loket-archives-"))
  const target = await openTestDatabase({ place })
  await makeMonths(target.sql)
  expect(await reset(target.sql, { ...unused, schema: await schemaOf(target.sql) })).toBe(true)
  world = await openBooks(target)
})
afterEach(async () => {
  await world.close()
  rmSync(directory, { recursive: true })
})
afterAll(() => place.remove())

/** As if there had been months since May. June has its columns in the order in which months are made. */
async function makeMonths(sql: Sql): Promise<void> {
  const bounds = ["2026-05-01", "2026-06-01", "2026-07-01"].map((day) => firstRequestId(at(day)))
  for (const table of ["usage", "charges"])
    await sql.unsafe(`drop table if exists ${table}_before, ${table}_2026_05, ${table}_2026_06, ${table}_2026_07;
      create table ${table}_before partition of ${table} for values from (minvalue) to ('${bounds[0]}');
      create table ${table}_2026_05 partition of ${table} for values from ('${bounds[0]}') to ('${bounds[1]}');
      ${table === "usage" ? `select make_narrow_1('usage_2026_06', 'usage')` : `create table ${table}_2026_06 (like ${table} including all)`};
      alter table ${table} attach partition ${table}_2026_06 for values from ('${bounds[1]}') to ('${bounds[2]}');
      create table ${table}_2026_07 partition of ${table} for values from ('${bounds[2]}') to ('${until}')`)
}

async function book(id: string, openedAt: number, more: { absorbed?: bigint; markers?: number } = {}) {
  const { victim, books } = world
  const settlement = books.settlement({ ...victim, id, tokens: { input: 10, output: 2 }, ...more })
  const call = { ...settlement, opening: { ...settlement.opening, openedAt } }
  await books.commit(victim.processId, { settlements: [call] })
  return call
}

/** The last call of June begins in July. */
const CALLS = [
  "2026-04-20T10:00",
  "2026-05-01T00:00",
  "2026-05-31T23:59:59.999",
  "2026-06-15T12:00",
  "2026-07-02T08:00",
]
async function bookAll(): Promise<readonly string[]> {
  const lastOfJune = idAt("2026-06-30T23:59:59.999", "z")
  const voided = idAt("2026-05-10T01:00")
  for (const time of CALLS) await book(idAt(time), at(time), { absorbed: 1_000n, markers: 2 })
  await book(lastOfJune, at("2026-07-01T00:40"))
  const call = await book(voided, at("2026-05-10T01:00"))
  await world.books.commit(world.victim.processId, { settlements: [voidOf(call)] })
  await world.sql`update usage set error_code = ${'a "b", \\ c\nd'} where request_id = ${voided}`
  return [...CALLS.map((time) => idAt(time)), lastOfJune, voided]
}

const agrees = async (...options: string[]) => {
  const { code, said, complaint } = await loket({ DATABASE_URL: world.url }, "reconcile", ...options)
  expect([code, complaint, said]).toEqual([0, expect.any(String), expect.any(String)])
}
const archive = () => loket({ DATABASE_URL: world.url, DATA_DIR: directory }, "archive", "--before", "2026-07")
const found = async (ids: readonly string[], accountId = world.victim.accountId) => {
  const usage = usageStore(world.db, archivesIn(directory))
  return await Promise.all(ids.map((id) => usage.find(accountId, id)))
}
/** As operators search for whose a call is. */
const ownersOf = async (query: string) => {
  const search = { query, after: undefined, limit: 2 }
  return (await accountViews(world.db, archivesIn(directory)).search(search)).map(({ id }) => id)
}
/** The account's transfers page by page, and its charges as it is told them itself. */
const charged = async () => {
  const { victim, db } = world
  const views = accountViews(db)
  const all: TransferRow[] = []
  for (let before: TransferRow["place"] | undefined; ;) {
    const page = await views.transfers(victim.accountId, { before, limit: 3 })
    if (page.length === 0) break
    all.push(...page)
    before = page.at(-1)?.place
    // As the operators' page takes it back.
    expect(before?.call ?? "-").toMatch(/^(?:req_[A-Za-z0-9]{1,40}|-)$/)
  }
  const told = JSON.parse((await Array.fromAsync(personalExport(db, victim.accountId))).join(""))
  return {
    ledger: all.map(({ id, amountMicro, balanceMicro }) => ({ id, amountMicro, balanceMicro })),
    charges: told.charges.map((row: { request_id: string | null; archive: string | null; amount_micro: number }) => [
      row.request_id ?? row.archive,
      row.amount_micro,
    ]),
  }
}
type Charged = Awaited<ReturnType<typeof charged>>

/** Of archived months whose records were charges there is one charge each, in place of those of their calls. */
function closed({ ledger, charges }: Charged, from: string): Charged["charges"] {
  const monthOf = (id: string): string => {
    if (!id.startsWith("req_0") || id < from || id >= BEFORE) return id
    const name = new Date(Number.parseInt(id.slice(4, 13), 36)).toISOString().slice(0, 7).replace("-", "_")
    return name < "2026_05" ? "usage_before" : `usage_${name}`
  }
  const sums = new Map<string, number>()
  for (const [id, amount] of charges) sums.set(monthOf(id), (sums.get(monthOf(id)) ?? 0) + amount)
  expect(ledger.length).toBeGreaterThan(0)
  return [...sums]
}
/** Records are charges from this call on. */
const setEnd = (call: string) => world.sql`update charges_end set until_call = ${call}`
const ENDS = [
  ["apart", BEFORE],
  ["records", ""],
  ["apart until the midst of a month", firstRequestId(at("2026-05-15"))],
] as const
const inTables = async () => {
  const [row] = await world.sql<
    { records: number }[]
  >`select count(*)::int as records from usage where request_id < ${BEFORE}`
  return row?.records
}

test.each(ENDS)(
  "archived months are in files, where each call is found as it was, and the books agree with and without what is proven: charges are %s",
  async (_, end) => {
    await setEnd(end)
    const ids = await bookAll()
    const voided = ids.at(-1)!
    await world.sql`
    insert into usage (request_id, part, account_id, key_id, lease_id, model, endpoint, streamed, status, input_tokens, output_tokens,
      cache_read_tokens, cache_write_tokens, charge_micro, absorbed_micro, price_id, turns, attempts, flagged, opened_at, duration_ms)
    select first_call('2026-06-10T00:00Z'::timestamptz + n * interval '1 ms') || lpad(n::text, 18, '0'), 0, account_id, key_id, lease_id, model, endpoint, streamed,
      'upstream_error', 0, 0, 0, 0, 0, 0, price_id, 1, 1, false, '2026-06-10', 1
    from usage, generate_series(1, ${MANY}) n where request_id = ${ids[0]!} and part = 0`
    const many = [1, 999, 1_000, 1_001, 2_000, MANY].map(
      (n) => firstRequestId(at("2026-06-10T00:00") + n) + String(n).padStart(18, "0"),
    )
    expect(await archive()).toMatchObject({ code: 1, complaint: expect.stringContaining("run `loket reconcile`") })
    await agrees()
    const before = await found([...ids, ...many])
    const balance = await world.books.balance(world.victim.accountId)
    const ofAccount = await charged()
    // Of one that was taken back, and whose record was its charge, both are transfers.
    const others = voided >= end ? ids.slice(0, -1) : ids
    expect(ofAccount.charges.map(([id]: [string]) => id)).toEqual([...others, world.victim.requestId].sort())
    expect(ofAccount.ledger.filter(({ amountMicro }) => amountMicro < 0n)).toHaveLength(ids.length + 1)
    expect(ofAccount.ledger.map(({ id }) => id)).toEqual(expect.arrayContaining([...others, world.victim.requestId]))
    for (const [n, { amountMicro, balanceMicro }] of ofAccount.ledger.entries())
      expect(balanceMicro - amountMicro).toBe(ofAccount.ledger[n + 1]?.balanceMicro ?? 0n)

    const { code, said } = await archive()
    expect([code, said]).toEqual([
      0,
      expect.stringMatching(/usage_before: 3 records[^]*usage_2026_05: 7 records[^]*usage_2026_06: 2504 records/),
    ])
    expect(await inTables()).toBe(0)
    expect(await world.sql`select from archive_blocks where archive = 'usage_2026_06'`).toHaveLength(3)
    expect(await found([...ids, ...many])).toEqual(before)
    expect(before).not.toContain(undefined)
    expect(await found(ids.slice(0, 2), world.bystander.accountId)).toEqual([undefined, undefined])
    expect(await found([idAt("2026-05-02T00:00"), idAt("2026-01-01T00:00")])).toEqual([undefined, undefined])
    expect(await world.books.balance(world.victim.accountId)).toEqual(balance)
    const afterwards = await charged()
    expect(afterwards.charges).toEqual(closed(ofAccount, end))
    expect(afterwards.ledger[0]?.balanceMicro).toBe(ofAccount.ledger[0]!.balanceMicro)
    for (const [n, { amountMicro, balanceMicro }] of afterwards.ledger.entries())
      expect(balanceMicro - amountMicro).toBe(afterwards.ledger[n + 1]?.balanceMicro ?? 0n)
    if (end === BEFORE) expect(afterwards).toEqual(ofAccount)
    else
      expect(await world.sql`select from archived_charges where account_id = ${world.victim.accountId}`).toHaveLength(
        end === "" ? 3 : 2,
      )

    await agrees()
    await agrees("--full")
    await book(idAt("2026-08-03T00:00"), at("2026-08-03T00:00"))
    await agrees()
    await agrees("--full")
    await agrees()
    expect(await archive()).toMatchObject({ code: 0, said: "nothing to archive" })
    for (const id of [...ids, ...many]) {
      const [account] = await ownersOf(id)
      expect([id, account]).toEqual([id, world.victim.accountId])
    }
    expect(await ownersOf(idAt("2026-05-02T00:00"))).toEqual([])

    // Any program reads the file.
    const lines = Bun.spawnSync(["zcat", join(archivesIn(directory), "usage_2026_05.csv.gz")]).stdout.toString()
    expect(lines).toStartWith("request_id,part,account_id,")
    expect(lines).toContain(`"a ""b"", \\ c\nd"`)
  },
)

test.if(onPostgres).each(["05", "06"])(
  "PostgreSQL reads the file of month %s back, as the page of archives says",
  async (month) => {
    await bookAll()
    await agrees()
    const table = `usage_2026_${month}`
    const rows = (of: string) => world.sql.unsafe(`select to_jsonb(r) as row from ${of} r order by request_id, part`)
    const before = [...(await rows(table))]
    expect((await archive()).code).toBe(0)
    const page = await Bun.file(join(import.meta.dir, "../../docs/operating/archives.md")).text()
    const block = /```sh untried[^\n]*\n(file=.*?)```/s.exec(page)?.[1] ?? ""
    const said = block.replace("data/archives/usage_2026_05", join(archivesIn(directory), table))
    const { exitCode } = Bun.spawnSync(["sh", "-euc", said], { env: { ...process.env, DATABASE_URL: world.url } })
    expect([exitCode, [...(await rows("may"))]]).toEqual([0, before])
    expect(before.length).toBeGreaterThan(3)
  },
)

test.each(["records", "reading it back", ": written", "its table goes", ": archived"])(
  "killed at %s nothing is lost, and it goes on where it was",
  async (step) => {
    const ids = await bookAll()
    await agrees()
    const before = await found(ids)
    const killed = Bun.spawn(
      ["bun", `${import.meta.dir}/archiving.ts`, JSON.stringify({ DATABASE_URL: world.url }), directory, BEFORE, step],
      { stderr: "pipe" },
    )
    expect([await killed.exited, killed.signalCode]).toEqual([137, "SIGKILL"])
    expect(await found(ids)).toEqual(before)
    await agrees("--full")
    await agrees()
    for (let n = 0; (await archive()).code !== 0; n++) {
      // Until the server has noticed who is gone.
      if (n > 20) throw new Error((await archive()).complaint)
      await Bun.sleep(250)
    }
    expect(await inTables()).toBe(0)
    expect(await found(ids)).toEqual(before)
    await agrees("--full")
    expect(await damagedArchives(world.sql, archivesIn(directory), true)).toEqual([])
  },
)

test("what is not over for long, has calls under way or is not proven stays", async () => {
  await bookAll()
  await agrees()
  const { sql, victim } = world
  const month = (await monthsBefore(sql, BEFORE)).at(-1)!
  const day = 86_400_000
  expect(await obstacle(sql, month, at("2026-07-01") + 93 * day - 1)).toContain("93 days")
  expect(await obstacle(sql, month, at("2026-07-01") + 93 * day)).toBe(undefined)
  await sql`insert into openings (request_id, process_id, account_id, key_id, lease_id, model, endpoint, streamed, hold_micro, price_id, opened_at)
    values (${idAt("2026-06-30T23:00")}, ${victim.processId}, ${victim.accountId}, ${victim.keyId}, 1, 'm', 'chat', false, 0, 1, '2026-06-30')`
  expect(await obstacle(sql, month, Date.now())).toContain("1 of its calls have not ended")
  expect(await loket({ DATABASE_URL: world.url, DATA_DIR: directory }, "archive", "--before", "July")).toMatchObject({
    code: 2,
  })
})

test("a file that is another, or not there, is told, and is no call that is not there", async () => {
  const [first = ""] = await bookAll()
  await agrees()
  expect((await archive()).code).toBe(0)
  const check = () => loket({ DATABASE_URL: world.url, DATA_DIR: directory }, "archive", "--check")
  expect(await check()).toMatchObject({ code: 0, said: "every archive is as it was written" })
  const path = join(archivesIn(directory), "usage_before.csv.gz")
  truncateSync(path, readFileSync(path).length - 1)
  expect(await check()).toMatchObject({
    code: 1,
    complaint: expect.stringContaining("usage_before.csv.gz is not what was written"),
  })
  expect(await found([first]).catch(String)).toContain("is not what was written")
  const doctor = () => loket({ DATABASE_URL: world.url, DATA_DIR: directory }, "doctor")
  if (onPostgres) expect((await doctor()).said).toContain("WRONG  " + path + " is not what was written")
  rmSync(path)
  expect(await check()).toMatchObject({
    code: 1,
    complaint: expect.stringContaining("usage_before.csv.gz is not here"),
  })
  expect(await found([first]).catch(String)).toContain("is not here: copy it from where it was archived")
  const environment = { DATABASE_URL: world.url, DATA_DIR: directory }
  expect(await loket(environment, "account", "list", first)).toMatchObject({
    code: 1,
    complaint: expect.stringContaining("usage_before.csv.gz is not here: copy it from where it was archived"),
  })
})

test("an archived call that is taken back is charged no more, once, and one that is sent again is not booked again", async () => {
  const { books, victim } = world
  await setEnd(BEFORE)
  const call = await book(idAt("2026-05-20T01:00"), at("2026-05-20T01:00"), { absorbed: 7_000n })
  const [id, kept] = [call.opening.requestId, await book(idAt("2026-06-20T01:00"), at("2026-06-20T01:00"))]
  await agrees()
  expect((await archive()).code).toBe(0)
  const before = await books.balance(victim.accountId)
  const charge = (await found([id]))[0]!.record.chargeMicro
  expect(charge).toBeGreaterThan(0n)

  await books.commit(victim.processId, { settlements: [kept, call] })
  expect(await books.balance(victim.accountId)).toEqual(before)
  await agrees()
  for (let n = 0; n < 2; n++) await books.commit(victim.processId, { settlements: [voidOf(call), kept] })
  expect(await books.balance(victim.accountId)).toEqual({
    posted: before.posted + charge,
    leased: before.leased + charge,
  })
  expect(await inTables()).toBe(0)
  const records = (await found([id, kept.opening.requestId])).map((one) => one?.record)
  expect(records.map((record) => [record?.status, String(record?.chargeMicro), String(record?.absorbedMicro)])).toEqual(
    [
      ["billing_error", "0", "0"],
      ["ok", String(kept.records[0].charge), "0"],
    ],
  )
  await agrees()
  await agrees("--full")
  await agrees()
})

test("an archived call whose record was its charge is neither booked again nor taken back, and is named", async () => {
  const { books, victim } = world
  await setEnd(firstRequestId(at("2026-05-15")))
  const call = await book(idAt("2026-05-20T01:00"), at("2026-05-20T01:00"), { absorbed: 7_000n })
  const before = await book(idAt("2026-05-10T01:00"), at("2026-05-10T01:00"))
  await agrees()
  expect((await archive()).code).toBe(0)
  const [id, balance] = [call.opening.requestId, await books.balance(victim.accountId)]
  const unknown = { ...call, opening: { ...call.opening, requestId: idAt("2026-06-20T01:00") } }
  await books.commit(victim.processId, { openings: [], settlements: [call, unknown] })
  await books.commit(victim.processId, { settlements: [voidOf(call)] })
  expect(await books.balance(victim.accountId)).toEqual(balance)
  expect(books.archived.toSorted()).toEqual([id, id, unknown.opening.requestId].sort())
  expect(books.fenced).toEqual([])
  expect(await inTables()).toBe(0)
  expect((await found([id]))[0]?.record).toMatchObject({ status: "ok", chargeMicro: call.records[0].charge })
  // One before it, in the same month, has its charge in the database.
  await books.commit(victim.processId, { settlements: [voidOf(before)] })
  const charge = before.records[0].charge
  expect(await books.balance(victim.accountId)).toEqual({
    posted: balance.posted + charge,
    leased: balance.leased + charge,
  })
  await agrees()
  await agrees("--full")
})

test.if(onPostgres)("a call is taken back while another month is archived", async () => {
  const now = Date.now()
  const call = await book(firstRequestId(now) + "a".repeat(18), now)
  const other = directConnection(world.url)
  try {
    await other.sql`begin`
    await other.sql`lock table usage_2026_05 in share mode`
    await world.books.commit(world.victim.processId, { settlements: [voidOf(call)] })
    expect((await found([call.opening.requestId]))[0]?.record.status).toBe("billing_error")
  } finally {
    await other.end()
  }
})

test("a file of another installation in the directory is not written over, and no month goes", async () => {
  await bookAll()
  await agrees()
  mkdirSync(archivesIn(directory))
  const path = join(archivesIn(directory), "usage_before.csv.gz")
  writeFileSync(path, "another's")
  expect(await archive()).toMatchObject({
    code: 1,
    complaint: expect.stringContaining("has other records: move it away"),
  })
  expect([readFileSync(path, "utf8"), await inTables()]).toEqual(["another's", 14])
})

test("on a full disk nothing of a month's file is left, its records stay, and it is told which file was written", async () => {
  await bookAll()
  await agrees()
  const [month] = await monthsBefore(world.sql, BEFORE)
  const archives = archivesIn(directory)
  const step = (what: string) => {
    if (!what.includes("reading it back")) return
    expect(readdirSync(archives)).toEqual(["usage_before.csv.gz.part"])
    throw Object.assign(new Error("ENOSPC: no space left on device, write"), { code: "ENOSPC" })
  }
  const said = await archiveMonth(world.sql, month!, { directory: archives, step }).catch(String)
  expect(said).toContain("usage_before.csv.gz is not written, and its records stay: ENOSPC")
  expect([readdirSync(archives), await inTables()]).toEqual([[], 14])
  expect((await archive()).code).toBe(0)
  await agrees("--full")
})

test.if(onPostgres)("a role that does not own the tables is told who archives, and nothing goes", async () => {
  await bookAll()
  await agrees()
  const role = `loket_archives_${process.pid}`
  await world.sql.unsafe(`create role ${role} login`)
  try {
    expect((await loket({ DATABASE_URL: world.url }, "migrate", "--grant", role)).code).toBe(0)
    const url = new URL(world.url ?? "")
    url.username = role
    const asRole = { DATABASE_URL: url.href, DATA_DIR: directory }
    expect(await loket(asRole, "archive", "--before", "2026-07")).toMatchObject({
      code: 1,
      complaint: expect.stringContaining("run it as the owner of the tables"),
    })
    expect(await inTables()).toBe(14)
  } finally {
    await world.sql.unsafe(`drop owned by ${role}; drop role ${role}`)
  }
})

test("who would change a record while it is archived waits, as long as calls do, and changes nothing", async () => {
  const ids = await bookAll()
  await agrees()
  const other = directConnection(world.url)
  const months = await monthsBefore(world.sql, BEFORE)
  let change: Promise<unknown> | undefined
  await other.sql`select set_config('lock_timeout', '1s', false)`
  try {
    for (const month of months) {
      const step = () => {
        if (!onPostgres) return
        const changing = other.sql`update usage set turns = 2 where request_id = ${ids[0]!}`
        change ??= changing.then((rows) => rows.count, String)
      }
      await archiveMonth(world.sql, month, { directory: archivesIn(directory), step })
    }
    expect(await change).toBeOneOf([0, undefined, expect.stringContaining("lock timeout")])
  } finally {
    await other.end()
  }
  expect((await found(ids)).map((call) => call?.record.turns)).toEqual(ids.map(() => 1))
  await agrees("--full")
})

const lines = async (answer: Response) => (await answer.text()).trim().split("\r\n").length

test("a file of calls that is read while their month goes breaks off, and is not half a file that looks whole", async () => {
  await setEnd("")
  const id = idAt("2026-06-15T12:00")
  await book(id, at("2026-06-15T12:00"))
  await world.sql`
    insert into usage (request_id, part, account_id, key_id, lease_id, model, endpoint, streamed, status, input_tokens, output_tokens,
      cache_read_tokens, cache_write_tokens, charge_micro, absorbed_micro, price_id, turns, attempts, flagged, opened_at, duration_ms)
    select first_call('2026-06-10T00:00Z'::timestamptz + n * interval '1 ms') || lpad(n::text, 18, '0'), 0, account_id, key_id, lease_id, model, endpoint, streamed,
      'upstream_error', 0, 0, 0, 0, 0, 0, price_id, 1, 1, false, '2026-06-10', 1
    from usage, generate_series(1, ${MANY}) n where request_id = ${id} and part = 0`
  await agrees()
  const usage = usageStore(world.db, archivesIn(directory))
  const file = () =>
    usageCsv(
      usage,
      { accountId: world.victim.accountId, to: new Date("2026-07-01Z") },
      { notation: undefined, timeZone: "UTC" },
    )
  expect(await lines(await file())).toBe(1 + 1 + MANY)
  const begun = await file()
  expect(await archive()).toMatchObject({ code: 0 })
  expect(await lines(begun).catch(String)).toContain("a month was archived meanwhile")
  expect(await lines(await file())).toBe(1)
})
