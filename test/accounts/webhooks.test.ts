/** Webhooks: from an event in the database to a receiver that may be slow, away or hostile, and back to its owner. */
import { afterAll, beforeAll, beforeEach, expect, test } from "bun:test"
import { Webhook } from "standardwebhooks"
import { systemClock } from "../../actors/kernel/clock.ts"
import { Deliveries, RETRY_DELAYS_MS, type WebhookNetwork } from "../../src/accounts/deliveries.ts"
import { alertStore } from "../../src/store/alerts.ts"
import { outbox } from "../../src/store/outbox.ts"
import { openWorld, PASSWORD, type World } from "../http/dashboard/world.ts"
import { HOST, PUBLIC, type Received, startReceiver } from "../webhooks/receiver.ts"

let world: World
let receiver: Awaited<ReturnType<typeof startReceiver>>
beforeAll(async () => {
  world = await openWorld()
  receiver = await startReceiver()
})
afterAll(async () => {
  receiver.stop()
  await world[Symbol.asyncDispose]()
})
beforeEach(async () => {
  await world.sql`delete from outbox`
  await world.sql`delete from webhooks`
  receiver.reset()
})

const URL_OF_IT = `https://${HOST}/loket`
const path = "/account/webhook"
const deliveriesBy = (network: WebhookNetwork = receiver.network) =>
  new Deliveries({ outbox: outbox(world.db, true), mailer: undefined, log: { warn() {} }, network, random: () => 0 })
/** All that is due is tried once. */
async function look(network?: WebhookNetwork) {
  const deliveries = deliveriesBy(network)
  await deliveries.beginWebhooks()
  await deliveries.settled()
}
async function owner() {
  const { id, token } = await world.signUp()
  const { status, json } = await world.call("PUT", path, { token, body: { url: URL_OF_IT } })
  expect(status).toBe(200)
  const { secret } = json as { secret: string }
  const ask = async (method: string, rest = "", body?: object) => await world.call(method, path + rest, { token, body })
  const last = async () => ((await ask("GET", "/deliveries")).json as { data: Record<string, unknown>[] }).data
  /** An event beside those that the gateway finds. */
  const event = async (n = 1) => {
    await world.sql`
      insert into outbox (account_id, channel, kind, data, expires_at, due_at)
      select ${id}, 'webhook', 'balance.low', '{"balance_micro": 1}', now() + interval '9 days', now() - make_interval(secs => ${n})`
  }
  return { id, token, secret, ask, last, event }
}
/** Whether a secret verifies what came last. */
const verified = (by: string) => {
  const { body, headers } = receiver.received.at(-1) ?? nothing
  try {
    return new Webhook(by).verify(body, headers) !== undefined
  } catch {
    return false
  }
}
const nothing: Received = { path: "", headers: {}, body: "" }
/** Whatever waits is due, as after its gap. */
const gap = () => world.sql`update outbox set due_at = now(), taken_until = null where due_at is not null`

test("a low balance is posted, signed as Standard Webhooks has it", async () => {
  const { id, token, secret, last } = await owner()
  expect(secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/)
  await world.call("PATCH", "/account", { token, body: { low_balance_threshold_micro: 20_000_000_000 } })
  await world.sql`update balances set posted_micro = 19000000000 where account_id = ${id}`
  const alerts = alertStore(world.db, false)
  await Promise.all([alerts.findLowBalances(), alerts.findLowBalances()])
  await look()
  await look()
  expect(receiver.received).toHaveLength(1)
  const { body, headers } = receiver.received[0] ?? nothing
  expect(new Webhook(secret).verify(body, headers)).toMatchObject({
    type: "balance.low",
    timestamp: expect.stringMatching(/^\d{4}-.*Z$/),
    data: { balance_micro: 19_000_000_000, threshold_micro: 20_000_000_000 },
  })
  const another = `whsec_${Buffer.alloc(32, 1).toString("base64")}`
  expect(() => new Webhook(another).verify(body, headers)).toThrow()
  expect(await last()).toMatchObject([
    { id: headers["webhook-id"], type: "balance.low", state: "taken", status: 204, attempts: 1, next_at: null },
  ])
})

