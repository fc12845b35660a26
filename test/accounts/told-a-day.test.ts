/** What an owner is told of by mail, when it is done over and over and each mail leaves at once: the address may be a stranger's. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { sendOwnerMails } from "../../src/accounts/owner-mail.ts"
import { accountMailStore } from "../../src/store/account-mails.ts"
import { memberStore } from "../../src/store/members.ts"
import { openWorld, PASSWORD, type World } from "../http/dashboard/world.ts"

let world: World
beforeAll(async () => void (world = await openWorld({ sendsLinks: true })))
afterAll(() => world[Symbol.asyncDispose]())

/** To whom mails left. */
async function sent(): Promise<string[]> {
  const received: string[] = []
  await sendOwnerMails({
    store: accountMailStore(world.db),
    mailer: {
      send: async ({ to }) => {
        received.push(to)
        return "sent"
      },
    },
    publicUrl: "https://loket.example",
    failed: () => {},
  })
  return received
}

async function changed(email: string, times: number): Promise<number> {
  let mails = 0
  for (let n = 0; n < times; n++) {
    const { json } = await world.call("POST", "/auth/sign-in", { body: { email, password: PASSWORD } })
    const body = { current: PASSWORD, new: PASSWORD }
    expect((await world.call("POST", "/auth/password", { token: json.session_token, body })).status).toBe(204)
    mails += (await sent()).length
  }
  return mails
}

test("an owner is told of one kind of thing ten times a day, and of another kind all the same", async () => {
  // Nobody has proved that the address is theirs.
  const { id, email } = await world.signUp()
  const member = await world.signUp()
  await world.sql`delete from account_mails`
  expect(await changed(email, 15)).toBe(10)
  await world.sql`insert into members (account_id, member_id, role, invited_by, invitation_hash)
    values (${id}, ${member.id}, 'viewer', ${id}, ${Buffer.from(member.id)})`
  await memberStore(world.db).changeRole({ accountId: id, memberId: member.id }, "owner", id, ["viewer"])
  expect(await sent()).toEqual([email])
  const other = await world.signUp()
  await sent()
  expect(await changed(other.email, 1)).toBe(1)
  await world.sql`update account_mails set expires_at = expires_at - interval '1 day'`
  expect(await changed(email, 1)).toBe(1)
})
