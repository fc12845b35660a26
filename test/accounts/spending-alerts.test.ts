/** Warnings of unusual spending: what is found, told once, and how its owner sets it. */
import { afterAll, beforeAll, beforeEach, expect, test } from "bun:test"
import { Deliveries } from "../../src/accounts/deliveries.ts"
import { firstRequestId, newRequestId } from "../../src/http/edge.ts"
import { type Mailer, smtpMailer } from "../../src/accounts/owner-mail.ts"
import { outbox } from "../../src/store/outbox.ts"
import { spendingAlertStore } from "../../src/store/alerts.ts"
import { openWorld, type World } from "../http/dashboard/world.ts"
import { MailServer } from "./mail-server.ts"

let world: World
let server: MailServer
let mailer: Mailer
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
  await world.sql`truncate usage, usage_hours, outbox, spending_alerts`
  server.received.length = 0
})

const RP = 1_000_000
const MINUTE = 60_000
const HOUR = 60 * MINUTE
const WEEK = 7 * 24 * HOUR

/** An account of some weeks' age, with a key. */
async function owner({ weeks = 5, language = "en" } = {}) {
  const { id, token } = await world.signUp()
  expect((await world.call("PATCH", "/account", { token, body: { language } })).status).toBe(200)
  await world.sql`update accounts set created_at = now() - make_interval(days => ${7 * weeks + 1}) where id = ${id}`
  const key = async (name = "shop") =>
    ((await world.call("POST", "/keys", { token, body: { name } })).json as { id: string }).id
  const breaker = async (body: object) => await world.call("PUT", "/account/breaker", { token, body })
  const alerts = async () =>
    ((await world.call("GET", "/account/breaker", { token })).json as { alerts: Record<string, unknown>[] }).alerts
  return { id, token, key, breaker, alerts }
}

/** A call that was begun so long ago. */
const spend = async (accountId: string, keyId: string, micro: number, { agoMs = 0, durationMs = 1 } = {}) => {
  const at = Date.now() - agoMs
  await world.sql`
    insert into usage (request_id, part, account_id, key_id, lease_id, model, endpoint, streamed, status, input_tokens,
      output_tokens, cache_read_tokens, cache_write_tokens, charge_micro, absorbed_micro, excess_micro, price_id, turns, attempts,
      flagged, opened_at, duration_ms)
    values (${newRequestId(at)}, 0, ${accountId}, ${keyId}, 0, 'plain', 'chat', false, 'ok', 0, 0, 0, 0, ${micro}, 0, 0, 1, 1, 1,
      false, ${new Date(at)}, ${durationMs})`
}

/** One look; returns the accounts that have something new to hear. */
async function look(sendsMail = true) {
  const store = spendingAlertStore({ database: world.db, sendsMail, tells: false, firstId: firstRequestId })
  const found = await store.find(Date.now())
  await new Deliveries({ outbox: outbox(world.db, true), mailer, log: { warn() {} } }).sendMails()
  return found
}

test("a ceiling is passed by one micro-rupiah and not by being reached, of a key and of an account", async () => {
  const { id, token, key, breaker, alerts } = await owner()
  const [first, second] = [await key("first"), await key("second")]
  const { status, json } = await world.call("PUT", `/keys/${first}/breaker`, { token, body: { ceiling_micro: 700 } })
  expect([status, json]).toEqual([200, { ceiling_micro: 700, action: "warn", pause_minutes: null }])
  expect((await breaker({ ceiling_micro: 1_000, factor: null })).status).toBe(200)
  await spend(id, first, 700)
  await spend(id, second, 300)
  expect(await look()).toEqual([])
  await spend(id, second, 1)
  expect(await look()).toEqual([id])
  expect(await alerts()).toMatchObject([{ key_id: null, why: "ceiling", spent_micro: 1_001, threshold_micro: 1_000 }])
  await spend(id, first, 1)
  expect(await look()).toEqual([id])
  expect(await alerts()).toMatchObject([
    { key_id: null, spent_micro: 1_002 },
    { key_id: first, key_name: "first", why: "ceiling", spent_micro: 701, threshold_micro: 700 },
  ])
  expect(server.received).toHaveLength(2)
})

