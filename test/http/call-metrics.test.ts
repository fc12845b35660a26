import { expect, test } from "bun:test"
import { Registry } from "prom-client"
import { micro } from "../../actors/money/micro.ts"
import type { FinishedCall } from "../../src/gateway/ports.ts"
import { CallMetrics } from "../../src/http/call-metrics.ts"

const finished = (model: string, durationMs: number, status: "ok" | "usage_missing" = "ok"): FinishedCall => ({
  requestId: "req_1",
  accountId: "acc_1",
  keyId: "key_1",
  endpoint: "chat",
  record: {
    part: 0,
    model,
    priceId: 1n,
    status,
    tokens: { input: 10, output: 5, cacheRead: 2, cacheWrite: 1 },
    charge: micro(700n),
    absorbed: micro(3n),
    excess: micro(0n),
    turns: 1,
    attempts: 2,
    errorCode: undefined,
    flagged: status !== "ok",
    firstTokenMs: undefined,
    durationMs,
    member: undefined,
    cost: undefined,
  },
  tokens: undefined,
  durable: true,
  alert: false,
})

async function text(...calls: readonly FinishedCall[]): Promise<string[]> {
  const registry = new Registry()
  const metrics = new CallMetrics(registry)
  for (const call of calls) metrics.finished(call)
  const lines = await registry.metrics()
  // Read twice: a sum that is read is not counted again.
  expect(await registry.metrics()).toBe(lines)
  return lines.split("\n")
}

test("calls are summed by model, and only charged ones count tokens", async () => {
  const lines = await text(finished("a", 1), finished("a", 1), finished("b", 1), finished("a", 1, "usage_missing"))
  for (const line of [
    'loket_calls_total{endpoint="chat",model="a",status="ok"} 2',
    'loket_calls_total{endpoint="chat",model="b",status="ok"} 1',
    'loket_calls_total{endpoint="chat",model="a",status="usage_missing"} 1',
    'loket_tokens_total{model="a",bucket="input"} 20',
    'loket_tokens_total{model="b",bucket="cache_write"} 1',
    'loket_flagged_total{model="a",status="usage_missing"} 1',
    'loket_charge_micro_total{model="a"} 2100',
    'loket_absorbed_micro_total{model="a"} 9',
    'loket_upstream_attempts_total{model="b"} 2',
  ])
    expect(lines).toContain(line)
  expect(lines.filter((line) => line.startsWith("loket_flagged_total"))).toHaveLength(1)
})

test("a bucket of times has all up to its bound, the bound included", async () => {
  const lines = await text(finished("a", 50), finished("a", 51), finished("a", 300_000), finished("a", 300_001))
  const bucket = (le: string) => lines.find((line) => line.includes(`duration_seconds_bucket{le="${le}",`))
  expect(bucket("0.05")).toEndWith(" 1")
  expect(bucket("0.1")).toEndWith(" 2")
  expect(bucket("120")).toEndWith(" 2")
  expect(bucket("300")).toEndWith(" 3")
  expect(bucket("+Inf")).toEndWith(" 4")
  expect(lines).toContain('loket_duration_seconds_count{endpoint="chat",model="a"} 4')
  expect(lines).toContain('loket_duration_seconds_sum{endpoint="chat",model="a"} 600.102')
  expect(lines).toContain("# TYPE loket_duration_seconds histogram")
  // Nothing began to be answered.
  expect(lines.some((line) => line.startsWith("loket_first_token_seconds_"))).toBe(false)
})
