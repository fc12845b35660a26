/** A gateway whose role does not own the tables: all of it works, and the books cannot be changed by whoever has taken it over. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { House, modelSeed } from "../../crash/child.ts"
import { Books, voidOf } from "../../money/books.ts"
import { reconcile } from "../../money/reconcile.ts"
import { directConnection, openPlace, type Place } from "../../store/scratch.ts"
import type { Connection } from "../../../src/store/connection.ts"
import { openDatabase } from "../../../src/store/database.ts"
import { openStore } from "../../../src/store/open.ts"
import { loket } from "../loket.ts"

const role = `loket_run_${process.pid}`
let place: Place
let owner: Connection
let asRole: string
beforeAll(async () => {
  place = await openPlace([])
  owner = directConnection(place.url)
  await owner.sql.unsafe(`create role ${role} login password 'of the tests'`)
  const url = new URL(place.url)
  url.username = role
  url.password = "of the tests"
  asRole = url.href
})
afterAll(async () => {
  await owner.sql.unsafe(`drop owned by ${role}; drop role ${role}`)
  await owner.end()
  await place.remove()
})

const migrateTo = (grant: string) => loket({ DATABASE_URL: place.url }, "migrate", "--grant", grant)

test("who may not change the schema is told who may, and nothing is changed", async () => {
  const house = await House.build([modelSeed("chat", "chat", "input=1&output=2")], { place: { DATABASE_URL: asRole } })
  const refused = house.spawn()
  expect(await refused.exited).toBe(1)
  await refused.silent
  expect(refused.complaints.join("\n")).toContain("run `loket migrate` as the owner of the tables")
  await house[Symbol.asyncDispose]()
  expect((await owner.sql`select from pg_tables where schemaname = 'public'`).length).toBe(0)
})

test("a role that is not there, or that nothing can be kept from, is refused", async () => {
  expect(await migrateTo("nobody_at_all")).toMatchObject({
    code: 1,
    complaint: expect.stringContaining("there is no role nobody_at_all: `create role nobody_at_all login"),
  })
  const [self] = await owner.sql<{ name: string }[]>`select current_user as name`
  expect(await migrateTo(self?.name ?? "")).toMatchObject({
    code: 1,
    complaint: expect.stringContaining("owns the tables or is a superuser"),
  })
  expect(await loket({ DATA_DIR: "/nowhere" }, "migrate", "--grant", role)).toMatchObject({
    code: 2,
    complaint: expect.stringContaining("--grant needs DATABASE_URL"),
  })
})

test("where the tables are and the role has no rights to them, as after a restore, it is told what gives them", async () => {
  expect((await loket({ DATABASE_URL: place.url }, "migrate")).code).toBe(0)
  expect(await loket({ DATABASE_URL: asRole }, "account", "list")).toMatchObject({
    code: 1,
    complaint: expect.stringMatching(
      /^this role may not read the tables .*run `loket migrate --grant <role>` as their/,
    ),
  })
})

test("with what it is granted a gateway does all its work, and the books agree", async () => {
  expect(await migrateTo(role)).toMatchObject({ code: 0, said: expect.stringContaining(`${role} may run a gateway`) })
  expect(await loket({ DATABASE_URL: asRole }, "migrate", "--grant", role)).toMatchObject({
    code: 1,
    complaint: expect.stringContaining("run it as the owner of the tables"),
  })
  await using house = await House.build([modelSeed("chat", "chat", "input=1&output=2")], {
    place: { DATABASE_URL: asRole },
  })
  const gateway = await house.start()
  await using _ = { [Symbol.asyncDispose]: () => gateway.kill() }
  const customer = await gateway.customer(100_000, {
    spending_limit_micro: 50_000_000_000,
    spending_period: "daily",
  })
  const call = () =>
    fetch(`${gateway.url}/v1/chat/completions`, {
      method: "POST",
      headers: { Authorization: `Bearer ${customer.key}`, "Idempotency-Key": crypto.randomUUID() },
      body: JSON.stringify({ model: "chat", messages: [{ role: "user", content: "Hello" }] }),
    })
  for (const answer of await Promise.all(Array.from({ length: 20 }, call))) expect(answer.status).toBe(200)
  await gateway.change(customer, { requests_per_minute: 100 })
  const topUp = await gateway.openTopUp(customer, 20_000)
  await gateway.pay(topUp, 20_000)
  await gateway.takeBack(topUp, 20_000, "reversal-1")
  for (const path of ["/usage", "/keys", "/account/activity", "/account/statement"])
    expect([path, (await gateway.get(path, customer)).status]).toEqual([path, 200])
  expect(await gateway.stop()).toBe(0)
  expect(gateway.complaints.filter((line) => !line.includes("without paying"))).toEqual([])
  await reconcile(owner.sql)
})

test("what the owner's migrations make later the role may write at once, and a right that is missing is told at the start", async () => {
  const said: unknown[] = []
  const note = (...words: readonly unknown[]) => void said.push(words)
  const start = async () => {
    said.length = 0
    const store = await openStore({
      config: { DATABASE_URL: asRole, DATA_DIR: "/nowhere", DATABASE_CONNECTIONS: 2, EMBEDDED_SYNC: true },
      log: { debug() {}, info() {}, warn: note, error: note },
      fatal: note,
    })
    // As a trigger does that a migration has made, in a statement of a process that runs.
    const written = await store.database
      .run((sql) => sql`insert into made_later (name) values ('x')`)
      .then(() => "written", String)
    await store.close()
    return written
  }
  await owner.sql`create table made_later (id bigint generated always as identity primary key, name text not null)`
  try {
    expect([await start(), said]).toEqual(["written", []])
    await owner.sql.unsafe(`revoke insert on made_later from ${role}`)
    expect(await start()).toContain("permission denied for table made_later")
    expect(said).toEqual([["rights missing", { tables: "made_later", count: 1 }]])
    const more = Array.from({ length: 10 }, (_, at) => `made_later_${at}`)
    await owner.sql.unsafe(
      more.map((name) => `create table ${name} (); revoke select on ${name} from ${role};`).join(" "),
    )
    await start()
    // Ten are named, and all are counted.
    const [[, { tables, count }]] = said as [[string, { tables: string; count: number }]]
    expect([tables.split(" ").length, count]).toEqual([10, 11])
  } finally {
    await owner.sql`drop table made_later`
    for (let at = 0; at < 10; at++) await owner.sql.unsafe(`drop table if exists made_later_${at}`)
  }
})

test("months of records are made for a role that can make no table, and are written through their table alone", async () => {
  const running = directConnection(asRole)
  const last = new Date()
  last.setUTCMonth(last.getUTCMonth() + 3, 1)
  const names = [`usage_${last.toISOString().slice(0, 7).replace("-", "_")}`]
  try {
    for (const name of names) await owner.sql.unsafe(`drop table ${name}`)
    expect(await running.sql`select make_months_1() as made`).toMatchObject([{ made: names }])
    await running.sql`select from usage, charges, all_transfers`
    for (const name of names)
      for (const statement of [`select from ${name}`, `delete from ${name}`, `insert into ${name} select from ${name}`])
        expect(await running.sql.unsafe(statement).then(() => "done", String)).toContain("permission denied")
  } finally {
    await running.end()
  }
})

test.each([
  "update transfers set amount_micro = 1",
  "delete from transfers",
  "truncate transfers",
  "alter table transfers disable trigger all",
  "update charges set amount_micro = 1",
  "delete from charges",
  "truncate charges",
  "delete from charges_other",
  "insert into charges_other (request_id, account_id, amount_micro) values ('req_0', 'acc_0', 1)",
  "update usage set charge_micro = 0",
  "update usage set account_id = 'acc_1'",
  "update usage set request_id = 'req_0'",
  "update usage set charge_micro = 0, status = 'billing_error'",
  "delete from usage",
  "truncate usage",
  "alter table usage disable trigger all",
  "update charges_end set until_call = 'req_z'",
  "insert into archived_charges (archive, account_id, amount_micro) values ('usage_before', 'acc_1', 1)",
  "update audit_log set reason = 'another'",
  "delete from audit_log",
  "update documents set content = '{}'",
  "delete from documents",
  "update proven_keys set charge_micro = 0",
  "insert into proofs (is_full, until_call, until_transfer) values (true, 'req_zzzzzzzzz', 0)",
  "delete from archives",
  "insert into schema_migrations (name, sha256) values ('9999', '')",
  "create table mine (id integer)",
])("what has taken over its role cannot: %s", async (statement) => {
  const taken = directConnection(asRole)
  try {
    expect(await taken.sql.unsafe(statement).then(() => "done", String)).toMatch(/permission denied|must be owner/)
  } finally {
    await taken.end()
  }
})

test("it takes a call back, and what it was charged and that it was taken back are written", async () => {
  const db = openDatabase({ url: asRole, connections: 2 })
  const books = await Books.open({
    url: asRole,
    db,
    sql: owner.sql,
    close: async () => {},
    async [Symbol.asyncDispose]() {},
  })
  try {
    const customer = await books.customer(1_000_000n)
    const [call, late] = [books.settlement(customer), books.settlement({ ...customer, absorbed: 7n })]
    await books.commit(customer.processId, { settlements: [call, late] })
    await books.commit(customer.processId, { settlements: [voidOf(call), late] })
    expect(await books.balance(customer.accountId)).toEqual({ posted: 800_007n, leased: 800_007n })
    const kinds = await owner.sql`
      select split_part(idempotency_key, ':', 1) as kind, amount_micro as amount from transfers
      where split_part(idempotency_key, ':', 2) = ${call.opening.requestId} order by id`
    expect([...kinds]).toEqual([
      { kind: "charge", amount: 200_000n },
      { kind: "void", amount: 200_000n },
    ])
    await reconcile(owner.sql)
  } finally {
    await db.close()
  }
})
