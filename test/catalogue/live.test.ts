import { expect, test } from "bun:test"
import { micro } from "../../actors/money/micro.ts"
import { LiveCatalogue, type Model, type PriceVersion } from "../../src/catalogue/model.ts"

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
const version = (id: bigint, effectiveAt: number, output = 1n): PriceVersion => ({
  id,
  model: "m",
  effectiveAt,
  rates: { input: micro(1n), output: micro(output), cacheRead: micro(0n), cacheWrite: micro(0n) },
})
const catalogue = (prices = [version(1n, T), version(2n, T + HOUR_MS)]) =>
  new LiveCatalogue({
    models: [model],
    aliases: [],
    members: [],
    costs: [],
    exchangeRates: [],
    prices,
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

test("what is to come is the next price of other rates, from when it is there until it begins", () => {
  const at = (hours: number) => T + hours * HOUR_MS
  const live = catalogue([version(1n, T), version(2n, at(1)), version(4n, at(3), 3n), version(3n, at(2), 2n)])
  const coming = (nowMs: number) => live.offers(nowMs).map((offer) => live.coming(offer, nowMs)?.id)
  expect(coming(T)).toEqual([3n])
  expect(coming(at(2) - 1)).toEqual([3n])
  expect(coming(at(2))).toEqual([4n])
  expect(coming(at(3))).toEqual([undefined])
  // Sold at the newest one yet, whatever the clock has been set back to.
  expect(coming(T - HOUR_MS)).toEqual([undefined])
})
