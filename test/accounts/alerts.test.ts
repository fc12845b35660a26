/** Mails of balances and budgets, from what the database has to what a mail server has of it. */
import { afterAll, beforeAll, beforeEach, expect, test } from "bun:test"
import { type AddressInfo, createServer } from "node:net"
import { Deliveries } from "../../src/accounts/deliveries.ts"
import { type Mailer, smtpMailer } from "../../src/accounts/owner-mail.ts"
import { alertStore } from "../../src/store/alerts.ts"
import { outbox, ROWS_A_DAY } from "../../src/store/outbox.ts"
import { openWorld, type World } from "../http/dashboard/world.ts"
import { onPostgres } from "../store/harness.ts"
import { MailServer } from "./mail-server.ts"

let world: World
let server: MailServer
let mailer: Mailer
const failures: unknown[] = []
beforeAll(async () => {
  world = await openWorld()
  server = new MailServer()
  mailer = smtpMailer({ url: `smtp://127.0.0.1:${await server.port}`, from: "Loket <no-reply@loket.example>" })
})
afterAll(async () => {
  await server.stop()
  await world[Symbol.asyncDispose]()
})
beforeEach(async () => {
  // Nobody of another test is to be told.
  await world.sql`update accounts set low_balance_email = null`
  await world.sql`delete from outbox`
  server.received.length = 0
  server.refusal = undefined
  failures.length = 0
})

async function look(by: Mailer = mailer) {
  const alerts = alertStore(world.db, true)
  await alerts.findLowBalances()
  await alerts.findBudgets()
  // A minute goes by for what was put back.
  await world.sql`update outbox set due_at = now() where due_at is not null`
  const log = { warn: (_: string, fields?: object) => void failures.push(fields) }
  await new Deliveries({ outbox: outbox(world.db, true), mailer: by, log }).sendMails()
}
const RP = 1_000_000
const post = (id: string, rupiah: number) =>
  world.sql`update balances set posted_micro = ${rupiah * RP} where account_id = ${id}`
async function watcher(balance: number, settings: object = {}) {
  const { id, token } = await world.signUp()
  await post(id, balance)
  const email = `${crypto.randomUUID()}@example.com`
  const body = { low_balance_email: email, low_balance_threshold_micro: 20_000 * RP, ...settings }
  expect((await world.call("PATCH", "/account", { token, body })).status).toBe(200)
  return { id, token, email }
}

test("one fall is one mail, and the next fall another", async () => {
  const { id, email } = await watcher(20_000)
  await look()
  expect(server.received).toEqual([])
  await post(id, 19_999)
  for (let n = 0; n < 3; n++) await look()
  await post(id, 5_000)
  await look()
  expect(server.received.map(({ to }) => to)).toEqual([[email]])
  await post(id, 20_000)
  await look()
  await post(id, 19_000)
  await look()
  expect(server.received).toHaveLength(2)
})

test("the mail is in the account's language, with both amounts", async () => {
  await watcher(12_345)
  await look()
  const [indonesian] = server.received
  expect(indonesian?.from).toBe("no-reply@loket.example")
  expect(indonesian?.text).toContain("Subject: Saldo Loket Anda tinggal Rp 12.345\n")
  expect(indonesian?.text).toContain("Saldo akun Loket Anda tinggal Rp 12.345, di bawah batas Rp 20.000")
  await watcher(12_345, { language: "en" })
  await look()
  expect(server.received[1]?.text).toContain("Subject: Your Loket balance is down to Rp 12,345\n")
  expect(server.received[1]?.text).toContain("down to Rp 12,345, below the Rp 20,000 that you set")
})

test("several processes that look at once send one mail", async () => {
  await watcher(1)
  await Promise.all(Array.from({ length: 5 }, () => look()))
  expect(server.received).toHaveLength(1)
})

test("without an address or a threshold, or a deleted account, there is none", async () => {
  await watcher(1, { low_balance_email: null })
  await watcher(1, { low_balance_threshold_micro: null })
  const { id } = await watcher(1)
  await world.sql`update accounts set deleted_at = now() where id = ${id}`
  await look()
  expect(server.received).toEqual([])
})

