/** What is gathered of refused calls: counts that are whole, rows that are few, whatever floods in. And the records of those that were forwarded. */
import { expect, test } from "bun:test"
import { type UsageRecord, voidedRecord } from "../../actors/batch.ts"
import { micro, zero } from "../../actors/money/micro.ts"
import { noTokens } from "../../actors/money/price.ts"
import type { Offer } from "../../src/catalogue/model.ts"
import { booked, RefusedCalls, settlement } from "../../src/gateway/call-records.ts"
import { firstRequestId, newRequestId } from "../../src/http/edge.ts"
import type { RefusedCall, RefusedCount } from "../../src/store/refused-calls.ts"

const HOUR_MS = 3_600_000

function gatherer() {
  const state = { now: 1_000 * HOUR_MS, away: false }
  const kept: RefusedCall[] = []
  /** As the rows would have it. */
  const counts = new Map<string, number>()
  const removed: string[] = []
  const refused = new RefusedCalls({
    store: {
      async keep(calls, all: readonly RefusedCount[]) {
        if (state.away) throw new Error("the database is away")
        // The rows of one statement are each another's.
        expect(new Set(all.map(({ accountId, code, hour }) => `${accountId} ${code} ${hour}`)).size).toBe(all.length)
        kept.push(...calls)
        for (const { accountId, code, hour, calls: count } of all) {
          const name = `${accountId} ${code} ${hour - 1_000}`
          counts.set(name, Math.max(count, counts.get(name) ?? 0))
        }
      },
      async removeOld(before) {
        removed.push(before)
        return 0
      },
    },
    firstId: firstRequestId,
    now: () => state.now,
  })
  const add = (accountId = "acc_a", code = "rate_limit.rpm_exceeded") =>
    refused.add({
      requestId: newRequestId(state.now),
      accountId,
      keyId: "key_a",
      at: state.now,
      endpoint: "chat",
      model: "m",
      code,
    })
  return { state, kept, counts, removed, refused, add }
}

test("the first ten of a code in a minute are kept, and all are counted", async () => {
  const { state, kept, counts, refused, add } = gatherer()
  expect(Array.from({ length: 25 }, () => add()).filter((isKept) => isKept)).toHaveLength(10)
  for (let call = 0; call < 3; call++) add("acc_a", "billing.insufficient_balance")
  await refused.flush()
  expect(kept).toHaveLength(13)
  for (let call = 0; call < 25; call++) add()
  await refused.flush()
  expect(kept).toHaveLength(13)
  state.now += 60_000
  add()
  expect(await refused.flush()).toEqual(new Set(["acc_a"]))
  expect(kept).toHaveLength(14)
  expect(Object.fromEntries(counts)).toEqual({
    "acc_a rate_limit.rpm_exceeded 0": 51,
    "acc_a billing.insufficient_balance 0": 3,
  })
  expect(await refused.flush()).toEqual(new Set())
})

test("each hour has its own count, and nothing of it stays in memory once it is written", async () => {
  const { state, counts, refused, add } = gatherer()
  add()
  state.now += HOUR_MS
  add()
  add()
  await refused.flush()
  expect(Object.fromEntries(counts)).toEqual({
    "acc_a rate_limit.rpm_exceeded 0": 1,
    "acc_a rate_limit.rpm_exceeded 1": 2,
  })
  expect(refused.waiting).toEqual({ calls: 0, accounts: 1 })
  state.now += HOUR_MS
  await refused.flush()
  expect(refused.waiting).toEqual({ calls: 0, accounts: 0 })
})

test("a clock that is set back over an hour's bound counts once in the hour that has begun", async () => {
  const { state, counts, refused, add } = gatherer()
  add()
  state.now += HOUR_MS
  add()
  state.now -= 1_000
  add()
  state.now += 1_000
  add()
  await refused.flush()
  expect(Object.fromEntries(counts)).toEqual({
    "acc_a rate_limit.rpm_exceeded 0": 1,
    "acc_a rate_limit.rpm_exceeded 1": 3,
  })
})

test("what could not be written is written later, and counted once", async () => {
  const { state, kept, counts, refused, add } = gatherer()
  add()
  state.away = true
  expect(await refused.flush().catch(String)).toBe("Error: the database is away")
  add()
  state.now += HOUR_MS
  add()
  expect(await refused.flush().catch(String)).toBe("Error: the database is away")
  state.away = false
  await refused.flush()
  await refused.flush()
  expect(kept).toHaveLength(3)
  expect([...counts.values()]).toEqual([2, 1])
})