test("after a rotation both secrets verify for a day, and then the new one alone", async () => {
  const { id, secret, ask, event } = await owner()
  const rotated = (await ask("POST", "/rotate")).json as { secret: string; webhook: { former_secret_until: string } }
  expect(Date.parse(rotated.webhook.former_secret_until) - Date.now()).toBeGreaterThan(23 * 3_600_000)
  await event()
  await look()
  expect([verified(secret), verified(rotated.secret)]).toEqual([true, true])
  await world.sql`update webhooks set former_until = now() - interval '1 second' where account_id = ${id}`
  await event()
  await look()
  expect([verified(secret), verified(rotated.secret)]).toEqual([false, true])
  // The address changes, the secret does not, and is not shown again.
  expect((await ask("PUT", "", { url: `${URL_OF_IT}/2` })).json).toMatchObject({ secret: null })
  expect((await ask("GET")).text).not.toContain("whsec_")
})

test("a test is sent once in five seconds, and is not tried again", async () => {
  const { ask, last } = await owner()
  receiver.answer((_, response) => void response.writeHead(500).end())
  expect((await ask("POST", "/test")).status).toBe(204)
  expect((await ask("POST", "/test")).status).toBe(400)
  await look()
  await gap()
  await look()
  expect(await last()).toMatchObject([{ type: "webhook.test", state: "failed", status: 500, attempts: 1 }])
  await ask("DELETE")
  expect((await ask("POST", "/test")).status).toBe(400)
  expect((await ask("GET")).json).toEqual({ webhook: null })
  expect((await ask("POST", "/rotate")).status).toBe(404)
})

test("what failed comes again under its id after gaps that grow to a day, and then no more", async () => {
  const { last, event } = await owner()
  receiver.answer((_, response) => void response.writeHead(302, { location: "https://example.com/" }).end())
  await event()
  for (const after of RETRY_DELAYS_MS) {
    await look()
    const [delivery] = await last()
    expect(delivery).toMatchObject({ state: "waiting", status: 302 })
    const waits = Date.parse(String(delivery?.["next_at"])) - Date.now()
    expect(Math.abs(waits - after)).toBeLessThan(3_000)
    // Nor sooner. The first gap may be over by itself.
    const before = receiver.received.length
    if (after > 60_000) await look()
    expect(receiver.received).toHaveLength(before)
    await gap()
  }
  expect(RETRY_DELAYS_MS.at(-1)).toBe(86_400_000)
  await look()
  expect(await last()).toMatchObject([{ state: "failed", attempts: RETRY_DELAYS_MS.length + 1, next_at: null }])
  await gap()
  await look()
  expect(receiver.received).toHaveLength(RETRY_DELAYS_MS.length + 1)
  expect(new Set(receiver.received.map(({ headers }) => headers["webhook-id"])).size).toBe(1)
})

test("after days in which nothing was taken it is turned off, its owner is written to, and saving it turns it on", async () => {
  const { id, ask, last, event } = await owner()
  receiver.answer((_, response) => void response.writeHead(500).end())
  await event()
  await world.sql`update outbox set attempts = ${RETRY_DELAYS_MS.length}`
  await look()
  // The days are not over.
  expect((await ask("GET")).json).toMatchObject({ webhook: { disabled_at: null, failing_since: expect.any(String) } })
  await world.sql`update webhooks set failing_since = now() - interval '73 hours' where account_id = ${id}`
  await event(2)
  await world.sql`update outbox set attempts = ${RETRY_DELAYS_MS.length} where due_at is not null`
  await event()
  await look()
  expect((await ask("GET")).json).toMatchObject({ webhook: { disabled_at: expect.any(String) } })
  expect((await last()).filter(({ problem }) => problem === "disabled")).toHaveLength(1)
  const mails = await world.sql`select kind, data from outbox where channel = 'mail'`
  expect([...mails]).toEqual([{ kind: "webhook.disabled", data: { url: URL_OF_IT } }])
  receiver.reset()
  await event()
  await look()
  expect(receiver.received).toEqual([])
  await world.sql`update outbox set due_at = null where due_at is not null`
  await ask("PUT", "", { url: URL_OF_IT })
  await event()
  await look()
  expect(receiver.received).toHaveLength(1)
  expect((await ask("GET")).json).toMatchObject({ webhook: { disabled_at: null, failing_since: null } })
})

