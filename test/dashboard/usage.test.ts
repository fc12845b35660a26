import { describe, expect, test } from "bun:test"
import { sameDaysLastMonth } from "../../src/dashboard/i18n/figures.ts"
import { type SeriesNames, splitSeries, stepsOf, wholeSeries } from "../../src/dashboard/pages/usage/series.ts"
import type { Call, CallList, Sum } from "../../src/dashboard/pages/usage/data.ts"
import { loaded } from "./loaded.ts"

const { canBeSummed, isFiltered, nothingFiltered, readView, writeView } = await loaded(
  () => import("../../src/dashboard/pages/usage/address.ts"),
)
const { callName, joined, longer, toTheNewest } = await loaded(() => import("../../src/dashboard/pages/usage/data.ts"))

const TODAY = "2026-11-21"
const view = (query: string) => readView(new URLSearchParams(query), TODAY)

test.each([
  ["2026-11-01", "2026-10-01", "2026-10-01"],
  ["2026-11-21", "2026-10-01", "2026-10-21"],
  ["2026-11-30", "2026-10-01", "2026-10-30"],
  ["2026-03-28", "2026-02-01", "2026-02-28"],
  ["2026-03-31", "2026-02-01", "2026-02-28"],
  ["2028-03-31", "2028-02-01", "2028-02-29"],
  ["2027-01-31", "2026-12-01", "2026-12-31"],
])("on %s the same days of the month before are %s to %s", (today, from, to) => {
  expect(sameDaysLastMonth(today)).toEqual({ from, to })
})

describe("the address", () => {
  test("says nothing of what is usual", () => {
    expect(view("")).toMatchObject({ days: { from: "2026-11-15", to: TODAY }, show: "spend", step: "day" })
    const written = writeView(new URLSearchParams("days=30"), { days: view("").days, model: undefined }, TODAY)
    expect(written.toString()).toBe("")
  })

  test("has days up to today as a number, which goes on with the calendar", () => {
    const month = { from: "2026-10-23", to: TODAY }
    expect(writeView(new URLSearchParams(), { days: month }, TODAY).toString()).toBe("days=30")
    expect(readView(new URLSearchParams("days=30"), "2026-11-22").days).toEqual({
      from: "2026-10-24",
      to: "2026-11-22",
    })
    const past = { from: "2026-11-01", to: "2026-11-02" }
    expect(writeView(new URLSearchParams("days=30"), { days: past }, TODAY).toString()).toBe(
      "from=2026-11-01&to=2026-11-02",
    )
  })

  test("has days up to today that are more than may be counted as they are", () => {
    const years = { from: "2020-01-01", to: TODAY }
    const written = writeView(new URLSearchParams("days=30"), { days: years }, TODAY)
    expect(readView(written, TODAY).days).toEqual(years)
    const year = { from: "2025-11-21", to: TODAY }
    expect(writeView(new URLSearchParams(), { days: year }, TODAY).toString()).toBe("days=366")
  })

  test("keeps what a change is not about", () => {
    const written = writeView(new URLSearchParams("model=m&show=calls"), { status: "ok", model: undefined }, TODAY)
    expect(written.toString()).toBe("show=calls&status=ok")
  })

  test.each([
    "days=0",
    "days=x",
    "days=9999",
    "from=2026-11-20",
    "from=2026-11-21&to=2026-11-20",
    "from=x&to=y",
    "from=2026-02-30&to=2026-03-05",
    "from=2016-11-10&to=2026-11-21",
  ])("that makes no sense, such as %s, means the usual days", (query) =>
    expect(view(query).days).toEqual({ from: "2026-11-15", to: TODAY }),
  )

  test("may begin ten years back", () => {
    expect(view("from=2016-11-13&to=2026-11-21").days).toEqual({ from: "2016-11-13", to: TODAY })
  })

  test("names a run, of which there are calls and no sums", () => {
    const ofRun = view("run=run_1&model=m")
    expect([ofRun.run, isFiltered(ofRun), canBeSummed(ofRun)]).toEqual(["run_1", true, false])
    expect([view("").run, isFiltered(view("")), canBeSummed(view(""))]).toEqual([undefined, false, true])
    const cleared = writeView(new URLSearchParams("run=run_1&show=calls"), nothingFiltered, TODAY)
    expect(cleared.toString()).toBe("show=calls")
  })

  test("asks for hours of a few days alone", () => {
    expect(view("days=1").step).toBe("hour")
    expect(view("days=7&step=hour").step).toBe("hour")
    expect(view("days=30&step=hour").step).toBe("day")
  })

  test.each(["show=x", "split=status", "format=bedrock", "status=fine"])(
    "without a meaning, such as %s, is ignored",
    (query) => expect(view(query)).toEqual(view("")),
  )
})

