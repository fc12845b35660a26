/** Addresses that are proved, addresses that change, and forgotten passwords: over HTTP, with a real mail server. */
import { afterAll, beforeAll, beforeEach, expect, test } from "bun:test"
import { type Mailer, mailLimits, sendOwnerMails, smtpMailer } from "../../src/accounts/owner-mail.ts"
import { accountMailStore } from "../../src/store/account-mails.ts"
import { alertStore } from "../../src/store/alerts.ts"
import { memberStore } from "../../src/store/members.ts"
import { outbox } from "../../src/store/outbox.ts"
import { LEGAL_VERSION, openWorld, PASSWORD, type World } from "../http/dashboard/world.ts"
import { MailServer, type Received } from "./mail-server.ts"

let world: World
let server: MailServer
beforeAll(async () => {
  world = await openWorld({ sendsLinks: true, addressHeader: "X-Real-IP" })
  server = new MailServer()
})
afterAll(async () => {
  await server.stop()
  await world[Symbol.asyncDispose]()
})
beforeEach(async () => {
  await world.sql`delete from account_mails`
  await world.sql`delete from allowances`
  server.received.length = 0
  server.refusal = undefined
})

const PUBLIC_URL = "https://loket.example"
const send = async (port?: number) => {
  const mailer = smtpMailer({ url: `smtp://127.0.0.1:${port ?? (await server.port)}`, from: "no-reply@loket.example" })
  const failures: boolean[] = []
  await sendOwnerMails({
    store: accountMailStore(world.db),
    mailer,
    publicUrl: PUBLIC_URL,
    failed: (_, again) => void failures.push(again),
  })
  return failures
}
const linkOf = (mail: Received | undefined, page: string) =>
  new RegExp(`${PUBLIC_URL}/dashboard/${page}#([A-Za-z0-9_-]{43})\\s`).exec(mail?.text ?? "")?.[1] ?? ""
const NEW = "a new password of mine"
const post = (path: string, body: unknown, token?: string) =>
  world.call("POST", path, { body, ...(token !== undefined && { token }) })
const signIn = (email: string, password: string) => post("/auth/sign-in", { email, password })
/** Signed up, and the mail of it taken away. */
async function someone() {
  const person = await world.signUp()
  await world.sql`delete from account_mails`
  await world.sql`delete from allowances`
  return person
}
async function forgotten(email: string): Promise<string> {
  expect((await post("/auth/password/forgotten", { email })).status).toBe(204)
  // The row comes after the answer.
  for (;;) {
    const rows =
      await world.sql`select from account_mails where kind = 'reset' and lower(email) = lower(${email}) and tries = 0`
    if (rows.length > 0) break
    await Bun.sleep(10)
  }
  await send()
  return linkOf(server.received.at(-1), "reset-password")
}

test("a new account's address is proved by the link that is sent to it, once, and by its owner alone", async () => {
  const stranger = await someone()
  const { email, token } = await world.signUp()
  const elsewhere = (await signIn(email, PASSWORD)).json.session_token
  const account = () => world.call("GET", "/account", { token })
  expect((await account()).json.email_proved).toBe(false)
  await send()
  expect(server.received.map(({ to }) => to)).toEqual([[email]])
  const link = linkOf(server.received[0], "prove-email")
  expect((await post("/auth/email/prove", { token: link }, stranger.token)).status).toBe(400)
  expect((await post("/auth/email/prove", { token: link })).status).toBe(401)
  expect((await post("/auth/email/prove", { token: link }, token)).json.email_proved).toBe(true)
  expect((await account()).json.email_proved).toBe(true)
  // It is the same address as before.
  expect((await world.call("GET", "/account", { token: elsewhere })).status).toBe(200)
  expect((await post("/auth/email/prove", { token: link }, token)).status).toBe(400)
  // There is nothing left to prove, so nothing is sent.
  expect((await post("/auth/email/send-again", undefined, token)).status).toBe(204)
  await send()
  expect(server.received).toHaveLength(1)
})

test("an account from before has nothing to prove", async () => {
  const { id, token } = await someone()
  await world.sql`update accounts set email_unproved = default where id = ${id}`
  expect((await world.call("GET", "/account", { token })).json.email_proved).toBe(true)
})

