/** What was written, and put off, while the database's clock was hours ahead: it does not wait until the clock is there again. */
import { afterAll, beforeAll, beforeEach, expect, test } from "bun:test"
import { Deliveries } from "../../src/accounts/deliveries.ts"
import { sendOwnerMails, smtpMailer } from "../../src/accounts/owner-mail.ts"
import { accountMailStore } from "../../src/store/account-mails.ts"
import { outbox } from "../../src/store/outbox.ts"
import { openWorld, type World } from "../http/dashboard/world.ts"
import { HOST, startReceiver } from "../webhooks/receiver.ts"
import { MailServer } from "./mail-server.ts"

let world: World
let server: MailServer
let receiver: Awaited<ReturnType<typeof startReceiver>>
beforeAll(async () => {
  world = await openWorld({ sendsLinks: true })
  server = new MailServer()
  receiver = await startReceiver()
})
afterAll(async () => {
  receiver.stop()
  await server.stop()
  await world[Symbol.asyncDispose]()
})
beforeEach(async () => {
  await world.sql`delete from account_mails`
  await world.sql`delete from outbox`
  server.received.length = 0
  receiver.reset()
})

const mailer = async () => smtpMailer({ url: `smtp://127.0.0.1:${await server.port}`, from: "no-reply@loket.example" })
async function look() {
  const parts = { outbox: outbox(world.db, true), mailer: await mailer(), log: { warn() {} } }
  const deliveries = new Deliveries({ ...parts, network: receiver.network, random: () => 0 })
  await deliveries.sendMails()
  await deliveries.beginWebhooks()
  await deliveries.settled()
}
const sendLinks = async () =>
  await sendOwnerMails({
    store: accountMailStore(world.db),
    mailer: await mailer(),
    publicUrl: "https://loket.example",
    failed() {},
  })
/** By a clock that is so many hours ahead. */
const alert = async (account: string, ahead: number, by: { channel?: string; sent?: boolean } = {}) =>
  await world.sql`
    insert into outbox (account_id, channel, kind, data, created_at, expires_at, due_at, outcome, tried_at)
    select ${account}, ${by.channel ?? "mail"}, 'balance.low', '{"balance_micro": 1, "threshold_micro": 2}', at, at + interval '9 days',
      case when not ${by.sent === true} then at end, case when ${by.sent === true} then 'sent' end,
      case when ${by.sent === true} then at end
    from (select now() + make_interval(hours => ${ahead}) as at) clock`
async function owner() {
  const { id, token, email } = await world.signUp()
  await world.sql`update accounts set email_unproved = false where id = ${id}`
  await world.call("PUT", "/account/webhook", { token, body: { url: `https://${HOST}/loket` } })
  return { id, email, token }
}

test("a link is mailed once the clock is set back", async () => {
  await world.signUp()
  await world.sql`update account_mails set next_try_at = now() + interval '7 hours'`
  await sendLinks()
  expect(server.received).toHaveLength(1)
})

test("an alert is mailed, though ten were sent by that clock; and no eleventh of one day", async () => {
  const { id } = await owner()
  for (let n = 0; n < 10; n++) await alert(id, 7, { sent: true })
  await alert(id, 7)
  await look()
  expect(server.received).toHaveLength(1)
  for (let n = 0; n < 12; n++) await alert(id, 7)
  await look()
  expect(server.received).toHaveLength(10)
  await look()
  expect(server.received).toHaveLength(10)
})

test("an event is posted, and when it is not taken then comes again after its gap", async () => {
  const { id } = await owner()
  receiver.answer((_, response) => void response.writeHead(500).end())
  await alert(id, 7, { channel: "webhook" })
  await look()
  await look()
  expect(receiver.received).toHaveLength(1)
})

test("an event that a process took by that clock, and did not end, is posted", async () => {
  const { id } = await owner()
  await alert(id, -1, { channel: "webhook" })
  await world.sql`update outbox set tried_at = now() + interval '7 hours', taken_until = now() + interval '7 hours 1 minute'`
  await look()
  expect(receiver.received).toHaveLength(1)
})

test("a test of the webhook is sent, though another was by that clock; and none a moment after it", async () => {
  const { id, token } = await owner()
  await alert(id, 7, { channel: "webhook", sent: true })
  await world.sql`update outbox set kind = 'webhook.test' where account_id = ${id}`
  const ask = async () => (await world.call("POST", "/account/webhook/test", { token })).status
  expect(await ask()).toBe(204)
  expect(await ask()).toBe(400)
  await look()
  expect(receiver.received).toHaveLength(1)
})
