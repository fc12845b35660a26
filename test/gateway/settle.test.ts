/**
 * A call's money, on the actors themselves. Whatever it costs, and whichever actor crashes when it is asked to settle, each purse
 * is charged what is booked, and nothing stays held.
 */
import { expect, test } from "bun:test"
import * as fc from "fast-check"
import type { Settlement } from "../../actors/ledger.ts"
import { type Micro, micro, zero } from "../../actors/money/micro.ts"
import { holdFrom, noTokens } from "../../actors/money/price.ts"
import { Failure } from "../../src/failure/failure.ts"
import type { End } from "../../src/gateway/attempt.ts"
import {
  forecastBreakers,
  holdOfBreakers,
  isHeld,
  refusalOfBreaker,
  refusalOfKeys,
  releaseBreakers,
  releaseKeys,
  reserveOfKeys,
  shortageOf,
  trimBreakers,
  trimKeys,
} from "../../src/gateway/purses.ts"
import { charge, reverseCharge, withdraw, withdrawKept } from "../../src/gateway/settle.ts"
import { flush } from "../kernel/world.ts"
import {
  actorsWith,
  all,
  answered,
  CALL,
  callOf,
  CEILINGS,
  FULL,
  type Has,
  HOLD,
  KEYS,
  now,
  type Otherwise,
  PURSES,
  type Purse,
  pursesWith,
  RESERVED_TOKENS,
  withdrawing,
} from "./paying-actors.ts"

const CHILD = { keyHash: "key", record: { parent: { keyId: "parent", keyHash: "parent" } } }
const RESERVATION = { ...CALL, worst: CALL.target, tokens: RESERVED_TOKENS }

const spare = fc.bigInt({ min: HOLD * 2n, max: HOLD * 4n })
const purses: fc.Arbitrary<Has> = fc.record({
  key: spare,
  parent: spare,
  run_1: spare,
  brk_acc: spare,
  "brk_acc.key": spare,
  acc: spare,
})

test("a call holds under its keys and ceilings what the poorest can hold, and one that is refused or given up leaves nothing", async () => {
  const amount = fc.bigInt({ min: 0n, max: HOLD * 3n })
  const poor = pursesWith(amount)
  const least = micro(10n)
  await fc.assert(
    fc.asyncProperty(poor, fc.boolean(), async (has, isChild) => {
      const { actors, taken, tokens } = actorsWith(has)
      const keys = isChild ? KEYS : (["key"] as const)
      const caller = {
        keyHash: "key",
        record: { parent: isChild ? { keyId: "parent", keyHash: "parent" } : undefined },
      }
      const { requestId, target } = CALL
      const reserving = reserveOfKeys(actors, caller, { requestId, least, worst: target, tokens: RESERVED_TOKENS })
      if (reserving instanceof Promise) throw new Error("nobody waits here")
      const held =
        reserving instanceof Failure
          ? reserving
          : await holdOfBreakers(actors, CEILINGS, { requestId, least, target: reserving.hold ?? target })
      const paying = [...keys, ...CEILINGS]
      const hold = paying.reduce<Micro | undefined>((most, id) => most && holdFrom(micro(has[id]), most, least), target)
      if (held instanceof Failure) {
        const poorest = paying.find((id) => has[id] < least)
        const isOfKey = poorest === "key" || poorest === "parent"
        expect(hold).toBeUndefined()
        expect(held.code).toBe(isOfKey ? "quota.key_limit_exceeded" : "gateway.capacity")
        expect(held.message.includes("child")).toBe(poorest === "parent")
      } else {
        expect<Micro | undefined>(held).toBe(hold)
        trimKeys(actors, caller, requestId, held)
        trimBreakers(actors, CEILINGS, requestId, held)
        const own = await taken()
        expect(paying.map((id) => own[id]?.at(0))).toEqual(paying.map(() => held))
        expect(tokens()).toEqual([RESERVED_TOKENS, isChild ? RESERVED_TOKENS : 0])
      }
      releaseKeys(actors, caller, requestId)
      releaseBreakers(actors, CEILINGS, requestId)
      expect(await taken()).toEqual(all(0n))
      expect(tokens()).toEqual([0, 0])
    }),
    { numRuns: 200 },
  )
})

test.each(KEYS)(
  "a call of a %s that has ended meanwhile is refused as one that comes later, and says whose key it is",
  async (id) => {
    for (const [change, code] of [
      [{ revoked: true }, "auth.api_key_revoked"],
      [{ expiresAt: 0 }, "auth.api_key_expired"],
      [{ accountDeleted: true }, "auth.account_deleted"],
      [{ accountFrozen: true }, "auth.account_frozen"],
    ] as const) {
      const { actors } = actorsWith(FULL, { records: { [id]: change } })
      for (const refusal of [reserveOfKeys(actors, CHILD, RESERVATION), refusalOfKeys(actors, CHILD)]) {
        if (!(refusal instanceof Failure)) throw new Error(`${code} is not said`)
        expect([refusal.code, refusal.message.includes("child")]).toEqual([code, id === "parent"])
      }
    }
    expect(refusalOfKeys(actorsWith(FULL).actors, CHILD)).toBeUndefined()
  },
)