test("an address that is not proved is sent no alert", async () => {
  const { id, token } = await someone()
  const body = { low_balance_email: "alerts@example.com", low_balance_threshold_micro: 1_000_000 }
  await world.call("PATCH", "/account", { token, body })
  const next = async () => {
    await alertStore(world.db, true).findLowBalances()
    return await outbox(world.db, true).takeMail()
  }
  expect(await next()).toBeUndefined()
  await world.sql`update accounts set email_unproved = false where id = ${id}`
  expect(await next()).toMatchObject({ email: "alerts@example.com" })
})

/** So much time goes by for all mails. */
const after = (time: string) => world.sql`update account_mails set expires_at = expires_at - ${time}::interval`

/** What a new address, a change of it and a new password answer when their links are so old. */
const statuses = async (day: string, halfHour: string) => {
  const fresh = await world.signUp()
  await send()
  const proof = linkOf(server.received.at(-1), "prove-email")
  await after(day)
  const proved = await post("/auth/email/prove", { token: proof }, fresh.token)
  const { email, token } = await someone()
  await post("/auth/email", { email: `${crypto.randomUUID()}@example.com`, password: PASSWORD }, token)
  await send()
  const change = linkOf(server.received.at(-1), "prove-email")
  await after(day)
  const changed = await post("/auth/email/prove", { token: change }, token)
  const link = await forgotten(changed.status === 200 ? changed.json.email : email)
  await after(halfHour)
  return [proved, changed, await post("/auth/password/reset", { token: link, new: NEW })].map(({ status }) => status)
}

test("a link is over after its time: of an address a day, of a password half an hour", async () => {
  expect(await statuses("23:59:30", "00:29:30")).toEqual([200, 200, 204])
  expect(await statuses("24:00:00", "00:30:00")).toEqual([400, 400, 400])
})

test("who asks again and again is sent five mails an hour, and told when there is another", async () => {
  const { token } = await someone()
  const asked: number[] = []
  for (let n = 0; n <= mailLimits.ofAccount; n++)
    asked.push((await post("/auth/email/send-again", undefined, token)).status)
  expect(asked).toEqual([204, 204, 204, 204, 204, 429])
  const { json, headers } = await post("/auth/email/send-again", undefined, token)
  expect(json.code).toBe("rate_limit.mail")
  expect(Number(headers.get("retry-after"))).toBeGreaterThan(3_500)
  await world.sql`update allowances set ends_at = now() - interval '1 second'`
  expect((await post("/auth/email/send-again", undefined, token)).status).toBe(204)
})

test("an account asks for five mails an hour, to whatever addresses", async () => {
  const { token } = await someone()
  const asked: number[] = []
  for (let n = 0; n <= mailLimits.ofAccount; n++) {
    const body = { email: `${crypto.randomUUID()}@example.com`, password: PASSWORD }
    asked.push((await post("/auth/email", body, token)).status)
  }
  expect(asked).toEqual([200, 200, 200, 200, 200, 429])
})

test("an address is sent five mails an hour, whoever asks, wherever from, and whether or not it has an account", async () => {
  const { email } = await someone()
  for (const address of [email, `${crypto.randomUUID()}@example.com`]) {
    const ask = (n: number) =>
      world.call("POST", "/auth/password/forgotten", {
        body: { email: n % 2 === 0 ? address : address.toUpperCase() },
        headers: { "X-Real-IP": `192.0.2.${n}` },
      })
    const asked = await Promise.all(Array.from({ length: 8 }, (_, n) => ask(n)))
    expect(asked.filter(({ status }) => status === 204)).toHaveLength(mailLimits.toAddress)
    expect(asked.filter(({ status }) => status === 429)).toHaveLength(8 - mailLimits.toAddress)
  }
})

