/** Prices and retirements, from what an operator writes into the catalogue to what a mail server has of it. */
import { afterAll, beforeAll, beforeEach, expect, test } from "bun:test"
import { Announcements } from "../../src/accounts/announcement-mails.ts"
import { Deliveries } from "../../src/accounts/deliveries.ts"
import { newRequestId } from "../../src/http/edge.ts"
import { smtpMailer } from "../../src/accounts/owner-mail.ts"
import { type AnnouncementStore, announcementStore } from "../../src/store/announcements.ts"
import { DatabaseUnavailable } from "../../src/store/database.ts"
import { outbox } from "../../src/store/outbox.ts"
import { removeOverdue } from "../../src/store/retention.ts"
import { isAhead } from "../../src/store/sql.ts"
import { openWorld, type World } from "../http/dashboard/world.ts"
import { MailServer } from "./mail-server.ts"

let world: World
let server: MailServer
beforeAll(async () => {
  world = await openWorld()
  server = new MailServer()
})
afterAll(async () => {
  await server.stop()
  await world[Symbol.asyncDispose]()
})
beforeEach(async () => {
  // Nothing of another test is to be announced.
  await world.sql`delete from announced_accounts`
  await world.sql`delete from announcements`
  await world.sql`delete from announcement_rounds`
  await world.sql`delete from outbox`
  await world.sql`delete from model_aliases`
  await world.sql`delete from prices where effective_at > now()`
  server.received.length = 0
  server.refusal = undefined
})

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
const HOLDS = [3, 5, 7, 11] as const
type Rates = readonly [input: number, output: number, cacheRead: number, cacheWrite: number]

/** A price that was saved so many minutes ago. */
const price = (
  model: string,
  [input, output, cacheRead, cacheWrite]: Rates,
  inMs: number,
  savedMinutesAgo = 11,
) => world.sql`
  insert into prices (model, input_micro, output_micro, cache_read_micro, cache_write_micro, effective_at, created_at)
  values (${model}, ${input}, ${output}, ${cacheRead}, ${cacheWrite}, ${new Date(Date.now() + inMs)},
    ${new Date(Date.now() - savedMinutesAgo * 60_000)})`

async function model(name = "A model"): Promise<string> {
  const id = `model-${crypto.randomUUID()}`
  await world.sql`
    insert into models values (${id}, 1, ${name}, 't', 'first', 'text', true, true, 1000, 100, '{chat}', 'first', 'chat', 'a',
      1, '{}', '{}', '{}', '{}')`
  await price(id, HOLDS, -60 * DAY_MS)
  return id
}

/** 10, 20, 30 and 40 tokens. */
async function called(accountId: string, of: string, { ago = 0, status = "ok", tokens = 10 } = {}): Promise<void> {
  const at = new Date(Date.now() - ago)
  await world.sql`
    insert into usage (request_id, part, account_id, key_id, lease_id, model, endpoint, streamed, status, input_tokens,
      output_tokens, cache_read_tokens, cache_write_tokens, charge_micro, absorbed_micro, price_id, turns, attempts,
      error_code, flagged, opened_at, first_token_ms, duration_ms)
    values (${newRequestId(at.getTime())}, 0, ${accountId}, 'key_x', 1, ${of}, 'chat', true, ${status}, ${tokens}, 20, 30, 40,
      ${status === "ok" ? 780 : 0}, 0, 1, 1, 1, ${status === "ok" ? null : "dependency.upstream_unavailable"}, false, ${at}, 5, 900)`
}

async function user(of: string | readonly string[], language = "en") {
  const account = await world.signUp()
  await world.sql`update accounts set language = ${language}, time_zone = 'Asia/Jakarta' where id = ${account.id}`
  for (const id of [of].flat()) await called(account.id, id)
  return account
}

/** One process' look: a minute of it. */
const announce = () => new Announcements(announcementStore(world.db), true).look()
const deliver = async () =>
  new Deliveries({
    outbox: outbox(world.db, true),
    mailer: smtpMailer({ url: `smtp://127.0.0.1:${await server.port}`, from: "Loket <no-reply@loket.example>" }),
    log: { warn: () => {} },
  }).sendMails()