const call = (n: number): Call => ({ request_id: `req_${n}`, status: "ok", model: "m" }) as Call
const calls = (...numbers: number[]) => numbers.map(call)
const page = (numbers: number[], nextCursor: string | null = null) => ({
  data: calls(...numbers),
  next_cursor: nextCursor,
})
const list = (numbers: number[], nextCursor: string | null = null) => joined<Call>(undefined, page(numbers, nextCursor))
const numbers = ({ calls: rows }: CallList<Call>) => rows.map(({ request_id: id }) => Number(id.slice(4)))

describe("the list", () => {
  test("is the newest page, however many calls end", () => {
    let now = list([3, 2, 1], "after 1")
    for (let n = 4; n < 1_000; n++) now = joined(now, page([n, n - 1, n - 2], `after ${n - 2}`))
    expect([numbers(now), now.nextCursor]).toEqual([[999, 998, 997], "after 997"])
    expect([...now.arrived]).toEqual(calls(999, 998, 997).map(callName))
  })

  test("takes in a long call that ended after those which began later", () => {
    expect(numbers(joined(list([6, 4, 3]), page([6, 5, 4])))).toEqual([6, 5, 4])
  })

  test("stays as it is once older calls were added, and counts the newer ones", () => {
    const long = longer(list([6, 5, 4], "after 4"), page([3, 2, 1], "after 1"))
    expect([numbers(long), long.nextCursor, long.newest?.unseen]).toEqual([[6, 5, 4, 3, 2, 1], "after 1", 0])
    const one = joined(long, page([7, 6, 5], "after 5"))
    expect([numbers(one), one.newest?.unseen]).toEqual([[6, 5, 4, 3, 2, 1], 1])
    const many = joined(one, page([99, 98, 97], "after 97"))
    expect([numbers(many), many.newest?.unseen]).toEqual([[6, 5, 4, 3, 2, 1], 3])
  })

  test("goes back to the newest calls when it is told to, and follows them again", () => {
    const long = longer(list([6, 5, 4], "after 4"), page([3, 2, 1]))
    const back = toTheNewest(joined(long, page([9, 8, 7], "after 7")))
    expect([numbers(back), back.nextCursor, back.newest]).toEqual([[9, 8, 7], "after 7", undefined])
    expect(numbers(joined(back, page([10, 9, 8])))).toEqual([10, 9, 8])
  })

  test("that was empty is what comes", () => {
    const after = joined(list([]), page([1]))
    expect([numbers(after), [...after.arrived]]).toEqual([[1], calls(1).map(callName)])
  })

  test("tells reroutes of one call apart", () => {
    const [first, second] = [call(1), { ...call(1), status: "fallback_429", model: "n" } as Call]
    expect(callName(first)).not.toBe(callName(second))
  })
})

const sum = (group: string, split: string | null, spend: number, input = 0, cached = 0): Sum => ({
  group,
  split,
  requests: 1,
  ok_requests: 1,
  errors: 0,
  cache_reads: 0,
  input_tokens: input,
  output_tokens: 0,
  cache_read_tokens: cached,
  cache_write_tokens: 0,
  charge_micro: spend,
  first_token_p50_ms: null,
  first_token_p95_ms: null,
})
const names: SeriesNames = {
  whole: "whole",
  ok: "ok",
  failed: "failed",
  median: "p50",
  slow: "p95",
  buckets: { input: "input", output: "output", cacheRead: "read", cacheWrite: "written" },
  others: (count) => `${count} others`,
  group: (split) => split,
}

describe("the chart", () => {
  test("has a step for each day, and for each hour of a day", () => {
    expect(stepsOf(view("days=7"))).toHaveLength(7)
    expect(stepsOf(view("days=7"))[0]).toBe("2026-11-15")
    const hours = stepsOf(view("days=1"))
    expect([hours.length, hours[0], hours[23]]).toEqual([24, "2026-11-21T00:00", "2026-11-21T23:00"])
  })

  test("is 0 where nothing was called, and has no share where nothing was read", () => {
    const steps = ["a", "b"]
    expect(wholeSeries([sum("a", null, 7, 30, 10)], steps, "spend", names)[0]?.values).toEqual([7, 0])
    expect(wholeSeries([sum("a", null, 7, 30, 10)], steps, "cache", names)[0]?.values).toEqual([0.25, null])
  })

  test("adds the smallest groups up, the largest standing first", () => {
    const groups = "abcdefghijklmn".split("")
    const sums = groups.map((group, size) => sum("day", group, size + 1))
    const series = splitSeries(sums, ["day"], "spend", names)
    expect(series.map(({ name }) => name)).toEqual("n m l k j i h g f e d c".split(" ").concat("2 others"))
    expect(series.at(-1)?.values).toEqual([1 + 2])
    expect(splitSeries(sums.slice(1), ["day"], "spend", names).at(-1)?.name).toBe("b")
  })
})
