/** Each claim, broken in exactly its way: it is told, with the account that it is about, and that account is frozen. */
import { afterEach, beforeEach, describe, expect, test } from "bun:test"
import { claims } from "../../src/reconciliation/claims.ts"
import { reportText } from "../../src/reconciliation/reconcile.ts"
import { breaks, moveBetween, type Movement } from "./breaks.ts"
import { type BrokenBooks, openBooks } from "./world.ts"

let world: BrokenBooks
beforeEach(async () => {
  world = await openBooks()
})
afterEach(() => world.close())

test("every claim is broken here", () => {
  expect([...new Set(breaks.map(({ claim }) => claim))]).toEqual(claims.map(({ name }) => name))
})

test("one is not told in the plural", () => {
  const found = { claim: "it holds", compared: 9, notCompared: 1, accounts: [], shown: [] }
  const said = (differences: number, notCompared: number) =>
    reportText({ id: 1n, since: undefined, findings: [{ ...found, differences, notCompared }], frozen: [] })
  expect(said(1, 1)).toMatch(/^1 top-up not compared: [^\n]*\n1 difference$/m)
  expect(said(1_200, 2)).toMatch(/^2 top-ups not compared: [^\n]*\n1,200 differences$/m)
})

test("books that agree are found to agree, and nobody is frozen", async () => {
  const { code, report } = await world.command()
  expect([code, report.differences, report.frozen]).toEqual([0, 0, []])
  const compared = Object.fromEntries(report.claims.map((claim) => [claim.claim, claim.compared]))
  expect(compared["a balance is the sum of its transfers"]).toBe(2)
  expect(compared["a charge is its tokens at its price version"]).toBe(4)
  expect(compared["a paid top-up was credited once, in full, and no other was"]).toBe(2)
  expect(await world.frozen()).toEqual([])
})

test("a clock that was ahead when a model's first price was made, and was set back, is no difference; a price that was there before is one", async () => {
  const { sql } = world
  const [moved] = await sql<{ model: string }[]>`
    update prices set effective_at = now() + interval '5 hours', created_at = now() + interval '5 hours' returning model`
  expect((await world.command()).code).toBe(0)
  // As somebody moves it who knows the tables.
  await sql`update prices set effective_at = created_at + interval '61 seconds'`
  expect((await world.command()).code).toBe(1)
  await sql`update prices set effective_at = created_at`
  expect((await world.command()).code).toBe(0)
  await sql`
    insert into prices (model, input_micro, output_micro, cache_read_micro, cache_write_micro, effective_at)
    values (${moved!.model}, 1, 1, 1, 1, '2000-01-01Z')`
  expect((await world.command()).code).toBe(1)
  expect(await world.frozen()).toEqual([])
})

describe("broken is", () => {
  for (const { claim, by, about, figures, alsoFrozen } of breaks) {
    test(claim, async () => {
      await by(world)
      const { victim, sql } = world
      const { code, report } = await world.command()
      expect(code).toBe(1)
      const found = report.claims.find((one) => one.claim === claim)
      expect(found?.differences).toBe(1)
      const accountId = about === "victim" ? victim.accountId : null
      expect(found?.shown).toEqual([expect.objectContaining({ account_id: accountId, mended: false, ...figures })])

      const others = alsoFrozen === undefined ? [] : [world[alsoFrozen].accountId]
      // The house's own figures move with a balance; its service fees, its prices, and sums that are no money, are nobody's.
      const frozen = /^(the (service fee|sums)|a price had)/.test(claim) ? [] : [victim.accountId, ...others]
      expect(await world.frozen()).toEqual(frozen.sort())
      const rows = await sql`
        select claim, account_id, figures, mended from reconciliation_differences
        where reconciliation_id = ${report.reconciliation} and claim = ${claim}`
      expect([...rows]).toEqual([
        { claim, account_id: accountId, figures: expect.objectContaining(figures), mended: false },
      ])
      const [last] = await sql`
        select differences from reconciliations where ended_at is not null order by id desc limit 1`
      expect(last?.differences).toBe(BigInt(report.differences))
    })
  }
})

test("a top-up that is credited and not paid, or paid and not credited, or credited to somebody else, differs", async () => {
  const { sql, victim, bystander } = world
  const claim = "a paid top-up was credited once, in full, and no other was"
  const differences = async () =>
    (await world.command()).report.claims.find((one) => one.claim === claim)?.shown.map((row) => row["account_id"])
  await sql`update top_ups set status = 'pending' where id = ${victim.topUpId}`
  expect(await differences()).toEqual([victim.accountId])
  await sql`update top_ups set status = 'paid', account_id = ${bystander.accountId} where id = ${victim.topUpId}`
  expect(await differences()).toEqual([bystander.accountId])
  await sql`update top_ups set reference = 'another' where id = ${victim.topUpId}`
  expect((await differences())?.sort()).toEqual([victim.accountId, bystander.accountId].sort())
})

