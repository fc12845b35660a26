/** Mail of low balances, from the balance in the database to what a mail server has of it. */
import { afterAll, beforeAll, beforeEach, expect, test } from "bun:test"
import { SMTPServer } from "smtp-server"
import { tellLowBalances } from "../../src/accounts/low-balance.ts"
import { type Mailer, smtpMailer } from "../../src/mail/mailer.ts"
import { lowBalanceStore } from "../../src/store/low-balance.ts"
import { openWorld, type World } from "../http/dashboard/world.ts"

interface Received {
  readonly from: string
  readonly to: readonly string[]
  readonly text: string
}

/** A server that takes mail, or answers RCPT TO with a code of the test's. */
class MailServer {
  readonly received: Received[] = []
  refusal: number | undefined
  readonly #server: SMTPServer
  readonly port: Promise<number>

  constructor() {
    this.#server = new SMTPServer({
      authOptional: true,
      disabledCommands: ["STARTTLS"],
      onRcptTo: (_, __, callback) =>
        this.refusal === undefined
          ? callback()
          : callback(Object.assign(new Error("refused"), { responseCode: this.refusal })),
      onData: (stream, session, callback) => {
        const chunks: Buffer[] = []
        stream.on("data", (chunk: Buffer) => chunks.push(chunk))
        stream.on("end", () => {
          const { mailFrom, rcptTo } = session.envelope
          const from = mailFrom === false ? "" : mailFrom.address
          this.received.push({ from, to: rcptTo.map(({ address }) => address), text: plain(Buffer.concat(chunks)) })
          callback()
        })
      },
    })
    this.port = new Promise((resolve) => {
      const listener = this.#server.listen(0, "127.0.0.1", () => {
        const address = listener.address()
        resolve(typeof address === "object" && address !== null ? address.port : 0)
      })
    })
  }

  stop(): Promise<void> {
    return new Promise((resolve) => {
      this.#server.close(() => resolve())
    })
  }
}

/** Quoted-printable undone (RFC 2045, 6.7); all that is written here is ASCII. */
const plain = (raw: Buffer): string => raw.toString("latin1").replaceAll("=\r\n", "").replaceAll("\r\n", "\n")

let world: World
let server: MailServer
let mailer: Mailer
const failures: boolean[] = []
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
  server.received.length = 0
  server.refusal = undefined
  failures.length = 0
})

const look = (by: Mailer = mailer) =>
  tellLowBalances({ store: lowBalanceStore(world.db), mailer: by, failed: (_, again) => void failures.push(again) })
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
  expect(server.received[1]?.text).toContain("Subject: Your Loket balance is down to Rp 12.345\n")
  expect(server.received[1]?.text).toContain("down to Rp 12.345, below the Rp 20.000 that you set")
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
  expect(failures).toEqual([true, true])
  server.refusal = undefined
  await look()
  expect(server.received).toHaveLength(1)
})

test("an address that the server refuses for good is not tried again", async () => {
  await watcher(1)
  server.refusal = 550
  await look()
  server.refusal = undefined
  await look()
  expect([failures, server.received]).toEqual([[false], []])
})
