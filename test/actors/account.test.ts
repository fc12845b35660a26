import { describe, expect, test } from "bun:test"
import type { LeaseNews } from "../../actors/lease.ts"
import { Account, type AccountView, type Charged, type HoldReply } from "../../actors/account.ts"
import { VirtualClock } from "../kernel/virtual-time.ts"
import { micro } from "../../actors/money/micro.ts"

const lease = (granted: bigint, returned = 0n, version = 0) => ({
  id: 1n,
  granted: micro(granted),
  returned: micro(returned),
  settled: micro(0n),
  version,
})

const short = (amount: bigint, yields = false): LeaseNews => ({ type: "recalled", amount: micro(amount), yields })

/** An account whose growths end when the test says so. */
function account(granted: bigint) {
  const clock = new VirtualClock()
  const told: string[] = []
  let growths = 0
  let known = 0
  const shorts: bigint[] = []
  const returns: bigint[] = []
  const behaviour: Account = new Account(
    {
      clock,
      self: (news) => behaviour.receive({ type: "lease", news }),
      grow: (short, version) => {
        known = version
        growths++
        shorts.push(short)
      },
      giveBack: (returned, recount) => {
        returns.push(returned)
        if (recount) told.push(`recounts, ${returned} returned`)
      },
    },
    lease(granted),
    false,
  )
  return {
    clock,
    told,
    behaviour,
    growths: () => growths,
    shorts,
    returns,
    hear: (news: LeaseNews) => behaviour.receive({ type: "lease", news }),
    hold: (requestId: string, least: bigint, target = least) => {
      const reply = (said: HoldReply) =>
        void told.push(`${requestId} ${said.kind === "held" ? `held ${said.hold}` : said.kind}`)
      behaviour.receive({ type: "hold", terms: { requestId, least: micro(least), target: micro(target) }, reply })
    },
    settle: (requestId: string, actual: bigint): Charged => {
      const charged: Charged[] = []
      behaviour.receive({ type: "settle", requestId, actual: micro(actual), reply: (c) => void charged.push(c) })
      return charged[0]!
    },
    release: (requestId: string) => behaviour.receive({ type: "release", requestId }),
    grown: (to: bigint, more = false) =>
      behaviour.receive({ type: "lease", news: { type: "grown", lease: lease(to, 0n, known + 1), more } }),
    /** The growth found that another one was carried out before it. */
    overtaken: (to: bigint) =>
      behaviour.receive({ type: "lease", news: { type: "grown", lease: lease(to, 0n, known + 2), more: false } }),
    known: () => known,
    available: () => {
      const views: AccountView[] = []
      behaviour.receive({ type: "view", reply: (view) => void views.push(view) })
      return views[0]!.available
    },
  }
}

