/** When a call's money is settled, and when it is given back: what its purses, the ledger and the disk are told, in which order. */
import { expect, test } from "bun:test"
import { micro, zero } from "../../actors/money/micro.ts"
import type { Actors } from "../../src/gateway/actors.ts"
import type { Admission } from "../../src/gateway/admit.ts"
import { type BookedCall, Booking } from "../../src/gateway/booking.ts"
import type { FinishedCall } from "../../src/gateway/ports.ts"
import type { CallEvent, State } from "../../src/gateway/states.ts"
import { flush } from "../kernel/world.ts"
import { all, answered, callOf, CEILINGS, FULL, HOLD, type Purse, withdrawing } from "./paying-actors.ts"

const DEADLINE_MS = 1_000

/** A call that has been forwarded, as its booking sees it. */
async function bookingOf() {
  const ledger = withdrawing([])
  const { call: billed, admission: taking, actors, taken } = await callOf(FULL)
  let released = 0
  const admission = {
    ...taking,
    leaseId: 1n,
    starts: billed.opening.starts,
    parent: billed.opening.parent,
    release: () => void released++,
  }
  const events: CallEvent[] = []
  const finished: FinishedCall[] = []
  const learnt: string[] = []
  const call = {
    ports: {
      actors: { ...actors, ledger: ledger.actors.ledger } as Actors,
      withdrawals: ledger.withdrawals,
      finished: (one: FinishedCall) => void finished.push(one),
      calibration: {
        learn: (accountId: string, model: string, estimate: number, counted: number) =>
          void learnt.push(`${accountId} ${model} ${counted}/${estimate}`),
      },
      factors: {
        learn: (accountId: string, model: string, of: string, factor: number) =>
          void learnt.push(`${accountId} ${model} ${of} ${factor}`),
      },
    },
    requestId: billed.opening.requestId,
    caller: { keyHash: "key", record: { accountId: "acc", keyId: "key", breakers: CEILINGS } },
    run: { runId: "run_1" },
    plan: {
      offer: admission.offer,
      request: { endpoint: "chat", stream: false, media: undefined, inputTokens: 10 },
      inputEstimate: { texts: 10, documents: 0 },
    },
    markers: [],
    attempts: 1,
    firstTokenMs: 1,
    elapsedMs: 2,
    costs: { final: undefined, parts: [], hasSearched: false },
    isAlerted: false,
    trace: undefined,
    state: "settling" as State,
    receive: (event: CallEvent) => void events.push(event),
  }
  const booking = new Booking(call as unknown as BookedCall, admission as unknown as Admission, 0)
  return { ...ledger, booking, call, admission, taken, events, finished, learnt, released: () => released }
}

const types = (events: readonly CallEvent[]) => events.map(({ type }) => type)

test("an answer is charged, and is over once it is durable: told, learnt from, and not before", async () => {
  const { booking, said, committed, taken, events, finished, learnt } = await bookingOf()
  booking.settle({ ...answered(40n), turns: 1 }, false)
  await flush()
  expect([said, events, booking.charge, booking.isDurable]).toEqual([["settle req_1"], [], zero, false])
  expect(await taken()).toEqual(all(40n))
  await committed()
  expect(events).toEqual([{ type: "settled", settled: "durable" }])
  booking.onSettled("durable")
  expect([booking.charge, booking.isDurable, booking.record?.status]).toEqual([micro(40n), true, "ok"])
  expect(finished).toMatchObject([{ requestId: "req_1", durable: true, record: { status: "ok", charge: micro(40n) } }])
  expect(learnt).toEqual(["acc m 0/10"])
})

test("what a backend counted of one answered turn is learnt: of text, and for an account whose call the house had to pay for", async () => {
  const counted = { input: 12, cacheRead: 3, cacheWrite: 5, output: 4 }
  // More than its purses have.
  const dear = { ...counted, output: 400 }
  const usual = { turns: 1, media: undefined as object | undefined, inputTokens: 10, documents: 0, hasSearched: false }
  for (const [tokens, other, expected] of [
    [counted, {}, ["acc m 20/10"]],
    [counted, { turns: 2 }, []],
    [undefined, {}, []],
    [counted, { media: {} }, []],
    [counted, { hasSearched: true }, []],
    [dear, {}, ["acc m 20/10", "acc m texts 2"]],
    [dear, { media: {}, documents: 5 }, ["acc m documents 2"]],
    [dear, { inputTokens: 20 }, ["acc m 20/10"]],
    [dear, { turns: 2 }, []],
  ] as const) {
    const { turns, media, inputTokens, documents, hasSearched } = { ...usual, ...other }
    const { booking, call, learnt } = await bookingOf()
    Object.assign(call.plan.request, { media, inputTokens })
    call.plan.inputEstimate.documents = documents
    call.costs.hasSearched = hasSearched
    booking.settle({ ...answered(0n), tokens, turns }, false)
    booking.onSettled("durable")
    expect({ tokens, other, learnt }).toEqual({ tokens, other, learnt: [...expected] })
  }
})

