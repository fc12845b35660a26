import { describe, expect, test } from "bun:test"
import type { CountReply, KeyForecast, LateRefusal, LoadedKey } from "../../actors/key-record.ts"
import { micro, zero } from "../../actors/money/micro.ts"
import { readNetwork } from "../../actors/network.ts"
import { calendarAt } from "../../actors/period.ts"
import { whole } from "../../actors/lease.ts"
import { budget, key, plain, startsOf, withSecret } from "./key-harness.ts"

describe("a key that expires", () => {
  const at = "2026-03-10T12:00:00Z"
  test("is refused from its millisecond on, after its minute and before its account, without being read again", () => {
    const { count, clock, loads } = key({ expiresAt: Date.parse(at) + 10_000, requestsPerMinute: 4 }, { at })
    clock.advance(9_999)
    expect(count().kind).toBe("active")
    clock.advance(1)
    expect(count()).toMatchObject({ kind: "expired", view: { requests: { remaining: 2 } } })
    expect([count(false).kind, count().kind, count().kind, count().kind]).toEqual([
      "expired",
      "expired",
      "expired",
      "requests-exceeded",
    ])
    expect(loads()).toBe(0)
  })

  test("is dead however far its process is behind, where the database found it over", () => {
    expect(key({ expiresAt: 0 }, { at: "1970-01-01T00:00:00Z" }).count().kind).toBe("expired")
  })

  test.each([
    [{ revoked: true }, "revoked"],
    [{ accountDeleted: true }, "expired"],
    [{ accountFrozen: true }, "expired"],
  ])("is told with %j as %s", (record, kind) => {
    expect(key({ ...record, expiresAt: 0 }).count().kind).toBe(kind as CountReply["kind"])
  })
})

test("a key that is bound to networks takes nothing of its window for whoever is elsewhere, or nowhere", () => {
  const binding = { networks: [readNetwork("203.0.113.0/24")!] }
  const { count } = key({ requestsPerMinute: 1, binding })
  for (const address of ["198.51.100.7", "", "unknown"]) expect(count(true, address).kind).toBe("elsewhere")
  expect(count(true, "::ffff:203.0.113.1").kind).toBe("active")
  expect(count(true, "203.0.113.1").kind).toBe("requests-exceeded")
  expect(key({ binding: { networks: [] } }).count(true, "203.0.113.1").kind).toBe("elsewhere")
  expect(key({ binding: {} }).count().kind).toBe("active")
  // Whoever was let in from there before is not asked again.
  const call = { counted: false, secret: "", origin: undefined }
  const replies: CountReply[] = []
  key({ binding }).send({ type: "count", call, reply: (reply) => void replies.push(reply) })
  expect(replies).toMatchObject([{ kind: "active" }])
})

describe("a secret that was replaced", () => {
  test("works until its time, then is refused and uses up no window, without anything being read again", () => {
    const at = "2026-03-10T12:00:00Z"
    const secretEnds = { old: Date.parse(at) + 10_000 }
    const { behaviour, clock, loads, view } = key({ requestsPerMinute: 3, secretEnds }, { at })
    expect(withSecret(behaviour, "old").kind).toBe("active")
    clock.advance(9_999)
    expect(withSecret(behaviour, "old").kind).toBe("active")
    clock.advance(1)
    for (let guess = 0; guess < 5; guess++) expect(withSecret(behaviour, "old")).toMatchObject({ kind: "ended" })
    expect(withSecret(behaviour, "new").kind).toBe("active")
    expect(view()).toMatchObject({ requests: { remaining: 0 } })
    expect(withSecret(behaviour, "new").kind).toBe("requests-exceeded")
    expect(withSecret(behaviour, "old")).toMatchObject({ kind: "ended" })
    expect(loads()).toBe(0)
  })

  test("names the key's actor where it has none of its own", () => {
    const { behaviour } = key({ movedTo: "first" })
    expect(withSecret(behaviour, "second")).toEqual({ kind: "moved", to: "first" })
    expect(behaviour.idle()).toBe(true)
  })
})

