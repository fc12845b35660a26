/** Members of accounts: what each role may do, that it holds from the next request on, and that the history says who it was. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { createSessionToken } from "../../src/accounts/bearer-tokens.ts"
import { mayDo, permissions } from "../../src/accounts/members.ts"
import { type MemberRole, memberRoles } from "../../src/store/account-settings.ts"
import { type Person, startTestGateway, type TestGateway } from "../gateway/harness.ts"

let gateway: TestGateway
beforeAll(async () => void (gateway = await startTestGateway()))
afterAll(() => gateway[Symbol.asyncDispose]())

type Body = Record<string, unknown>
const call = async (
  person: Person,
  method: string,
  path: string,
  body?: Body,
  headers: Record<string, string> = {},
) => {
  const sent = body === undefined ? {} : { body: JSON.stringify(body) }
  const response = await gateway.dashboard(person, path, { method, headers, ...sent })
  const text = await response.text()
  const json = text === "" ? {} : (JSON.parse(text) as Body)
  return { status: response.status, code: response.headers.get("x-error-code"), json }
}
const emailOf = async ({ accountId }: Person) => {
  const [row] = await gateway.sql<{ email: string }[]>`select email from accounts where id = ${accountId}`
  return row?.email ?? ""
}
const tokenOf = (path: unknown) => String(path).split("#")[1] ?? ""
const invite = async (owner: Person, email: string, role: MemberRole = "viewer") =>
  await call(owner, "POST", "/account/invitations", { email, role })
/** A person with this role in the account, in whose session the account is looked at. */
const member = async (owner: Person, role: MemberRole, by = owner) => {
  const person = await gateway.person()
  const { json } = await invite(by, await emailOf(person), role)
  const accepted = await call(person, "POST", "/account/memberships", { token: tokenOf(json["path"]) })
  expect([accepted.status, accepted.json]).toEqual([201, { account_id: owner.accountId }])
  expect((await lookAt(person, owner)).status).toBe(204)
  return person
}
const lookAt = (person: Person, account: Person | null) =>
  call(person, "POST", "/auth/look-at", { account_id: account?.accountId ?? null })
const history = async (person: Person) =>
  (await call(person, "GET", "/account/activity")).json["data"] as { action: string; actor: string; member: unknown }[]

test("a member sees the account, with the member's own name and role, and goes back to the own one", async () => {
  const owner = await gateway.person(50_000)
  const billing = await member(owner, "billing")
  const seen = (await call(billing, "GET", "/account")).json
  expect(seen).toMatchObject({
    id: owner.accountId,
    balance_micro: 50_000_000_000,
    member_role: "billing",
    signed_in: { id: billing.accountId, email: await emailOf(billing) },
  })
  expect((await call(owner, "GET", "/account")).json).toMatchObject({ id: owner.accountId, member_role: "owner" })
  for (const own of [billing, null]) {
    expect((await lookAt(billing, own)).status).toBe(204)
    expect((await call(billing, "GET", "/account")).json).toMatchObject({ id: billing.accountId, balance_micro: 0 })
    expect((await lookAt(billing, owner)).status).toBe(204)
  }
})

const list = async (of: Person) => {
  const { members, invitations } = (await call(of, "GET", "/account/members")).json as Record<string, Body[]>
  return { members, invitations: invitations?.length }
}
const shown = async (person: Person, role: MemberRole, by: Person) => ({
  id: person.accountId,
  email: await emailOf(person),
  role,
  since: expect.any(String) as unknown,
  invited_by: await emailOf(by),
})

test("the list has the account's own members, with their role and who invited them", async () => {
  const [owner, another] = [await gateway.person(), await gateway.person()]
  const second = await member(owner, "owner")
  const viewer = await member(owner, "viewer", second)
  const theirs = await member(another, "billing")
  await invite(another, "somebody@example.com")
  expect(await list(owner)).toEqual({
    members: [await shown(second, "owner", owner), await shown(viewer, "viewer", second)],
    invitations: 0,
  })
  expect(await list(another)).toEqual({ members: [await shown(theirs, "billing", another)], invitations: 1 })
  expect((await lookAt(theirs, owner)).status).toBe(404)
})

