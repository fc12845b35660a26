/** What a call takes when it is admitted, of all that pay for it, and that a refusal at any step leaves nothing of it. */
import { expect, test } from "bun:test"
import * as fc from "fast-check"
import { VirtualClock } from "../kernel/virtual-time.ts"
import { type Micro, micro } from "../../actors/money/micro.ts"
import { holdFrom, quote } from "../../actors/money/price.ts"
import { Failure } from "../../src/failure/failure.ts"
import type { FailureCode } from "../../src/failure/table.ts"
import { admit, quoteTerms } from "../../src/gateway/admit.ts"
import type { Seat } from "../../src/gateway/member-selector.ts"
import { actorsWith, all, CEILINGS, FULL, type Has, KEYS, PURSES, pursesWith, type Purse } from "./paying-actors.ts"

type Parts = Parameters<typeof admit>

/** What refuses a call that has its money. */
const STEPS = ["model", "gate", "member", "leaves"] as const
type Step = (typeof STEPS)[number]

const codes: Readonly<Record<Purse, FailureCode>> = {
  key: "quota.key_limit_exceeded",
  parent: "quota.key_limit_exceeded",
  run_1: "quota.run_limit_exceeded",
  brk_acc: "gateway.capacity",
  "brk_acc.key": "gateway.capacity",
  acc: "billing.insufficient_balance",
}

function world(has: Has, paying: readonly Purse[], refusing: Step | undefined) {
  const { actors, taken } = actorsWith(has)
  const slots: string[] = []
  const seats: string[] = []
  const admitted: string[] = []
  const slotOf = (name: Step) => ({
    acquire() {
      if (refusing === name) return { kind: "full" } as const
      slots.push(name)
      return { kind: "acquired" } as const
    },
    release: () => void (slots.includes(name) && slots.splice(slots.indexOf(name), 1)),
  })
  const one = micro(1n)
  const call = {
    requestId: "req_1",
    caller: {
      keyHash: "key",
      record: {
        accountId: "acc",
        keyId: "key",
        parent: paying.includes("parent") ? { keyId: "parent", keyHash: "parent" } : undefined,
        breakers: CEILINGS.filter((ceiling) => paying.includes(ceiling)),
      },
    },
    run: paying.includes("run_1") ? { runId: "run_1" } : undefined,
    plan: {
      request: { inputTokens: 5, maxOutputTokens: 60, choices: 1, features: new Set() },
      inputEstimate: { likely: 5, most: 20, least: 5, texts: 5, documents: 0 },
    },
    hasLeft: false,
    whenLeft: undefined,
  }
  const ports = {
    actors: { ...actors, models: slotOf("model"), gate: slotOf("gate") },
    catalogue: { largestWindow: 1_000 },
    clock: new VirtualClock(),
    limits: { capacityWaitMs: 1_000 },
    admitted: (accountId: string) => admitted.push(accountId),
  } as unknown as Parts[0]
  const terms = {
    call,
    offer: {
      model: { id: "m", contextWindow: 1_000, maxOutputTokens: 100 },
      price: { rates: { input: one, output: one, cacheRead: one, cacheWrite: one } },
    },
    minAnswerTokens: 1,
    members: {
      acquire() {
        if (refusing === "member") return undefined
        if (refusing === "leaves") call.hasLeft = true
        seats.push("seat")
        return { release: () => seats.pop() }
      },
    },
  } as unknown as Parts[1]
  return { ports, terms, taken, slots, seats, admitted }
}

test("a call holds with all that pay for it what the poorest of them can hold, and gives all of it back", async () => {
  const amount = fc.bigInt({ min: 0n, max: 250n })
  const others = fc.subarray<Purse>(["parent", "run_1", ...CEILINGS])
  const refusals = fc.option(fc.constantFrom(...STEPS), { nil: undefined })
  await fc.assert(
    fc.asyncProperty(pursesWith(amount), others, refusals, async (has, others, refusing) => {
      const paying = PURSES.filter((id) => id === "key" || id === "acc" || others.includes(id))
      const { ports, terms, taken, slots, seats, admitted } = world(has, paying, refusing)
      const { worst, least } = quote(quoteTerms(ports, terms.call.plan, terms))
      const hold = paying.reduce<Micro | undefined>((most, id) => most && holdFrom(micro(has[id]), most, least), worst)
      const met = await admit(ports, terms)
      if (hold === undefined || refusing !== undefined) {
        const poorest = paying.find((id) => has[id] < least)
        expect(met instanceof Failure && met.code).toBe(poorest === undefined ? "gateway.capacity" : codes[poorest])
        expect(admitted).toEqual([])
      } else {
        if (met instanceof Failure) throw new Error(met.code)
        expect(met.hold).toBe(hold)
        // Input is 5 tokens, and each token costs one.
        expect(met.answerLimit).toBe(Math.min(60, Number(hold) - 5))
        expect(met.reservedTokens).toBe(5 + 16)
        expect([met.leaseId, met.parent !== undefined]).toEqual([1n, others.includes("parent")])
        expect([slots, seats, admitted]).toEqual([["model", "gate"], ["seat"], ["acc"]])
        const held = await taken()
        for (const id of paying)
          expect([id, held[id]]).toEqual([id, KEYS.includes(id as never) ? [hold] : [hold, hold]])
        met.release()
        met.release()
      }
      expect([await taken(), slots, seats]).toEqual([all(0n), [], []])
    }),
    { numRuns: 300 },
  )
})

test.each(["at once", "after a wait"])("a bug in who hears of an admission leaves nothing held: %s", async (when) => {
  const { ports, terms, taken, slots, seats } = world(FULL, PURSES, undefined)
  const { members } = terms
  const broken = { ...ports, admitted: () => raise("a bug") } as unknown as Parts[0]
  const acquire: typeof members.acquire = async (...asked) => await members.acquire(...asked)
  const late = { ...terms, members: { acquire } } as unknown as Parts[1]
  const admitting = async () => await admit(broken, when === "at once" ? terms : late)
  expect(await admitting().catch(String)).toBe("Error: a bug")
  expect([await taken(), slots, seats]).toEqual([all(0n), [], []])
})

function raise(message: string): never {
  throw new Error(message)
}

test("a call that moves leaves its seat, and what it takes when its money is settled it gives back at once", async () => {
  const { ports, terms, taken, slots, seats } = world(FULL, ["key", "acc"], undefined)
  const left: string[] = []
  const seat = (name: string) => ({ release: () => left.push(name) }) as unknown as Seat
  const met = await admit(ports, terms)
  if (met instanceof Failure) throw new Error(met.code)
  const second = seat("second")
  met.moveTo(second)
  expect([seats, left, met.seat]).toEqual([[], [], second])
  met.settled()
  met.settled()
  expect([slots, left]).toEqual([[], ["second"]])
  met.moveTo(seat("third"))
  expect(left).toEqual(["second", "second", "third"])
  // Its money is not its own any more.
  met.release()
  expect((await taken())["acc"]).toEqual([met.hold, met.hold])
})
