/** A reconciliation reads what is new since the last that agreed: it finds there what a full one finds, and proves the same. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "bun:test"
import { firstRequestId, newRequestId } from "../../src/http/edge.ts"
import { claimsSince } from "../../src/reconciliation/claims-since.ts"
import { checkClaim, reconcile } from "../../src/reconciliation/reconcile.ts"
import { accountStore } from "../../src/store/accounts.ts"
import { type Proof, proofPoint, prove, reconciliationStore } from "../../src/store/reconciliations.ts"
import { topUpStore } from "../../src/store/top-ups.ts"
import { directConnection } from "../store/harness.ts"
import { breaks, withoutTrigger } from "./breaks.ts"
import { type BrokenBooks, openBooks } from "./world.ts"

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS

let world: BrokenBooks

/** As it would be run at a time. */
async function run(now: number, full?: boolean) {
  const accounts = accountStore(world.db)
  const store = reconciliationStore(world.db)
  const parts = {
    store,
    connect: async () => directConnection(world.url),
    payments: {
      store: topUpStore(world.db),
      providers: [],
      topUps: { settle: async () => {}, isHandled: async () => false },
      refunds: { reverse: async () => false },
      days: 0,
      now: () => now,
    },
    freeze: (accountId: string, reason: string) => accounts.freeze(accountId, reason),
    firstId: firstRequestId,
    now: () => now,
  }
  const done = await reconcile(parts, await store.begin(), { signal: new AbortController().signal, full })
  return {
    isFull: done.since === undefined,
    differing: done.findings.filter(({ differences }) => differences > 0).map(({ claim }) => claim),
    compared: Object.fromEntries(done.findings.map(({ claim, compared }) => [claim, compared])),
    frozen: done.frozen,
  }
}

const latest = async (): Promise<Proof> => {
  const { base } = await proofPoint(world.sql, firstRequestId, Date.now())
  if (base === undefined) throw new Error("nothing was proven")
  return base
}

/** A call that arrived and began at a time. */
const call = (atMs: number, voided = false, id = newRequestId(atMs)) => {
  const settlement = world.books.settlement({ ...world.victim, id, tokens: { input: 50, output: 10 } })
  return { ...settlement, voided, opening: { ...settlement.opening, openedAt: atMs } }
}
const book = (...settlements: ReturnType<typeof call>[]) => world.books.commit(world.victim.processId, { settlements })

/** What a proof has, and what it would have, made anew out of everything. */
const proven = async () => {
  const { id, untilCall, untilTransfer } = await latest()
  const kept = await world.sql`
    select 'account' as of, account_id as name, amount_micro as amount from proven_accounts where proof_id = ${id}
    union all select 'key', key_id, charge_micro from proven_keys where proof_id = ${id}
    union all select 'lease', lease_id::text, charge_micro from proven_leases where proof_id = ${id} order by 1, 2`
  const summed = await world.sql`
    select 'account' as of, name, sum(amount) as amount from all_transfers t
      cross join lateral (values (credit_account, amount_micro), (debit_account, -amount_micro)) as m (name, amount)
      where t.id <= ${untilTransfer} or t.request_id < ${untilCall} group by 2
    union all select 'key', key_id, sum(charge_micro) from usage where request_id < ${untilCall} group by 2
    union all select 'lease', lease_id::text, sum(charge_micro) from usage where request_id < ${untilCall} group by 2
    order by 1, 2`
  return { kept: [...kept], summed: [...summed] }
}

describe("after a proof of nothing all is new, and what is broken is seen:", () => {
  /** Before the world's calls were made. */
  const BEFORE = Date.parse("2026-11-20T02:00:00Z")
  let proof: Proof
  beforeAll(async () => {
    world = await openBooks()
    expect(await prove(world.sql, await proofPoint(world.sql, firstRequestId, BEFORE), true)).toBe(true)
    proof = await latest()
    for (const claim of claimsSince(proof)) expect(await checkClaim(world.sql, claim)).toMatchObject({ shown: [] })
  })
  afterAll(() => world.close())

  for (const { claim: name, by, about, figures } of breaks.filter(({ isProven }) => isProven !== true)) {
    test(name, async () => {
      const { sql, victim } = world
      const claim = claimsSince(proof).find((one) => one.name === name)
      if (claim === undefined) throw new Error("no such claim")
      await sql.unsafe("begin")
      try {
        await by(world)
        const found = await checkClaim(sql, claim)
        const accountId = about === "victim" ? victim.accountId : null
        expect(found.shown).toEqual([{ accountId, mended: false, figures: expect.objectContaining(figures) }])
      } finally {
        await sql.unsafe("rollback")
      }
    })
  }
})

