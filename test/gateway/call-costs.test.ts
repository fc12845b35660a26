/** What a call costs the house, of what its backends counted, said and searched; whole calls are in test/contract/costs.test.ts. */
import { describe, expect, test } from "bun:test"
import { type Cost, largestCost, noTokens, type Tokens } from "../../actors/money/price.ts"
import { type Micro, micro, zero } from "../../actors/money/micro.ts"
import type { Offer } from "../../src/catalogue/model.ts"
import { AttemptUsage, CallCosts, OutputMeter } from "../../src/gateway/call-costs.ts"
import type { Member } from "../../src/upstream/providers.ts"

const events = (...lengths: readonly number[]) => {
  const meter = new OutputMeter()
  for (const length of lengths) meter.event(length)
  return meter
}
const whole = (length: number) => {
  const meter = new OutputMeter()
  meter.whole(length)
  return meter
}
const unread = (meter: OutputMeter, length: number) => {
  meter.unread(length)
  return meter
}

describe("the output tokens of an answer that nobody counted", () => {
  test.each([
    ["of nothing are none", new OutputMeter(), 0],
    ["of a whole answer are one for four letters", whole(8), 2],
    ["of a whole answer are rounded upwards", whole(9), 3],
    ["of events that are all alike are one of each, whatever frames it", events(100, 100, 100), 3],
    ["of events of other lengths are by what they have over the shortest", events(100, 140), 12],
    ["of events are rounded upwards", events(100, 141), 13],
    ["of events without a frame are by their letters", events(3, 22), 7],
    ["of events are never fewer than the events", events(1, 1, 1, 1), 4],
    ["of what went on unread are as of what was read", unread(events(10, 10), 100), 12],
    ["of what went on unread are of whole events", unread(events(10, 10), 15), 4],
    ["of what went on unread twice are as of both", unread(unread(events(10, 10), 100), 120), 24],
    ["of what went on after one letter are one of each letter", unread(events(1), 3), 4],
    ["of what was unread from its beginning are none", unread(new OutputMeter(), 100), 0],
    ["of what was unread after events of no length are of those", unread(events(0), 100), 1],
    ["of a stream that ends in one piece are those of its events", unread(events(100), 0), 1],
  ])("%s", (_, meter, tokens) => expect(meter.tokens).toBe(tokens))
})

const used = (input: number, output: number): Tokens => ({ ...noTokens, input, output })
const member = (id: string) => ({ id, upstream: id }) as unknown as Member
const offer = (id: string) => ({ model: { id } }) as unknown as Offer
const asked = { offer: offer("m"), member: member("p"), request: { inputTokens: 50, choices: 2 }, answerLimit: 10 }

interface Came {
  readonly counted?: Tokens
  readonly searches?: number
  /** Events with content. */
  readonly events?: number
  readonly isAnswered?: boolean
}

function become(usage: AttemptUsage, { counted, searches = 0, events = 0, isAnswered = false }: Came): AttemptUsage {
  for (let n = 0; n < events; n++) usage.output.event(100)
  if (counted !== undefined || searches > 0) usage.setCounts(counted, searches)
  if (isAnswered) usage.isAnswered = true
  return usage
}

test.each<[string, Came, Tokens | undefined]>([
  ["that said nothing, nothing", {}, undefined],
  ["that counted nothing and said nothing, nothing", { counted: noTokens }, undefined],
  ["that was answered, what it counted", { counted: used(7, 2), events: 3, isAnswered: true }, used(7, 2)],
  ["that was answered and counted nothing, nothing of it", { counted: noTokens, isAnswered: true }, noTokens],
  ["that broke off, what it counted and what it said since", { counted: used(7, 1), events: 3 }, used(7, 3)],
  ["that broke off, no less than it counted", { counted: used(7, 8), events: 3 }, used(7, 8)],
  ["that broke off before it said anything, what it counted of the prompt", { counted: used(1, 0) }, used(1, 0)],
  ["that did not count, the estimate of its prompt and what it said", { events: 3 }, used(50, 3)],
  ["that did not count and said one thing, its prompt and that", { events: 1 }, used(50, 1)],
  ["that counted nothing of what it said, as if it did not count", { counted: noTokens, events: 3 }, used(50, 3)],
  ["that did not count, no more than it was let say", { events: 30 }, used(50, 20)],
  ["that was answered and did not count, at least its prompt", { isAnswered: true }, used(50, 0)],
  ["that searched and said nothing, its prompt", { searches: 1 }, used(50, 0)],
])("the backend of a try bills of one %s", (_, came, consumed) =>
  expect(become(new AttemptUsage(asked), came).consumed).toEqual(consumed),
)