describe("a key's calls", () => {
  test("are counted up to its requests per minute; one refused is not counted, a revoked key's is", () => {
    const { clock, count, change, view } = key({ requestsPerMinute: 2 })
    expect(count().kind).toBe("active")
    expect(view()).toMatchObject({ requests: { limit: 2, remaining: 1, resetS: 60 } })
    clock.advance(10_000)
    change({ revoked: true })
    expect(count()).toMatchObject({ kind: "revoked", view: { requests: { remaining: 0 } } })
    for (let refused = 0; refused < 5; refused++)
      expect(count()).toMatchObject({
        kind: "requests-exceeded",
        retryAfterS: 50,
        view: { requests: { remaining: 0 } },
      })
    clock.advance(50_000)
    change({ revoked: false, accountDeleted: true })
    expect(count()).toMatchObject({ kind: "account-deleted" })
    change({ accountDeleted: false, accountFrozen: true })
    expect(count(false)).toMatchObject({ kind: "account-frozen" })
  })

  test.each([
    [{ revoked: true }, "revoked"],
    [{ accountDeleted: true }, "account-deleted"],
    [{ accountFrozen: true }, "account-frozen"],
    [{ expiresAt: 0 }, "expired"],
  ])(
    "that came before %j take nothing when their body comes after it, and those that had taken go on",
    (record, refusal) => {
      const { count, change, reserve, settle, view } = key({ tokensPerMinute: 100, ...budget(1000n, "total") })
      expect([count().kind, count().kind]).toEqual(["active", "active"])
      expect(reserve("before", 10n, 10n, 20).kind).toBe("reserved")
      change(record)
      expect(reserve("after", 10n, 10n, 20)).toEqual({ kind: "refused", refusal: refusal as LateRefusal })
      expect(view()).toMatchObject({ tokens: { remaining: 80 }, budget: { usage: 10n } })
      expect(settle("before", 7n, undefined, 20)).toBe(micro(7n))
      expect(view()).toMatchObject({ tokens: { remaining: 80 }, budget: { usage: 7n } })
    },
  )

  test("that came before a pause are not refused for it: the ceilings say so themselves, and its calls go on when it is over", () => {
    const { clock, count, change, reserve } = key({})
    const until = clock.now() + 10_000
    change({ paused: { until } })
    expect([count().kind, reserve("a", 1n).kind]).toEqual(["paused", "reserved"])
    clock.advance(9_999)
    expect(count().kind).toBe("paused")
    clock.advance(1)
    expect(count().kind).toBe("active")
  })

  test("that another key's window refused are taken back, one by one", () => {
    const { clock, count, send, view } = key({ requestsPerMinute: 5 })
    clock.advance(500_000)
    for (let call = 0; call < 3; call++) count()
    send({ type: "uncount", countedAtMs: 500_000 })
    expect(view().requests?.remaining).toBe(3)
  })

  test("that are free of the window are looked at and not counted", () => {
    const { count } = key({ requestsPerMinute: 1 })
    for (let free = 0; free < 3; free++) expect(count(false).kind).toBe("active")
    expect(count().kind).toBe("active")
    expect(count(false).kind).toBe("active")
    expect(count().kind).toBe("requests-exceeded")
  })
})

describe("a key's tokens", () => {
  test("are given back whole where the budget is short, and reserved once for a call", () => {
    const { reserve, view } = key({ tokensPerMinute: 100, ...budget(10n, "daily") })
    expect(reserve("a", 11n, 11n, 40).kind).toBe("budget-exceeded")
    expect(view().tokens).toEqual({ limit: 100, remaining: 100, resetS: 0 })
    expect(reserve("a", 5n, 5n, 40).kind).toBe("reserved")
    expect(() => reserve("a", 5n, 5n, 40)).toThrow("reserved twice")
  })

  test("are taken at admission, given back by a release, and corrected at settlement where they were counted", () => {
    const { clock, reserve, release, settle, view } = key({ tokensPerMinute: 100 })
    reserve("a", 0n, 0n, 60)
    expect(reserve("b", 0n, 0n, 50)).toEqual({ kind: "tokens-exceeded", retryAfterS: 60 })
    expect(view().tokens).toEqual({ limit: 100, remaining: 40, resetS: 60 })
    release("a")
    expect(view().tokens?.remaining).toBe(100)
    const starts = startsOf(reserve("c", 0n, 0n, 20))
    clock.advance(30_000)
    settle("c", 0n, starts, 90)
    expect(view().tokens).toEqual({ limit: 100, remaining: 10, resetS: 30 })
  })

  test("of an answer that ran for over a minute count from its end, as far as they were not counted before", () => {
    const { clock, reserve, settle, view } = key({ tokensPerMinute: 100 })
    const long = startsOf(reserve("long", 0n, 0n, 20))
    clock.advance(90_000)
    expect(view().tokens?.remaining).toBe(100)
    settle("long", 0n, long, 90)
    expect(view().tokens).toEqual({ limit: 100, remaining: 30, resetS: 60 })
    expect(reserve("next", 0n, 0n, 50)).toEqual({ kind: "tokens-exceeded", retryAfterS: 60 })
    clock.advance(60_000)
    const less = startsOf(reserve("less", 0n, 0n, 50))
    clock.advance(60_000)
    settle("less", 0n, less, 10)
    expect(view().tokens).toEqual({ limit: 100, remaining: 100, resetS: 0 })
  })

  test("that a call alone has too many of have no wait that helps", () => {
    const { reserve } = key({ tokensPerMinute: 100 })
    expect(reserve("a", 0n, 0n, 101)).toEqual({ kind: "tokens-exceeded", retryAfterS: undefined })
  })
})

