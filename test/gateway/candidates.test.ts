import { expect, test } from "bun:test"
import { LiveCatalogue } from "../../src/catalogue/live.ts"
import type { Catalogue, Model } from "../../src/catalogue/model.ts"
import { Failure } from "../../src/failure/failure.ts"
import { candidates } from "../../src/gateway/candidates.ts"
import { understand } from "../../src/gateway/understand.ts"
import { Calibration } from "../../src/gateway/calibration.ts"
import { micro } from "../../actors/money/micro.ts"
import { VirtualClock } from "../../actors/kernel/clock.ts"
import { chatFormat } from "../../src/wire/chat/format.ts"

const model = (id: string, rest: Partial<Model> = {}): Model => ({
  id,
  displayName: id,
  tier: "standard",
  provider: "Simulated",
  modality: "text",
  supportsVision: false,
  supportsTools: true,
  contextWindow: null,
  maxOutputTokens: 100,
  endpoints: new Set(["chat"]),
  upstream: { provider: "simulated", format: "chat", model: id },
  maxConcurrency: 1,
  createdAt: new Date(0),
  fallback: [],
  strip: [],
  unsupported: [],
  features: [],
  ...rest,
})
const one = micro(1n)
const rates = { input: one, output: one, cacheRead: one, cacheWrite: one }
const catalogueOf = (models: readonly Model[]): Catalogue => ({
  models,
  prices: models.map(({ id }, index) => ({ id: BigInt(index), model: id, rates, effectiveAt: 0 })),
  aliases: [],
})
const provider = { id: "simulated", label: "Simulated", baseUrl: "http://127.0.0.1:1", apiKeyEnv: "X", headers: {} }

/** The chain of a call of `asked`, which has some ten tokens. */
function chainOf(models: readonly Model[]) {
  const catalogue = new LiveCatalogue(catalogueOf(models))
  const backends = new Map([["simulated", { provider, apiKey: "x" }]])
  const ports = { catalogue, backends, search: undefined, calibration: new Calibration(), clock: new VirtualClock() }
  const body = { model: "asked", messages: [{ role: "user", content: "Hello" }], logit_bias: { 1: 2 } }
  const understood = understand(new TextEncoder().encode(JSON.stringify(body)), chatFormat, ports)
  if (understood instanceof Failure) throw new Error(understood.code)
  const chain = candidates(understood, ports, ports.clock.now())
  if (chain instanceof Failure) throw new Error(chain.code)
  const ids = () => {
    const left: string[] = []
    for (let next = chain.others.next(); next.done !== true; next = chain.others.next())
      left.push(next.value.offer.model.id)
    return left
  }
  return { catalogue, chain, ids }
}

test("a chain passes over what is too small or cannot do it, with a marker only for what is too small before the first", () => {
  const { chain, ids } = chainOf([
    model("asked", { contextWindow: 1, fallback: ["unable", "tiny", "large", "asked", "small", "last", "large"] }),
    model("unable", { unsupported: ["logit_bias"] }),
    model("tiny", { contextWindow: 2 }),
    model("large"),
    model("small", { contextWindow: 3 }),
    model("last"),
  ])
  expect(chain.first.offer.model.id).toBe("large")
  expect(chain.markers.map(({ offer, status }) => [offer.model.id, status])).toEqual([
    ["asked", "fallback_oversize"],
    ["tiny", "fallback_oversize"],
  ])
  expect(ids()).toEqual(["last"])
})

test("a fallback model is looked at when a reroute asks for it, not before: one that is gone by then is passed over", () => {
  const asked = model("asked", { fallback: ["gone", "there"] })
  const { catalogue, ids } = chainOf([asked, model("gone"), model("there")])
  catalogue.replace(catalogueOf([asked, model("there")]))
  expect(ids()).toEqual(["there"])
})