test("what is done over and over before its mails are begun is told a few times, and keeps nobody else's mail waiting", async () => {
  const [owner, member, other] = [await someone(), await someone(), await someone()]
  await world.sql`insert into members (account_id, member_id, role, invited_by, invitation_hash)
    values (${owner.id}, ${member.id}, 'viewer', ${owner.id}, ${Buffer.from(member.id)})`
  const store = memberStore(world.db)
  const raise = async () => {
    const name = { accountId: owner.id, memberId: member.id }
    for (const role of ["developer", "viewer"] as const) await store.changeRole(name, role, owner.id, ["viewer"])
  }
  for (let n = 0; n < 30; n++) await raise()
  await forgotten(other.email)
  const few = Array.from({ length: 5 }, () => [owner.email])
  expect(server.received.map(({ to }) => to)).toEqual([...few, [other.email]])
  await raise()
  await send()
  expect(server.received.map(({ to }) => to)).toEqual([...few, [other.email], [owner.email]])
})

test("all spellings of an address that reach one person are one address to the limit", async () => {
  const name = crypto.randomUUID()
  const spellings = ["", "+a", "+b", "+c", "+d", "+e", "+f"].flatMap((tag) => [
    `${name}${tag}@example.com`,
    `"${name}${tag}"@ｅxample.com`,
  ])
  const asked = await Promise.all(
    spellings.map((email, n) =>
      world.call("POST", "/auth/password/forgotten", {
        body: { email },
        headers: { "X-Real-IP": `192.0.2.${100 + n}` },
      }),
    ),
  )
  expect(asked.filter(({ status }) => status === 204)).toHaveLength(mailLimits.toAddress)
})

test("mails of one kind that strangers ask for keep nobody from another kind", async () => {
  const [victim, stranger] = [await someone(), await someone()]
  for (let n = 0; n < mailLimits.toAddress; n++)
    expect((await post("/auth/email", { email: victim.email, password: PASSWORD }, stranger.token)).status).toBe(400)
  expect((await post("/auth/email", { email: victim.email, password: PASSWORD }, stranger.token)).status).toBe(429)
  expect(linkOf((await forgotten(victim.email), server.received.at(-1)), "reset-password")).not.toBe("")
  await world.sql`delete from allowances`
  expect((await post("/auth/email/send-again", undefined, victim.token)).status).toBe(204)
})

test("who asks for a new password where its owner signs in is not kept waiting by who asks elsewhere", async () => {
  const { email } = await someone()
  const ask = (address: string, from: string) =>
    world.call("POST", "/auth/password/forgotten", { body: { email: address }, headers: { "X-Real-IP": from } })
  const body = { email, password: PASSWORD }
  await world.call("POST", "/auth/sign-in", { body, headers: { "X-Real-IP": "192.0.2.50" } })
  // Another one's home is none of theirs.
  const another = { email: (await someone()).email, password: PASSWORD }
  await world.call("POST", "/auth/sign-in", { body: another, headers: { "X-Real-IP": "192.0.2.51" } })
  // Nothing is sent: there is no such account.
  const spelt = (n: number) => email.replace("@", `+${n}@`)
  for (let n = 0; n < mailLimits.toAddress; n++) expect((await ask(spelt(n), `192.0.2.${n}`)).status).toBe(204)
  expect((await ask(email, "192.0.2.51")).status).toBe(429)
  const atHome = await Promise.all(Array.from({ length: 8 }, () => ask(email, "192.0.2.50")))
  expect(atHome.filter(({ status }) => status === 204)).toHaveLength(mailLimits.toAddress)
})

const askFrom = (address: string) =>
  world.call("POST", "/auth/password/forgotten", {
    body: { email: `${crypto.randomUUID()}@example.com` },
    headers: { "X-Real-IP": address },
  })

test("the networks of one IPv6 /48 do not use up the mails of the gateway", async () => {
  const asked = await Promise.all(
    Array.from({ length: mailLimits.fromSite + 10 }, (_, n) => askFrom(`2001:db8:7:${n.toString(16)}::1`)),
  )
  expect(asked.filter(({ status }) => status === 429)).toHaveLength(10)
  expect((await askFrom("2001:db8:8::1")).status).toBe(204)
})

test("one network asks for thirty in an hour", async () => {
  for (let n = 0; n < mailLimits.fromNetwork; n++) expect((await askFrom("192.0.2.1")).status).toBe(204)
  expect((await askFrom("192.0.2.1")).status).toBe(429)
  expect((await askFrom("192.0.2.2")).status).toBe(204)
})

