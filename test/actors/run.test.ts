/** What a run's actor believes of its end, which may be told by another process, or missed. */
import { expect, test } from "bun:test"
import { VirtualClock } from "../kernel/virtual-time.ts"
import type { HoldOutcome } from "../../actors/lease.ts"
import { type Micro, micro, zero } from "../../actors/money/micro.ts"
import {
  type EnterReply,
  type RunLookup,
  Run,
  type RunCommand,
  type RunRecord,
  type RunView,
} from "../../actors/run.ts"

const request = { runId: "run_1", accountId: "acc", keyId: "key", name: "one", budget: undefined }

function world(known: boolean, isRestarted = false) {
  const clock = new VirtualClock()
  const record: RunRecord = { ...request, budget: micro(10n), endsAt: clock.now() + 1_000_000, spent: zero }
  let finds = 0
  const driver = { grow: () => {}, giveBack: () => {} }
  const run: Run = new Run(
    { clock, self: (command) => run.receive(command), find: () => void finds++, driverOf: () => driver },
    known ? record : undefined,
    isRestarted,
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

const ten: RunRecord = { ...request, budget: micro(10n), endsAt: Number.MAX_SAFE_INTEGER, spent: zero }

/** A run of which a database leases all that is left to who asks. */
function leased(known: RunRecord | "unknown", isRestarted = false) {
  const clock = new VirtualClock()
  const row = { granted: 0n, returned: 0n, version: 0 }
  const lease = () => ({
    granted: micro(row.granted),
    returned: micro(row.returned),
    settled: zero,
    version: ++row.version,
  })
  /** A turn later. */
  const later = (run: () => void) => void clock.after(0, run)
  const driver = {
    grow: () =>
      later(() => {
        row.granted += record.budget - record.spent - row.granted + row.returned
        send({ type: "lease", news: { type: "grown", lease: lease(), more: false, elsewhere: record.spent } })
      }),
    giveBack: (returned: bigint) =>
      later(() => {
        row.returned = returned
        send({ type: "lease", news: { type: "returned", lease: lease() } })
      }),
  }
  const record = known === "unknown" ? ten : known
  const send = (command: RunCommand) => {
    run.receive(command)
    clock.advance(0)
  }
  const run: Run = new Run(
    { clock, self: (command) => run.receive(command), find: () => {}, driverOf: () => driver },
    known === "unknown" ? undefined : known,
    isRestarted,
  )
  const hold = (requestId: string, least: bigint, target = least) => {
    const told: HoldOutcome[] = []
    send({
      type: "hold",
      terms: { requestId, least: micro(least), target: micro(target) },
      reply: (outcome) => told.push(outcome),
    })
    return told[0]
  }
  const settle = (requestId: string, actual: bigint) => {
    const told: Micro[] = []
    send({ type: "settle", requestId, actual: micro(actual), reply: (charge) => told.push(charge) })
    return told[0]
  }
  const view = () => {
    const told: (RunView | undefined)[] = []
    send({ type: "view", reply: (seen) => told.push(seen) })
    return told[0]
  }
  return { clock, run, send, hold, settle, view, kept: () => row.granted - row.returned }
}

test("a run holds what its calls may cost, pays what they cost, and no more than it has", () => {
  const { send, hold, settle, view } = leased(ten)
  expect([hold("a", 1n, 4n), hold("b", 2n, 100n), hold("c", 4n)]).toEqual([micro(4n), micro(3n), "insufficient"])
  const { endsAt } = ten
  expect(view()).toEqual({ budget: micro(10n), usage: micro(7n), remaining: micro(3n), held: micro(7n), endsAt })
  send({ type: "trim", requestId: "b", hold: micro(2n) })
  send({ type: "release", requestId: "nobody" })
  expect(view()).toMatchObject({ usage: micro(6n), remaining: micro(4n) })
  expect(settle("a", 3n)).toBe(micro(3n))
  expect(settle("b", 100n)).toBe(micro(7n))
  expect(view()).toMatchObject({ usage: micro(10n), remaining: zero, held: zero })
  send({ type: "unsettle", charge: micro(7n) })
  expect([view()?.usage, hold("d", 7n)]).toEqual([micro(3n), micro(7n)])
  send({ type: "release", requestId: "d" })
  expect(view()).toMatchObject({ usage: micro(3n), held: zero })
})

test("what was spent of a run before it was read is not to be spent again", () => {
  const { hold, view } = leased({ ...ten, spent: micro(6n) })
  expect(view()).toMatchObject({ usage: micro(6n), remaining: micro(4n) })
  expect([hold("a", 5n), hold("b", 4n)]).toEqual(["insufficient", micro(4n)])
})

test("a run that is not known holds and costs nothing", () => {
  const { run, hold, settle, view } = leased("unknown")
  expect([hold("a", 1n), settle("a", 1n), view(), run.idle()]).toEqual(["unavailable", zero, undefined, true])
})

test("a call that costs nothing is settled at once, though who held for it crashed", () => {
  const { run } = world(true)
  const told: Micro[] = []
  run.receive({ type: "settle", requestId: "a", actual: zero, reply: (charge) => told.push(charge) })
  expect(told).toEqual([zero])
})

test("a run is put away when nobody waits, nothing is held, and its lease is given back", () => {
  const { clock, run, send, hold, settle, kept } = leased(ten)
  expect(run.idle()).toBe(true)
  hold("a", 10n)
  expect(run.idle()).toBe(false)
  settle("a", 10n)
  // One that is refused is not held for.
  expect([hold("b", 1n), run.idle()]).toEqual(["insufficient", true])
  send({ type: "unsettle", charge: micro(10n) })
  clock.advance(500_000)
  expect([run.idle(), kept()]).toEqual([true, 0n])
  hold("c", 1n)
  send({ type: "release", requestId: "c" })
  expect([run.idle(), kept()]).toEqual([false, 10n])
  clock.advance(120_000)
  expect([run.idle(), kept()]).toEqual([true, 0n])
  const again = leased(ten, true)
  expect(again.run.idle()).toBe(false)
  again.clock.advance(240_000)
  expect(again.run.idle()).toBe(true)
  const { run: unknown, enter, found } = world(false)
  enter()
  expect(unknown.idle()).toBe(false)
  found("unknown")
  expect(unknown.idle()).toBe(true)
})

test("a run gives back what is not held while its process drains, also one that is found meanwhile", () => {
  for (const known of [ten, "unknown"] as const) {
    const { send, hold, kept } = leased(known)
    if (known !== "unknown") expect([hold("a", 4n), kept()]).toEqual([micro(4n), 10n])
    send({ type: "lease", news: { type: "drain" } })
    if (known === "unknown") send({ type: "found", lookup: ten })
    else expect(kept()).toBe(4n)
    expect([hold("b", 2n), kept()]).toEqual([micro(2n), known === "unknown" ? 2n : 6n])
  }
  const { send, hold, kept } = leased("unknown")
  send({ type: "lease", news: { type: "freed" } })
  send({ type: "found", lookup: ten })
  expect([hold("a", 4n), kept()]).toEqual([micro(4n), 10n])
})

test("a call that names another budget than the run has is refused, whoever made it", () => {
  const { record, enter, found } = world(false)
  const asked = [enter(micro(11n)), enter(record.budget), enter()]
  found(record)
  expect([...asked, enter(micro(11n)), enter(record.budget)]).toEqual([
    ["other-budget"],
    ["entered"],
    ["entered"],
    ["other-budget"],
    ["entered"],
  ])
})

test("where an account has too many runs each call is refused after a look of its own: there may be room by then", () => {
  const { record, enter, found, finds } = world(false)
  const asked = [enter(record.budget), enter(record.budget), enter()]
  found("too-many")
  expect([asked, finds()]).toEqual([[["too-many"], [], []], 2])
  found("too-many")
  found("unknown")
  expect([asked, finds()]).toEqual([[["too-many"], ["too-many"], ["unknown"]], 3])
})

test("who waits is told when it could not be found out, a thousand wait at most, and the next one is looked for", () => {
  const { run, enter, finds } = world(false)
  const waiting = Array.from({ length: 1_000 }, () => enter())
  expect([waiting.flat(), enter()]).toEqual([[], ["unavailable"]])
  run.receive({ type: "not-found-out" })
  expect(waiting).toEqual(waiting.map(() => ["unavailable"]))
  expect([enter(), finds()]).toEqual([[], 2])
})