test("a receiver that is gone (410) is turned off at once", async () => {
  const { ask, event } = await owner()
  receiver.answer((_, response) => void response.writeHead(410).end())
  await event()
  await look()
  expect((await ask("GET")).json).toMatchObject({ webhook: { disabled_at: expect.any(String) } })
})

test("what the address before answers turns off no other, and says nothing of it", async () => {
  const { id, ask, event, last } = await owner()
  const box = outbox(world.db, true)
  const taken = async () => {
    await world.sql`update webhooks set url = ${URL_OF_IT} where account_id = ${id}`
    await event()
    const [before] = await box.takeWebhooks(1, 1)
    if (before === undefined) throw new Error("nothing was due")
    await ask("PUT", "", { url: `${URL_OF_IT}/new` })
    return before
  }
  await box.webhookFailed(await taken(), { status: 410 }, undefined, true)
  expect((await ask("GET")).json).toMatchObject({ webhook: { disabled_at: null, failing_since: null } })
  expect(await last()).toMatchObject([{ state: "failed", status: 410 }])
  const late = await taken()
  await world.sql`update webhooks set failing_since = now() where account_id = ${id}`
  await box.webhookTaken(late, 204)
  expect((await ask("GET")).json).toMatchObject({ webhook: { failing_since: expect.any(String) } })
})

test("several processes at once post an event once; one that died in the middle has it posted again under its id", async () => {
  const { event } = await owner()
  await event()
  await Promise.all(Array.from({ length: 5 }, () => look()))
  expect(receiver.received).toHaveLength(1)
  await event()
  await outbox(world.db, true).takeWebhooks(5, 5)
  await look()
  expect(receiver.received).toHaveLength(1)
  await world.sql`update outbox set taken_until = now() where due_at is not null`
  await look()
  expect(receiver.received).toHaveLength(2)
})

test("who was late with writing down an attempt does not undo the next one", async () => {
  const { ask, event, last } = await owner()
  await event()
  const box = outbox(world.db, true)
  const [late] = await box.takeWebhooks(1, 1)
  if (late === undefined) throw new Error("nothing was due")
  await world.sql`update outbox set taken_until = now()`
  await look()
  await box.webhookFailed(late, { problem: "timeout" }, 5_000, false)
  expect(await last()).toMatchObject([{ state: "taken", attempts: 2 }])
  // Nor does a late answer that it was taken, of one that failed since, or that is over.
  receiver.answer((_, response) => void response.writeHead(500).end())
  await event()
  const [slow] = await box.takeWebhooks(1, 1)
  if (slow === undefined) throw new Error("nothing was due")
  await world.sql`update outbox set taken_until = now() where due_at is not null`
  await look()
  await box.webhookTaken(slow, 204)
  await box.webhookFailed(slow, { problem: "timeout" }, 5_000, false)
  expect(await last()).toMatchObject([{ state: "waiting", status: 500, problem: null, attempts: 2 }, {}])
  expect((await ask("GET")).json).toMatchObject({ webhook: { failing_since: expect.any(String) } })
  await world.sql`update outbox set due_at = null, outcome = 'failed' where due_at is not null`
  await box.webhookTaken({ ...slow, attempts: 2 }, 204)
  await box.webhookFailed({ ...slow, attempts: 2 }, { problem: "timeout" }, 5_000, false)
  expect(await last()).toMatchObject([{ state: "failed", status: 500 }, {}])
})

test("one that hangs delays nobody else, and has one place at a time", async () => {
  const slow = await owner()
  const quick = await owner()
  await world.call("PUT", path, { token: slow.token, body: { url: `${URL_OF_IT}/slow` } })
  receiver.answer(({ url }, response) => void (url?.endsWith("slow") || response.writeHead(200).end()))
  for (let n = 1; n <= 40; n++) await slow.event(n)
  await quick.event()
  const deliveries = deliveriesBy({ ...receiver.network, timeoutMs: 3_000 })
  const began = systemClock.running()
  await deliveries.beginWebhooks()
  while ((await quick.last())[0]?.["state"] !== "taken") await Bun.sleep(10)
  expect(systemClock.running() - began).toBeLessThan(2_500)
  await deliveries.beginWebhooks()
  expect(receiver.received.filter(({ path: asked }) => asked.endsWith("slow"))).toHaveLength(1)
  await deliveries.stop()
})