const minutesGoBy = (minutes: number) =>
  world.sql`update announcements set stands_since = stands_since - make_interval(mins => ${minutes})`
/** Two looks: one sees what is there, the next begins what has stood long enough. */
async function tell() {
  await announce()
  await announce()
  await deliver()
}
const subjects = () =>
  server.received.map(({ to, text }) => [to[0], /^Subject: (.*(?:\n .*)*)/m.exec(text)?.[1]?.replaceAll(/\n /g, " ")])
/** Quoted-printable undone. */
const body = (mail: { readonly text: string } | undefined) =>
  Buffer.from(
    (mail?.text ?? "").replaceAll(/=([0-9A-F]{2})/g, (_, code: string) =>
      String.fromCharCode(Number.parseInt(code, 16)),
    ),
    "latin1",
  ).toString()
const written = async () =>
  (await world.sql`select kind from outbox order by kind`).map(({ kind }: Record<string, unknown>) => kind)

test("a coming price is mailed once, with what the page says it makes of one's own last thirty days", async () => {
  const dearer = await model("Kelana")
  const { id, email, token } = await user(dearer)
  await called(id, dearer, { ago: 29 * DAY_MS, tokens: 123_456_789 })
  await called(id, dearer, { status: "upstream_error" })
  await called(id, dearer, { ago: 31 * DAY_MS })
  const begins = Date.UTC(2031, 0, 2, 3, 4, 5)
  await price(dearer, [4, 5, 14, 11], begins - Date.now())
  for (let looks = 0; looks < 3; looks++) await tell()
  expect(subjects()).toEqual([[email, "The price of Kelana at Loket is going to change"]])
  const text = body(server.received[0])
  expect(text).toContain(`- Kelana (${dearer}), from 2 January 2031 at 10:04 GMT+7\n`)
  expect(text).toContain("Price of a million tokens: input Rp 3 → Rp 4, cache read Rp 7 → Rp 14.\n")
  const [told] = (await world.call("GET", "/account/price-changes", { token })).json.data
  expect(told).toMatchObject({ calls: 2, difference_micro: 123_457_219 })
  expect(text).toContain("your last 30 days (2 calls) would have cost Rp 123.457219 more.")
})

test("in Indonesian, at the account's own clock, and cheaper", async () => {
  const cheaper = await model("Kelana")
  await user(cheaper, "id")
  await price(cheaper, [1, 5, 7, 11], Date.UTC(2031, 0, 2, 3, 4, 5) - Date.now())
  await tell()
  expect(subjects()[0]?.[1]).toBe("Harga Kelana di Loket akan berubah")
  expect(server.received[0]?.text).toContain("mulai 2 Januari 2031 pukul 10.04 WIB")
  expect(server.received[0]?.text).toContain("pemakaian 30 hari terakhir Anda (1 panggilan) Rp 0,00002 lebih murah.")
})

test("nobody hears of a price before it has stood for ten minutes, and of one that was taken back by then never", async () => {
  const [kept, slip] = [await model(), await model()]
  const { email } = await user([kept, slip])
  await price(kept, [4, 5, 7, 11], DAY_MS, 0)
  await price(slip, [4_000, 5, 7, 11], DAY_MS, 0)
  await tell()
  await minutesGoBy(9)
  await tell()
  expect(await written()).toEqual([])
  await world.sql`delete from prices where model = ${slip} and effective_at > now()`
  await minutesGoBy(1)
  await tell()
  expect(subjects().map(([to]) => to)).toEqual([email])
  expect(server.received[0]?.text).not.toContain(slip)
})

test("a price that begins within ten minutes of being saved is not announced, nor one of the same rates", async () => {
  const [soon, same] = [await model(), await model()]
  await user([soon, same])
  await price(soon, [4, 5, 7, 11], 9 * 60_000, 0)
  await price(same, HOLDS, DAY_MS)
  await tell()
  await world.sql`update prices set effective_at = now() where model = ${soon} and effective_at > now()`
  await minutesGoBy(10)
  await tell()
  expect(await written()).toEqual([])
})