const forecastOf = (it: ReturnType<typeof key>, tokens: number) => {
  const told: KeyForecast[] = []
  it.send({ type: "forecast", tokens, reply: (said) => told.push(said) })
  return told
}

describe("a forecast", () => {
  test("says what a call would wait for, when the budget begins anew, and takes nothing", () => {
    const it = key({ requestsPerMinute: 2, tokensPerMinute: 100, ...budget(10n, "daily") })
    it.count()
    it.reserve("a", 1n, 1n, 40)
    const nothing = { requests: undefined, tokens: undefined }
    // To midnight in Jakarta.
    expect(forecastOf(it, 60)).toEqual([{ view: it.view(), budgetEndsInS: 5 * 3_600, ...nothing }])
    it.clock.advance(10_000)
    it.count()
    expect(forecastOf(it, 61)).toMatchObject([{ requests: { retryAfterS: 50 }, tokens: { retryAfterS: 50 } }])
    expect(forecastOf(it, 101)).toMatchObject([{ tokens: { retryAfterS: undefined } }])
    expect(it.view()).toMatchObject({ requests: { remaining: 0 }, tokens: { remaining: 60 } })
  })

  test("of a key without limits is that nothing holds it up", () => {
    const view = { requests: undefined, tokens: undefined, budget: undefined }
    const nothing = { requests: undefined, tokens: undefined }
    expect(forecastOf(key({}), 1_000_000)).toEqual([{ view, budgetEndsInS: undefined, ...nothing }])
    expect(forecastOf(key(budget(10n, "total")), 1)).toMatchObject([{ budgetEndsInS: undefined, ...nothing }])
  })
})

describe("a change", () => {
  test("of limits acts at once, and what was counted and spent stays", () => {
    const { count, reserve, settle, change, usage, view } = key({ requestsPerMinute: 5, ...budget(100n, "daily") })
    for (let call = 0; call < 3; call++) count()
    reserve("a", 60n)
    settle("a", 60n)
    change({ requestsPerMinute: 3, ...budget(200n, "daily") })
    expect(count().kind).toBe("requests-exceeded")
    expect(usage()).toBe(micro(60n))
    change({ requestsPerMinute: undefined, budget: undefined })
    expect(count().kind).toBe("active")
    expect(view()).toMatchObject({ requests: undefined, budget: undefined })
  })

  test("that comes while another is read is read after it, so that an old answer never wins", () => {
    const { behaviour, loads } = key({})
    for (let change = 0; change < 3; change++) behaviour.receive({ type: "changed" })
    expect(loads()).toBe(1)
    behaviour.receive({ type: "loaded", loaded: undefined })
    expect(loads()).toBe(2)
    behaviour.receive({ type: "loaded", loaded: undefined })
    expect(loads()).toBe(2)
  })

  test("is answered once what was read after it is in force, however long that takes", () => {
    const { clock, behaviour } = key({})
    const loaded: LoadedKey = {
      record: { ...plain, revoked: true },
      starts: calendarAt(clock.now(), plain.timeZone).starts,
      spent: { daily: zero, monthly: zero, total: zero },
    }
    const told: string[] = []
    const change = (name: string) =>
      behaviour.receive({
        type: "changed",
        reply: () => told.push(`${name}: ${withSecret(behaviour, "").kind}`),
      })
    change("first")
    change("second")
    behaviour.receive({ type: "not-loaded" })
    expect(behaviour.idle()).toBe(false)
    change("third")
    expect(told).toEqual([])
    behaviour.receive({ type: "loaded", loaded })
    expect(told).toEqual(["first: revoked", "second: revoked"])
    behaviour.receive({ type: "loaded", loaded })
    expect(told).toEqual(["first: revoked", "second: revoked", "third: revoked"])
  })

  test("that cannot be read is tried again until it can", () => {
    const { clock, behaviour, loads } = key({})
    behaviour.receive({ type: "changed" })
    expect(behaviour.idle()).toBe(false)
    for (let attempt = 1; attempt <= 3; attempt++) {
      expect(loads()).toBe(attempt)
      behaviour.receive({ type: "not-loaded" })
      clock.advance(500)
    }
    expect(loads()).toBe(4)
  })

  test("keeps the key while somebody waits to hear that it is in force", () => {
    const { clock, behaviour, send } = key({})
    const told: string[] = []
    send({ type: "changed", reply: (said) => told.push(said) })
    send({ type: "not-loaded" })
    expect([behaviour.idle(), told]).toEqual([false, []])
    clock.advance(500)
    send({ type: "loaded", loaded: undefined })
    expect([behaviour.idle(), told]).toEqual([true, ["in force"]])
  })

  test("that removes the key makes it unknown", () => {
    const { behaviour, count } = key({ requestsPerMinute: 5 })
    behaviour.receive({ type: "changed" })
    behaviour.receive({ type: "loaded", loaded: undefined })
    expect(count()).toEqual({ kind: "unknown" })
  })
})