/** What two calls are told that come one after the other. */
const refused = (otherwise: Otherwise, has: Has = FULL) => {
  const { actors } = actorsWith(has, otherwise)
  const first = reserveOfKeys(actors, CHILD, RESERVATION)
  const second = reserveOfKeys(actors, CHILD, { ...RESERVATION, requestId: "req_2" })
  return [first, second].map((reply) => (reply instanceof Failure ? [reply.code, reply.detail.retryAfterS] : "held"))
}

test.each(KEYS)(
  "a call over a %s's tokens or budget is told so and for how long, and neither where the database does not say",
  (id) => {
    const tokens = (tokensPerMinute: number) => ({ records: { [id]: { tokensPerMinute } } })
    expect(refused(tokens(2 * RESERVED_TOKENS))).toEqual(["held", "held"])
    expect(refused(tokens(RESERVED_TOKENS))).toEqual(["held", ["rate_limit.tpm_exceeded", 60]])
    // It never fits.
    expect(refused(tokens(RESERVED_TOKENS - 1)).at(0)).toEqual(["rate_limit.tpm_exceeded", undefined])
    expect(refused({}, { ...FULL, [id]: 0n }).at(0)).toEqual(["quota.key_limit_exceeded", undefined])
    const daily = { budget: { limit: zero, period: "daily" as const } }
    const untilMidnight = 17 * 3_600
    expect(refused({ records: { [id]: daily } }, { ...FULL, [id]: 0n }).at(0)).toEqual([
      "quota.key_limit_exceeded",
      untilMidnight,
    ])
    expect(refused({ isAway: true }).at(0)).toEqual(["dependency.database_unavailable", undefined])
  },
)

test("a call over a ceiling is told what its account was told: paused, crowded for now, or not known", async () => {
  for (const [trip, code, retryAfterS] of [
    ["paused", "quota.key_paused", undefined],
    ["crowded", "gateway.capacity", 1],
    ["unavailable", "dependency.database_unavailable", undefined],
  ] as const) {
    const { actors } = actorsWith({ ...FULL, "brk_acc.key": 0n }, { trip })
    const refusal = await holdOfBreakers(actors, CEILINGS, CALL)
    expect(refusal instanceof Failure && [refusal.code, refusal.detail.retryAfterS]).toEqual([code, retryAfterS])
  }
})

test("a call whose key or ceiling cannot be asked is told so, and pauses nobody", async () => {
  const away = actorsWith({ ...FULL, brk_acc: 0n }, { isAway: true, trip: "paused" }).actors
  const { actors } = actorsWith(FULL, { neverStarts: true, trip: "paused" })
  for (const refusal of [
    holdOfBreakers(away, CEILINGS, CALL),
    holdOfBreakers(actors, CEILINGS, CALL),
    reserveOfKeys(actors, CHILD, RESERVATION),
    refusalOfKeys(actors, CHILD),
  ])
    expect(await refusal).toMatchObject({ code: "dependency.database_unavailable" })
})

test("a ceiling is forecast as a call would find it, and refuses what only calls under way keep from it for now", async () => {
  const [ceiling, ...none] = await forecastBreakers(actorsWith({ ...FULL, "brk_acc.key": 20n }).actors, CEILINGS)
  if (ceiling === undefined) throw new Error("there is a ceiling")
  expect([ceiling.of, ceiling.remaining, none]).toEqual(["key", micro(10n), []])
  const [full] = await forecastBreakers(actorsWith(FULL).actors, CEILINGS)
  expect(full?.remaining).toBe(zero)
  expect([30n, 31n].map((least) => refusalOfBreaker(ceiling, micro(least)).code)).toEqual([
    "gateway.capacity",
    "quota.key_paused",
  ])
})

test("a call that its account does not hold for is short of money only where that is known", () => {
  const failure = new Failure("gateway.capacity")
  expect(shortageOf(failure)).toBe(failure)
  expect(shortageOf({ kind: "insufficient" }).code).toBe("billing.insufficient_balance")
  expect(shortageOf({ kind: "unavailable" }).code).toBe("dependency.database_unavailable")
  const held = { kind: "held", hold: micro(1n), leaseId: 1n } as const
  expect([held, { kind: "insufficient" } as const, failure].map(isHeld)).toEqual([true, false, false])
})

/** What the record of a call says of it, whatever became of it. */
const ASKED = { model: "m", priceId: 1n, attempts: 3, durationMs: 2, member: "p", cost: micro(7n) }