test("what is the person's own stays that, whatever account is looked at", async () => {
  const owner = await gateway.person()
  const other = await member(owner, "owner")
  const viewer = await member(owner, "viewer", other)
  const { data } = (await call(other, "GET", "/account/sessions")).json as { data: Body[] }
  expect(data).toHaveLength(1)
  expect((await call(other, "DELETE", "/account", { password: "correct horse battery" })).status).toBe(204)
  expect((await call(owner, "GET", "/account")).status).toBe(200)
  expect((await history(owner)).slice(0, 2)).toMatchObject([
    { action: "member.left", actor: "member" },
    { action: "member.joined", actor: "member" },
  ])
  // An account that is no more has no address.
  expect((await list(owner)).members).toEqual([{ ...(await shown(viewer, "viewer", owner)), invited_by: null }])
})

test("each act names the member who did it; the owner's own names nobody", async () => {
  const owner = await gateway.person()
  const developer = await member(owner, "developer")
  const key = await gateway.key(developer)
  await call(owner, "POST", `/keys/${key.id}/revoke`)
  expect((await call(owner, "GET", "/keys")).json["data"]).toMatchObject([{ id: key.id }])
  const email = await emailOf(developer)
  expect((await history(owner)).slice(0, 4)).toMatchObject([
    { action: "key.revoked", actor: "owner", member: null },
    { action: "key.created", actor: "member", member: { id: developer.accountId, email } },
    { action: "member.joined", actor: "member", member: { id: developer.accountId, email } },
    { action: "member.invited", actor: "owner", member: null },
  ])
  expect((await lookAt(developer, developer)).status).toBe(204)
  expect((await history(developer)).map(({ action }) => action)).not.toContain("key.created")
  const file = await (await gateway.dashboard(owner, "/account/activity/export.csv")).text()
  expect(file).toContain(email)
})

test("a member's many acts hide nothing of another's", async () => {
  const owner = await gateway.person()
  const developer = await member(owner, "developer")
  const { id } = await gateway.key(developer)
  await gateway.sql`
    insert into account_events (account_id, action, actor, member_id)
    select ${owner.accountId}, 'key.changed', 'member', ${developer.accountId} from generate_series(1, 300)`
  await call(developer, "PATCH", `/keys/${id}`, { name: "once more" })
  await call(owner, "PATCH", `/keys/${id}`, { name: "the owner's" })
  const [latest, before] = await gateway.sql<{ member_id: string | null; more: number }[]>`
    select member_id, more from account_events where account_id = ${owner.accountId} and action = 'key.changed' order by id desc limit 2`
  expect([latest, before]).toEqual([
    { member_id: null, more: 0 },
    { member_id: developer.accountId, more: 1 },
  ])
})

test("a lesser role holds at once, and removal too; the session never falls back to another account by itself", async () => {
  const owner = await gateway.person()
  const person = await member(owner, "developer")
  expect((await call(person, "POST", "/keys", { name: "one" })).status).toBe(201)
  expect((await call(owner, "PATCH", `/account/members/${person.accountId}`, { role: "viewer" })).status).toBe(200)
  const refused = await call(person, "POST", "/keys", { name: "two" })
  expect([refused.status, refused.code, refused.json["error"]]).toEqual([
    403,
    "auth.role_required",
    "This takes the role 'owner' or 'developer' in this account; yours is 'viewer'.",
  ])
  expect((await call(owner, "DELETE", `/account/members/${person.accountId}`)).status).toBe(204)
  const ended = await call(person, "POST", "/keys", { name: "three" })
  expect([ended.status, ended.code]).toEqual([403, "auth.membership_ended"])
  expect((await call(person, "GET", "/account")).code).toBe("auth.membership_ended")
  expect((await call(person, "GET", "/account/memberships")).json).toEqual({ data: [] })
  expect((await lookAt(person, owner)).status).toBe(404)
  expect((await lookAt(person, person)).status).toBe(204)
  expect((await call(person, "GET", "/keys")).json["data"]).toEqual([])
  expect((await history(owner)).slice(0, 2).map(({ action, actor }) => [action, actor])).toEqual([
    ["member.removed", "owner"],
    ["member.role", "owner"],
  ])
  expect((await history(person))[0]).toMatchObject({ action: "membership.ended", actor: "gateway" })
})

