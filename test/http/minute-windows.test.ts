import { expect, test } from "bun:test"
import { type Share, whole } from "../../actors/lease.ts"
import { MinuteRateLimiter } from "../../src/http/dry-runs.ts"

test("so many of one name within any minute, of each name by itself", () => {
  let now = 1_000
  const windows = new MinuteRateLimiter({ limit: 3, remembered: 10, share: () => whole, monotonic: () => now })
  const count = (name: string) => ("retryAfterS" in windows.count(name) ? "refused" : "counted")
  expect([count("a"), count("a"), count("a"), count("a"), count("b")]).toEqual([
    "counted",
    "counted",
    "counted",
    "refused",
    "counted",
  ])
  expect(windows.count("a")).toEqual({ retryAfterS: 60 })
  now += 60_000
  expect(windows.count("a")).toEqual({ limit: 3, remaining: 2, resetS: 60 })
})

test("what was counted stays when this process's share is another", () => {
  let share: Share = whole
  const windows = new MinuteRateLimiter({ limit: 4, remembered: 10, share: () => share, monotonic: () => 0 })
  windows.count("a")
  windows.count("a")
  share = { index: 0, count: 2 }
  expect("retryAfterS" in windows.count("a")).toBe(true)
})