/** Asks for a new password, and resolves when that is kept. */
async function keptFor(email: string, from: string): Promise<void> {
  const asked = { body: { email }, headers: { "X-Real-IP": from } }
  expect((await world.call("POST", "/auth/password/forgotten", asked)).status).toBe(204)
  const kept = () => world.sql`select from account_mails where kind = 'reset' and lower(email) = lower(${email})`
  while ((await kept()).length === 0) await Bun.sleep(10)
}
const usedByStrangers = async () => {
  const [row] = await world.sql<{ used: number }[]>`select used::int as used from allowances where name = 'mail'`
  return row?.used ?? 0
}

test("strangers use up none of the gateway's mails by asking for addresses that have no account", async () => {
  const { email } = await someone()
  await Promise.all(Array.from({ length: 20 }, (_, n) => askFrom(`192.0.2.${n}`)))
  await keptFor(email, "192.0.2.70")
  expect(await usedByStrangers()).toBe(1)
})

test("the gateway sends strangers no more than its own in an hour, and tells nobody; owners have theirs apart", async () => {
  const [one, other, owner] = [await someone(), await someone(), await someone()]
  await keptFor(one.email, "192.0.2.71")
  await world.sql`update allowances set used = ${mailLimits.ofGateway - 1} where name = 'mail'`
  await keptFor(other.email, "192.0.2.71")
  expect(await usedByStrangers()).toBe(mailLimits.ofGateway)
  await world.sql`delete from account_mails`
  const asked = { body: { email: one.email }, headers: { "X-Real-IP": "192.0.2.71" } }
  expect((await world.call("POST", "/auth/password/forgotten", asked)).status).toBe(204)
  await Bun.sleep(200)
  expect(await world.sql`select from account_mails`).toHaveLength(0)

  // Where its owner signs in.
  await keptFor(owner.email, "127.0.0.1")
  expect((await post("/auth/email/send-again", undefined, owner.token)).status).toBe(204)
  await world.sql`update allowances set used = ${mailLimits.ofGateway} where name = 'mail of owners'`
  expect((await post("/auth/email/send-again", undefined, owner.token)).status).toBe(429)
})

test("a forgotten password is replaced once, and every session ends", async () => {
  const { id, email, token } = await someone()
  const networks = () => world.sql`select from account_networks where account_id = ${id}`
  expect(await networks()).toHaveLength(1)
  const link = await forgotten(email)
  expect((await post("/auth/password/reset", { token: link, new: "short" })).status).toBe(400)
  expect((await reset(link)).status).toBe(204)
  // Whoever signed in before may have been somebody else.
  expect(await networks()).toHaveLength(0)
  expect((await world.call("GET", "/account", { token })).status).toBe(401)
  expect((await signIn(email, PASSWORD)).status).toBe(401)
  expect((await signIn(email, NEW)).json.account.email_proved).toBe(true)
  expect((await reset(link)).status).toBe(400)
  await send()
  expect(server.received.map(({ text }) => /Subject: (.*)/.exec(text)?.[1])).toEqual([
    "Buat kata sandi baru untuk akun Loket Anda",
    "Kata sandi baru untuk akun Loket Anda",
  ])
})

test("two uses of one link at once are one, and so are uses of two links", async () => {
  const { email } = await someone()
  const links = [await forgotten(email), await forgotten(email)]
  const uses = [links[0], links[0], links[1], links[1]].map((token, n) =>
    post("/auth/password/reset", { token, new: `the new password ${n}` }),
  )
  const statuses = (await Promise.all(uses)).map(({ status }) => status)
  expect(statuses.filter((status) => status === 204)).toHaveLength(1)
  expect(statuses.filter((status) => status === 400)).toHaveLength(3)
  expect((await signIn(email, `the new password ${statuses.indexOf(204)}`)).status).toBe(200)
})

async function diesWith(how: (person: { id: string; token: string; email: string }) => Promise<unknown>) {
  const person = await someone()
  const link = await forgotten(person.email)
  await how(person)
  expect((await post("/auth/password/reset", { token: link, new: NEW })).status).toBe(400)
}

