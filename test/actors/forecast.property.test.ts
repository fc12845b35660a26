/** What slots say that a call would meet is what it meets, and to have asked changes nothing. */
import { expect, test } from "bun:test"
import * as fc from "fast-check"
import { VirtualClock } from "../kernel/virtual-time.ts"
import { Slots, type SlotsCommand, type SlotsForecast } from "../../actors/slots.ts"

type Step =
  | { readonly account: number; readonly key: number }
  | { readonly release: number }
  | { readonly pauseMs: number }

const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ account: fc.nat(3), key: fc.nat(1) }) },
  { weight: 2, arbitrary: fc.record({ release: fc.nat(40) }) },
  { weight: 1, arbitrary: fc.record({ pauseMs: fc.nat(70_000) }) },
)

function play(cap: number, steps: readonly Step[], asks: boolean): { readonly slots: Slots; readonly met: string[] } {
  const clock = new VirtualClock()
  const slots: Slots = new Slots(clock, (command: SlotsCommand) => slots.receive(command), cap)
  const met: string[] = []
  steps.forEach((each, index) => {
    if (asks) forecast(slots, index % 5)
    if ("pauseMs" in each) clock.advance(each.pauseMs)
    else if ("release" in each) slots.receive({ type: "release", requestId: String(each.release) })
    else met.push(acquire(slots, String(index), each.account, each.key))
  })
  return { slots, met }
}

function acquire(slots: Slots, requestId: string, account: number, key: number): SlotsForecast["kind"] {
  let kind: SlotsForecast["kind"] = "waits"
  slots.receive({
    type: "acquire",
    caller: { requestId, accountId: `a${account}`, keyId: `a${account}/${key}` },
    waitMs: 5_000,
    reply: (reply) => void (kind = reply.kind),
  })
  return kind
}

function forecast(slots: Slots, account: number, key = 0): SlotsForecast | undefined {
  let told: SlotsForecast | undefined
  const caller = { accountId: `a${account}`, keyId: `a${account}/${key}` }
  slots.receive({ type: "forecast", caller, reply: (reply) => void (told = reply) })
  return told
}

const course = [fc.integer({ min: 1, max: 6 }), fc.array(step, { maxLength: 60 })] as const

test("a forecast is what the next call meets", () => {
  const seen = new Set<string>()
  fc.assert(
    fc.property(...course, fc.nat(4), fc.nat(1), (cap, steps, account, key) => {
      const { slots } = play(cap, steps, false)
      const told = forecast(slots, account, key)?.kind
      seen.add(told ?? "")
      expect(acquire(slots, "next", account, key)).toBe(told as SlotsForecast["kind"])
    }),
    { numRuns: 2_000 },
  )
  expect([...seen].sort()).toEqual(["acquired", "full", "waits"])
})

test("whoever only asks takes nothing from anybody", () => {
  fc.assert(
    fc.property(...course, (cap, steps) => {
      expect(play(cap, steps, true).met).toEqual(play(cap, steps, false).met)
    }),
    { numRuns: 500 },
  )
})