const partsOf = (call: CallCosts) =>
  call.parts.map(({ kind, member, cost, offer }) => [kind, member, cost, offer.model.id])
const million = (n: number): Tokens => used(n * 1_000_000, 0)
const micros = (amount: number): Micro => micro(BigInt(amount))

describe("of a call's tries", () => {
  const cost: Cost = {
    currency: "IDR",
    rates: { input: 1_000n, output: 1_000n, cacheRead: 1_000n, cacheWrite: 1_000n },
    perCall: 1_000n,
    perSearch: 10_000_000n,
    rounding: "none",
    step: 1n,
  }
  /** A million tokens come to one micro-rupiah, each call to one, and each search to ten thousand. */
  const unit = micro(1_000_000n)
  const OPENED_AT = 5
  const NONE = { ...cost, perSearch: 0n }

  function callOf(
    tries: readonly (Came & { readonly at?: string })[],
    costs: Readonly<Record<string, Cost | undefined>>,
  ) {
    const catalogue = {
      costing: (model: string, upstream: unknown, atMs: number) => {
        const known = model === "m" && atMs === OPENED_AT ? costs[String(upstream)] : undefined
        return known && { cost: known, unit }
      },
    }
    const call = new CallCosts(catalogue, OPENED_AT)
    for (const came of tries) become(call.begin({ ...asked, member: member(came.at ?? "p") }), came)
    return call
  }
  const answer = { counted: million(3), isAnswered: true }

  test("all that were answered are the call's own, each with its fee, and what leaked beside them is none of it", () => {
    const tries = [answer, { counted: million(40) }, { counted: million(5), isAnswered: true, at: "q" }]
    const call = callOf(tries, { p: cost, q: cost })
    expect(call.final).toBe(micros(4 + 6))
    expect(partsOf(call)).toEqual([["retry", "p", micros(41), "m"]])
  })

  test("the last is the call's own though it failed, and one of which nothing is billed is no part", () => {
    const call = callOf([{ counted: million(2), at: "q" }, {}, { counted: million(40) }], { p: cost, q: cost })
    expect(call.final).toBe(micros(41))
    expect(partsOf(call)).toEqual([["retry", "q", micros(3), "m"]])
    expect(callOf([{}], { p: cost }).final).toBe(zero)
    expect(callOf([], { p: cost }).final).toBe(zero)
  })

  test("of one with searches those are a part, without the call's fee; where they cost nothing there is none", () => {
    const call = callOf([{ ...answer, searches: 2 }], { p: cost })
    expect([call.final, call.hasSearched]).toEqual([micros(4), true])
    expect(partsOf(call)).toEqual([["searches", "p", micros(20_000), "m"]])
    expect(callOf([{ ...answer, searches: 2 }], { p: NONE }).parts).toEqual([])
    const again = callOf([{ counted: million(2) }, { ...answer, searches: 1 }], { p: cost })
    expect([again.final, again.hasSearched]).toEqual([micros(4), true])
    expect(partsOf(again).map(([kind, , cost]) => [kind, cost])).toEqual([
      ["retry", micros(3)],
      ["searches", micros(10_000)],
    ])
    const one = callOf([answer], { p: cost })
    expect([one.hasSearched, one.parts]).toEqual([false, []])
  })

  test("where one's cost is not known, the sum is not, and no part is taken for free", () => {
    const call = callOf([{ ...answer, searches: 1, at: "q" }, { counted: million(2), at: "q" }, answer], { p: cost })
    expect(call.final).toBeUndefined()
    expect(partsOf(call)).toEqual([
      ["retry", "q", undefined, "m"],
      ["searches", "q", undefined, "m"],
    ])
    expect(callOf([{ at: "q" }], { p: cost }).final).toBe(zero)
  })

  test("that counted without sense the sum can still be stored", () => {
    const most = Number.MAX_SAFE_INTEGER
    const senseless = { counted: used(most, most), isAnswered: true }
    expect(callOf([senseless, senseless], { p: { ...cost, rates: { ...cost.rates, input: 10n ** 18n } } }).final).toBe(
      largestCost,
    )
  })
})
