import { expect, test } from "bun:test"
import { InlineBodyExecutor, LargeBodies, RecentUse } from "../../src/bodies/bodies.ts"
import { type Catalogue, LiveCatalogue, type Model, type Provider, soleCredential } from "../../src/catalogue/model.ts"
import { whole } from "../../actors/lease.ts"
import { Pools } from "../../src/gateway/pools.ts"
import { backendOf } from "./harness.ts"
import type { Fallback, KeyBinding } from "../../actors/key-record.ts"
import type { Rates } from "../../actors/money/price.ts"
import { Failure } from "../../src/failure/failure.ts"
import { candidates } from "../../src/gateway/candidates.ts"
import { parseRequest } from "../../src/gateway/parse-request.ts"
import { micro } from "../../actors/money/micro.ts"
import { VirtualClock } from "../kernel/virtual-time.ts"
import { chatFormat } from "../../src/wire/chat/format.ts"
import { embeddingsFormat } from "../../src/wire/embeddings.ts"
import type { ClientFormat } from "../../src/wire/format.ts"

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
  upstreams: [{ provider: "simulated", format: "chat", model: id, priority: 0, weight: 1 }],
  maxConcurrency: 1,
  createdAt: new Date(0),
  fallback: [],
  strip: [],
  pass: [],
  unsupported: [],
  features: [],
  gather: true,
  ...rest,
})
const one = micro(1n)
const rates = { input: one, output: one, cacheRead: one, cacheWrite: one }
const catalogueOf = (models: readonly Model[]): Catalogue => ({
  models,
  prices: models.map(({ id }, index) => ({ id: BigInt(index), model: id, rates, effectiveAt: 0 })),
  aliases: [],
  members: [],
  costs: [],
  exchangeRates: [],
})
const provider: Provider = {
  id: "simulated",
  label: "Simulated",
  baseUrl: "http://127.0.0.1:1",
  credentials: [soleCredential("X")],
  headers: {},
}

/** The chain of a call of `asked`, which has some ten tokens. */
async function chainOf(
  models: readonly Model[],
  fallback: Fallback = "never_dearer",
  prices = catalogueOf(models).prices,
  binding?: KeyBinding,
  more: object = {},
  format: ClientFormat = chatFormat,
) {
  const clock = new VirtualClock()
  const catalogue = new LiveCatalogue({ ...catalogueOf(models), prices })
  const backends = new Map([["simulated", [backendOf(provider, "x")]]])
  const ports = {
    catalogue,
    pools: new Pools({ backends, clock: new VirtualClock(), share: () => whole, setting: () => undefined }),
    search: undefined,
    clock,
    endUserSecret: new Uint8Array(32),
    largeBodies: new LargeBodies(new InlineBodyExecutor()),
    threadTime: new RecentUse(new VirtualClock()),
  }
  const body = { model: "asked", messages: [{ role: "user", content: "Hello" }], logit_bias: { 1: 2 }, ...more }
  const understood = await parseRequest(
    new TextEncoder().encode(JSON.stringify(body)),
    format.client,
    { accountId: "acc_1", keyId: "key_1", binding, headers: new Headers() },
    ports,
  )
  if (understood instanceof Failure) throw new Error(understood.code)
  const chain = await candidates(understood, { fallback, binding, canAfford: async () => true }, ports)
  if (chain instanceof Failure) throw new Error(`${chain.code}: ${chain.message}`)
  const ids = async () => {
    const left: string[] = []
    for (let next = await chain.next(); next !== undefined; next = await chain.next()) left.push(next.offer.model.id)
    return left
  }
  return { catalogue, clock, chain, ids, inputTokens: understood.request.inputTokens }
}

