/**
 * What a store says of a statement whose answer was lost: it is sent again, and its caller hears of it what it would have heard the
 * first time, for mails, alerts and answers hang on that.
 */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { micro, zero } from "../../actors/money/micro.ts"
import { accountMailStore } from "../../src/store/account-mails.ts"
import { accountStore } from "../../src/store/accounts.ts"
import { managementTokenStore } from "../../src/store/credentials.ts"
import type { Database } from "../../src/store/database.ts"
import { memberStore } from "../../src/store/members.ts"
import { adjust } from "../../src/store/operator/adjustments.ts"
import { refundStore } from "../../src/store/refunds.ts"
import { topUpStore } from "../../src/store/top-ups.ts"
import { Books } from "../money/books.ts"
import { openTestDatabase, type TestDatabase } from "./harness.ts"

let target: TestDatabase
let books: Books
let db: Database
beforeAll(async () => {
  target = await openTestDatabase()
  books = await Books.open(target)
  db = losesAnswers(target.db)
}, 300_000)
afterAll(() => target.close())

/** Of each statement that may be sent again the first answer is lost. */
const losesAnswers = (database: Database): Database => ({
  async run(statement, options) {
    if (options?.retry === true) await database.run(statement, options)
    return await database.run(statement, options)
  },
  ping: () => database.ping(),
  get load() {
    return database.load
  },
  close: () => database.close(),
})

let requests = 0
const act = () => ({ requestId: `req_${++requests}`, operatorId: undefined, address: undefined })

async function joined(accountId: string, role: string): Promise<string> {
  const { accountId: memberId } = await books.account(0n)
  await target.sql`insert into members (account_id, member_id, role, invited_by, invitation_hash)
    values (${accountId}, ${memberId}, ${role}, ${accountId}, ${Buffer.from(memberId)})`
  return memberId
}

/** What the account's owner is mailed. */
const mailed = async (accountId: string): Promise<string[]> => {
  const rows = await target.sql<{ kind: string }[]>`
    select kind from account_mails where account_id = ${accountId} order by id`
  return rows.map(({ kind }) => kind)
}

test("a member's role is another one, and the owner is told once where it is more than before", async () => {
  const { accountId } = await books.account(0n)
  const store = memberStore(db)
  const memberId = await joined(accountId, "viewer")
  const above = { owner: ["viewer", "developer", "billing"], developer: ["viewer"] } as const
  expect(await store.changeRole({ accountId, memberId }, "owner", accountId, above.owner)).toBe(true)
  expect((await store.list(accountId)).map(({ role }) => role)).toEqual(["owner"])
  expect(await mailed(accountId)).toEqual(["member-raised"])
  await target.sql`update account_mails set tries = 1 where account_id = ${accountId}`
  // An owner who gives the role up decides on nothing any more.
  expect(await store.changeRole({ accountId, memberId }, "developer", memberId, above.developer)).toBe(true)
  expect((await store.list(accountId)).map(({ role }) => role)).toEqual(["developer"])
  expect(await mailed(accountId)).toEqual(["member-raised"])
})

test("who joins by an invitation is told of once, however often the link is sent", async () => {
  const inviting = await books.account(0n)
  const person = await books.account(0n)
  const [invited] = await target.sql<{ email: string }[]>`select email from accounts where id = ${person.accountId}`
  const store = memberStore(db)
  const hash = Buffer.from(`the link of ${person.accountId}`)
  const { accountId } = inviting
  const invitation = {
    id: "inv_1",
    accountId,
    email: invited?.email ?? "",
    role: "viewer",
    invitedBy: accountId,
  } as const
  expect(await store.invite({ ...invitation, tokenHash: hash })).toBeUndefined()
  for (const _ of [1, 2]) {
    expect(await store.accept(hash, person.accountId)).toEqual({ accountId })
    expect(await mailed(accountId)).toEqual(["member-joined"])
    await target.sql`update account_mails set tries = 1 where account_id = ${accountId}`
  }
})

test("a changed password and one that is reset are told of once", async () => {
  const { accountId } = await books.account(0n)
  await target.sql`update accounts set password_hash = 'one' where id = ${accountId}`
  const change = { from: "one", to: "two", network: "10.0.0.0/24" }
  expect(await accountStore(db).changePassword(accountId, change)).toBe(true)
  expect(await mailed(accountId)).toEqual(["password-changed"])
  expect(await accountStore(db).changePassword(accountId, { ...change, to: "three" })).toBe(false)
  const hash = Buffer.from(`a link of ${accountId}`)
  await accountMailStore(db).linkFor(accountId, hash, { act: act(), reason: "a test" })
  expect(await accountMailStore(db).resetPassword(hash, "four")).toEqual([])
  expect((await mailed(accountId)).toSorted()).toEqual(["password-changed", "password-reset", "reset"])
})

