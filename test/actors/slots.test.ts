import { describe, expect, test } from "bun:test"
import { VirtualClock } from "../kernel/virtual-time.ts"
import { Slots, type SlotsCommand, type SlotsForecast, type SlotsView } from "../../actors/slots.ts"

const WAIT_MS = 5_000

/** Slots and what became of each call: granted in this order, or told that it is full. */
function slots(cap: number) {
  const clock = new VirtualClock()
  const granted: string[] = []
  const full: string[] = []
  let looks = 0
  const self = (command: SlotsCommand) => {
    if (command.type === "look") looks++
    behaviour.receive(command)
  }
  const behaviour: Slots = new Slots(clock, self, cap)
  return {
    /** How often it looked whether somebody is gone. */
    looks: () => looks,
    clock,
    granted,
    full,
    behaviour,
    /** A key is written with its account, `b/2`, or alone where there is one account. */
    acquire: (key: string, requestId: string, waitMs = WAIT_MS) => {
      const [accountId, keyId] = key.includes("/") ? (key.split("/") as [string, string]) : ["account", key]
      const reply = ({ kind }: { kind: string }) => void (kind === "full" ? full : granted).push(requestId)
      behaviour.receive({ type: "acquire", caller: { requestId, accountId, keyId }, waitMs, reply })
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

const calls = (name: string, count: number) => Array.from({ length: count }, (_, index) => `${name}${index}`)

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

  test("go round robin by account: two hundred keys of one are one turn, and not two hundred", () => {
    const { acquire, release, granted } = slots(300)
    for (const id of calls("x", 300)) acquire("x/x", id)
    for (let key = 0; key < 200; key++) for (const id of calls(`a${key}-`, 5)) acquire(`a/${key}`, id)
    for (const id of calls("b", 10)) acquire("b/one", id)
    // Of the last quarter the account with all of the slots gets none back.
    for (const id of calls("x", 20)) release(id)
    const served = granted.slice(300)
    expect(served.filter((id) => id.startsWith("b"))).toEqual(calls("b", 10))
    // In its turns each of its keys has one.
    expect(served.filter((id) => id.startsWith("a"))).toEqual(Array.from({ length: 10 }, (_, key) => `a${key}-0`))
  })

  test("are all for an account that is alone", () => {
    const { acquire, view } = slots(64)
    for (const id of calls("a", 64)) acquire("a/one", id)
    expect(view()).toEqual({ cap: 64, taken: 64, waiting: 0 })
  })

  test("of the last quarter are for accounts under their share, and they pass at once", () => {
    const { acquire, release, granted, view } = slots(16)
    acquire("b/one", "b0")
    for (let key = 0; key < 200; key++) acquire(`a/${key}`, `a${key}`)
    // Three quarters are anybody's. Half of 16 is a share; one that has fewer may go on to the end.
    expect(view()).toEqual({ cap: 16, taken: 12, waiting: 64 })
    for (const id of ["b1", "b2", "b3", "b4"]) acquire("b/one", id)
    expect(granted.slice(-4)).toEqual(["b1", "b2", "b3", "b4"])
    // With all taken, what comes free is not for the account with eleven.
    acquire("b/one", "b5")
    release("a0")
    release("a1")
    expect(granted.slice(-1)).toEqual(["b5"])
    expect(view()).toMatchObject({ taken: 15 })
  })

  test("of the last quarter are kept for who asked within a minute, and then given to who waits", () => {
    const { clock, acquire, granted, looks, release, view } = slots(8)
    acquire("b/one", "b0")
    release("b0")
    clock.advance(30_000)
    for (const id of calls("a", 7)) acquire("a/one", id, 60_000)
    expect(view()).toEqual({ cap: 8, taken: 6, waiting: 1 })
    clock.advance(29_999)
    expect([granted.includes("a6"), looks()]).toEqual([false, 0])
    clock.advance(1)
    expect([granted.includes("a6"), looks()]).toEqual([true, 1])
    acquire("a/one", "a7")
    expect(view()).toEqual({ cap: 8, taken: 8, waiting: 0 })
    // Whoever holds slots for long is there all the while, however long ago it asked.
    clock.advance(600_000)
    for (const id of ["a0", "a1", "a2"]) release(id)
    for (const id of calls("c", 3)) acquire("c/one", id)
    for (const id of calls("d", 3)) acquire("d/one", id)
    expect(granted.slice(-3)).toEqual(["c0", "c1", "c2"])
    // Of eight slots a third is two; with more, one is served while more than a quarter is free.
    for (const id of ["a3", "a4", "a5", "a6"]) release(id)
    expect(granted.slice(-2)).toEqual(["d0", "d1"])
    expect(view()).toEqual({ cap: 8, taken: 6, waiting: 1 })
    release("a7")
    expect(granted.at(-1)).toBe("d2")
  })

  test("of the last quarter are kept anew for who asks again, and are given to who waits after each minute", () => {
    const { clock, acquire, release, looks, view } = slots(8)
    for (const round of [1, 2]) {
      acquire("b/one", "b")
      release("b")
      for (const id of calls("a", 8)) acquire("a/one", id, 120_000)
      clock.advance(59_999)
      expect(view()).toEqual({ cap: 8, taken: 6, waiting: 2 })
      clock.advance(1)
      expect([view(), looks()]).toEqual([{ cap: 8, taken: 8, waiting: 0 }, round])
      for (const id of calls("a", 8)) release(id)
    }
  })

  test("of the last quarter are kept for who asked within a minute, however often others asked before and after", () => {
    const { clock, acquire, release, granted } = slots(8)
    const asks = (account: string) => {
      acquire(`${account}/one`, account)
      release(account)
    }
    asks("a")
    clock.advance(1_000)
    asks("b")
    clock.advance(30_000)
    asks("a")
    clock.advance(30_000)
    // Of two a share is four, and of one that is alone all.
    for (const id of calls("a", 8)) acquire("a/one", id)
    expect(granted.slice(-1)).toEqual(["a7"])
  })

  test("of the last quarter are none for an account that has its share still, when it has given some back", () => {
    const { acquire, release, view } = slots(4)
    for (const id of ["a0", "a1", "b0", "c0"]) acquire(`${id[0]}/one`, id)
    for (const id of ["c0", "a1"]) release(id)
    acquire("d/one", "d0")
    // One of four is its share.
    acquire("a/one", "a2")
    expect(view()).toEqual({ cap: 4, taken: 3, waiting: 1 })
  })

  test("of the last quarter are shared with an account that holds one for which it had waited for more than a minute", () => {
    const { clock, acquire, release, granted, view } = slots(8)
    for (const id of calls("a", 8)) acquire("a/one", id)
    acquire("b/one", "b0", 600_000)
    clock.advance(120_000)
    release("a0")
    expect(granted.at(-1)).toBe("b0")
    release("a1")
    // Six of eight are more than the half.
    acquire("a/one", "a8")
    expect(view()).toEqual({ cap: 8, taken: 7, waiting: 1 })
  })

  test("are not waited for by more than a queue that a lower cap has made shorter, not even in another's place", () => {
    const { acquire, behaviour, full, setCap, view } = slots(2)
    for (const id of calls("a", 10)) acquire("a/one", id)
    setCap(1)
    const told: SlotsForecast["kind"][] = []
    const caller = { accountId: "b", keyId: "one" }
    behaviour.receive({ type: "forecast", caller, reply: ({ kind }) => told.push(kind) })
    acquire("b/one", "b0")
    expect([told, full, view().waiting]).toEqual([["full"], ["b0"], 8])
  })

  test("are waited for anew by a call whose wait was ended, for as long as it says now", () => {
    const { clock, acquire, release, full } = slots(1)
    acquire("a", "a0")
    acquire("a", "a1")
    release("a1")
    clock.advance(WAIT_MS - 1)
    acquire("a", "a1")
    clock.advance(1)
    expect(full).toEqual(["a1"])
    clock.advance(WAIT_MS - 1)
    expect(full).toEqual(["a1", "a1"])
  })

  test("are waited for by four times the cap at most, and not at all by who has no time", () => {
    const { acquire, full, view } = slots(2)
    for (const id of calls("a", 11)) acquire("a", id)
    acquire("b", "b0", 0)
    expect(full).toEqual(["a10", "b0"])
    expect(view()).toEqual({ cap: 2, taken: 2, waiting: 8 })
    const none = slots(0)
    none.acquire("a", "a0")
    expect(none.full).toEqual(["a0"])
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

  test("are not starved by an account that fills the queue with many keys, nor is its own key by another of its keys", () => {
    const { acquire, full, view } = slots(2)
    for (const id of calls("x", 2)) acquire("x/one", id)
    for (let key = 0; key < 8; key++) acquire(`a/${key}`, `a${key}`)
    acquire("b/one", "b0")
    expect(full).toEqual(["a0"])
    for (const id of ["b1", "b2"]) acquire("b/one", id)
    expect(full).toEqual(["a0", "a1", "a2"])
    // Five and three: one more would make it four and four.
    acquire("b/one", "b3")
    expect(full).toEqual(["a0", "a1", "a2", "a3"])
    acquire("b/one", "b4")
    acquire("a/9", "a9")
    expect(full.slice(4)).toEqual(["b4", "a9"])
    // Its own calls an account may put in another's place, so that each of its keys has some.
    acquire("b/two", "b5")
    expect(full.slice(6)).toEqual(["b3"])
    expect(view()).toEqual({ cap: 2, taken: 2, waiting: 8 })
  })

  test("are left to who waits where a place for another would only turn the two around", () => {
    const { acquire, full } = slots(1)
    for (const id of ["x0", "a0", "a1", "b0", "c0"]) acquire(`${id[0]}/one`, id)
    acquire("b/one", "b1")
    expect(full).toEqual(["b1"])
    const other = slots(1)
    for (const key of ["x", "a/1", "a/1", "a/2", "a/2"]) other.acquire(key, `${key} ${other.view().waiting}`)
    other.acquire("a/1", "third of the first")
    expect(other.full).toEqual(["third of the first"])
    other.acquire("a/3", "first of the third")
    expect([other.full.length, other.full.at(-1)?.startsWith("a/1 ")]).toEqual([2, true])
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
    for (const id of ["a0", "a1"]) {
      acquire("a", id)
      expect(() => acquire("a", id)).toThrow("asked twice")
    }
  })
})