describe("money that is moved by hand, with the balances, is seen:", () => {
  const claim = "a transfer is of a known kind, and an adjustment is an operator's"
  const moves: readonly (readonly [
    what: string,
    (world: BrokenBooks) => Movement,
    about: readonly ("victim" | "bystander")[],
    claim?: string,
  ])[] = [
    [
      "from one customer to another",
      ({ victim, bystander }) => ({ key: "mine", from: bystander.accountId, to: victim.accountId, reason: "by hand" }),
      ["victim", "bystander"],
    ],
    [
      "as a charge that goes to a customer",
      ({ victim, bystander }) => ({
        key: "charge:x",
        from: bystander.accountId,
        to: victim.accountId,
        reason: "charge",
      }),
      ["victim", "bystander"],
    ],
    [
      "as what the house absorbed, from a customer",
      ({ victim }) => ({ key: "absorb:x", from: victim.accountId, to: "house:revenue", reason: "absorbed" }),
      ["victim"],
    ],
    [
      "as a void out of another pot",
      ({ victim }) => ({ key: "void:x", from: "house:adjustments", to: victim.accountId, reason: "void" }),
      ["victim"],
    ],
    [
      "as a top-up out of revenue",
      ({ victim }) => ({ key: "topup:x", from: "house:revenue", to: victim.accountId, reason: "top_up" }),
      ["victim"],
    ],
    [
      "as an adjustment under another key's name",
      ({ victim }) => ({ key: "adjusted:x", from: "house:adjustments", to: victim.accountId, reason: "adjustment" }),
      ["victim"],
    ],
    [
      "as a trial credit that nobody was given",
      ({ victim: { accountId } }) => ({
        key: `trial:${accountId}`,
        from: "house:trial_credits",
        to: accountId,
        reason: "trial_credit",
      }),
      ["victim"],
    ],
    [
      "as a refund that is given back",
      ({ victim }) => ({
        key: "refund-cancelled:x",
        from: "house:cash_clearing",
        to: victim.accountId,
        reason: "refund_cancelled",
      }),
      ["victim"],
      "a refund is booked once, in full, of its own account and of the house",
    ],
    [
      "as a refund to another customer",
      ({ victim, bystander }) => ({
        key: "refund:x",
        from: bystander.accountId,
        to: victim.accountId,
        reason: "refund",
      }),
      ["victim", "bystander"],
      "a refund is booked once, in full, of its own account and of the house",
    ],
    [
      "as a claim that the house settles",
      ({ victim }) => ({ key: "claim:x", from: "house:adjustments", to: victim.accountId, reason: "claim" }),
      ["victim"],
      "a claim is settled of its own account",
    ],
    [
      "as a claim that is settled to a customer",
      ({ victim, bystander }) => ({ key: "claim:x", from: bystander.accountId, to: victim.accountId, reason: "claim" }),
      ["victim", "bystander"],
      "a claim is settled of its own account",
    ],
  ]
  test.each(moves)("%s", async (_, move, about, seenBy = claim) => {
    await moveBetween(world.sql, move(world))
    const { report } = await world.command()
    const found = report.claims.find((one) => one.claim === seenBy)
    expect(found?.shown.map((row) => row["account_id"]).sort()).toEqual(about.map((who) => world[who].accountId).sort())
    expect(await world.frozen()).toEqual(expect.arrayContaining(about.map((who) => world[who].accountId)))
  })

  test("as an operator's adjustment of another amount, another account or another sign", async () => {
    const { sql, victim, bystander } = world
    const differs = async () => (await world.command()).report.claims.find((one) => one.claim === claim)?.differences
    await sql`alter table audit_log disable trigger audit_log_is_final`
    const audit = (amount: number, subject: string) => sql`
      update audit_log set after = after || jsonb_build_object('amount_micro', ${amount}::bigint), subject = ${subject}
      where action = 'account.adjusted' and subject in (${victim.accountId}, 'nobody')`
    expect(await differs()).toBe(0)
    await audit(999_999, victim.accountId)
    expect(await differs()).toBe(1)
    await audit(-1_000_000, victim.accountId)
    expect(await differs()).toBe(1)
    await audit(1_000_000, "nobody")
    expect(await differs()).toBe(1)
    await audit(1_000_000, victim.accountId)
    expect(await differs()).toBe(0)
    await sql`delete from audit_log where subject = ${bystander.accountId}`
    expect(await differs()).toBe(1)
    await sql`alter table audit_log enable trigger audit_log_is_final`
  })
})

test("a key that is moved to another account takes its records along in no book", async () => {
  const { sql, victim, bystander } = world
  await sql`update api_keys set account_id = ${bystander.accountId} where id = ${victim.keyId}`
  const { report } = await world.command()
  const found = report.claims.find((one) => one.claim === "a record is of its key's account")
  expect(found?.shown).toEqual(
    [0, 1].map(() => expect.objectContaining({ account_id: victim.accountId, of_key: bystander.accountId })),
  )
})

test("of many differences all are counted and frozen, and some are shown", async () => {
  const { sql } = world
  for (let more = 0; more < 130; more++) await world.books.account(1_000n)
  await sql`update balances set posted_micro = posted_micro + 1`
  const { report } = await world.command()
  expect(report.claims[0]?.differences).toBe(132)
  expect(report.claims[0]?.shown).toHaveLength(100)
  expect(await world.frozen()).toHaveLength(132)
})

test("amounts past 2^53 are told to the last micro", async () => {
  await world.sql`update balances set posted_micro = 9007199254740993 where account_id = ${world.victim.accountId}`
  const { report } = await world.command()
  expect(report.claims[0]?.shown[0]?.["posted_micro"]).toBe("9007199254740993")
})