test("of a ceiling that stops, the breaker tells; what is unusual is told all the same", async () => {
  const { id, token, key, breaker, alerts } = await owner()
  const only = await key()
  const stop = { ceiling_micro: 700, action: "stop" }
  expect((await world.call("PUT", `/keys/${only}/breaker`, { token, body: stop })).status).toBe(200)
  expect((await breaker({ ...stop, factor: 10 })).status).toBe(200)
  // Spent before the ceiling was set, or by calls that it let through.
  await spend(id, only, 900)
  expect(await look()).toEqual([])
  await spend(id, only, 100_000 * RP)
  expect(await look()).toEqual([id])
  expect(await alerts()).toMatchObject([
    { key_id: null, why: "usual" },
    { key_id: only, why: "usual" },
  ])
})

test("only the last ten minutes count, of calls that ended in them", async () => {
  const { id, key, breaker, alerts } = await owner()
  const only = await key()
  await breaker({ ceiling_micro: 100, factor: null })
  await spend(id, only, 90, { agoMs: 10 * MINUTE + 1_000 })
  await spend(id, only, 90)
  expect(await look()).toEqual([])
  // Begun before, and ended now; what was begun more than half an hour ago is not looked for.
  await spend(id, only, 1_000, { agoMs: 30 * MINUTE + 1_000, durationMs: 30 * MINUTE })
  expect(await look()).toEqual([])
  await spend(id, only, 11, { agoMs: 29 * MINUTE, durationMs: 28 * MINUTE })
  expect(await look()).toEqual([id])
  expect(await alerts()).toMatchObject([{ spent_micro: 101 }])
})

test("an episode is told once, and again after an hour of quiet; what was dismissed is not shown", async () => {
  const { id, token, key, breaker, alerts } = await owner({ language: "id" })
  const only = await key("toko")
  await breaker({ ceiling_micro: 5_000 * RP, factor: null })
  await spend(id, only, 6_000 * RP)
  expect(await look()).toEqual([id])
  expect(await look()).toEqual([])
  const [mail] = server.received
  expect(mail?.text).toContain("Subject: Pengeluaran akun Loket Anda tidak seperti biasa\n")
  expect(mail?.text).toContain("Semua kunci: Rp 6.000, di atas batas Rp 5.000 yang Anda tetapkan")
  expect((await world.call("POST", "/account/breaker/dismiss", { token })).status).toBe(204)
  expect(await alerts()).toEqual([])
  await spend(id, only, 1)
  expect(await look()).toEqual([])
  expect(await alerts()).toEqual([])
  await world.sql`update spending_alerts set last_at = now() - interval '59 minutes', since = now() - interval '2 hours'`
  expect(await look()).toEqual([])
  await world.sql`update spending_alerts set last_at = now() - interval '61 minutes', since = now() - interval '2 hours'`
  expect(await look()).toEqual([id])
  expect(await alerts()).toHaveLength(1)
  expect(server.received).toHaveLength(2)
})

test("processes that look at once tell an episode once", async () => {
  const { id, key, breaker } = await owner()
  await breaker({ ceiling_micro: 1, factor: null })
  await spend(id, await key(), 2)
  const store = spendingAlertStore({ database: world.db, sendsMail: true, tells: false, firstId: firstRequestId })
  const found = await Promise.all(Array.from({ length: 5 }, () => store.find(Date.now())))
  expect(found.flat()).toEqual([id])
  expect(await world.sql`select 1 from outbox`).toHaveLength(1)
})

test("ten times the usual of the hour is told, by the mean of the weeks that the account has; less than the floor is not", async () => {
  const week = async (id: string, key: string, weeks: number, rupiah: number) =>
    await spend(id, key, rupiah * RP, { agoMs: weeks * WEEK })
  // Four weeks of Rp 60,000 in this hour are Rp 10,000 in ten minutes.
  const settled = await owner()
  const shop = await settled.key()
  for (const weeks of [1, 2, 3, 4]) await week(settled.id, shop, weeks, 60_000)
  await spend(settled.id, shop, 100_000 * RP)
  expect(await look()).toEqual([])
  await spend(settled.id, shop, 1)
  expect(await look()).toEqual([settled.id])
  expect(await settled.alerts()).toMatchObject([
    { key_id: null, why: "usual", spent_micro: 100_000 * RP + 1, threshold_micro: 100_000 * RP },
    { key_id: shop, why: "usual" },
  ])
  // Two weeks old: the mean of two.
  const young = await owner({ weeks: 2 })
  const lab = await young.key()
  await week(young.id, lab, 1, 60_000)
  await week(young.id, lab, 2, 60_000)
  await spend(young.id, lab, 100_000 * RP)
  expect(await look()).toEqual([])
  // A quiet hour: up to the floor nothing is unusual.
  const quiet = await owner()
  const cron = await quiet.key()
  await spend(quiet.id, cron, 10_000 * RP)
  expect(await look()).toEqual([])
  await spend(quiet.id, cron, 1)
  expect(await look()).toEqual([quiet.id])
})