test("who wishes ever something else has five mails a day, to whomever they go", async () => {
  const { id, token } = await watcher(1_000)
  const wish = async () => {
    const body = { low_balance_email: `${crypto.randomUUID()}@example.com` }
    expect((await world.call("PATCH", "/account", { token, body })).status).toBe(200)
    await look()
  }
  for (let wishes = 0; wishes < 8; wishes++) await wish()
  expect(server.received).toHaveLength(5)
  await world.sql`update accounts set low_balance_mails_since = now() - interval '25 hours' where id = ${id}`
  await look()
  expect(server.received).toHaveLength(6)
})

test("another threshold is another wish, and the same one again is not", async () => {
  const { token } = await watcher(1_000)
  await look()
  const patch = (threshold: number) =>
    world.call("PATCH", "/account", { token, body: { low_balance_threshold_micro: threshold * RP } })
  await patch(20_000)
  await look()
  expect(server.received).toHaveLength(1)
  await patch(10_000)
  await look()
  expect(server.received).toHaveLength(2)
})

test("a server that is away, or refuses for now, is tried again", async () => {
  await watcher(1)
  await look(smtpMailer({ url: "smtp://127.0.0.1:1", from: "no-reply@loket.example" }))
  server.refusal = 451
  await look()
  expect(failures).toMatchObject([{ again: true }, { again: true }])
  server.refusal = undefined
  await look()
  expect(server.received).toHaveLength(1)
})

test("a mailbox that is full holds up nobody else's mail", async () => {
  const full = await watcher(1)
  server.refusals.set(full.email, 452)
  await look()
  const others = [await watcher(1), await watcher(1)]
  await look()
  expect(new Set(server.received.map(({ to: [to] }) => to))).toEqual(new Set(others.map(({ email }) => email)))
  expect(failures).toMatchObject([{ again: true }, { again: true }])
  server.refusals.clear()
  await look()
  expect(server.received.at(-1)?.to).toEqual([full.email])
})

test("mails of accounts that are deleted meanwhile hold up nobody else's", async () => {
  const gone = [await watcher(1), await watcher(1)]
  await alertStore(world.db, true).findLowBalances()
  await world.sql`update accounts set deleted_at = now() where id in ${world.sql(gone.map(({ id }) => id))}`
  const { email } = await watcher(1)
  await look()
  expect(server.received.map(({ to }) => to)).toEqual([[email]])
})

test("an address that the server refuses for good is not tried again", async () => {
  await watcher(1)
  server.refusal = 550
  await look()
  server.refusal = undefined
  await look()
  expect([failures, server.received]).toMatchObject([[{ again: false }], []])
})

/** A key with a budget, of which so much is spent in the period that began so long ago. */
async function budget({ token }: { token: string }, limitRp: number, name = "Produksi") {
  const body = { name, spending_limit_micro: limitRp * RP, spending_period: "daily" }
  const made = await world.call("POST", "/keys", { token, body })
  expect(made.status).toBe(201)
  const { id: keyId } = made.json as { id: string }
  const spend = async (rupiah: number, daysAgo = 0) => {
    await world.sql`
      insert into key_spend (key_id, period, period_start, spent_micro)
      values (${keyId}, 'daily',
        date_trunc('day', now() at time zone 'Asia/Jakarta') at time zone 'Asia/Jakarta' - make_interval(days => ${daysAgo}),
        ${rupiah * RP})
      on conflict (key_id, period, period_start) do update set spent_micro = excluded.spent_micro`
    await look()
  }
  const limit = (rupiah: number) =>
    world.call("PATCH", `/keys/${keyId}`, { token, body: { spending_limit_micro: rupiah * RP } })
  return { keyId, spend, limit }
}
const watched = () => watcher(1_000_000, { budget_mails: true })
/** Folded and encoded words made plain (RFC 2047 §4.2). */
const subjects = () =>
  server.received.map(({ text }) =>
    (/Subject: (.*(?:\n .*)*)/.exec(text)?.[1] ?? "")
      .replaceAll(/\?=\s+=\?UTF-8\?Q\?/g, "")
      .replaceAll(/=\?UTF-8\?Q\?|\?=/g, "")
      .replaceAll("_", " ")
      .replaceAll(/=([0-9A-F]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16))),
  )