test("a link for a password dies with the old password, with the address and with the account", async () => {
  await diesWith(({ token }) => post("/auth/password", { current: PASSWORD, new: NEW }, token))
  await diesWith(({ token }) => world.call("DELETE", "/account", { token, body: { password: PASSWORD } }))
  await diesWith(
    ({ id }) => world.sql`update accounts set email = ${`${crypto.randomUUID()}@example.com`} where id = ${id}`,
  )
  await diesWith(() => world.sql`update account_mails set expires_at = expires_at - interval '30 minutes'`)
})

test("what an owner is told is tried for a day", async () => {
  for (const [late, mails] of [
    ["23:59:30", 1],
    ["24:00:00", 0],
  ] as const) {
    const { token } = await someone()
    server.received.length = 0
    expect((await post("/auth/password", { current: PASSWORD, new: NEW }, token)).status).toBe(204)
    await after(late)
    await send()
    expect([late, server.received.length]).toEqual([late, mails])
  }
})

test("a change of password leaves the proof of the address, and what the owner is told, in the post", async () => {
  const { id, token } = await world.signUp()
  await world.sql`insert into account_mails (account_id, kind, email, expires_at)
    select id, 'factor-off', email, now() + interval '1 day' from accounts where id = ${id}`
  expect((await post("/auth/password", { current: PASSWORD, new: NEW }, token)).status).toBe(204)
  const kinds = await world.sql<{ kind: string }[]>`select kind from account_mails where account_id = ${id} order by id`
  expect(kinds.map(({ kind }) => kind)).toEqual(["prove", "factor-off", "password-changed"])
})

test("a mail that was asked for before a reset, and not sent yet, has no link any more", async () => {
  const { email } = await someone()
  const link = await forgotten(email)
  await world.sql`insert into account_mails (account_id, kind, email, expires_at)
    select id, 'reset', email, now() + interval '30 minutes' from accounts where email = ${email}`
  await post("/auth/password/reset", { token: link, new: NEW })
  expect(await world.sql`select kind from account_mails where next_try_at is not null`).toEqual([
    { kind: "password-reset" },
  ] as never)
})

test("who had the account before its address was proved keeps no key, no alert and no word in it", async () => {
  const { id, email, token } = await someone()
  const words = { low_balance_email: "stranger@example.com", buyer_name: "A stranger", buyer_npwp: "012345678901000" }
  await world.call("PATCH", "/account", { token, body: { ...words, buyer_address: "Elsewhere" } })
  await post("/account/agreement", { version: LEGAL_VERSION }, token)
  await world.call("PUT", "/account/webhook", { token, body: { url: "https://stranger.example.com/" } })
  const key = await world.call("POST", "/keys", { token, body: { name: "a stranger's" } })
  world.told.length = 0
  await post("/auth/password/reset", { token: await forgotten(email), new: NEW })
  expect(world.told.map(({ keyId }) => keyId)).toEqual([key.json.id])
  const [row] = await world.sql`select low_balance_email, revoked_at is not null as revoked
    from accounts a join api_keys k on k.account_id = a.id where a.id = ${id}`
  expect(row as unknown).toEqual({ low_balance_email: null, revoked: true })
  const session = (await signIn(email, NEW)).json.session_token
  const none = { buyer_name: null, buyer_address: null, buyer_npwp: null, agreed_version: null, agreed_at: null }
  expect((await world.call("GET", "/account", { token: session })).json).toMatchObject(none)
  expect((await world.call("GET", "/account/webhook", { token: session })).json.webhook).toBeNull()
  // A proved one keeps them.
  const mine = await world.call("POST", "/keys", { token: session, body: { name: "mine" } })
  await world.call("PUT", "/account/webhook", { token: session, body: { url: "https://mine.example.com/" } })
  await post("/auth/password/reset", { token: await forgotten(email), new: PASSWORD })
  const after = (await signIn(email, PASSWORD)).json.session_token
  const keys = await world.call("GET", "/keys", { token: after })
  expect(keys.json.data.find((each: { id: string }) => each.id === mine.json.id).revoked_at).toBeNull()
  const { webhook } = (await world.call("GET", "/account/webhook", { token: after })).json
  expect(webhook.url).toBe("https://mine.example.com/")
})