test("a flood of 100,000 refusals costs microseconds, and a bounded memory while the database is away", async () => {
  const { state, refused, add } = gatherer()
  state.away = true
  for (let account = 0; account < 25_000; account++) add(`acc_${account}`)
  expect(refused.waiting).toEqual({ calls: 2_000, accounts: 20_000 })
  const call: RefusedCall = {
    requestId: newRequestId(state.now),
    accountId: "acc_1",
    keyId: "key_a",
    at: state.now,
    endpoint: "chat",
    model: "m",
    code: "rate_limit.rpm_exceeded",
  }
  const begun = process.threadCpuUsage()
  for (let time = 0; time < 100_000; time++) refused.add(call)
  // What this thread has worked, under a tenth of one in truth: how long a busy machine kept it waiting says nothing of them.
  const { user, system } = process.threadCpuUsage(begun)
  const microseconds = (user + system) / 100_000
  expect(microseconds).toBeLessThan(5)
  expect(refused.waiting).toEqual({ calls: 2_000, accounts: 20_000 })
})

test("while the database is away, 40,000 counts of hours that are over wait for it, the earliest", async () => {
  const { state, counts, refused, add } = gatherer()
  const addAll = () => {
    for (let account = 0; account < 20_000; account++)
      for (const code of ["rate_limit.rpm_exceeded", "billing.insufficient_balance"]) add(`acc_${account}`, code)
    add("acc_0", "model.unknown")
  }
  addAll()
  state.now += HOUR_MS
  addAll()
  state.away = true
  const flushed = refused.flush().catch(String)
  state.now += HOUR_MS
  // The hour before is over for three, and none of them fits beside what comes back.
  for (const account of ["acc_1", "acc_2", "acc_3"]) add(account)
  expect(await flushed).toBe("Error: the database is away")
  state.away = false
  await refused.flush()
  const ofHour = [0, 0, 0]
  for (const name of counts.keys()) ofHour[Number(name.split(" ")[2])]!++
  expect(ofHour).toEqual([40_000, 40_001 - 3, 3])
})

test("those that are older than seven days are removed", async () => {
  const { state, removed, refused } = gatherer()
  await refused.removeOld()
  expect(removed).toEqual([firstRequestId(state.now - 7 * 24 * HOUR_MS)])
})

const rates = { input: micro(1n), output: micro(1n), cacheRead: micro(1n), cacheWrite: micro(1n) }
const offerOf = (id: string, price: bigint) => ({ model: { id }, price: { id: price, rates } }) as unknown as Offer
const record: UsageRecord = {
  part: 0,
  model: "m",
  priceId: 1n,
  status: "ok",
  tokens: noTokens,
  charge: micro(5n),
  absorbed: micro(2n),
  excess: micro(1n),
  turns: 1,
  attempts: 1,
  errorCode: undefined,
  flagged: false,
  firstTokenMs: 3,
  durationMs: 4,
  member: "one/a/m",
  cost: zero,
}

test("what a process answers that has no access any more is charged to nobody, and the house bears it", () => {
  expect(booked(record, "durable")).toBe(record)
  const fenced = { charge: zero, absorbed: micro(7n), status: "billing_error", flagged: true } as const
  expect(booked(record, "fenced")).toEqual({ ...record, ...fenced })
})

test("of what was withdrawn nobody bears anything", () => {
  const nothing = { charge: zero, absorbed: zero, excess: zero, status: "billing_error", flagged: true } as const
  expect(voidedRecord(record)).toEqual({ ...record, ...nothing })
})

const marker = (id: string, status: "fallback_429" | "fallback_oversize", attempts: number) => ({
  offer: offerOf(id, 7n),
  member: `one/a/${id}`,
  status,
  attempts,
  durationMs: 9,
})

const costPart = (kind: "searches" | "retry") => ({
  kind,
  offer: offerOf("m", 8n),
  member: "one/a/m",
  cost: micro(11n),
})

test("each record of a call has a part of its own: the final one, the models that it was rerouted from, the house's costs", () => {
  const { records, voided } = settlement(
    {
      opening: {},
      markers: [marker("first", "fallback_429", 3), marker("second", "fallback_oversize", 0)],
      costs: { parts: [costPart("searches"), costPart("retry")] },
    } as unknown as Parameters<typeof settlement>[0],
    record,
  )
  expect(voided).toBeFalse()
  expect(records[0]).toBe(record)
  const free = { charge: zero, absorbed: zero, excess: zero, tokens: noTokens, flagged: false }
  expect(records.slice(1)).toMatchObject([
    { part: 1, model: "first", priceId: 7n, status: "fallback_429", attempts: 3, durationMs: 9, cost: zero, ...free },
    { part: 2, model: "second", status: "fallback_oversize", attempts: 0, cost: zero, ...free },
    { part: 3, model: "m", priceId: 8n, status: "ok", cost: micro(11n), ...free },
    { part: 4, model: "m", status: "upstream_error", cost: micro(11n), ...free },
  ])
})