test("who did not use it lately, whose address is not proved and who has left are written to by nobody", async () => {
  const dearer = await model()
  const [late, unproved, gone, { email }] = [await user([]), await user(dearer), await user(dearer), await user(dearer)]
  await called(late.id, dearer, { ago: 30 * DAY_MS + 2 * HOUR_MS })
  await world.sql`update accounts set email_unproved = true where id = ${unproved.id}`
  await world.sql`update accounts set deleted_at = now() where id = ${gone.id}`
  await price(dearer, [4, 5, 7, 11], DAY_MS)
  await tell()
  expect(subjects().map(([to]) => to)).toEqual([email])
  expect(await written()).toEqual(["price.announced"])
})

test("it goes to the account's own address, not to the one of its alerts", async () => {
  const dearer = await model()
  const { id, email } = await user(dearer)
  await world.sql`update accounts set low_balance_email = 'alerts@example.com' where id = ${id}`
  await price(dearer, [4, 5, 7, 11], DAY_MS)
  await tell()
  expect(subjects().map(([to]) => to)).toEqual([email])
})

test("who has had the alerts of a day, and has more of them waiting, hears of a price all the same", async () => {
  const coming = await model("Dearer")
  const person = await user(coming)
  await world.sql`
    insert into outbox (account_id, channel, kind, data, expires_at, due_at, outcome, tried_at)
    select ${person.id}, 'mail', 'budget.reached', '{}', now() + interval '1 day', case when n > 10 then now() end,
      case when n <= 10 then 'sent' end, now() - interval '1 hour'
    from generate_series(1, 30) n`
  await price(coming, [6, 5, 7, 11], DAY_MS)
  await tell()
  expect(subjects()).toEqual([[person.email, "The price of Dearer at Loket is going to change"]])
  const waiting = await world.sql`select kind from outbox where due_at > now() + interval '22 hours'`
  expect(waiting.map(({ kind }: Record<string, unknown>) => kind)).toEqual(Array(20).fill("budget.reached"))
})

test("what begins to be announced together is one mail to each account, the largest effect first", async () => {
  const [a, b] = [await model("Small"), await model("Large")]
  const both = await user([a, b])
  const one = await user(a)
  await price(a, [4, 5, 7, 11], DAY_MS)
  await price(b, [400, 5, 7, 11], DAY_MS)
  await tell()
  expect(subjects()).toHaveLength(2)
  expect(Object.fromEntries(subjects())).toEqual({
    [both.email]: "The prices of 2 models that you use at Loket are going to change",
    [one.email]: "The price of Small at Loket is going to change",
  })
  const { text } = server.received.find(({ to }) => to[0] === both.email)!
  expect(text.indexOf(`(${b})`)).toBeLessThan(text.indexOf(`(${a})`))
})

test("many processes that look and send at once write one mail to each account for each price", async () => {
  const models = [await model(), await model(), await model()]
  const users = await Promise.all(Array.from({ length: 12 }, () => user(models)))
  for (const id of models) {
    await price(id, [4, 5, 7, 11], DAY_MS)
    await Promise.all(Array.from({ length: 6 }, announce))
  }
  for (let looks = 0; looks < 3; looks++) await Promise.all(Array.from({ length: 6 }, announce))
  await Promise.all([deliver(), deliver(), deliver()])
  const told = await world.sql`
    select o.account_id, c->>'model' as model, count(*)::int as times
    from outbox o, jsonb_array_elements(o.data->'changes') c group by 1, 2`
  expect(told).toHaveLength(users.length * models.length)
  expect([...told].filter(({ times }) => times !== 1)).toEqual([])
})