describe("an account", () => {
  test("holds, and a release gives all of it back, once", () => {
    const { hold, release, available, told } = account(100n)
    hold("a", 10n, 40n)
    expect(told).toEqual(["a held 40"])
    release("a")
    release("a")
    expect(available()).toBe(micro(100n))
  })

  test("says under which lease it holds, and lets others have what a trimmed hold does not need", () => {
    const { behaviour, available } = account(100n)
    const replies: HoldReply[] = []
    const terms = { requestId: "a", least: micro(10n), target: micro(40n) }
    behaviour.receive({ type: "hold", terms, reply: (reply) => void replies.push(reply) })
    expect(replies).toEqual([{ kind: "held", hold: micro(40n), leaseId: 1n }])
    behaviour.receive({ type: "trim", requestId: "a", hold: micro(15n) })
    expect(available()).toBe(micro(85n))
  })

  test("that is short asks for more before it says so, once for all who wait", () => {
    const { clock, hold, grown, growths, told } = account(10n)
    // What its lease was opened with was all there is.
    hold("at once", 50n)
    expect([growths(), told.splice(0)]).toEqual([0, ["at once insufficient"]])
    clock.advance(1_000)
    hold("a", 50n)
    hold("b", 60n)
    expect([growths(), told]).toEqual([1, []])
    grown(100n)
    expect(told).toEqual(["a held 50", "b insufficient"])
    // What was just learnt is believed for a moment.
    hold("c", 60n)
    expect([growths(), told.at(-1)]).toEqual([1, "c insufficient"])
    clock.advance(250)
    hold("d", 60n)
    expect(growths()).toBe(2)
  })

  test("that cannot find out whether there is more says that it does not know, and asks again the next time", () => {
    const { clock, hold, behaviour, growths, told } = account(10n)
    clock.advance(1_000)
    hold("a", 50n)
    behaviour.receive({ type: "lease", news: { type: "not-grown" } })
    expect(told).toEqual(["a unavailable"])
    hold("b", 50n)
    expect(growths()).toBe(2)
  })

  test("that cannot find out whether there is more holds less than in full, and gives what it was asked for meanwhile", () => {
    const { clock, hold, release, hear, returns, told } = account(100n)
    clock.advance(1_000)
    hold("a", 10n, 80n)
    hear({ type: "not-grown" })
    expect(told).toEqual(["a held 50"])
    release("a")
    clock.advance(1_000)
    hold("b", 10n, 80n)
    hear(short(30n, true))
    hear({ type: "not-grown" })
    expect([told.at(-1), returns]).toEqual(["b held 25", [50n]])
    hold("c", 20n, 80n)
    hear({ type: "not-returned" })
    expect(told.at(-1)).toBe("c held 20")
  })

  test("credited while it grows asks once more, and those who are still short wait for that", () => {
    const { clock, hold, grown, behaviour, growths, told } = account(10n)
    clock.advance(1_000)
    hold("a", 50n)
    behaviour.receive({ type: "lease", news: { type: "freed" } })
    grown(10n)
    expect([growths(), told]).toEqual([2, []])
    grown(60n)
    expect(told).toEqual(["a held 50"])
  })

  test("grows again at once where its growth was overtaken, and tells nobody before that, however long they have waited", () => {
    const { clock, hold, grown, overtaken, growths, known, told } = account(10n)
    clock.advance(1_000)
    hold("a", 50n)
    hold("b", 6n)
    hold("c", 90n)
    clock.advance(2_000)
    overtaken(60n)
    expect([growths(), known(), told]).toEqual([2, 2, ["b held 6"]])
    grown(100n)
    expect([growths(), told.slice(1)]).toEqual([2, ["a held 50", "c insufficient"]])
  })

  test("that gives back knows that no growth of before is carried out any more", () => {
    const { clock, hold, hear, returns, behaviour, known } = account(10n)
    clock.advance(1_000)
    hold("a", 50n)
    hear({ type: "not-grown" })
    // Nobody knows yet whether more was granted.
    hear(short(10n))
    expect([returns, behaviour.idle()]).toEqual([[10n], false])
    hear({ type: "returned", lease: lease(10n, 10n, 7) })
    expect(behaviour.idle()).toBe(true)
    hold("b", 50n)
    expect(known()).toBe(7)
  })

  test("lets who waits for a growth give up", () => {
    const { clock, hold, release, grown, told } = account(10n)
    clock.advance(1_000)
    hold("a", 50n)
    release("a")
    expect(told).toEqual(["a insufficient"])
    grown(100n)
    expect(told.length).toBe(1)
  })

  test("gives nothing back while it is used now and then", () => {
    const { clock, hold, release, returns } = account(100n)
    for (const id of ["a", "b", "c"]) {
      hold(id, 10n)
      release(id)
      clock.advance(40_000)
    }
    expect(returns).toEqual([])
    clock.advance(60_000)
    expect(returns).toEqual([100n])
  })

  test("asks nobody where it can hold in full, however long ago it asked", () => {
    const { clock, hold, growths, told } = account(100n)
    clock.advance(10_000)
    hold("a", 10n, 50n)
    expect([growths(), told]).toEqual([0, ["a held 50"]])
  })

  test("lets ten thousand calls wait for a growth, and says to one more that it does not know", () => {
    const { clock, hold, growths, told } = account(10n)
    clock.advance(1_000)
    for (let n = 0; n < 10_000; n++) hold(`call ${n}`, 50n)
    expect(told).toEqual([])
    hold("one more", 50n)
    expect([told, growths()]).toEqual([["one more unavailable"], 1])
  })

  test("leaves all others waiting for a growth when one gives up, or when one is released that does not wait", () => {
    const { clock, hold, release, grown, told } = account(10n)
    hold("held", 5n)
    clock.advance(1_000)
    for (const id of ["a", "b", "c"]) hold(id, 50n)
    release("held")
    release("b")
    expect(told).toEqual(["held held 5", "b insufficient"])
    grown(200n)
    expect(told.slice(2)).toEqual(["a held 50", "c held 50"])
  })

  test("charges the actual cost up to the hold and what is still available; the rest is the house's", () => {
    const { hold, settle, available } = account(100n)
    hold("a", 30n)
    hold("b", 30n)
    expect(settle("a", 20n)).toMatchObject({ charge: micro(20n), absorbed: micro(0n) })
    expect(settle("b", 500n)).toMatchObject({ charge: micro(80n), absorbed: micro(420n) })
    expect(available()).toBe(micro(0n))
  })

  test("takes a charge back that it made, and recounts what is settled when one of the purse before it is", () => {
    const before = account(100n)
    before.hold("a", 30n)
    const earlier = before.settle("a", 30n)
    const { clock, hold, settle, hear, behaviour, available, told } = account(100n)
    hold("b", 30n)
    const own = settle("b", 30n)
    behaviour.receive({ type: "unsettle", charged: own })
    expect(available()).toBe(micro(100n))
    hold("c", 40n)
    told.length = 0
    behaviour.receive({ type: "unsettle", charged: earlier })
    behaviour.receive({ type: "unsettle", charged: earlier })
    clock.advance(499)
    expect([available(), told, behaviour.idle()]).toEqual([micro(60n), [], false])
    clock.advance(1)
    expect(told).toEqual(["recounts, 0 returned"])
    // What was charged in the meantime may be in the answer or not, so it is asked again.
    settle("c", 10n)
    hear({ type: "returned", lease: { ...lease(100n), settled: micro(30n) } })
    expect(available()).toBe(micro(90n))
    clock.advance(500)
    hear({ type: "returned", lease: { ...lease(100n), settled: micro(40n) } })
    expect([available(), told.length]).toEqual([micro(60n), 2])
    clock.advance(5_000)
    expect(told.length).toBe(2)
  })

  test("recounts again what was taken back while it recounted, of its own purse or of the one before it", () => {
    const before = account(100n)
    before.hold("a", 30n)
    const earlier = before.settle("a", 30n)
    for (const isOwn of [true, false]) {
      const { clock, hold, settle, hear, behaviour, available, told } = account(100n)
      hold("b", 30n)
      const own = settle("b", 30n)
      behaviour.receive({ type: "unsettle", charged: earlier })
      clock.advance(500)
      behaviour.receive({ type: "unsettle", charged: isOwn ? own : earlier })
      // What was read before it is voided.
      hear({ type: "returned", lease: { ...lease(100n), settled: micro(60n) } })
      clock.advance(500)
      expect({ isOwn, told }).toEqual({ isOwn, told: ["b held 30", "recounts, 0 returned", "recounts, 0 returned"] })
      hear({ type: "returned", lease: { ...lease(100n), settled: micro(30n) } })
      clock.advance(5_000)
      expect({ isOwn, available: available(), asked: told.length }).toEqual({ isOwn, available: micro(70n), asked: 3 })
    }
  })

  test("is not idle while it is in doubt of what is settled, though it has nothing to give", () => {
    const before = account(100n)
    before.hold("a", 30n)
    const earlier = before.settle("a", 30n)
    for (const settled of [100n, 70n]) {
      const { clock, hold, settle, hear, grown, behaviour, growths, returns } = account(100n)
      hold("b", 100n)
      settle("b", 100n)
      expect(behaviour.idle()).toBe(true)
      behaviour.receive({ type: "unsettle", charged: earlier })
      expect(behaviour.idle()).toBe(false)
      clock.advance(500)
      hear({ type: "returned", lease: { ...lease(100n), settled: micro(settled) } })
      if (settled < 100n) {
        // What the lease has not settled was spent elsewhere, or is there again: a growth tells which.
        hear({ type: "returned", lease: { ...lease(100n, 30n), settled: micro(settled) } })
        expect(growths()).toBe(1)
        grown(100n)
      }
      expect({ returns, isIdle: behaviour.idle() }).toEqual({
        returns: settled < 100n ? [0n, 30n] : [0n],
        isIdle: true,
      })
    }
  })

  test("gives back what was asked for while it recounted", () => {
    const before = account(100n)
    before.hold("a", 30n)
    const { clock, hear, behaviour, returns, available } = account(100n)
    behaviour.receive({ type: "unsettle", charged: before.settle("a", 30n) })
    clock.advance(1_000)
    hear(short(10n))
    hear({ type: "returned", lease: lease(100n) })
    expect([returns, available()]).toEqual([[0n, 100n], micro(0n)])
  })

  test("asks at once under new terms, or when somebody was credited, though it was just told that there is no more", () => {
    for (const news of ["changed", "freed"] as const) {
      const { hold, hear, growths, told } = account(10n)
      hold("a", 10n)
      hold("b", 50n)
      hear({ type: news })
      hold("c", 50n)
      expect([news, growths(), told]).toEqual([news, 1, ["a held 10", "b insufficient"]])
    }
    const { hear, returns } = account(10n)
    hear({ type: "changed" })
    expect(returns).toEqual([10n])
  })

  test("asks again at once where there was more than it was given, or where another growth was carried out before its own", () => {
    for (const isOvertaken of [false, true]) {
      const { clock, hold, grown, overtaken, growths, told } = account(10n)
      clock.advance(1_000)
      hold("a", 50n)
      if (isOvertaken) overtaken(120n)
      else grown(120n, true)
      hold("b", 80n)
      expect({ isOvertaken, growths: growths(), told }).toEqual({ isOvertaken, growths: 2, told: ["a held 50"] })
    }
  })

  test("that is taken less from than it gives back recounts, and neither spends nor offers the rest until then", () => {
    const { clock, hold, settle, hear, grown, returns, available, told } = account(100n)
    hold("a", 10n)
    settle("a", 10n)
    hear({ type: "drain" })
    expect(returns).toEqual([90n])
    hear({ type: "returned", lease: { ...lease(100n, 70n), settled: micro(30n) } })
    expect([returns, available()]).toEqual([[90n], micro(0n)])
    clock.advance(500)
    expect([returns, told]).toEqual([
      [90n, 90n],
      ["a held 10", "recounts, 90 returned"],
    ])
    hear({ type: "returned", lease: { ...lease(100n, 70n), settled: micro(30n) } })
    expect([returns.length, available()]).toEqual([2, micro(0n)])
    clock.advance(5_000)
    expect(returns.length).toBe(2)
    // All of what is granted later is there.
    hold("b", 50n)
    grown(150n)
    expect(told.at(-1)).toBe("b held 50")
  })

  test("is not idle while anything is held, while it grows, or while it keeps something from others", () => {
    const { clock, hold, settle, grown, hear, behaviour, returns } = account(100n)
    hold("a", 100n)
    clock.advance(60_000)
    expect(behaviour.idle()).toBe(false)
    settle("a", 1n)
    clock.advance(60_000)
    expect([returns, behaviour.idle()]).toEqual([[99n], false])
    hear({ type: "returned", lease: lease(100n, 99n) })
    expect(behaviour.idle()).toBe(true)
    hold("b", 1n)
    expect(behaviour.idle()).toBe(false)
    grown(100n)
    expect(behaviour.idle()).toBe(true)
  })
})