/** Without what is each answer's own. */
const told = async (address: string) => {
  const { status, text, headers } = await post("/auth/password/forgotten", { email: address })
  const names = [...headers].filter(([name]) => !["date", "x-request-id", "request-id"].includes(name))
  return [status, text, names]
}
const reset = (token: string) => post("/auth/password/reset", { token, new: NEW })

test("nobody learns who has an account: the same answer for each address, and the same statements before it", async () => {
  const { email } = await someone()
  expect(await told(email)).toEqual(await told("nobody@example.com"))
  const unknown = await reset("x".repeat(43))
  expect([unknown.status, unknown.json.code]).toEqual([400, "request.invalid"])
  expect((await reset("x")).json.error).toBe(unknown.json.error)
})

test("a link that proves an address sets no password, and one for a password proves nothing", async () => {
  const { email, token } = await world.signUp()
  await send()
  const proof = linkOf(server.received[0], "prove-email")
  expect((await post("/auth/password/reset", { token: proof, new: NEW })).status).toBe(400)
  const link = await forgotten(email)
  expect((await post("/auth/email/prove", { token: link }, token)).status).toBe(400)
  expect((await signIn(email, PASSWORD)).status).toBe(200)
})

test("another address takes over when its link is opened; the old one is told, and other sessions end", async () => {
  const { email, token } = await someone()
  const other = (await signIn(email, PASSWORD)).json.session_token
  const next = `${crypto.randomUUID()}@example.com`
  expect((await post("/auth/email", { email: next, password: "wrong" }, token)).status).toBe(401)
  expect((await post("/auth/email", { email: next, password: PASSWORD }, token)).json.email).toBe(email)
  const old = await forgotten(email)
  await send()
  const proof = server.received.find(({ to }) => to[0] === next)
  expect((await post("/auth/email/prove", { token: linkOf(proof, "prove-email") }, token)).json).toMatchObject({
    email: next,
    email_proved: true,
  })
  expect((await world.call("GET", "/account", { token: other })).status).toBe(401)
  expect((await post("/auth/password/reset", { token: old, new: NEW })).status).toBe(400)
  expect((await signIn(email, PASSWORD)).status).toBe(401)
  expect((await signIn(next, PASSWORD)).status).toBe(200)
  server.received.length = 0
  await send()
  expect(server.received.map(({ to, text }) => [to[0], /Subject: (.*)/.exec(text)?.[1]])).toEqual([
    [email, "Alamat e-mail akun Loket Anda telah diganti"],
  ])
})

test("an address of somebody else is not taken, before or after the link was sent", async () => {
  const [mine, theirs] = [await someone(), await someone()]
  expect((await post("/auth/email", { email: theirs.email, password: PASSWORD }, mine.token)).status).toBe(400)
  const next = `${crypto.randomUUID()}@example.com`
  await post("/auth/email", { email: next, password: PASSWORD }, mine.token)
  await send()
  const link = linkOf(server.received[0], "prove-email")
  await world.signUp(next)
  expect((await post("/auth/email/prove", { token: link }, mine.token)).json.error).toContain("'email' belongs")
  expect((await world.call("GET", "/account", { token: mine.token })).json.email).toBe(mine.email)
})

test("another address that was asked for with the old password does not take over after a change of it", async () => {
  const { email, token } = await someone()
  await post("/auth/email", { email: `${crypto.randomUUID()}@example.com`, password: PASSWORD }, token)
  await send()
  const link = linkOf(server.received[0], "prove-email")
  await post("/auth/password", { current: PASSWORD, new: NEW }, token)
  const session = (await signIn(email, NEW)).json.session_token
  expect((await post("/auth/email/prove", { token: link }, session)).status).toBe(400)
  expect((await world.call("GET", "/account", { token: session })).json.email).toBe(email)
})

