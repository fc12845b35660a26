/** The places of webhooks, which receivers that failed before share, and looks for what is due, one after the other and at the end. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { Deliveries, type WebhookNetwork } from "../../src/accounts/deliveries.ts"
import { outbox } from "../../src/store/outbox.ts"
import { openWorld, type World } from "../http/dashboard/world.ts"
import { HOST, startReceiver } from "../webhooks/receiver.ts"

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

const deliveriesBy = (network: WebhookNetwork) =>
  new Deliveries({ outbox: outbox(world.db, true), mailer: undefined, log: { warn() {} }, network })

/** An account whose webhook has an event to post. */
async function owner(path: string): Promise<string> {
  const { id, token } = await world.signUp()
  await world.call("PUT", "/account/webhook", { token, body: { url: `https://${HOST}/${path}` } })
  await world.sql`
    insert into outbox (account_id, channel, kind, data, expires_at, due_at)
    values (${id}, 'webhook', 'balance.low', '{"balance_micro": 1}', now() + interval '1 day', now())`
  return id
}

test("those that failed before and hang keep places free for others, look after look", async () => {
  const failing = await Promise.all(Array.from({ length: 20 }, () => owner("hangs")))
  await world.sql`update webhooks set failing_since = now() where account_id in ${world.sql(failing)}`
  receiver.answer(({ url }, response) => void (url === "/hangs" || response.writeHead(204).end()))
  const deliveries = deliveriesBy({ ...receiver.network, timeoutMs: 4_000 })
  // As the chore looks, each second of the ten that a receiver may take.
  for (let looks = 0; looks < 4; looks++) await deliveries.beginWebhooks()
  const quick = await owner("quick")
  await deliveries.beginWebhooks()
  await deliveries.settled()
  expect(receiver.received.filter(({ path }) => path === "/hangs")).toHaveLength(6)
  expect([...(await world.sql`select outcome, attempts from outbox where account_id = ${quick}`)]).toEqual([
    { outcome: "sent", attempts: 1 },
  ])
})

test("what a look has taken when its process is to stop is posted before that has stopped", async () => {
  receiver.answer((_, response) => void setTimeout(() => response.writeHead(204).end(), 300))
  const id = await owner("late")
  const deliveries = deliveriesBy({ ...receiver.network, timeoutMs: 4_000 })
  const looking = deliveries.beginWebhooks()
  await deliveries.stop()
  expect([...(await world.sql`select outcome, attempts from outbox where account_id = ${id}`)]).toEqual([
    { outcome: "sent", attempts: 1 },
  ])
  await looking
})