/** Sets a new password by a link; returns the keys that were revoked with it. */
async function reset(accountId: string): Promise<readonly string[] | undefined> {
  const hash = Buffer.from(`a link of ${accountId}`)
  await accountMailStore(db).linkFor(accountId, hash, { act: act(), reason: "a test" })
  return (await accountMailStore(db).resetPassword(hash, `a hash of ${accountId}`))?.map(({ id }) => id)
}

test("the keys that are revoked with a reset of an unproved address are told of, and no others", async () => {
  const { accountId, keyId } = await books.account(0n)
  const proved = await books.account(0n)
  await target.sql`update accounts set email_unproved = true where id = ${accountId}`
  expect(await reset(accountId)).toEqual([keyId])
  expect(await reset(proved.accountId)).toEqual([])
})

test("who does not decide on members changes no role, not even to the one that it is", async () => {
  const { accountId } = await books.account(0n)
  const store = memberStore(db)
  const [one, other] = [await joined(accountId, "developer"), await joined(accountId, "viewer")]
  for (const role of ["owner", "viewer"] as const)
    expect(await store.changeRole({ accountId, memberId: other }, role, one, ["viewer"])).toBe(false)
  expect(await store.changeRole({ accountId, memberId: "acc_nobody" }, "owner", accountId, ["viewer"])).toBe(false)
  expect(await mailed(accountId)).toEqual([])
  expect((await store.list(accountId)).map(({ role }) => role).toSorted()).toEqual(["developer", "viewer"])
})

test("a management token is revoked once, and another key's or an unknown one not", async () => {
  const key = await books.account(0n)
  const other = await books.account(0n)
  const store = managementTokenStore(db)
  const token = { id: "mgt_1", name: "t", prefix: "lk-mgmt", last4: "last", hash: Buffer.from("a hash") }
  expect(await store.create(key, token)).toMatchObject({ id: "mgt_1" })
  expect(await store.revoke(other, "mgt_1")).toBe(false)
  expect(await store.revoke(key, "mgt_1")).toBe(true)
  expect(await store.revoke(key, "mgt_1")).toBe(false)
  expect(await store.list(key)).toEqual([])
})

test("a refund and what a provider takes back are booked, and those of another id under the same key were before", async () => {
  const { accountId } = await books.account(0n)
  const topUps = topUpStore(db)
  const breakdown = {
    balancePurchasedMicro: micro(100_000_000n),
    serviceFeeMicro: zero,
    paymentFeeMicro: zero,
    networkFeeMicro: zero,
  }
  await topUps.create({ id: "top_1", accountId, provider: "played", breakdown, validMinutes: 15 })
  await topUps.credit("top_1", { key: "topup:played:top_1", reference: "top_1" })
  const store = refundStore(db)
  const refund = { accountId, topUpId: "top_1", amountMicro: micro(30_000_000n), reason: "a test", byProvider: false }
  const booked = await store.book({ ...refund, id: "ref_1", idempotencyKey: "one" }, act())
  expect(booked).toMatchObject({ outcome: "booked", refundId: "ref_1", amountMicro: 30_000_000n })
  expect(await store.book({ ...refund, id: "ref_2", idempotencyKey: "one" }, act())).toMatchObject({
    outcome: "before",
    refundId: "ref_1",
  })
  const { byProvider: _, ...terms } = refund
  const reversal = { ...terms, kind: "chargeback", provider: "played", reference: "1", upToMicro: undefined } as const
  expect(await store.reverse({ ...reversal, id: "ref_3", mayClaim: true })).toMatchObject({
    outcome: "booked",
    refundId: "ref_3",
  })
  expect(await store.reverse({ ...reversal, id: "ref_4", mayClaim: true })).toMatchObject({ outcome: "before" })
  const rest = { ...reversal, reference: "2", amountMicro: micro(90_000_000n) }
  expect(await store.reverse({ ...rest, id: "ref_5", mayClaim: true })).toMatchObject({ outcome: "booked" })
  const [left] = await target.sql<{ posted: bigint; transfers: number }[]>`
    select posted_micro as posted, (select count(*)::int from transfers where debit_account = ${accountId}) as transfers
    from balances where account_id = ${accountId}`
  expect({ ...left }).toEqual({ posted: 0n, transfers: 3 })
  // What is over was kept by the sending that booked; the second has nothing to say of it.
  const problems = await target.sql<{ kind: string; reference: string; paid: string }[]>`
    select kind, reference, paid from payment_problems order by id`
  expect(problems.map(({ kind, reference, paid }) => [kind, reference, paid])).toEqual([
    ["chargeback", "top_1:1", "30 IDR"],
    ["over_refunded", "top_1:2", "90 IDR"],
    ["chargeback", "top_1:2", "90 IDR"],
  ])
})

test("an adjustment is made, once", async () => {
  const { accountId } = await books.account(0n)
  const adjustment = { accountId, amountMicro: micro(5_000_000n), reason: "a test", idempotencyKey: "one" }
  for (const _ of [1, 2])
    expect(await adjust(db, adjustment, act())).toEqual({ outcome: "adjusted", balanceMicro: micro(5_000_000n) })
})