describe("of calls that were proven, and others", () => {
  beforeEach(async () => {
    world = await openBooks()
  })
  afterEach(() => world.close())

  test("sums go on from proof to proof, with what came late and what was taken back of what was proven", async () => {
    const now = Date.now()
    const old = call(now - 10 * HOUR_MS)
    await book(old, call(now - 9 * HOUR_MS))
    // All transfers so far are of more than an hour before.
    expect(await run(now + 2 * HOUR_MS)).toMatchObject({ isFull: true, differing: [] })
    expect((await proven()).kept).toEqual((await proven()).summed)
    expect((await proven()).kept).toContainEqual(
      expect.objectContaining({ of: "key", name: world.victim.keyId, amount: "200000" }),
    )

    const taken = { ...old, voided: true }
    await book(call(now), call(now - 8 * HOUR_MS), taken)
    const second = await run(now + 2 * HOUR_MS)
    expect(second).toMatchObject({ isFull: false, differing: [] })
    // Those of the world have ids that sort last; with them one that is new, one that came late and one that was taken back.
    expect(second.compared["a charge is its tokens at its price version"]).toBe(4 + 3)
    expect((await proven()).kept).toEqual((await proven()).summed)
    expect(await world.sql`select from call_changes`).toHaveLength(0)

    await book(call(now - 7 * HOUR_MS), call(now))
    expect(await run(now + 6 * HOUR_MS)).toMatchObject({ isFull: false, differing: [] })
    expect((await proven()).kept).toEqual((await proven()).summed)
    expect(await run(now + 6 * HOUR_MS, true)).toMatchObject({ isFull: true, differing: [] })
    expect((await proven()).kept).toEqual((await proven()).summed)
    expect(await world.sql`select distinct proof_id from proven_accounts`).toHaveLength(1)
  })

  test("what is changed of what was proven, by who knows the tables, is found by a full one, and after seven days", async () => {
    const now = Date.now()
    const old = call(now - 10 * HOUR_MS)
    await book(old)
    await run(now + 2 * HOUR_MS)
    await withoutTrigger(
      world.sql,
      { table: "usage", trigger: "usage_charge_is_final" },
      () =>
        world.sql`update usage set account_id = ${world.bystander.accountId} where request_id = ${old.opening.requestId}`,
    )
    // Who changes it knows nothing of changes that are told of.
    await world.sql`delete from call_changes`
    const names = ["a balance is the sum of its transfers", "a record is of its key's account"]
    expect(await run(now + 3 * HOUR_MS)).toMatchObject({ isFull: false, differing: [] })
    expect(await run(now + 3 * HOUR_MS, true)).toMatchObject({ isFull: true, differing: names })
    await world.sql`update accounts set frozen_at = null, frozen_reason = null`
    expect(await run(now + 8 * DAY_MS)).toMatchObject({
      isFull: true,
      differing: names,
      frozen: expect.arrayContaining([world.victim.accountId, world.bystander.accountId]),
    })
  })

  test("what only seems to differ from a proof freezes nobody, and everything is proven anew", async () => {
    const now = Date.now()
    await book(call(now - 10 * HOUR_MS))
    await run(now + 2 * HOUR_MS)
    await world.sql`update proven_accounts set amount_micro = amount_micro + 1`
    await world.sql`update proven_keys set charge_micro = charge_micro + 1`
    await book(call(now))
    expect(await run(now + 3 * HOUR_MS)).toMatchObject({ isFull: true, differing: [], frozen: [] })
    expect((await proven()).kept).toEqual((await proven()).summed)
    expect(await run(now + 3 * HOUR_MS)).toMatchObject({ isFull: false, differing: [] })
  })

  test("a proof of a clock that was ahead is not gone on from, for what came since would not be new", async () => {
    const now = Date.now()
    expect(await run(now + 2 * HOUR_MS)).toMatchObject({ isFull: true })
    // A proof is until three hours before, so that clocks may differ by less.
    expect(await run(now - HOUR_MS)).toMatchObject({ isFull: false })
    expect(await run(now + 5 * DAY_MS)).toMatchObject({ isFull: false })
    expect(await run(now)).toMatchObject({ isFull: true, differing: [] })
    expect(await run(now)).toMatchObject({ isFull: false, differing: [] })
    await world.sql`update proofs set made_at = now() + interval '8 days'`
    expect(await run(now)).toMatchObject({ isFull: true, differing: [] })
  })

  test("where something differs nothing is proven", async () => {
    const now = Date.now()
    await run(now)
    const { id } = await latest()
    await world.sql`update balances set posted_micro = posted_micro + 7 where account_id = ${world.victim.accountId}`
    expect(await run(now)).toMatchObject({ isFull: true, frozen: [world.victim.accountId] })
    expect((await latest()).id).toBe(id)
  })

  test("of two at once one makes a proof, and what is changed while a third reads is looked at by the next", async () => {
    const now = Date.now()
    const old = call(now - 10 * HOUR_MS)
    await book(old)
    await run(now + 2 * HOUR_MS)
    const point = await proofPoint(world.sql, firstRequestId, now + 2 * HOUR_MS)
    await book({ ...old, voided: true })
    expect(await prove(world.sql, point, false)).toBe(true)
    expect(await prove(world.sql, point, false)).toBe(false)
    expect((await proven()).kept).toEqual((await proven()).summed)
    expect(await world.sql`select distinct request_id from call_changes`).toEqual([
      { request_id: old.opening.requestId },
    ] as never)
    await world.sql`update usage set input_tokens = 1, status = 'ok' where request_id = ${old.opening.requestId}`
    expect((await run(now + 2 * HOUR_MS)).differing).toContain("a charge is its tokens at its price version")
  })
})