test("what a call costs is charged to all that pay for it, up to what the poorest has, and taken back from all", async () => {
  await fc.assert(
    fc.asyncProperty(
      purses,
      fc.subarray<Purse>(["parent", "run_1", ...CEILINGS]),
      fc.bigInt({ min: 0n, max: HOLD * 5n }),
      fc.bigInt({ min: 0n, max: 3n }),
      fc.option(fc.constantFrom(...PURSES), { nil: undefined }),
      async (has, others, cost, excess, mayCrash) => {
        const paying: readonly Purse[] = ["key", "acc", ...others]
        const { actors, call, crashes, taken, tokens, seats } = await callOf(has, paying)
        const crashing = mayCrash !== undefined && paying.includes(mayCrash) ? mayCrash : undefined
        if (crashing !== undefined) crashes.add(crashing)
        const bill = now(charge(actors, call, answered(cost, excess), false))
        // A key or a run that did not say what it pays pays what it held; an account or a ceiling that did not say leaves nothing to charge.
        const isUnknown = crashing === "acc" || CEILINGS.includes(crashing as never)
        const most =
          crashing === undefined ? paying.map((id) => has[id]).reduce((a, b) => (a < b ? a : b)) : isUnknown ? 0n : HOLD
        const charged = cost < most ? cost : most
        expect(bill.record).toEqual({
          ...ASKED,
          part: 0,
          tokens: { ...noTokens, output: Number(cost) },
          firstTokenMs: 1,
          errorCode: undefined,
          turns: 2,
          status: isUnknown ? "billing_error" : "ok",
          charge: micro(charged),
          absorbed: micro(isUnknown ? 0n : cost - charged + excess),
          excess: micro(isUnknown ? 0n : excess),
          flagged: isUnknown || excess > 0n,
        })
        expect(await taken()).toEqual(all(charged, paying))
        expect(seats()).toBe(0)
        const ofParent = paying.includes("parent") ? Number(cost) : 0
        if (crashing === undefined) expect(tokens()).toEqual([Number(cost), ofParent])
        reverseCharge(actors, call, bill)
        expect(await taken()).toEqual(all(0n))
      },
    ),
    { numRuns: 300 },
  )
})

test("a call that failed, or was not counted, costs nothing and leaves nothing held; one that was not counted keeps its tokens", async () => {
  const has: Has = { key: 300n, parent: 300n, run_1: 300n, brk_acc: 300n, "brk_acc.key": 300n, acc: 300n }
  const fault = { failure: new Failure("dependency.upstream_unavailable"), opened: true }
  const failed = { kind: "failed", fault, committed: false } as unknown as End
  const unopened = { kind: "failed", fault: { ...fault, opened: false }, committed: false } as unknown as End
  for (const [end, isDrainedOut, streamed, firstTokenMs, status, tokens] of [
    [answered(undefined), false, false, 1, "usage_missing", RESERVED_TOKENS],
    [failed, true, true, 1, "usage_missing", RESERVED_TOKENS],
    [failed, false, true, 1, "upstream_error", 0],
    [failed, false, true, undefined, "aborted_stream", 0],
    [failed, true, true, undefined, "aborted_stream", 0],
    [failed, false, false, undefined, "upstream_error", 0],
    [unopened, false, true, undefined, "upstream_error", 0],
  ] as const) {
    const world = await callOf(has)
    const call = { ...world.call, firstTokenMs, opening: { ...world.call.opening, streamed } }
    const { record } = now(charge(world.actors, call, end, isDrainedOut))
    const isFault = end.kind === "failed"
    expect(record).toEqual({
      ...ASKED,
      part: 0,
      status,
      errorCode: isFault ? "dependency.upstream_unavailable" : undefined,
      firstTokenMs,
      tokens: noTokens,
      turns: end.kind === "failed" ? 1 : 2,
      charge: zero,
      absorbed: zero,
      excess: zero,
      flagged: status === "usage_missing",
    })
    expect(await world.taken()).toEqual(all(0n))
    expect({ status, tokens: world.tokens() }).toEqual({ status, tokens: [tokens, tokens] })
    expect(world.seats()).toBe(0)
  }
})

async function settlementOf(requestId: string, accountId: string): Promise<Settlement> {
  const { actors, call } = await callOf({
    key: 300n,
    parent: 300n,
    run_1: 300n,
    brk_acc: 300n,
    "brk_acc.key": 300n,
    acc: 300n,
  })
  const { record } = now(charge(actors, call, answered(10n), false))
  return { opening: { ...call.opening, requestId, accountId }, records: [record], voided: false }
}

test("a call that is withdrawn is voided, and kept on the disk until that is durable", async () => {
  const { actors, withdrawals, said, committed } = withdrawing([])
  await withdraw(actors, withdrawals, await settlementOf("a", "acc"))
  expect(said).toEqual(["void a", "keep a"])
  await committed()
  expect(said).toEqual(["void a", "keep a", "forget a"])
})

test("what processes before this one have withdrawn is voided twice, and forgotten when that is durable", async () => {
  const kept = [await settlementOf("a", "acc_1"), await settlementOf("b", "acc_2")]
  const { actors, withdrawals, said, committed } = withdrawing(kept)
  const done = withdrawKept(actors, withdrawals)
  for (let commit = 0; commit < 4; commit++) {
    expect(said.some((what) => what.startsWith("forget"))).toBe(false)
    await flush()
    await committed()
  }
  expect(await done).toBe(2)
  expect(said).toEqual(["void a", "void b", "void a", "void b", "forget a", "forget b"])
  expect(await withdrawKept(actors, { ...withdrawals, kept: async () => [] })).toBe(0)
})