test("a process that dies between two batches leaves the rest to another, and nobody is told twice", async () => {
  const dearer = await model()
  const users = await Promise.all(Array.from({ length: 7 }, () => user(dearer)))
  await price(dearer, [4, 5, 7, 11], DAY_MS)
  const store = announcementStore(world.db)
  await store.look()
  await store.look()
  let batches = 1
  for (; await announcementStore(world.db).tellNext(2);) batches++
  expect(batches).toBeGreaterThanOrEqual(4)
  await announce()
  expect(await world.sql`select account_id from outbox`).toHaveLength(users.length)
})

test("a process that dies with a mail in its hand sends no second one", async () => {
  const dearer = await model()
  await user(dearer)
  await price(dearer, [4, 5, 7, 11], DAY_MS)
  await announce()
  await announce()
  expect(await outbox(world.db, true).takeMail()).toMatchObject({ kind: "price.announced" })
  for (let looks = 0; looks < 2; looks++) await tell()
  expect(server.received).toEqual([])
  expect(await world.sql`select outcome, problem from outbox`).toMatchObject([
    { outcome: "failed", problem: "unknown" },
  ])
})

test("a price that is taken back is told to those who were told of it, and only once", async () => {
  const dearer = await model("Kelana")
  const { email } = await user(dearer)
  await price(dearer, [4, 5, 7, 11], DAY_MS)
  await tell()
  await user(dearer)
  await world.sql`delete from prices where model = ${dearer} and effective_at > now()`
  for (let looks = 0; looks < 2; looks++) {
    await Promise.all(Array.from({ length: 4 }, announce))
    await deliver()
  }
  expect(subjects()).toEqual([
    [email, "The price of Kelana at Loket is going to change"],
    [email, "The price of Kelana at Loket does not change after all"],
  ])
})

test("a price that the catalogue file changes in its place is taken back, and announced anew once it has stood", async () => {
  const dearer = await model()
  await user(dearer)
  await price(dearer, [4, 5, 7, 11], DAY_MS)
  await tell()
  await world.sql`update prices set input_micro = 6 where model = ${dearer} and effective_at > now()`
  await tell()
  expect(await written()).toEqual(["price.announced", "price.retracted"])
  await minutesGoBy(10)
  await tell()
  expect(await written()).toEqual(["price.announced", "price.announced", "price.retracted"])
  expect(body(server.received[2])).toContain("input Rp 3 → Rp 6.")
})

test("what is taken back while its mail waits is left out of it, and no second mail is sent", async () => {
  const [a, b] = [await model("Kept"), await model("Taken back")]
  const [both, one] = [await user([a, b]), await user(b)]
  await price(a, [4, 5, 7, 11], DAY_MS)
  await price(b, [4, 5, 7, 11], DAY_MS)
  await announce()
  await announce()
  await world.sql`delete from prices where model = ${b} and effective_at > now()`
  await announce()
  await deliver()
  expect(subjects()).toEqual([[both.email, "The price of Kept at Loket is going to change"]])
  expect(server.received[0]?.text).not.toContain(b)
  expect(await world.sql`select problem, due_at from outbox where account_id = ${one.id}`).toMatchObject([
    { problem: "withdrawn", due_at: null },
  ])
})

test("what is taken back while the mail server refuses its mail for now is not mailed later", async () => {
  const [a, b] = [await model("Kept"), await model("Taken back")]
  const [both, one] = [await user([a, b]), await user(b)]
  await price(a, [4, 5, 7, 11], DAY_MS)
  await price(b, [4, 5, 7, 11], DAY_MS)
  await announce()
  await announce()
  const box = outbox(world.db, true)
  const taken = [await box.takeMail(), await box.takeMail()]
  await world.sql`delete from prices where model = ${b} and effective_at > now()`
  await announce()
  for (const mail of taken) {
    if (typeof mail !== "object") throw new Error("two mails were not there")
    await box.putMailBack(mail.id)
  }
  await world.sql`update outbox set due_at = now() where due_at is not null`
  await deliver()
  // Whoever has a mail in hand may have sent it: that is taken back in any case.
  const off = "The price of Taken back at Loket does not change after all"
  expect(subjects().filter(([to]) => to === one.email)).toEqual([[one.email, off]])
  expect(subjects().filter(([to]) => to === both.email)).toEqual([
    [both.email, "The price of Kept at Loket is going to change"],
    [both.email, off],
  ])
  const change = server.received.find(({ text }) => text.includes("price of Kept"))
  expect(change?.text).not.toContain(b)
})