test("a server that is away or refuses for now is tried again, with another link, until the time is over", async () => {
  const { token } = await world.signUp()
  expect(await send(1)).toEqual([true])
  server.refusal = 451
  await world.sql`update account_mails set next_try_at = now()`
  expect(await send()).toEqual([true])
  expect(await send()).toEqual([])
  server.refusal = undefined
  await world.sql`update account_mails set next_try_at = now()`
  await Promise.all([send(), send(), send()])
  expect(server.received).toHaveLength(1)
  const link = linkOf(server.received[0], "prove-email")
  expect((await post("/auth/email/prove", { token: link }, token)).status).toBe(200)
})

test("mails that wait behind a slow server are not taken for those of a process that died", async () => {
  for (let n = 0; n < 4; n++) await world.signUp()
  const sent: string[] = []
  const slow: Mailer = {
    async send({ to }) {
      sent.push(to)
      await world.sql`update account_mails set next_try_at = next_try_at - interval '2 minutes' where next_try_at > now()`
      // Another process looks meanwhile.
      await send()
      return "sent"
    },
  }
  await sendOwnerMails({ store: accountMailStore(world.db), mailer: slow, publicUrl: PUBLIC_URL, failed() {} })
  const all = [...sent, ...server.received.flatMap(({ to }) => to)]
  expect([all.length, new Set(all).size]).toEqual([4, 4])
})

test("a mail of a process that died is another's after five minutes", async () => {
  await world.signUp()
  const store = accountMailStore(world.db)
  const later = (time: string) => world.sql`update account_mails set next_try_at = next_try_at - ${time}::interval`
  const taken = [await store.take(), await store.take()]
  await later("00:04:30")
  taken.push(await store.take())
  await later("00:00:30")
  taken.push(await store.take())
  expect(taken.map((mail) => mail?.kind)).toEqual(["prove", undefined, undefined, "prove"])
})

test("a server that is away is asked for one mail at a time, and one that refuses an address for all", async () => {
  for (let n = 0; n < 3; n++) await world.signUp()
  expect(await send(1)).toEqual([true])
  server.refusal = 451
  expect(await send()).toEqual([true, true])
})

test("who is told to end begins no further mail", async () => {
  for (let n = 0; n < 3; n++) await world.signUp()
  const ending = new AbortController()
  let begun = 0
  const mailer: Mailer = {
    async send() {
      begun++
      ending.abort()
      return "sent"
    },
  }
  const store = accountMailStore(world.db)
  await sendOwnerMails({ store, mailer, publicUrl: PUBLIC_URL, failed() {}, signal: ending.signal })
  expect(begun).toBe(1)
})

test("a mail that no server takes in a day is given up", async () => {
  await world.signUp()
  server.refusal = 451
  let minutes = 0
  for (;;) {
    const [row] = await world.sql<{ minutes: number }[]>`
      select (extract(epoch from next_try_at - now()) / 60)::float8 as minutes from account_mails`
    if (row === undefined || minutes > 3_000) break
    minutes += Math.max(0, row.minutes)
    await world.sql`update account_mails set next_try_at = now()`
    await send()
  }
  expect([minutes > 1_300, minutes < 1_500]).toEqual([true, true])
})

test("what is over is swept away", async () => {
  await world.signUp()
  await world.sql`update account_mails set expires_at = now() - interval '1 second'`
  await send()
  expect([server.received, await world.sql`select from account_mails`]).toEqual([[], []] as never)
})

test("without mail, nobody has anything to prove, nobody is sent a link, and an address changes at once", async () => {
  await using plain = await openWorld()
  const { token } = await plain.signUp()
  const account = await plain.call("GET", "/account", { token })
  expect(account.json.email_proved).toBe(true)
  const body = { email: account.json.email }
  const refused = await plain.call("POST", "/auth/password/forgotten", { body })
  expect([refused.status, refused.json.code]).toEqual([400, "request.unsupported_feature"])
  const next = `${crypto.randomUUID()}@example.com`
  const changed = await plain.call("POST", "/auth/email", { token, body: { email: next, password: PASSWORD } })
  expect(changed.json).toMatchObject({ email: next, email_proved: true })
  expect(await plain.sql`select from account_mails`).toHaveLength(0)
})