describe("an account and its neighbours", () => {
  test("waits a moment for what they give back, and no longer", () => {
    const { clock, hold, grown, hear, growths, told } = account(10n)
    clock.advance(1_000)
    hold("a", 50n)
    hold("b", 60n)
    grown(10n, true)
    expect(told).toEqual([])
    hear({ type: "freed" })
    expect(growths()).toBe(2)
    grown(60n, true)
    clock.advance(50)
    expect([growths(), told]).toEqual([3, []])
    grown(60n, true)
    clock.advance(50)
    grown(60n, true)
    expect(told).toEqual(["a held 50"])
    clock.advance(200)
    grown(60n, true)
    expect(told).toEqual(["a held 50", "b insufficient"])
  })

  test("says by how much it is short: all who wait, and one of them in full", () => {
    const { clock, hold, shorts } = account(10n)
    clock.advance(1_000)
    hold("a", 50n)
    expect(shorts).toEqual([90n])
  })

  test("gives all it does not hold when it is not in use, else half or what is asked for", () => {
    const { clock, hold, hear, returns, available } = account(100n)
    hold("a", 20n)
    hear(short(10n))
    hear({ type: "returned", lease: lease(100n, 40n) })
    hear(short(30n))
    hear({ type: "returned", lease: lease(100n, 70n) })
    clock.advance(1_000)
    hear(short(1n))
    expect(returns).toEqual([40n, 70n, 80n])
    expect(available()).toBe(micro(0n))
  })

  test("asks for what it gave back before it says that there is no more, however lately that was the answer", () => {
    for (const isReturned of [false, true]) {
      const { clock, hold, release, hear, grown, growths, told } = account(100n)
      clock.advance(1_000)
      hold("a", 80n)
      grown(100n)
      release("a")
      hear(short(10n))
      if (!isReturned) hold("b", 80n)
      hear({ type: "returned", lease: lease(100n, 50n, 2) })
      if (isReturned) hold("b", 80n)
      expect([growths(), told]).toEqual([2, ["a held 80"]])
      grown(140n)
      expect(told).toEqual(["a held 80", "b held 80"])
    }
  })

  test("passes on what is trimmed or released while the neighbour still waits", () => {
    const { clock, hold, release, hear, behaviour, returns } = account(100n)
    hold("a", 50n)
    hold("b", 25n)
    hear(short(80n))
    expect(returns).toEqual([25n])
    hear({ type: "returned", lease: lease(100n, 25n) })
    behaviour.receive({ type: "trim", requestId: "a", hold: micro(40n) })
    expect(returns).toEqual([25n, 35n])
    hear({ type: "returned", lease: lease(100n, 35n) })
    release("a")
    expect(returns).toEqual([25n, 35n, 75n])
    hear({ type: "returned", lease: lease(100n, 75n) })
    clock.advance(300)
    release("b")
    expect(returns).toEqual([25n, 35n, 75n])
  })

  test("that are short too: one of two keeps what it has, and the other gives", () => {
    for (const yields of [false, true]) {
      const { clock, hold, grown, hear, returns } = account(30n)
      clock.advance(1_000)
      hold("a", 50n)
      grown(30n, true)
      hear(short(20n, yields))
      expect(returns).toEqual(yields ? [20n] : [])
    }
  })

  test("are not asked at once for what was given to them, though it is told that there is something free", () => {
    const { clock, hold, grown, hear, growths } = account(30n)
    clock.advance(1_000)
    hold("a", 50n)
    grown(30n, true)
    hear(short(20n, true))
    hear({ type: "returned", lease: lease(30n, 20n) })
    hear({ type: "freed" })
    expect(growths()).toBe(1)
    clock.advance(50)
    expect(growths()).toBe(2)
  })

  test("are given everything while the process drains, whatever ends", () => {
    const { hold, settle, hear, returns } = account(100n)
    hold("a", 40n)
    hear({ type: "drain" })
    hear({ type: "returned", lease: lease(100n, 60n) })
    settle("a", 10n)
    expect(returns).toEqual([60n, 90n])
  })

  test("are given while the process drains what a growth brings that nobody waits for any more", () => {
    const { clock, hold, release, grown, hear, returns } = account(10n)
    hold("a", 10n)
    clock.advance(1_000)
    hold("b", 50n)
    hear({ type: "drain" })
    grown(30n, true)
    expect(returns).toEqual([])
    clock.advance(50)
    release("b")
    grown(100n)
    expect(returns).toEqual([90n])
  })

  test("may have what was given back without our knowing: it is offered until that is known, and not spent", () => {
    const { clock, hear, behaviour, returns, available } = account(100n)
    clock.advance(1_000)
    hear(short(10n))
    hear({ type: "not-returned" })
    expect([available(), behaviour.idle()]).toEqual([micro(0n), false])
    clock.advance(500)
    expect(returns).toEqual([100n, 100n])
  })
})