test("a member leaves; an owner who is a member decides on members, and is one no more once lowered", async () => {
  const owner = await gateway.person()
  const second = await member(owner, "owner")
  const viewer = await member(owner, "viewer", second)
  expect((await call(viewer, "DELETE", `/account/memberships/${owner.accountId}`)).status).toBe(204)
  expect((await call(viewer, "DELETE", `/account/memberships/${owner.accountId}`)).status).toBe(404)
  // The account's own person is no row that anybody could lower or remove.
  for (const [method, body] of [["PATCH", { role: "viewer" }], ["DELETE"]] as const)
    expect((await call(second, method, `/account/members/${owner.accountId}`, body)).status).toBe(404)
  expect((await call(owner, "DELETE", `/account/memberships/${owner.accountId}`)).status).toBe(404)
  // Whom a lowered owner has invited is not invited any more.
  const { json } = await invite(second, "somebody@example.com")
  expect((await call(owner, "PATCH", `/account/members/${second.accountId}`, { role: "billing" })).status).toBe(200)
  expect((await call(second, "GET", "/account/members")).code).toBe("auth.role_required")
  expect((await call(owner, "POST", "/invitations/open", { token: tokenOf(json["path"]) })).status).toBe(400)
  expect((await history(owner)).map(({ action }) => action)).toContain("member.left")
})

test("whom a removed owner has invited is not invited any more, and who was invited by others is", async () => {
  const owner = await gateway.person()
  const second = await member(owner, "owner")
  const { json: theirs } = await invite(second, "theirs@example.com")
  const { json: others } = await invite(owner, "others@example.com")
  expect((await call(owner, "DELETE", `/account/members/${second.accountId}`)).status).toBe(204)
  const open = async (of: Body) =>
    (await call(owner, "POST", "/invitations/open", { token: tokenOf(of["path"]) })).status
  expect([await open(theirs), await open(others)]).toEqual([400, 200])
})

test("what becomes of a member in one account leaves the others, and their invitations, as they are", async () => {
  const [owner, another] = [await gateway.person(), await gateway.person()]
  const [second, third] = [await member(another, "owner"), await member(another, "viewer")]
  await invite(second, "theirs@example.com")
  for (const [person, role] of [
    [second, "owner"],
    [third, "billing"],
  ] as const) {
    const { json } = await invite(owner, await emailOf(person), role)
    expect((await call(person, "POST", "/account/memberships", { token: tokenOf(json["path"]) })).status).toBe(201)
  }
  const { json: others } = await invite(owner, "others@example.com")
  const { id } = others["invitation"] as Record<string, string>
  await gateway.sql`insert into account_mails (account_id, kind, email, expires_at, invitation_id)
    values (${owner.accountId}, 'invitation', 'others@example.com', now() + interval '1 day', ${id ?? ""})`
  await lookAt(second, owner)
  await invite(second, "own@example.com")
  // Each is seen in the role that the person has in it, and in its own days.
  for (const [account, role, zone] of [
    [owner, "billing", "Asia/Tokyo"],
    [another, "viewer", "Asia/Makassar"],
  ] as const) {
    await call(account, "PATCH", "/account", { time_zone: zone })
    await lookAt(third, account)
    expect((await call(third, "GET", "/account")).json).toMatchObject({ id: account.accountId, member_role: role })
    expect((await call(third, "GET", "/usage/summary?group_by=day")).json).toMatchObject({ time_zone: zone })
  }
  const rows = async () => {
    const of = [owner.accountId, another.accountId]
    const found = await gateway.sql<{ row: string }[]>`
      select concat_ws(' ', account_id, member_id, role) as row from members where account_id = any(${of}) union all
      select concat_ws(' ', account_id, email) from invitations where account_id = any(${of}) union all
      select concat_ws(' ', account_id, kind) from account_mails where account_id = any(${of}) and kind in ('invitation', 'member-raised')`
    return new Set(found.map(({ row }) => row))
  }
  const change = async (as: Person, method: string, path: string, body?: Body) => {
    const before = await rows()
    const { status } = await call(as, method, `/account/${path}`, body)
    const after = await rows()
    return { status, gone: [...before.difference(after)].sort(), come: [...after.difference(before)].sort() }
  }
  const [here, one, two] = [owner.accountId, second.accountId, third.accountId]
  expect(await change(another, "DELETE", `invitations/${id}`)).toEqual({ status: 404, gone: [], come: [] })
  expect(await change(owner, "PATCH", `members/${one}`, { role: "owner" })).toEqual({ status: 200, gone: [], come: [] })
  expect(await change(owner, "PATCH", `members/${two}`, { role: "owner" })).toEqual({
    status: 200,
    gone: [`${here} ${two} billing`],
    come: [`${here} ${two} owner`, `${here} member-raised`].sort(),
  })
  expect(await change(owner, "PATCH", `members/${one}`, { role: "viewer" })).toEqual({
    status: 200,
    gone: [`${here} ${one} owner`, `${here} own@example.com`].sort(),
    come: [`${here} ${one} viewer`],
  })
  expect(await change(owner, "DELETE", `members/${one}`)).toEqual({
    status: 204,
    gone: [`${here} ${one} viewer`],
    come: [],
  })
})