test("an account that has no week yet is not told what is unusual, nor one that turned it off, but its ceiling holds", async () => {
  const fresh = await owner({ weeks: 0 })
  await spend(fresh.id, await fresh.key(), 900_000 * RP)
  const off = await owner()
  await off.breaker({ ceiling_micro: null, factor: null })
  await spend(off.id, await off.key(), 900_000 * RP)
  expect(await look()).toEqual([])
  await fresh.breaker({ ceiling_micro: 899_999 * RP, factor: 10 })
  expect(await look()).toEqual([fresh.id])
})

test("nobody writes to an unproved address or without a mail server; the webhook hears of each", async () => {
  const { id, token, key, breaker } = await owner()
  const only = await key("shop")
  await world.call("PUT", "/account/webhook", { token, body: { url: "https://hooks.example.com/" } })
  await world.sql`update accounts set email_unproved = true where id = ${id}`
  await breaker({ ceiling_micro: 1, factor: null })
  await world.call("PUT", `/keys/${only}/breaker`, { token, body: { ceiling_micro: 1 } })
  await spend(id, only, 2)
  expect(await look()).toEqual([id])
  const rows = await world.sql<
    { channel: string; data: object }[]
  >`select channel, data from outbox order by data->>'key_id'`
  expect(rows.map(({ channel }) => channel)).toEqual(["webhook", "webhook"])
  expect(rows[0]?.data).toMatchObject({
    key_id: only,
    key_name: "shop",
    why: "ceiling",
    spent_micro: 2,
    threshold_micro: 1,
  })
  await world.sql`truncate spending_alerts, outbox`
  await world.sql`update accounts set email_unproved = false where id = ${id}`
  expect(await look(false)).toEqual([id])
  expect(await world.sql`select 1 from outbox where channel = 'mail'`).toHaveLength(0)
})

test("bad settings are refused and change nothing; warnings that nobody sees any more go", async () => {
  const { token, key, breaker } = await owner()
  const only = await key()
  await breaker({ ceiling_micro: 5, factor: 3 })
  for (const body of [
    {},
    { ceiling_micro: 0, factor: 3 },
    { ceiling_micro: 1.5, factor: 3 },
    { ceiling_micro: "5", factor: 3 },
    { ceiling_micro: 5, factor: 1 },
    { ceiling_micro: 5, factor: 3, action: "slow" },
    { ceiling_micro: 5, factor: 3, pause_minutes: 0 },
    { ceiling_micro: 5, factor: 3, pause_minutes: 10_081 },
    { ceiling_micro: 5, factor: 1_001 },
    { ceiling_micro: 2 ** 53, factor: 3 },
  ]) {
    expect([body, (await breaker(body)).status]).toEqual([body, 400])
  }
  expect((await world.call("GET", "/account/breaker", { token })).json).toEqual({
    ceiling_micro: 5,
    factor: 3,
    action: "warn",
    pause_minutes: null,
    paused: null,
    alerts: [],
  })
  expect((await world.call("PUT", `/keys/${only}/breaker`, { token, body: { ceiling_micro: -1 } })).status).toBe(400)
  const stranger = await owner()
  for (const id of [only, "key_none", "%00"]) {
    const { status } = await world.call("PUT", `/keys/${id}/breaker`, {
      token: stranger.token,
      body: { ceiling_micro: 1 },
    })
    expect([id, status]).toEqual([id, 404])
  }
  await world.sql`
    insert into spending_alerts (owner_id, account_id, why, spent_micro, threshold_micro, last_at)
    select 'old', id, 'usual', 1, 1, now() - interval '8 days' from accounts limit 1`
  await spendingAlertStore({ database: world.db, sendsMail: true, tells: false, firstId: firstRequestId }).removeOld()
  expect(await world.sql`select 1 from spending_alerts`).toHaveLength(0)
})
