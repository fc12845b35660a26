import { expect, test } from "bun:test"
import { VirtualClock } from "../kernel/virtual-time.ts"
import { type Share, whole } from "../../actors/lease.ts"
import { createApiKey } from "../../src/accounts/bearer-tokens.ts"
import { MinuteRateLimiter } from "../../src/accounts/rate-limits.ts"
import type { Failure } from "../../src/failure/failure.ts"
import { DryRuns } from "../../src/http/dry-runs.ts"
import { chatFormat } from "../../src/wire/chat/format.ts"

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

const never = () => Promise.reject(new Error("not asked"))
const active = (keyId: string) => ({ kind: "active", record: { keyId, accountId: "acc_1" } })

test("dry runs of 10,000 keys are counted; of the next one's the key that had one longest ago begins anew", async () => {
  const runs = new DryRuns({
    ports: {
      draining: new AbortController().signal,
      clock: new VirtualClock(),
      actors: { keys: { has: () => true, count: active, view: () => ({}) } },
    },
    accounts: { account: never },
    keys: { read: never },
    share: () => whole,
  } as unknown as ConstructorParameters<typeof DryRuns>[0])
  // Counted, and then refused for its header.
  const codeOf = async (key: string) => {
    const headers = { "x-api-key": key, "X-Dry-Run": "perhaps" }
    const request = new Request("http://gateway/v1/chat/completions", { method: "POST", headers })
    const answer = await runs.answer(chatFormat.client, request, { requestId: "r", connection: undefined, address: "" })
    return (answer as Failure).code
  }
  const key = createApiKey()
  for (let n = 0; n < 60; n++) expect(await codeOf(key)).toBe("request.invalid")
  for (let n = 1; n < 10_000; n++) await codeOf(createApiKey())
  expect(await codeOf(key)).toBe("rate_limit.rpm_exceeded")
  await codeOf(createApiKey())
  expect(await codeOf(key)).toBe("request.invalid")
})