test("a chain passes over what is too small or cannot do it, with a marker only for what is too small before the first", async () => {
  const { chain, ids } = await chainOf([
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
  expect(await ids()).toEqual(["last"])
})

test("a prompt as large as a window fits it, and one token more does not", async () => {
  const { inputTokens } = await chainOf([model("asked")])
  const first = async (contextWindow: number) => {
    const models = [model("asked", { contextWindow, fallback: ["next"] }), model("next")]
    return (await chainOf(models)).chain.first.offer.model.id
  }
  expect([await first(inputTokens), await first(inputTokens - 1)]).toEqual(["asked", "next"])
})

test("a model whose chain names it is not asked again", async () => {
  const { ids } = await chainOf([model("asked", { fallback: ["asked", "last"] }), model("last")])
  expect(await ids()).toEqual(["last"])
})

test("a model of the chain whose backend's format cannot say the request is passed over, also for a prompt that is too long", async () => {
  const upstreams = [{ provider: "simulated", format: "messages", model: "m", priority: 0, weight: 1 }] as const
  const n = { n: 2 }
  const chain = (contextWindow: number | null) =>
    chainOf(
      [model("asked", { contextWindow, fallback: ["unable", "last"] }), model("unable", { upstreams }), model("last")],
      "never_dearer",
      undefined,
      undefined,
      n,
    )
  expect(await (await chain(null)).ids()).toEqual(["last"])
  expect((await chain(1)).chain.first.offer.model.id).toBe("last")
})

test("of embeddings no other model answers: its vectors are others", async () => {
  const upstreams = [{ provider: "simulated", format: "embeddings", model: "m", priority: 0, weight: 1 }] as const
  const embedding = (id: string, rest: Partial<Model> = {}) =>
    model(id, { endpoints: new Set(["embeddings"]), upstreams, ...rest })
  const input = { messages: undefined, logit_bias: undefined, input: "Hello" }
  const models = [embedding("asked", { fallback: ["other"] }), embedding("other")]
  const { chain, ids } = await chainOf(models, "any", undefined, undefined, input, embeddingsFormat)
  expect([chain.first.offer.model.id, ...(await ids())]).toEqual(["asked"])
})

test("a fallback model is looked at when a reroute asks for it, not before: one that is gone by then is passed over", async () => {
  const asked = model("asked", { fallback: ["gone", "there"] })
  const { catalogue, ids } = await chainOf([asked, model("gone"), model("there")])
  catalogue.replace(catalogueOf([asked, model("there")]))
  expect(await ids()).toEqual(["there"])
})

const two = micro(2n)
const costing = (prices: Readonly<Record<string, Partial<Rates>>>) =>
  Object.entries(prices).map(([id, some], index) => ({
    id: BigInt(index),
    model: id,
    rates: { ...rates, ...some },
    effectiveAt: 0,
  }))
const buckets = ["input", "output", "cacheRead", "cacheWrite"] as const

test.each(buckets)(
  "a model of the chain whose rate of %s alone is above the asked model's answers only where any may",
  async (bucket) => {
    const zero = micro(0n)
    const models = [
      model("asked", { fallback: ["dearer", "same", "cheaper"] }),
      ...["dearer", "same", "cheaper"].map((id) => model(id)),
    ]
    const free = { input: zero, output: zero, cacheRead: zero, cacheWrite: zero }
    const prices = costing({ asked: {}, dearer: { ...free, [bucket]: two }, same: {}, cheaper: free })
    const chains = { any: ["dearer", "same", "cheaper"], never_dearer: ["same", "cheaper"], off: [] }
    for (const [fallback, expected] of Object.entries(chains)) {
      const { ids } = await chainOf(models, fallback as Fallback, prices)
      expect(await ids()).toEqual(expected)
    }
  },
)

test("the rates that are compared are those in force when the call comes", async () => {
  const models = [model("asked", { fallback: ["risen", "fallen"] }), model("risen"), model("fallen")]
  const later = (id: string, rate: typeof one, effectiveAt: number) => ({
    id: 9n,
    model: id,
    rates: { input: rate, output: rate, cacheRead: rate, cacheWrite: rate },
    effectiveAt,
  })
  const now = new VirtualClock().now()
  const prices = [
    ...costing({ asked: {}, risen: {}, fallen: { input: two } }),
    later("risen", two, now),
    later("fallen", one, now),
    later("asked", micro(0n), now + 1),
  ]
  expect(await (await chainOf(models, "never_dearer", prices)).ids()).toEqual(["fallen"])
})

test("a model of the chain answers at its rates of when the call came, however long the first one took", async () => {
  const models = [model("asked", { fallback: ["risen"] }), model("risen")]
  const risen = { id: 9n, model: "risen", rates: { ...rates, input: two }, effectiveAt: new VirtualClock().now() + 1 }
  const { clock, chain } = await chainOf(models, "never_dearer", [...costing({ asked: {}, risen: {} }), risen])
  clock.advance(60_000)
  expect((await chain.next())?.offer.price.rates).toEqual(rates)
})

test("a prompt that only a dearer model has room for is refused with the asked model's window", async () => {
  const models = [model("asked", { contextWindow: 1, fallback: ["dearer"] }), model("dearer", { contextWindow: 1_000 })]
  const prices = costing({ asked: {}, dearer: { output: two } })
  for (const fallback of ["never_dearer", "off"] as const) {
    const refused = await chainOf(models, fallback, prices).catch(String)
    expect(refused).toMatch(/context_length_exceeded: .* tokens > 1 maximum/)
  }
  expect((await chainOf(models, "any", prices)).chain.first.offer.model.id).toBe("dearer")
})

test("a chain never leads out of what the key is bound to, also where the asked model has no room", async () => {
  const models = [
    model("asked", { contextWindow: 1, fallback: ["outside", "dear", "inside", "retired"] }),
    ...["outside", "dear", "inside"].map((id) => model(id)),
  ]
  const prices = costing({ asked: {}, outside: {}, dear: { cacheRead: two }, inside: {} })
  const bound = async (binding: KeyBinding) => {
    const { chain, ids } = await chainOf(models, "any", prices, binding)
    return [chain.first.offer.model.id, ...(await ids())]
  }
  expect(await bound({})).toEqual(["outside", "dear", "inside"])
  expect(await bound({ models: new Set(["asked", "dear", "inside"]) })).toEqual(["dear", "inside"])
  expect(await bound({ maxRate: two })).toEqual(["outside", "dear", "inside"])
  expect(await bound({ maxRate: one })).toEqual(["outside", "inside"])
  expect(await bound({ models: new Set(["asked", "dear", "inside"]), maxRate: one })).toEqual(["inside"])
  expect(await bound({ models: new Set(["asked"]) }).catch(String)).toContain("upstream.context_length_exceeded")
})

test.each([
  ["an answer's schema", { response_format: { type: "json_schema" } }, {}],
  ["tools", { tools: [{ type: "function", function: { name: "a" } }] }, { supportsTools: false }],
  ["a listed parameter", { logprobs: true }, { unsupported: ["logprobs"] }],
])("%s that is not served is told before an image is", async (_, asked, entry) => {
  const image = { type: "image_url", image_url: { url: "https://example.com/a.png" } }
  const messages = [{ role: "user", content: [image] }]
  const refusal = (more: object) =>
    chainOf([model("asked", entry)], "off", undefined, undefined, { messages, ...more }).catch(String)
  expect(await refusal(asked)).toBe("Error: request.unsupported_feature")
  expect(await refusal({})).toBe("Error: request.invalid")
})
