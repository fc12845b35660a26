/** What is no difference, what moves money as nothing may, and sums that stand under another name. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { breaks, madeRun, moveBetween, withoutTrigger } from "./breaks.ts"
import { openHeld, type Work } from "./held.ts"
import type { BrokenBooks } from "./world.ts"

let world: Awaited<ReturnType<typeof openHeld>>
beforeAll(async () => {
  world = await openHeld()
})
afterAll(() => world.close())

const broken = (claim: string): Work => {
  const found = breaks.find((one) => one.claim === claim)
  if (found === undefined) throw new Error(`nothing breaks that ${claim}`)
  return found.by
}

const credited = (of: BrokenBooks, amount: number, accountId = of.victim.accountId) => of.sql`
  insert into trial_credits (address_hash, account_id, amount_micro) values ('x', ${accountId}, ${amount})`
const trial = (of: BrokenBooks, { from = "house:trial_credits", key = of.victim.accountId } = {}) =>
  moveBetween(of.sql, { key: `trial:${key}`, from, to: of.victim.accountId, reason: "trial_credit" })
/** The victim's run, made so many hours after its call. */
const runMade =
  (hours: number, spent: number): Work =>
  async (of) => {
    await madeRun(of, { budget: 200_000, spent })
    await of.sql`update runs set created_at = (select min(opened_at) from usage) + make_interval(hours => ${hours})`
  }

describe("sums under another name are told twice, as sums without records and as records without sums:", () => {
  const renamed: readonly (readonly [claim: string, Work])[] = [
    [
      "the sums by the hour are those of the records",
      ({ sql, victim }) => sql`update usage_hours set model = 'other' where account_id = ${victim.accountId}`,
    ],
    [
      "the sums of profit are those of the records",
      ({ sql, victim }) =>
        sql`update profit_hours set model = 'other' where account_id = ${victim.accountId} and kind = 'ok'`,
    ],
    [
      "the sums of profit by parts of days are those of the hours",
      ({ sql, victim }) =>
        sql`update profit_days set model = 'other' where account_id = ${victim.accountId} and kind = 'ok'`,
    ],
    [
      "the sums of profit of the house are those of its accounts",
      ({ sql }) => sql`update profit_house set model = 'other' where kind = 'ok'`,
    ],
    [
      "the sums of profit by accounts are those of the parts of days",
      ({ sql, victim }) =>
        sql`update profit_account_days set account_id = 'other' where account_id = ${victim.accountId}`,
    ],
    [
      "the sums of profit by accounts and months are those of their days",
      ({ sql, victim }) =>
        sql`update profit_account_months set account_id = 'other' where account_id = ${victim.accountId}`,
    ],
    [
      "the sums of profit by accounts, models and months are those of the parts of days",
      ({ sql, victim }) => sql`update profit_account_models set model = 'other' where account_id = ${victim.accountId}`,
    ],
    [
      "the sums of how calls ended are those of the records",
      ({ sql }) => sql`update call_hours set error_code = 'other' where status = 'ok'`,
    ],
    [
      "the sums by days and months are those of the hours",
      ({ sql }) => sql`update usage_spans set model = 'other' where charge_micro = 200003`,
    ],
    [
      "the sums of each model, key, format and status by days and months are those of all",
      ({ sql }) => sql`update usage_groups set name = 'other' where charge_micro = 200003`,
    ],
  ]
  test.each(renamed)("%s", async (claim, rename) => {
    const told = await world.found(claim, async (of) => {
      await broken(claim)(of)
      await rename(of)
    })
    for (const [how, { shown }] of Object.entries(told)) {
      const sides = shown.map(({ figures }) => ({
        kept: (figures["kept_micro"] ?? null) !== null,
        recorded: (figures["recorded_micro"] ?? figures["summed_micro"] ?? null) !== null,
      }))
      // What is new is of who called: of another account nothing is looked at.
      const kept = how === "since" && claim.includes("by accounts") && !claim.includes("models") ? 0 : 1
      expect([sides.filter((side) => !side.recorded).length, sides.filter((side) => !side.kept).length]).toEqual([
        kept,
        1,
      ])
    }
  })
})

const CLAIM = "a transfer is of a known kind, and an adjustment is an operator's"