test("one whose events wait by the thousand delays nobody else's", async () => {
  const loud = await owner()
  const quick = await owner()
  // What an account may be written in days without an answer, and what was posted before.
  await world.sql`
    insert into outbox (account_id, channel, kind, data, created_at, expires_at, due_at, outcome)
    select ${loud.id}, 'webhook', 'budget.reached', '{}', now() - n * interval '17 seconds', now() + interval '1 day',
      case when n <= 15000 then now() - n * interval '1 second' end, case when n > 15000 then 'sent' end
    from generate_series(1, 60000) n`
  await quick.event()
  const taken = await outbox(world.db, true).takeWebhooks(6, 2)
  expect(taken.map(({ accountId }) => accountId).sort()).toEqual([loud.id, quick.id].sort())
  const [first] = await world.sql`
    select id from outbox where account_id = ${loud.id} and due_at is not null order by due_at limit 1`
  expect(taken.map(({ id }) => id)).toContain(first?.["id"])
  expect(await outbox(world.db, true).takeWebhooks(6, 2)).toEqual([])
})

test("those that failed before have only a part of the places", async () => {
  const box = outbox(world.db, true)
  const all = await Promise.all(Array.from({ length: 6 }, () => owner()))
  for (const { event } of all) await event()
  await world.sql`update webhooks set failing_since = now() where account_id <> ${all[0]?.id ?? ""}`
  const taken = await box.takeWebhooks(6, 2)
  expect(taken).toHaveLength(3)
  expect(taken.map(({ accountId }) => accountId)).toContain(all[0]?.id ?? "")
})

test("the first place is for who was due first of those whose last delivery was taken", async () => {
  const box = outbox(world.db, true)
  const [ailing, late, early] = [await owner(), await owner(), await owner()]
  await ailing.event(30)
  await late.event(10)
  await early.event(20)
  await world.sql`update webhooks set failing_since = now() where account_id = ${ailing.id}`
  const order: string[] = []
  for (let n = 0; n < 3; n++) order.push(...(await box.takeWebhooks(1, 1)).map(({ accountId }) => accountId))
  expect(order).toEqual([early.id, late.id, ailing.id])
})

test("an address that is not public is not asked, and its owner reads why", async () => {
  const { ask, event, last } = await owner()
  receiver.answers.splice(0, 1, ["10.1.2.3"])
  await event()
  await look()
  expect([receiver.connected, await last()]).toMatchObject([
    [],
    [{ state: "waiting", problem: "address", status: null }],
  ])
  receiver.answers.splice(0, 1, [PUBLIC])
  await gap()
  await look()
  expect(await last()).toMatchObject([{ state: "taken", problem: null, status: 204 }])
  for (const url of [
    "http://example.com/",
    "https://127.0.0.1/",
    "https://example.com:22/",
    "https://a:b@example.com/",
  ])
    expect([url, (await ask("PUT", "", { url })).status]).toEqual([url, 400])
})

test("a deleted account is posted nothing, and what is late is given up", async () => {
  const { id, token, event } = await owner()
  const other = await owner()
  await event()
  await other.event()
  const [kept] = await world.sql`select url from webhooks where account_id = ${id}`
  expect(kept).toEqual({ url: URL_OF_IT })
  expect((await world.call("DELETE", "/account", { token, body: { password: PASSWORD } })).status).toBe(204)
  expect([...(await world.sql`select from webhooks where account_id = ${id}`)]).toEqual([])
  await world.sql`update outbox set expires_at = now() - interval '1 second' where account_id = ${other.id}`
  await outbox(world.db, true).sweep()
  await look()
  expect(receiver.received).toEqual([])
  expect(await other.last()).toMatchObject([{ state: "failed", problem: "late" }])
  expect([...(await world.sql`select from outbox where due_at is not null`)]).toEqual([])
})