test("of several coming prices the next one is announced, and the one after it when its turn has come", async () => {
  const twice = await model()
  await user(twice)
  await price(twice, [4, 5, 7, 11], DAY_MS)
  await price(twice, [9, 5, 7, 11], 2 * DAY_MS)
  for (let looks = 0; looks < 2; looks++) await tell()
  expect(server.received.map((mail) => body(mail).includes("→ Rp 4."))).toEqual([true])
  // A day goes by.
  await world.sql`update prices set effective_at = effective_at - interval '1 day' where model = ${twice}`
  await world.sql`
    update announcements n set holds_until = p.effective_at,
      terms = jsonb_set(terms, '{begins_at_ms}', to_jsonb((extract(epoch from p.effective_at) * 1000)::bigint))
    from prices p where p.id = (n.terms->>'price_id')::bigint`
  for (let looks = 0; looks < 2; looks++) await tell()
  expect(body(server.received[1])).toContain("input Rp 4 → Rp 9.")
  expect(server.received).toHaveLength(2)
})

test("retiring is announced with its effect, and so is its end; what it is retired to meanwhile is announced anew", async () => {
  const [old, next, other] = [await model("Old"), await model("Next"), await model("Other")]
  await price(next, [13, 5, 7, 11], -DAY_MS)
  const { email } = await user(old)
  await price(old, [4, 5, 7, 11], DAY_MS)
  await world.sql`insert into model_aliases (alias, target, until) values (${old}, ${next}, '2031-01-02T03:04:00Z')`
  await tell()
  expect(await written()).toEqual([])
  await minutesGoBy(10)
  await tell()
  const text = body(server.received[0])
  expect(subjects()).toEqual([[email, "Old is no longer sold at Loket"]])
  expect(text).toContain(`answered and charged as Next (${next}), until 2 January 2031 at 10:04 GMT+7, and`)
  expect(text).toContain("At its successor's price, your last 30 days (1 call) would have cost Rp 0.0001 more.")
  await world.sql`update model_aliases set target = ${other}`
  await tell()
  await minutesGoBy(10)
  await tell()
  await world.sql`delete from model_aliases`
  await tell()
  expect(subjects().slice(1)).toEqual([
    [email, "Old is no longer sold at Loket"],
    [email, "Old is sold again at Loket"],
    // Which would have begun all the while.
    [email, "The price of Old at Loket is going to change"],
  ])
})

test("without a mail server nothing is noted, and what stands when there is one is announced then", async () => {
  const dearer = await model()
  await user(dearer)
  await price(dearer, [4, 5, 7, 11], DAY_MS)
  for (let looks = 0; looks < 3; looks++) await new Announcements(announcementStore(world.db), false).look()
  expect([await written(), [...(await world.sql`select from announcements`)]]).toEqual([[], []])
  await tell()
  expect(server.received).toHaveLength(1)
})

test("a batch that takes too long is tried with fewer accounts, and a process that stops begins no other", async () => {
  const asked: number[] = []
  let most = 8
  const slow: AnnouncementStore = {
    look: async () => {},
    takeBackNext: async () => false,
    tellNext: async (accounts) => {
      asked.push(accounts)
      if (accounts > most) throw new DatabaseUnavailable("too slow")
      return asked.length < 5
    },
  }
  const announcements = new Announcements(slow, true)
  await announcements.look()
  expect(asked).toEqual([200, 40, 8, 40, 8])
  most = 0
  expect(await announcements.look().catch((error: unknown) => error)).toBeInstanceOf(DatabaseUnavailable)
  expect(asked.slice(5)).toEqual([40, 8, 1])
  announcements.stop()
  await announcements.look()
  expect(asked).toHaveLength(8)
})

