import { describe, expect, test } from "bun:test"
import { Account, type AccountView, type Charged, type HoldReply } from "../../actors/account.ts"
import { VirtualClock } from "../../actors/kernel/clock.ts"
import { micro } from "../../actors/money/micro.ts"

const lease = (granted: bigint, settled = 0n) => ({ id: 1n, granted: micro(granted), settled: micro(settled) })

/** An account whose growths end when the test says so. */
function account(granted: bigint) {
  const clock = new VirtualClock()
  const told: string[] = []
  let growths = 0
  const behaviour = new Account({ clock, growLease: () => growths++ }, lease(granted))
  return {
    clock,
    told,
    behaviour,
    growths: () => growths,
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
    grown: (to: bigint) => behaviour.receive({ type: "lease-grown", lease: lease(to) }),
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

  test("that is short asks for more before it says so, once for all who wait", () => {
    const { clock, hold, grown, growths, told } = account(10n)
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
    behaviour.receive({ type: "lease-not-grown" })
    expect(told).toEqual(["a unavailable"])
    hold("b", 50n)
    expect(growths()).toBe(2)
  })

  test("credited while it grows asks once more, and those who are still short wait for that", () => {
    const { clock, hold, grown, behaviour, growths, told } = account(10n)
    clock.advance(1_000)
    hold("a", 50n)
    behaviour.receive({ type: "credited" })
    grown(10n)
    expect([growths(), told]).toEqual([2, []])
    grown(60n)
    expect(told).toEqual(["a held 50"])
  })

  test("lets who waits for a growth give up", () => {
    const { clock, hold, release, grown, told, behaviour } = account(10n)
    clock.advance(1_000)
    hold("a", 50n)
    release("a")
    expect(told).toEqual(["a insufficient"])
    grown(100n)
    expect(told.length).toBe(1)
    expect(behaviour.idle()).toBe(true)
  })

  test("charges the actual cost up to the hold and what is still available; the rest is the house's", () => {
    const { hold, settle, available } = account(100n)
    hold("a", 30n)
    hold("b", 30n)
    expect(settle("a", 20n)).toMatchObject({ charge: micro(20n), absorbed: micro(0n) })
    expect(settle("b", 500n)).toMatchObject({ charge: micro(80n), absorbed: micro(420n) })
    expect(available()).toBe(micro(0n))
  })

  test("takes a charge back that it made, and not one of the purse before it", () => {
    const before = account(100n)
    before.hold("a", 30n)
    const earlier = before.settle("a", 30n)
    const { hold, settle, behaviour, available } = account(100n)
    hold("b", 30n)
    const own = settle("b", 30n)
    behaviour.receive({ type: "unsettle", charged: earlier })
    expect(available()).toBe(micro(70n))
    behaviour.receive({ type: "unsettle", charged: own })
    expect(available()).toBe(micro(100n))
  })

  test("is not idle while anything is held, or while it grows", () => {
    const { hold, release, behaviour, grown } = account(100n)
    hold("a", 1n)
    expect(behaviour.idle()).toBe(false)
    release("a")
    behaviour.receive({ type: "credited" })
    expect(behaviour.idle()).toBe(false)
    grown(200n)
    expect(behaviour.idle()).toBe(true)
  })

  test("whose lease was replaced by another crashes rather than spend under the wrong one", () => {
    const { behaviour } = account(100n)
    const other = { ...lease(100n), id: 2n }
    expect(() => behaviour.receive({ type: "lease-grown", lease: other })).toThrow("replaced")
  })
})