describe("money is moved as nothing moves it:", () => {
  const ofHouse: readonly (readonly [key: string, from: string, to: string, reason: string])[] = [
    ["absorb:x", "house:absorbed", "house:adjustments", "absorbed"],
    ["void:x", "house:revenue", "house:absorbed", "void"],
    ["void-absorb:x", "house:adjustments", "house:absorbed", "void"],
    ["void-absorb:x", "house:revenue", "house:adjustments", "void"],
    ["topup:simulated:x", "house:cash_clearing", "house:revenue", "service_fee"],
    ["topup:simulated:x:service_fee", "house:adjustments", "house:revenue", "service_fee"],
  ]
  test.each(ofHouse)("%s from %s to %s", async (key, from, to, reason) => {
    const { all, since } = await world.found(CLAIM, ({ sql }) => moveBetween(sql, { key, from, to, reason }))
    for (const { shown } of [all, since])
      expect(shown).toMatchObject([{ accountId: null, figures: { idempotency_key: key } }])
  })

  const trials: readonly (readonly [what: string, Work])[] = [
    ["out of another pot", async (of) => [await credited(of, 7), await trial(of, { from: "house:adjustments" })]],
    ["of somebody else", async (of) => [await credited(of, 7), await trial(of, { key: of.bystander.accountId })]],
    ["that another was given", async (of) => [await credited(of, 7, of.bystander.accountId), await trial(of)]],
    ["of another amount", async (of) => [await credited(of, 8), await trial(of)]],
  ]
  test.each(trials)("a trial credit %s", async (_, work) => {
    const { all, since } = await world.found(CLAIM, work)
    for (const { shown } of [all, since]) expect(shown).toMatchObject([{ accountId: world.victim.accountId }])
  })

  test("and a trial credit as it was given is none", async () => {
    const { all, since } = await world.found(CLAIM, async (of) => [await credited(of, 7), await trial(of)])
    expect([all.shown, since.shown]).toEqual([[], []])
  })
})

describe("is no difference:", () => {
  const TOKENS = "a charge is its tokens at its price version"
  const RUN = "a run has spent what its calls are charged, and no more than its budget"
  const none: readonly (readonly [what: string, claim: string, Work])[] = [
    [
      "a call with tokens of all kinds, of which the house absorbed a part and more than they come to",
      TOKENS,
      ({ sql, victim }) =>
        withoutTrigger(
          sql,
          { table: "usage", trigger: "usage_charge_is_final" },
          () => sql`
            update usage set input_tokens = input_tokens + 50, cache_read_tokens = 3, cache_write_tokens = 2,
              absorbed_micro = 50000 + 300 + 2500 + 9, excess_micro = 9
            where request_id = ${victim.requestId} and part = 0`,
        ),
    ],
    ["a run that has spent all of its budget", RUN, runMade(0, 200_000)],
    ["a call of up to a day before its run was made, by the clock of another machine", RUN, runMade(23, 200_000)],
    ["a call of the run of the same name that was before", RUN, runMade(25, 0)],
  ]
  test.each(none)("%s", async (_, claim, work) => {
    const { all, since } = await world.found(claim, work)
    expect([all.shown, since.shown]).toEqual([[], []])
  })

  /** Sums of which something came late are made again; others are looked at. */
  const late: readonly (readonly [claim: string, late: Work, early: Work])[] = [
    ...[
      "the sums of profit by parts of days are those of the hours",
      "the sums of profit by accounts are those of the parts of days",
      "the sums of customers by days are those of the parts of days",
    ].map(
      (claim) =>
        [
          claim,
          ({ sql }: BrokenBooks) => sql`insert into profit_late select distinct since from profit_days`,
          ({ sql }: BrokenBooks) => sql`insert into profit_late values ('2020-01-01Z'), ('2120-01-01Z')`,
        ] as const,
    ),
    ...[
      "the sums of how calls ended are those of the records",
      "the sums by days and months are those of the hours",
    ].map(
      (claim) =>
        [
          claim,
          ({ sql }: BrokenBooks) => sql`insert into call_late select distinct hour from usage_hours`,
          ({ sql }: BrokenBooks) => sql`insert into call_late values ('2020-01-01Z'), ('2120-01-01Z')`,
        ] as const,
    ),
  ]
  test.each(late)("%s, where something came late", async (claim, ofThem, ofOthers) => {
    const after =
      (then: Work): Work =>
      async (of) => [await broken(claim)(of), await then(of)]
    const { all, since } = await world.found(claim, after(ofThem))
    expect([all.differences, since.differences]).toEqual([0, 0])
    const others = await world.found(claim, after(ofOthers))
    expect([others.all.differences, others.since.differences]).toEqual([1, 1])
  })
})