describe("a key's share", () => {
  test("of its windows is what this process admits; the limit that is told stays the customer's", () => {
    const { count, reserve, view } = key(
      { requestsPerMinute: 5, tokensPerMinute: 100 },
      { share: { index: 0, count: 2 } },
    )
    for (let call = 0; call < 3; call++) expect(count().kind).toBe("active")
    expect(count()).toMatchObject({ kind: "requests-exceeded", retryAfterS: 60 })
    expect(view().requests).toEqual({ limit: 5, remaining: 0, resetS: 60 })
    reserve("a", 0n, 0n, 30)
    expect(reserve("b", 0n, 0n, 30)).toEqual({ kind: "tokens-exceeded", retryAfterS: 60 })
    expect(view().tokens).toEqual({ limit: 100, remaining: 20, resetS: 60 })
  })

  test("that changes acts at once, also on limits that are read anew, and what was counted stays", () => {
    const { count, send, change, view } = key({ requestsPerMinute: 6 })
    for (let call = 0; call < 3; call++) count()
    send({ type: "share", share: { index: 1, count: 2 } })
    expect(count()).toMatchObject({ kind: "requests-exceeded", view: { requests: { limit: 6, remaining: 0 } } })
    change({ requestsPerMinute: 9 })
    expect(count().kind).toBe("active")
    expect(count().kind).toBe("requests-exceeded")
    send({ type: "share", share: whole })
    expect(count().kind).toBe("active")
    expect(view()).toMatchObject({ requests: { limit: 9, remaining: 4 } })
  })

  test("does not keep out a call that is larger than it: that one waits for an empty window", () => {
    const { clock, reserve } = key({ tokensPerMinute: 100 }, { share: { index: 1, count: 4 } })
    reserve("a", 0n, 0n, 20)
    clock.advance(10_000)
    expect(reserve("b", 0n, 0n, 90)).toEqual({ kind: "tokens-exceeded", retryAfterS: 50 })
    clock.advance(50_000)
    expect(reserve("b", 0n, 0n, 90).kind).toBe("reserved")
    expect(reserve("c", 0n, 0n, 1).kind).toBe("tokens-exceeded")
    expect(reserve("d", 0n, 0n, 101)).toEqual({ kind: "tokens-exceeded", retryAfterS: undefined })
  })
})

test("a key is idle only with nothing reserved and its windows empty", () => {
  const { clock, behaviour, count, reserve, release } = key({ requestsPerMinute: 5 })
  expect(behaviour.idle()).toBe(true)
  count()
  clock.advance(59_999)
  expect(behaviour.idle()).toBe(false)
  clock.advance(1)
  expect(behaviour.idle()).toBe(true)
  reserve("a", 0n)
  clock.advance(3_600_000)
  expect(behaviour.idle()).toBe(false)
  release("a")
  expect(behaviour.idle()).toBe(true)
})