test("what cannot be taken back any more is forgotten, and is not announced again for that", async () => {
  const [dearer, coming] = [await model(), await model()]
  await user([dearer, coming])
  await price(dearer, [4, 5, 7, 11], DAY_MS)
  await price(coming, [4, 5, 7, 11], 5 * DAY_MS)
  await tell()
  await world.sql`update prices set effective_at = effective_at - interval '60 hours' where model = ${dearer} and input_micro = 4`
  await world.sql`update announcements set holds_until = holds_until - interval '60 hours' where model = ${dearer}`
  await world.sql`delete from allowances where name = 'retention'`
  expect(await removeOverdue(world.db, { erasedAfterDays: 30 })).toMatchObject({
    announced_accounts: 1,
    announcements: 1,
  })
  await tell()
  expect(server.received).toHaveLength(1)
  expect(await world.sql`select model from announcements`).toMatchObject([{ model: coming }])
})

test("four thousand accounts are told a batch at a time, and the mails leave without reading all of them", async () => {
  const [dearer, same] = [await model(), await model()]
  const ACCOUNTS = 4_000
  // With what the trigger writes of each, in one statement.
  await world.sql.begin(async (sql) => {
    await sql`set local session_replication_role = replica`
    await sql`
      with made as (
        insert into accounts (id, email, password_hash)
        select 'acc_many_' || n, 'many' || n || '@example.com', 'x' from generate_series(1, ${ACCOUNTS}) n returning id
      )
      insert into account_events (account_id, action) select id, 'account.created' from made`
  })
  // Every hour of a month for some, and a few for all.
  await world.sql`
    insert into usage_hours
    select 'acc_many_' || n, date_trunc('hour', now(), 'UTC') - make_interval(hours => h), m, 'key_' || n, 'chat', 'ok', 1, 10, 20, 30, 40, 780, 0
    from generate_series(1, ${ACCOUNTS}) n, generate_series(0, case when n % 1000 = 0 then 715 else 2 end) h, unnest(${[dearer, same]}::text[]) m`
  await world.sql`analyze usage_hours`
  await price(dearer, [4, 5, 7, 11], DAY_MS)
  const store = announcementStore(world.db)
  await store.look()
  await store.look()
  let batches = 0
  for (let goesOn = true; goesOn; batches++) goesOn = await store.tellNext(200)
  const [counted] = await world.sql`
    select count(*)::int as mails, count(distinct account_id)::int as accounts from outbox where account_id like 'acc_many_%'`
  expect(counted).toEqual({ mails: ACCOUNTS, accounts: ACCOUNTS })
  expect(batches).toBeLessThan(ACCOUNTS / 200 + 10)
  const rows = outbox(world.db, true)
  for (let n = 0; n < 20; n++) expect(await rows.takeMail()).toMatchObject({ kind: "price.announced" })
  // As `takeMail` finds the next one, once the database knows that there are many: it may have counted them while there were none.
  await world.sql`analyze outbox`
  const isAheadOfClock = isAhead(world.sql, world.sql`greatest(o.created_at, o.tried_at)`)
  const plan = await world.sql<{ "QUERY PLAN": string }[]>`
    explain select id from outbox o where channel = 'mail' and due_at is not null
      and (due_at <= now() or due_at > now() + interval '27 hours' or ${isAheadOfClock}) and expires_at > now()
    order by expires_at, id limit 1 for update skip locked`
  const steps = plan.map((row) => row["QUERY PLAN"]).join("\n")
  expect(steps).toContain("Index Scan using outbox_mails")
  expect(steps).not.toContain("Sort")
  await world.sql`delete from prices where model = ${dearer} and effective_at > now()`
  await store.look()
  while (await store.takeBackNext(200));
  expect((await world.sql`select count(*)::int as n from outbox where problem = 'withdrawn'`)[0]).toEqual({
    n: ACCOUNTS - 20,
  })
  expect((await world.sql`select count(*)::int as n from outbox where kind = 'price.retracted'`)[0]).toEqual({ n: 20 })
})
