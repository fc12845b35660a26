/** What a run's actor believes of its end, which may be told by another process, or missed. */
import { expect, test } from "bun:test"
import { VirtualClock } from "../../actors/kernel/clock.ts"
import { type Micro, micro, zero } from "../../actors/money/micro.ts"
import { type EnterReply, type RunLookup, Run, type RunRecord } from "../../actors/run.ts"

const request = { runId: "run_1", accountId: "acc", keyId: "key", name: "one", budget: undefined }

function world(known: boolean) {
  const clock = new VirtualClock()
  const record: RunRecord = { ...request, budget: micro(10n), endsAt: clock.now() + 1_000_000, spent: zero }
  let finds = 0
  const driver = { grow: () => {}, giveBack: () => {} }
  const run: Run = new Run(
    { clock, self: (command) => run.receive(command), find: () => void finds++, driverOf: () => driver },
    known ? record : undefined,
  )
  const enter = (budget?: Micro) => {
    const replies: EnterReply["kind"][] = []
    run.receive({ type: "enter", request: { ...request, budget }, reply: ({ kind }) => replies.push(kind) })
    return replies
  }
  const found = (what: RunLookup) => run.receive({ type: "found", lookup: what })
  return { clock, record, run, enter, found, finds: () => finds }
}

test("a run that was ended refuses from then on, and no later time opens it again", () => {
  const { clock, record, run, enter } = world(true)
  const endsAt = clock.now() + 10
  run.receive({ type: "ended", endsAt })
  expect(enter()).toEqual(["entered"])
  clock.advance(10)
  expect(enter()).toEqual(["ended"])
  run.receive({ type: "ended", endsAt: record.endsAt })
  expect(enter()).toEqual(["ended"])
  let seen = 0
  run.receive({ type: "view", reply: (view) => (seen = view?.endsAt ?? 0) })
  expect(seen).toBe(endsAt)
})

test("what is said while it is being looked for holds for what is found, which may be older", () => {
  const { clock, record, run, enter, found, finds } = world(false)
  const waiting = enter()
  run.receive({ type: "ended", endsAt: clock.now() })
  found(record)
  expect([waiting, finds()]).toEqual([["ended"], 1])
})

test("one that may have missed it reads again, also after a search that was under way, and tries until it can", () => {
  const { clock, record, run, enter, found, finds } = world(false)
  const waiting = enter()
  run.receive({ type: "changed" })
  found(record)
  expect([waiting, finds()]).toEqual([["entered"], 2])
  run.receive({ type: "not-found-out" })
  expect(enter()).toEqual(["entered"])
  clock.advance(1_000)
  expect(finds()).toBe(3)
  found({ ...record, endsAt: clock.now() })
  expect(enter()).toEqual(["ended"])
  run.receive({ type: "not-found-out" })
  clock.advance(10_000)
  expect(finds()).toBe(3)
})

test("calls that come together to a run that is not there are answered by one look more, and not by one for each", () => {
  const { record, enter, found, finds } = world(false)
  const first = enter()
  const together = [enter(), enter(), enter()]
  found("unknown")
  expect([first, together.flat(), finds()]).toEqual([["unknown"], [], 2])
  const later = enter()
  found("unknown")
  expect([together.flat(), finds()]).toEqual([["unknown", "unknown", "unknown"], 3])
  // It may have been made after the look began that the others were answered by.
  expect(later).toEqual([])
  found(record)
  expect(later).toEqual(["entered"])
})

test("a call that makes the run is not told that there is none, and neither is who came after it", () => {
  const { record, enter, found, finds } = world(false)
  const asked = [enter(), enter(), enter(record.budget), enter()]
  found("unknown")
  found("unknown")
  expect([asked, finds()]).toEqual([[["unknown"], ["unknown"], [], []], 3])
  found(record)
  expect(asked.slice(2)).toEqual([["entered"], ["entered"]])
})

test("a call that a crashed actor held for costs what is left, and nobody answers where that cannot be found out", () => {
  const { record, run } = world(true)
  const settle = (requestId: string, actual: bigint) => {
    const replies: Micro[] = []
    run.receive({ type: "settle", requestId, actual: micro(actual), reply: (charge) => replies.push(charge) })
    return replies
  }
  const lease = { granted: record.budget, returned: zero, settled: zero, version: 1 }
  const unknown = settle("a", 4n)
  run.receive({ type: "lease", news: { type: "not-grown" } })
  expect(unknown).toEqual([])
  const known = settle("b", 4n)
  run.receive({ type: "lease", news: { type: "grown", lease, more: false } })
  expect([unknown, known]).toEqual([[], [micro(4n)]])
  expect([settle("c", 20n), settle("d", 1n)]).toEqual([[micro(6n)], [zero]])
})