test("each threshold of a budget is one mail, at its edge, and what is passed over is told as the highest", async () => {
  const person = await watched()
  const { spend } = await budget(person, 100_000)
  await spend(49_999)
  expect(subjects()).toEqual([])
  await spend(50_000)
  await spend(79_999)
  await spend(100_000)
  await spend(100_000)
  expect(subjects()).toEqual([
    'Kunci "Produksi" sudah memakai 50% batas pengeluarannya',
    'Batas pengeluaran kunci "Produksi" habis',
  ])
  expect(server.received[0]?.to).toEqual([person.email])
  expect(server.received[0]?.text).toContain("- Produksi: Rp 50.000 dari Rp 100.000 per hari (50% tercapai)")
})

test("a budget that fell back is told of again, and so is the next period, but not one that is over", async () => {
  const person = await watched()
  const { keyId, spend, limit } = await budget(person, 100_000)
  await spend(90_000, 1)
  expect(subjects()).toEqual([])
  await spend(90_000)
  expect(subjects()).toHaveLength(1)
  await limit(1_000_000)
  await look()
  await limit(100_000)
  await look()
  expect(subjects()).toHaveLength(2)
  // The day turned.
  await world.sql`update budget_alerts set period_start = period_start - interval '1 day' where key_id = ${keyId}`
  await look()
  await look()
  expect(subjects()).toHaveLength(3)
})

test.each([
  // Clocks are put back today, from one o'clock: the Azores and Cuba do so once a year. POSIX counts days of the year from 0.
  ["that has midnight twice begins at the first", "STD5DST4,%s/0,%s/1"],
  ["is the one that processes mean, whose time zones may be of another version", "STD5"],
])("a day %s", async (_, zone) => {
  const person = await watched()
  const { keyId } = await budget(person, 100_000)
  await world.sql`
    update accounts set time_zone = format(${zone}::text, (today + 180) % 365, today)
    from (select extract(doy from now() at time zone 'STD5')::integer - 1 as today) of_year where id = ${person.id}`
  await world.sql`
    insert into key_spend (key_id, period, period_start, spent_micro)
    select ${keyId}, 'daily', date_trunc('day', now() at time zone 'STD5') at time zone 'STD5' - interval '1 hour', ${85_000 * RP}`
  await look()
  expect(subjects()).toHaveLength(1)
})

test("a day that was over when the time zone changed is over in the new one too", async () => {
  const person = await watched()
  const { keyId } = await budget(person, 100_000)
  // The new zone's day has run for 18 hours, and has six of the old zone's yesterday in it.
  await world.sql`
    update accounts set time_zone = format('STD%s', (extract(hour from now() at time zone 'UTC')::integer + 18) % 24 - 12)
    where id = ${person.id}`
  await world.sql`
    insert into running_periods (key_id, period, started_at, own_end, ends_at)
    values (${keyId}, 'daily', now() - interval '1 hour', now() + interval '23 hours', now() + interval '1 day')`
  const spend = (daysAgo: number) => world.sql`
    insert into key_spend (key_id, period, period_start, spent_micro)
    select key_id, period, started_at - make_interval(days => ${daysAgo}), ${85_000 * RP} from running_periods where key_id = ${keyId}`
  await spend(1)
  await look()
  expect(subjects()).toEqual([])
  await spend(0)
  await look()
  expect(subjects()).toHaveLength(1)
})

test("several processes at once tell of all keys of one look in one mail", async () => {
  const person = await watched()
  const one = await budget(person, 100_000, "Satu")
  const two = await budget(person, 100_000, "Dua")
  await world.sql`
    insert into key_spend (key_id, period, period_start, spent_micro)
    select id, 'daily', date_trunc('day', now() at time zone 'Asia/Jakarta') at time zone 'Asia/Jakarta', ${85_000 * RP}
    from api_keys where id in (${one.keyId}, ${two.keyId})`
  await Promise.all(Array.from({ length: 5 }, () => look()))
  expect(subjects()).toEqual(["2 kunci API mendekati atau mencapai batas pengeluaran"])
  expect(server.received[0]?.text).toContain(
    "- Dua: Rp 85.000 dari Rp 100.000 per hari (80% tercapai)\n- Satu: Rp 85.000",
  )
})

test("a mail lists twenty keys and counts the others", async () => {
  const person = await watched()
  for (let n = 10; n < 32; n++) await budget(person, 100_000, `Kunci ${n}`)
  await world.sql`
    insert into key_spend (key_id, period, period_start, spent_micro)
    select id, 'daily', date_trunc('day', now() at time zone 'Asia/Jakarta') at time zone 'Asia/Jakarta', ${85_000 * RP}
    from api_keys where account_id = ${person.id}`
  await look()
  expect(subjects()).toEqual(["22 kunci API mendekati atau mencapai batas pengeluaran"])
  const text = server.received[0]?.text ?? ""
  expect(text.match(/^- Kunci/gm)).toHaveLength(20)
  expect(text).toContain("- Kunci 29: Rp 85.000 dari Rp 100.000 per hari (80% tercapai)\n- dan 2 kunci lain\n")
})