test("a session that looks at another account meanwhile refuses what was meant for the one before", async () => {
  const owner = await gateway.person()
  const person = await member(owner, "developer")
  const meant = (id: string) => call(person, "POST", "/keys", { name: "a key" }, { "X-Account-Id": id })
  expect((await meant(owner.accountId)).status).toBe(201)
  const other = await meant(person.accountId)
  expect([other.status, other.code]).toEqual([409, "auth.other_account"])
  // What is the person's own is meant by a page that shows either.
  const endOthers = (id: string) => call(person, "DELETE", "/account/sessions", undefined, { "X-Account-Id": id })
  expect([(await endOthers(owner.accountId)).status, (await endOthers(person.accountId)).status]).toEqual([204, 204])
  await lookAt(person, person)
  expect((await endOthers(owner.accountId)).code).toBe("auth.other_account")
  expect((await meant(owner.accountId)).code).toBe("auth.other_account")
  expect((await meant(person.accountId)).status).toBe(201)
})

test("nobody gets what another was answered by the same Idempotency-Key", async () => {
  const owner = await gateway.person()
  const developer = await member(owner, "developer")
  const headers = { "Idempotency-Key": "the-same" }
  const first = await call(owner, "POST", "/keys", { name: "a key" }, headers)
  const second = await call(developer, "POST", "/keys", { name: "a key" }, headers)
  expect([first.status, second.status]).toEqual([201, 201])
  expect(second.json["key"]).not.toBe(first.json["key"])
})

test("settings: by role, field by field; the language is always the person's own", async () => {
  const owner = await gateway.person()
  const billing = await member(owner, "billing")
  const viewer = await member(owner, "viewer")
  expect((await call(billing, "PATCH", "/account", { buyer_name: "PT Maju" })).json["buyer_name"]).toBe("PT Maju")
  expect((await call(billing, "PATCH", "/account", { time_zone: "Asia/Makassar" })).code).toBe("auth.role_required")
  expect((await call(viewer, "PATCH", "/account", { buyer_name: "PT Lain" })).code).toBe("auth.role_required")
  const spoken = await call(viewer, "PATCH", "/account", { language: "en" })
  expect(spoken.json["signed_in"]).toMatchObject({ id: viewer.accountId, language: "en" })
  expect((await call(owner, "GET", "/account")).json["language"]).toBe("id")
  const developer = await member(owner, "developer")
  expect((await call(developer, "GET", "/account")).json["buyer_name"]).toBeNull()
  expect((await call(viewer, "GET", "/account")).json["buyer_name"]).toBe("PT Maju")
  await call(billing, "PATCH", "/account", { low_balance_email: "alerts@example.com" })
  expect((await call(viewer, "GET", "/account")).json["low_balance_email"]).toBe("alerts@example.com")
  expect((await call(developer, "GET", "/account")).json["low_balance_email"]).toBeNull()
})

test("each setting is for the owner, for who pays, or for everybody", async () => {
  const owner = await gateway.person()
  const settings = {
    time_zone: "Asia/Makassar",
    low_balance_email: "alerts@example.com",
    low_balance_threshold_micro: 1,
    budget_mails: true,
    buyer_name: "PT Maju",
    buyer_address: "Jalan Satu 1",
    buyer_npwp: "012345678901000",
    language: "en",
  }
  const allowed: Record<string, string[]> = {}
  for (const role of memberRoles) {
    const person = await member(owner, role)
    for (const [name, value] of Object.entries(settings)) {
      // Also to take it away, and beside one that everybody may change.
      const wishes = [{ [name]: value }, { [name]: null }, { language: "id", [name]: value }]
      const answers = await Promise.all(wishes.map((wish) => call(person, "PATCH", "/account", wish)))
      const codes = new Set(answers.map(({ status, code }) => code ?? status))
      expect([role, name, codes.size]).toEqual([role, name, 1])
      if (codes.has(200)) (allowed[name] ??= []).push(role)
      else expect([...codes]).toEqual(["auth.role_required"])
    }
  }
  const ofPayers = Object.keys(settings).filter((name) => name !== "time_zone" && name !== "language")
  expect(allowed).toEqual({
    time_zone: ["owner"],
    ...Object.fromEntries(ofPayers.map((name) => [name, ["owner", "billing"]])),
    language: [...memberRoles],
  })
})