test("what a fenced process has settled costs its customer nothing, and the house what it cost", async () => {
  const { booking, finished } = await bookingOf()
  booking.settle(answered(40n), false)
  booking.onSettled("fenced")
  expect(finished).toMatchObject([{ record: { status: "billing_error", charge: zero, absorbed: micro(40n) } }])
  expect(booking.charge).toBe(zero)
})

test("a settlement that has no answer in time is taken back everywhere, and told when that is on the disk", async () => {
  const { booking, clock, said, committed, taken, events, finished } = await bookingOf()
  booking.settle(answered(40n), false)
  clock.advance(DEADLINE_MS)
  await flush()
  expect(types(events)).toEqual(["not-settled"])
  booking.withdraw("billing.reconcile_failed")
  await flush()
  expect([said, types(events)]).toEqual([
    ["settle req_1", "keep req_1"],
    ["not-settled", "withdrawn"],
  ])
  expect(await taken()).toEqual(all(0n))
  booking.onWithdrawn()
  expect(finished).toMatchObject([
    {
      durable: false,
      record: { status: "billing_error", charge: zero, absorbed: zero, errorCode: "billing.reconcile_failed" },
    },
  ])
  expect([booking.charge, booking.isDurable]).toEqual([zero, false])
  // Whatever became of it, its reversal follows.
  await committed()
  await committed()
  expect(said).toEqual(["settle req_1", "keep req_1", "void req_1", "forget req_1"])
})

test("a call that is withdrawn before it had an end gives back what it holds, once", async () => {
  const { booking, said, events, finished, released } = await bookingOf()
  booking.withdraw("billing.reconcile_failed")
  await flush()
  expect([released(), said, types(events)]).toEqual([1, ["void req_1", "keep req_1"], ["withdrawn"]])
  booking.onWithdrawn()
  expect(finished).toMatchObject([{ durable: false, record: { status: "billing_error", charge: zero } }])
})

test("a charge that ends when nothing is to be charged any more is taken back, and not sent to the ledger", async () => {
  const { booking, call, said, taken, events, released } = await bookingOf()
  call.state = "withdrawing"
  booking.settle(answered(40n), false)
  await flush()
  expect(await taken()).toEqual(all(0n))
  booking.withdraw("billing.reconcile_failed")
  await flush()
  // What was being charged has ended its holds by itself.
  expect([released(), said, types(events)]).toEqual([0, ["void req_1", "keep req_1"], ["withdrawn"]])
})

test("a bug while it is charged gives back what it holds, and is told to the call", async () => {
  const { booking, admission, events, released } = await bookingOf()
  Object.assign(admission.offer.price, { rates: undefined })
  booking.settle(answered(40n), false)
  expect([released(), types(events)]).toEqual([1, ["crashed"]])
})

test("a call that was rerouted is charged and taken back under its last admission", async () => {
  const { booking, admission, taken, settlements } = await bookingOf()
  const parent = { keyId: "parent", keyHash: "parent", starts: { daily: 1, monthly: 2, total: 0 } }
  const starts = { daily: 3, monthly: 4, total: 0 }
  const offer = { ...admission.offer, model: { ...admission.offer.model, id: "other" } }
  booking.replaceAdmission({
    ...admission,
    offer,
    leaseId: 2n,
    starts,
    parent,
    settled: () => {},
  } as unknown as Admission)
  booking.settle(answered(HOLD), false)
  await flush()
  expect(settlements).toMatchObject([
    { opening: { model: "m", leaseId: 2n, starts, parent }, records: [{ model: "other" }] },
  ])
  const paying: readonly Purse[] = ["key", "parent", "run_1", ...CEILINGS, "acc"]
  expect(await taken()).toEqual(all(HOLD, paying))
})