test("who moves limits up and down all day is written no more rows than an account has in a day", async () => {
  const person = await watched()
  const { spend } = await budget(person, 100_000)
  const rows = async () => await world.sql`select from outbox where account_id = ${person.id}`
  await world.sql`
    insert into outbox (account_id, channel, kind, data, expires_at, due_at)
    select ${person.id}, 'webhook', 'budget.reached', '{}', now(), null from generate_series(1, ${ROWS_A_DAY}::int)`
  await spend(60_000)
  await look()
  expect(await rows()).toHaveLength(ROWS_A_DAY)
  await world.sql`
    update outbox set created_at = created_at - interval '1 day' where id in (
      select id from outbox where account_id = ${person.id} limit 1)`
  await spend(90_000)
  await look()
  expect(await rows()).toHaveLength(ROWS_A_DAY + 1)
})

test("budgets of thousands of children that rise together are told of, though the day's rows are nearly used up", async () => {
  // The embedded database takes ten times as long for the same.
  const children = onPostgres ? 5_000 : 1_000
  const people = [await watched(), await watched()]
  for (const { id, token } of people) {
    expect((await world.call("PUT", "/account/webhook", { token, body: { url: "https://example.com/" } })).status).toBe(
      200,
    )
    await world.sql`
      with parent as (
        insert into api_keys (id, account_id, name, key_hash, prefix, last4)
        values (${`key_of_${id}`}, ${id}, 'Induk', sha256(${id}::bytea), 'p', 'l') returning id
      ), children as (
        insert into api_keys (id, account_id, parent_id, name, key_hash, prefix, last4, spending_limit_micro, spending_period)
        select 'key_' || n || ${id}, ${id}, parent.id, 'Anak', sha256((n || ${id})::bytea), 'p', 'l', 1000, 'daily'
        from parent, generate_series(1, ${children}::int) n returning id
      )
      insert into key_spend (key_id, period, period_start, spent_micro)
      select id, 'daily', date_trunc('day', now() at time zone 'Asia/Jakarta') at time zone 'Asia/Jakarta', 900 from children`
    await world.sql`
      insert into outbox (account_id, channel, kind, data, expires_at, due_at)
      select ${id}, 'webhook', 'budget.reached', '{}', now(), null from generate_series(1, ${ROWS_A_DAY - 1}::int)`
  }
  await world.sql`analyze`
  await alertStore(world.db, true).findBudgets()
  const [told] = await world.sql`select count(*)::int as rows from outbox where due_at is not null`
  expect(told).toEqual({ rows: 2 * children })
  await world.sql`delete from webhooks`
})

test("budgets of more accounts than one statement looks at are told of, each account's in one mail", async () => {
  const ACCOUNTS = 201
  await world.sql.begin(async (sql) => {
    await sql`set local session_replication_role = replica`
    await sql`
      with made as (
        insert into accounts (id, email, password_hash, low_balance_email, budget_mails)
        select 'acc_of_' || n, 'of' || n || '@example.com', 'x', 'of' || n || '@example.com', true
        from generate_series(1, ${ACCOUNTS}::int) n returning id
      ), keys as (
        insert into api_keys (id, account_id, name, key_hash, prefix, last4, spending_limit_micro, spending_period)
        select 'key_' || n || made.id, made.id, 'Kunci', sha256((n || made.id)::bytea), 'p', 'l', 1000, 'total'
        from made, generate_series(1, 7) n returning id
      )
      insert into key_spend (key_id, period, period_start, spent_micro) select id, 'total', '2000-01-01', 900 from keys`
  })
  await alertStore(world.db, true).findBudgets()
  const told = await world.sql`
    select account_id, jsonb_array_length(data -> 'keys') as keys from outbox where channel = 'mail' and account_id like 'acc_of_%'`
  expect(told.map(({ keys }) => keys)).toEqual(Array.from({ length: ACCOUNTS }, () => 7))
  expect(new Set(told.map(({ account_id: id }) => id)).size).toBe(ACCOUNTS)
})

