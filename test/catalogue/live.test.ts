import { expect, test } from "bun:test"
import { micro } from "../../actors/money/micro.ts"
import { LiveCatalogue } from "../../src/catalogue/live.ts"
import type { Model, PriceVersion } from "../../src/catalogue/model.ts"

const HOUR_MS = 3_600_000
const T = Date.UTC(2026, 10, 20)

const model: Model = {
  id: "m",
  displayName: "m",
  tier: "standard",
  provider: "p",
  modality: "text",
  supportsVision: false,
  supportsTools: true,
  contextWindow: null,
  maxOutputTokens: 100,
  endpoints: new Set(["chat"]),
  upstreams: [{ provider: "p", format: "chat", model: "m", priority: 0, weight: 1 }],
  maxConcurrency: 1,
  fallback: [],
  strip: [],
  pass: [],
  unsupported: [],
  features: [],
  gather: true,
  createdAt: new Date(T),
}
const version = (id: bigint, effectiveAt: number): PriceVersion => ({
  id,
  model: "m",
  effectiveAt,
  rates: { input: micro(1n), output: micro(1n), cacheRead: micro(0n), cacheWrite: micro(0n) },
})
const catalogue = () =>
  new LiveCatalogue({
    models: [model],
    aliases: [],
    members: [],
    costs: [],
    exchangeRates: [],
    prices: [version(1n, T), version(2n, T + HOUR_MS)],
  })

test("a model is sold from its first price on, and at the price that is in force", () => {
  const live = catalogue()
  expect(live.find("m", T - 1)).toBeUndefined()
  expect(live.find("m", T)?.price.id).toBe(1n)
  expect(live.find("m", T + HOUR_MS)?.price.id).toBe(2n)
})

test("a clock that is set back takes nothing from sale that has been sold, and brings an older price back", () => {
  const live = catalogue()
  expect(live.find("m", T + HOUR_MS)?.price.id).toBe(2n)
  expect(live.find("m", T + HOUR_MS - 1)?.price.id).toBe(1n)
  expect(live.find("m", T - HOUR_MS)?.price.id).toBe(2n)
  expect(live.offers(T - HOUR_MS)).toHaveLength(1)
})
