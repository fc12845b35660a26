/** Invitations by mail: what is sent to whom, and that the link proves the address to which it went. */
import { afterAll, beforeAll, beforeEach, expect, test } from "bun:test"
import { type Mail, sendOwnerMails } from "../../src/accounts/owner-mail.ts"
import { accountMailStore } from "../../src/store/account-mails.ts"
import { openWorld, type World } from "../http/dashboard/world.ts"

let world: World
beforeAll(async () => void (world = await openWorld({ sendsLinks: true, addressHeader: "X-Real-IP" })))
afterAll(() => world[Symbol.asyncDispose]())
beforeEach(async () => {
  await world.sql`delete from account_mails`
  await world.sql`delete from allowances`
})

/** What is due, as it goes to the mail server. */
async function sent(delivery: "sent" | "later" = "sent"): Promise<readonly Mail[]> {
  const mails: Mail[] = []
  await sendOwnerMails({
    store: accountMailStore(world.db),
    mailer: { send: async (mail) => (mails.push(mail), delivery) },
    publicUrl: "https://loket.example/",
    failed: () => {},
  })
  return mails
}
const linkOf = (mail: Mail | undefined) =>
  /https:\/\/loket\.example\/dashboard\/join#([A-Za-z0-9_-]{43})\s/.exec(mail?.text ?? "")?.[1] ?? ""
const post = (path: string, body: unknown, token?: string) =>
  world.call("POST", path, { body, ...(token !== undefined && { token }) })
/** Whose address is proved. */
async function owner() {
  const person = await world.signUp()
  await world.sql`update accounts set email_unproved = false where id = ${person.id}`
  await world.sql`delete from account_mails`
  return person
}
const nobody = () => `${crypto.randomUUID()}@example.com`

test("the mail says who invites to what in both languages, and its link alone is never told to who invites", async () => {
  const { token, email } = await owner()
  const to = nobody()
  const { status, json } = await post("/account/invitations", { email: to, role: "billing" }, token)
  expect([status, json.path]).toEqual([201, null])
  const [mail, ...others] = await sent()
  expect(others).toEqual([])
  expect(mail).toMatchObject({ to, subject: `${email} mengundang Anda ke akun Loket` })
  for (const words of [email, "keuangan (isi saldo", "billing (top-ups", "berlaku 7 hari", "works for 7 days"])
    expect(mail?.text).toContain(words)
  expect((await post("/invitations/open", { token: linkOf(mail) })).json).toMatchObject({ email: to, from: email })
  expect(await sent()).toEqual([])
})

test("who has no account makes one with the link, which proves the address; nobody has to ask for another proof", async () => {
  const { token, id } = await owner()
  const to = nobody()
  await post("/account/invitations", { email: to, role: "viewer" }, token)
  const [mail] = await sent()
  const signedUp = await post("/auth/sign-up", { email: to, password: "correct horse battery" })
  expect(signedUp.json.account.email_proved).toBe(false)
  const theirs = signedUp.json.session_token as string
  const joined = await post("/account/memberships", { token: linkOf(mail) }, theirs)
  expect([joined.status, joined.json]).toEqual([201, { account_id: id }])
  expect((await world.call("GET", "/account", { token: theirs })).json.email_proved).toBe(true)
  const told = await sent()
  expect(told.map((each) => each.subject)).toEqual(["Anggota baru di akun Loket Anda"])
})

test("the link proves nothing to another account, nor for another address", async () => {
  const { token } = await owner()
  const to = nobody()
  await post("/account/invitations", { email: to, role: "viewer" }, token)
  const [mail] = await sent()
  const stranger = await world.signUp()
  expect((await post("/account/memberships", { token: linkOf(mail) }, stranger.token)).status).toBe(400)
  expect((await world.call("GET", "/account", { token: stranger.token })).json.email_proved).toBe(false)
})

test("an invitation that was taken back is not mailed, and its link is dead; sent again it is another link", async () => {
  const { token } = await owner()
  const ask = async () =>
    (await post("/account/invitations", { email: nobody(), role: "viewer" }, token)).json.invitation
  const unsent = await ask()
  expect((await world.call("DELETE", `/account/invitations/${unsent.id}`, { token })).status).toBe(204)
  expect(await sent()).toEqual([])
  const { id } = await ask()
  const [first] = await sent()
  expect((await post(`/account/invitations/${id}/send-again`, undefined, token)).status).toBe(200)
  const [second] = await sent()
  const open = (mail: Mail | undefined) => post("/invitations/open", { token: linkOf(mail) })
  expect([(await open(first)).status, (await open(second)).status]).toEqual([400, 200])
})

test("a mail that did not leave is sent again, with the link that is good then", async () => {
  const { token } = await owner()
  await post("/account/invitations", { email: nobody(), role: "viewer" }, token)
  const [lost] = await sent("later")
  await world.sql`update account_mails set next_try_at = now()`
  const [mail] = await sent()
  const open = (each: Mail | undefined) => post("/invitations/open", { token: linkOf(each) })
  expect([(await open(lost)).status, (await open(mail)).status]).toEqual([400, 200])
})

test("whose own address is not proved invites nobody, and an address gets five mails an hour", async () => {
  const unproved = await world.signUp()
  await world.sql`delete from allowances`
  expect((await post("/account/invitations", { email: nobody(), role: "viewer" }, unproved.token)).status).toBe(400)
  const { token } = await owner()
  const to = nobody()
  const statuses: number[] = []
  for (let n = 0; n < 6; n++)
    statuses.push((await post("/account/invitations", { email: to, role: "viewer" }, token)).status)
  expect(statuses).toEqual([201, 201, 201, 201, 201, 429])
})

test("the answer is the same whether or not the address has an account", async () => {
  const { token } = await owner()
  const known = await owner()
  const shape = async (email: string) => {
    const { status, json } = await post("/account/invitations", { email, role: "viewer" }, token)
    return [status, json.path, Object.keys(json.invitation)]
  }
  expect(await shape(known.email)).toEqual(await shape(nobody()))
})

test("the owner is told of a wider role, and not of a narrower one", async () => {
  const { token } = await owner()
  const { id, token: theirs, email } = await owner()
  await post("/account/invitations", { email, role: "viewer" }, token)
  const [mail] = await sent()
  await post("/account/memberships", { token: linkOf(mail) }, theirs)
  await sent()
  const become = async (role: string) => {
    expect((await world.call("PATCH", `/account/members/${id}`, { token, body: { role } })).status).toBe(200)
    return (await sent()).map(({ subject }) => subject)
  }
  const raised = ["Seorang anggota akun Loket Anda mendapat peran yang lebih luas"]
  expect([await become("billing"), await become("developer"), await become("viewer"), await become("owner")]).toEqual([
    raised,
    raised,
    raised,
    raised,
  ])
  expect([await become("owner"), await become("viewer")]).toEqual([[], []])
})