test("who does not wish it is not written to of budgets, and nobody more than ten times a day", async () => {
  const quiet = await budget(await watcher(1_000_000), 100_000)
  await quiet.spend(100_000)
  expect(subjects()).toEqual([])
  const person = await watched()
  const { spend, limit } = await budget(person, 100_000)
  await spend(100_000)
  for (let times = 0; times < 12; times++) {
    await limit(1_000_000)
    await look()
    await limit(100_000)
    await look()
  }
  expect(server.received).toHaveLength(10)
  await world.sql`update outbox set tried_at = tried_at - interval '25 hours', expires_at = now() - interval '1 hour'`
  await look()
  expect(server.received).toHaveLength(10)
})

test("one whose mails wait by the thousand, because ten a day were sent, keeps nobody else's from being sent", async () => {
  const loud = await watched()
  await world.sql`
    insert into outbox (account_id, channel, kind, data, created_at, expires_at, due_at, outcome, tried_at)
    select ${loud.id}, 'mail', 'budget.reached', '{}', at, at + interval '1 day', case when n < 4500 then now() end,
      case when n = any(sent) then 'sent' end, case when n = any(sent) then now() - make_interval(hours => 23, mins => n - 5000) end
    from (select array(select generate_series(5001, 5010)) as sent, n, now() - n * interval '17 seconds' as at
      from generate_series(1, ${4 * ROWS_A_DAY}::int) n) rows`
  const { email } = await watcher(1_000)
  await look()
  expect(server.received.map(({ to }) => to)).toEqual([[email]])
  // They wait until the first of the ten is a day old. In minutes.
  const waiting = async () => {
    const [row] = await world.sql`
      select count(*)::int as mails, round(extract(epoch from min(due_at) - now()) / 60)::int as first,
        round(extract(epoch from max(due_at) - now()) / 60)::int as last
      from outbox where account_id = ${loud.id} and due_at is not null`
    return row
  }
  expect(await waiting()).toEqual({ mails: 4499, first: 50, last: 50 })
  await world.sql`
    update outbox set tried_at = tried_at - interval '50 minutes' where account_id = ${loud.id} and outcome = 'sent'`
  await look()
  expect(await waiting()).toEqual({ mails: 4498, first: 1, last: 1 })
})

test("many who have had ten in a day hold up nobody else's mail", async () => {
  for (let n = 0; n < 25; n++) {
    const { id } = await watched()
    await world.sql`
      insert into outbox (account_id, channel, kind, data, expires_at, due_at, outcome, tried_at)
      select ${id}, 'mail', 'budget.reached', '{}', now() + interval '1 hour', case when n > 10 then now() end,
        case when n <= 10 then 'sent' end, now() - interval '1 hour'
      from generate_series(1, 11) n`
  }
  const { email } = await watcher(1_000)
  await look()
  expect(server.received.map(({ to }) => to)).toEqual([[email]])
})

test("a server that lets go of a connection before it knows us has taken nothing; after the message nobody knows", async () => {
  const counted = { connections: 0 }
  /** Lets go of every second connection at once, the first being to ask whether it is there; or of each at the end of its message. */
  const dropping = async (at: "greeting" | "message") => {
    counted.connections = 0
    const listener = createServer((socket) => {
      counted.connections += 1
      socket.on("error", () => {})
      if (at === "greeting" && counted.connections % 2 === 0) socket.destroy()
      else socket.write("220 here\r\n")
      socket.setEncoding("utf8").on("data", (said: string) => {
        if (said.endsWith("\r\n.\r\n")) socket.destroy()
        else if (said.startsWith("DATA")) socket.write("354 go on\r\n")
        else if (/^(?:EHLO|MAIL|RCPT|QUIT)/.test(said)) socket.write("250 well\r\n")
      })
    })
    await new Promise<void>((resolve) => listener.listen(0, "127.0.0.1", resolve))
    const { port } = listener.address() as AddressInfo
    const from = "Loket <no-reply@loket.example>"
    const mail = { to: "ana@mail.id", subject: "one", text: "two" }
    const delivery = await smtpMailer({ url: `smtp://127.0.0.1:${port}`, from }).send(mail)
    listener.close()
    return [delivery, counted.connections]
  }
  expect(await dropping("greeting")).toEqual(["unreachable", 2])
  expect(await dropping("message")).toEqual(["unknown", 2])
})