test("whose own account is frozen only looks; a frozen account invites nobody", async () => {
  const owner = await gateway.person()
  const person = await member(owner, "owner")
  await gateway.freeze(person, "a test")
  expect((await call(person, "GET", "/account")).json["member_role"]).toBe("viewer")
  expect((await call(person, "POST", "/keys", { name: "a key" })).code).toBe("auth.role_required")
  await gateway.freeze(owner, "a test")
  expect((await invite(owner, "somebody@example.com")).code).toBe("auth.account_frozen")
})

test("an account that is deleted has no members, and its invitations are dead", async () => {
  const owner = await gateway.person()
  const person = await member(owner, "viewer")
  const { json } = await invite(owner, "somebody@example.com")
  await call(owner, "DELETE", "/account", { password: "correct horse battery" })
  expect((await call(person, "GET", "/account")).code).toBe("auth.membership_ended")
  expect((await call(person, "GET", "/account/memberships")).json).toEqual({ data: [] })
  expect((await call(person, "POST", "/invitations/open", { token: tokenOf(json["path"]) })).status).toBe(400)
})

test("an operator gets no operator's rights to a customer by a membership, nor a customer an operator's", async () => {
  const operator = await gateway.person()
  await gateway.sql`update accounts set role = 'operator' where id = ${operator.accountId}`
  const customer = await member(operator, "owner")
  expect((await call(customer, "GET", "/account")).json).toMatchObject({ id: operator.accountId, role: "customer" })
  expect((await call(customer, "GET", "/operator/overview")).status).toBe(403)
})

