import { describe, expect, test } from "bun:test"
import { VirtualClock } from "../../actors/kernel/clock.ts"
import { Slots, type SlotsCommand, type SlotsView } from "../../actors/slots.ts"

const WAIT_MS = 5_000

/** Slots and what became of each call: granted in this order, or told that it is full. */
function slots(cap: number) {
  const clock = new VirtualClock()
  const granted: string[] = []
  const full: string[] = []
  const behaviour: Slots = new Slots(clock, (command: SlotsCommand) => behaviour.receive(command), cap)
  return {
    clock,
    granted,
    full,
    behaviour,
    acquire: (keyId: string, requestId: string, waitMs = WAIT_MS) => {
      const reply = ({ kind }: { kind: string }) => void (kind === "full" ? full : granted).push(requestId)
      behaviour.receive({ type: "acquire", requestId, keyId, waitMs, reply })
    },
    release: (requestId: string) => behaviour.receive({ type: "release", requestId }),
    setCap: (to: number) => behaviour.receive({ type: "cap", cap: to }),
    setShare: (index: number, count: number) => behaviour.receive({ type: "share", share: { index, count } }),
    view: (): SlotsView => {
      const views: SlotsView[] = []
      behaviour.receive({ type: "view", reply: (view) => views.push(view) })
      return views[0]!
    },
  }
}

const calls = (keyId: string, count: number) => Array.from({ length: count }, (_, index) => `${keyId}${index}`)

describe("slots", () => {
  test("are given at once up to the cap, and one that is given back goes to who waits", () => {
    const { acquire, release, granted, view } = slots(2)
    for (const id of ["a0", "a1", "a2"]) acquire("a", id)
    expect(granted).toEqual(["a0", "a1"])
    release("a0")
    expect(granted).toEqual(["a0", "a1", "a2"])
    expect(view()).toEqual({ cap: 2, taken: 2, waiting: 0 })
  })

  test("go round robin by key: ten calls of one key behind a thousand of another are served within twenty", () => {
    const { acquire, release, granted } = slots(300)
    for (const id of calls("x", 300)) acquire("x", id)
    for (const id of calls("a", 1_000)) acquire("a", id)
    for (const id of calls("b", 10)) acquire("b", id)
    for (const id of calls("x", 20)) release(id)
    const served = granted.slice(300)
    expect(served.filter((id) => id.startsWith("b"))).toEqual(calls("b", 10))
    expect(served.filter((id) => id.startsWith("a"))).toEqual(calls("a", 10))
  })

  test("are waited for by four times the cap at most, and not at all by who has no time", () => {
    const { acquire, full, view } = slots(2)
    for (const id of calls("a", 11)) acquire("a", id)
    acquire("b", "b0", 0)
    expect(full).toEqual(["a10", "b0"])
    expect(view()).toEqual({ cap: 2, taken: 2, waiting: 8 })
  })

  test("are not starved by a key that fills the queue: its newest call gives its place to a key with fewer", () => {
    const { acquire, release, granted, full, view } = slots(1)
    for (const id of calls("a", 5)) acquire("a", id)
    acquire("b", "b0")
    expect(full).toEqual(["a4"])
    expect(view().waiting).toBe(4)
    acquire("b", "b1")
    // Two of each now; nobody has more than another, so nobody gives way.
    acquire("b", "b2")
    acquire("a", "a5")
    expect(full).toEqual(["a4", "a3", "b2", "a5"])
    for (const id of ["a0", "a1", "b0", "a2"]) release(id)
    expect(granted).toEqual(["a0", "a1", "b0", "a2", "b1"])
  })

  test("are refused at the end of the wait, and a slot that comes free later goes to the next one", () => {
    const { clock, acquire, release, granted, full } = slots(1)
    acquire("a", "a0")
    acquire("a", "a1")
    clock.advance(WAIT_MS - 1)
    acquire("b", "b0")
    expect(full).toEqual([])
    clock.advance(1)
    expect(full).toEqual(["a1"])
    release("a0")
    expect(granted).toEqual(["a0", "b0"])
    clock.advance(WAIT_MS)
    expect(full).toEqual(["a1"])
  })

  test("released twice, or by a call that has none, are not given out twice", () => {
    const { acquire, release, full, view } = slots(1)
    acquire("a", "a0")
    acquire("a", "a1")
    // A release of one who waits ends the wait.
    release("a1")
    expect(full).toEqual(["a1"])
    for (const id of ["a0", "a0", "nobody"]) release(id)
    expect(view()).toEqual({ cap: 1, taken: 0, waiting: 0 })
    acquire("b", "b0")
    acquire("b", "b1")
    expect(view()).toEqual({ cap: 1, taken: 1, waiting: 1 })
  })

  test("follow a cap that is raised at once, and one that is lowered as calls end", () => {
    const { acquire, release, setCap, granted, view } = slots(1)
    for (const id of calls("a", 5)) acquire("a", id)
    setCap(3)
    expect(granted).toEqual(["a0", "a1", "a2"])
    setCap(1)
    for (const id of ["a0", "a1"]) release(id)
    expect(granted.length).toBe(3)
    release("a2")
    expect(granted.length).toBe(4)
    expect(view()).toEqual({ cap: 1, taken: 1, waiting: 1 })
  })

  test("are a share of the cap: less at once when there are more processes, and all of it when they are gone", () => {
    const { acquire, release, setCap, setShare, granted, view } = slots(5)
    for (const id of calls("a", 7)) acquire("a", id)
    expect(granted.length).toBe(5)
    setShare(1, 2)
    for (const id of ["a0", "a1", "a2"]) release(id)
    expect(view()).toEqual({ cap: 2, taken: 2, waiting: 2 })
    release("a3")
    expect(view()).toEqual({ cap: 2, taken: 2, waiting: 1 })
    // A changed cap is shared as well.
    setCap(7)
    expect(view()).toEqual({ cap: 3, taken: 3, waiting: 0 })
    setShare(0, 1)
    expect(view().cap).toBe(7)
  })

  test("are idle only with nothing taken and nobody waiting", () => {
    const { acquire, release, behaviour } = slots(1)
    expect(behaviour.idle()).toBe(true)
    acquire("a", "a0")
    expect(behaviour.idle()).toBe(false)
    release("a0")
    expect(behaviour.idle()).toBe(true)
  })

  test("are asked for once by a call; a second time is a bug", () => {
    const { acquire } = slots(1)
    acquire("a", "a0")
    expect(() => acquire("a", "a0")).toThrow("asked twice")
  })
})