describe("invitations", () => {
  test("one address has one: another invitation is another link in another role, and the one before is dead", async () => {
    const owner = await gateway.person()
    const person = await gateway.person()
    const email = await emailOf(person)
    const first = await invite(owner, email, "viewer")
    const second = await invite(owner, email.toUpperCase(), "developer")
    const { invitations } = (await call(owner, "GET", "/account/members")).json as { invitations: Body[] }
    expect(invitations).toMatchObject([{ email: email.toUpperCase(), role: "developer" }])
    const accept = (of: typeof first) =>
      call(person, "POST", "/account/memberships", { token: tokenOf(of.json["path"]) })
    expect((await accept(first)).status).toBe(400)
    expect((await accept(second)).status).toBe(201)
    // Sent again, it was carried out.
    expect((await accept(second)).json).toEqual({ account_id: owner.accountId })
    expect((await invite(owner, email)).status).toBe(400)
    expect((await invite(owner, await emailOf(owner))).status).toBe(400)
  })

  test("only the account with the address accepts; whoever has the link sees what it is for", async () => {
    const owner = await gateway.person()
    const [invited, other] = [await gateway.person(), await gateway.person()]
    const { json } = await invite(owner, await emailOf(invited), "billing")
    const token = tokenOf(json["path"])
    const opened = await fetch(`${gateway.url}/invitations/open`, { method: "POST", body: JSON.stringify({ token }) })
    expect(await opened.json()).toMatchObject({
      email: await emailOf(invited),
      from: await emailOf(owner),
      role: "billing",
    })
    for (const person of [other, owner])
      expect((await call(person, "POST", "/account/memberships", { token })).status).toBe(400)
    expect((await call(other, "POST", "/account/memberships", { token: "nonsense" })).status).toBe(400)
    await gateway.sql`update accounts set email_unproved = true where id = ${invited.accountId}`
    expect((await call(invited, "POST", "/account/memberships", { token })).status).toBe(400)
    await gateway.sql`update accounts set email_unproved = false where id = ${invited.accountId}`
    expect((await call(invited, "POST", "/account/memberships", { token })).status).toBe(201)
    expect((await call(other, "POST", "/account/memberships", { token })).status).toBe(400)
  })

  test("good for seven days, taken back, or sent again", async () => {
    const owner = await gateway.person()
    const invited = await gateway.person()
    const { json } = await invite(owner, await emailOf(invited))
    const { id, created_at, expires_at, invited_by } = json["invitation"] as Record<string, string>
    expect(invited_by).toBe(await emailOf(owner))
    expect(Date.parse(expires_at ?? "") - Date.parse(created_at ?? "")).toBe(7 * 86_400_000)
    const again = await call(owner, "POST", `/account/invitations/${id}/send-again`)
    expect(again.status).toBe(200)
    const { id: newer } = again.json["invitation"] as Record<string, string>
    const open = (of: Body) => call(owner, "POST", "/invitations/open", { token: tokenOf(of["path"]) })
    expect([(await open(json)).status, (await open(again.json)).status]).toEqual([400, 200])
    await gateway.sql`update invitations set expires_at = now() where id = ${newer ?? ""}`
    expect((await open(again.json)).status).toBe(400)
    const late = await call(invited, "POST", "/account/memberships", { token: tokenOf(again.json["path"]) })
    expect(late.status).toBe(400)
    expect((await call(owner, "POST", `/account/invitations/${newer}/send-again`)).status).toBe(404)
    const other = (await invite(owner, "b@example.com")).json["invitation"] as Record<string, string>
    const { json: third } = await invite(owner, "c@example.com")
    expect((await call(owner, "DELETE", `/account/invitations/${other["id"]}`)).status).toBe(204)
    expect((await open(third)).status).toBe(200)
    expect((await call(owner, "DELETE", `/account/invitations/${other["id"]}`)).status).toBe(404)
    expect((await history(owner))[0]?.action).toBe("member.invitation_revoked")
  })

  test("fifty members, open invitations included, and twenty invitations a day", async () => {
    const owner = await gateway.person()
    const sent = await Promise.all(Array.from({ length: 21 }, (_, n) => invite(owner, `m${n}@example.com`)))
    expect(sent.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([...Array<number>(20).fill(201), 429])
    await gateway.sql`delete from allowances where name = ${`invitations ${owner.accountId}`}`
    await gateway.sql`
      insert into invitations (id, account_id, email, role, invited_by, expires_at)
      select 'inv_' || ${owner.accountId} || n, ${owner.accountId}, 'x' || n || '@example.com', 'viewer', ${owner.accountId},
        now() + interval '1 day' from generate_series(1, 29) n`
    // Two for the one place that is left.
    const last = await Promise.all(["y@example.com", "z@example.com"].map((email) => invite(owner, email)))
    expect(last.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([201, 400])
    // An address that has a place keeps it.
    expect((await invite(owner, "x1@example.com", "billing")).status).toBe(201)
  })

  test("fifty memberships of a person", async () => {
    const owner = await gateway.person()
    const person = await gateway.person()
    await gateway.sql`
      insert into accounts (id, email, password_hash)
      select 'acc_' || n || ${person.accountId}, n || ${await emailOf(person)}, 'x' from generate_series(1, 50) n`
    await gateway.sql`
      insert into members (account_id, member_id, role, invited_by, invitation_hash)
      select 'acc_' || n || ${person.accountId}, ${person.accountId}, 'viewer', 'x', ''::bytea from generate_series(1, 50) n`
    const { json } = await invite(owner, await emailOf(person))
    const accept = () => call(person, "POST", "/account/memberships", { token: tokenOf(json["path"]) })
    expect((await accept()).status).toBe(400)
    await gateway.sql`delete from members where account_id = ${`acc_1${person.accountId}`}`
    expect((await accept()).status).toBe(201)
  })

  test("two who accept one link at once: one membership", async () => {
    const owner = await gateway.person()
    const person = await gateway.person()
    const { json } = await invite(owner, await emailOf(person))
    const accept = () => call(person, "POST", "/account/memberships", { token: tokenOf(json["path"]) })
    const both = await Promise.all([accept(), accept()])
    expect(both.map(({ status }) => status)).toEqual([201, 201])
    const joined = (await history(owner)).filter(({ action }) => action === "member.joined")
    expect(joined).toHaveLength(1)
  })
})

test("a member's stream of events ends with the membership, at once", async () => {
  const owner = await gateway.person()
  const person = await member(owner, "viewer")
  const { token, hash } = createSessionToken()
  await gateway.sql`
    insert into sessions (token_hash, account_id, expires_at, looks_at)
    values (${hash}, ${person.accountId}, now() + interval '1 hour', ${owner.accountId})`
  const stream = await gateway.dashboard({ ...person, token }, "/events")
  const reader = stream.body?.pipeThrough(new TextDecoderStream()).getReader()
  const first = await reader?.read()
  expect(String(first?.value)).toContain(owner.accountId)
  expect((await call(owner, "DELETE", `/account/members/${person.accountId}`)).status).toBe(204)
  for (;;) if ((await reader?.read())?.done !== false) break
})

test("the table: each permission has the owner, and nobody but the owner has them all", () => {
  for (const permission of permissions) expect(mayDo("owner", permission)).toBe(true)
  for (const role of memberRoles)
    expect(permissions.every((permission) => mayDo(role, permission))).toBe(role === "owner")
})
