import { defined } from "../../actors/unreachable.ts"
import { afterAll, beforeAll, beforeEach, expect, test } from "bun:test"
import { inForce } from "../../actors/money/price.ts"
import { readCatalogueFile } from "../../src/catalogue/seed-files.ts"
import type { AliasSeed, CatalogueFile, CostSeed, ModelSeed } from "../../src/catalogue/schema.ts"
import { loadCatalogue, seedCatalogue } from "../../src/store/catalogue.ts"
import type { Sql } from "../../src/store/database.ts"
import { migrate } from "../../src/store/migrate.ts"
import { migrations } from "../../src/store/migrations/index.ts"
import aliasesMigration from "../../src/store/migrations/0002_aliases.sql" with { type: "text" }
import { openTestDatabase, type TestDatabase } from "./harness.ts"
import { plainSeed, SMALL } from "../model-seed.ts"

let database: TestDatabase
const run = <T>(work: (sql: Sql) => Promise<T>): Promise<T> => database.db.run(work)

beforeAll(async () => {
  database = await openTestDatabase()
  await migrate(database.url, [...migrations, { name: "0002_aliases.sql", sql: aliasesMigration }])
})
beforeEach(async () => {
  await database.sql`truncate costs, models, prices, model_aliases, announcements, announced_accounts`
})
afterAll(() => database.close())

const noon = new Date("2026-12-01T12:00:00Z")
const later = (minutes: number): Date => new Date(noon.getTime() + minutes * 60_000)

const model = (id: string, fields: Partial<ModelSeed> = {}): ModelSeed =>
  plainSeed(id, {
    ...SMALL,
    upstreams: [{ provider: "first", format: "chat", model: `vendor.${id}` }],
    ...fields,
  })
const file = (models: ModelSeed[], aliases: AliasSeed[] = []): CatalogueFile => ({ models, aliases })
const seed = (at: Date, ...args: Parameters<typeof file>) => run((sql) => seedCatalogue(sql, file(...args), at))
const load = () => run(loadCatalogue)
const pool = async () => (await load()).models[0]?.upstreams
const inputRates = async (id: string): Promise<[effectiveAt: number, input: bigint][]> =>
  (await load()).prices.filter((price) => price.model === id).map((price) => [price.effectiveAt, price.rates.input])

test("the shipped catalogue fills an empty database, and comes back as it was written", async () => {
  const shipped = await readCatalogueFile()
  if (Array.isArray(shipped)) throw new Error("the shipped catalogue is wrong")
  expect(await run((sql) => seedCatalogue(sql, shipped, noon))).toEqual({
    modelsAdded: 34,
    modelsChanged: 0,
    pricesAdded: 34,
    costsAdded: 0,
  })
  const { models, prices, aliases } = await load()
  expect(models.map(({ id }) => id)).toEqual(shipped.models.map((one) => one.model))
  expect(aliases).toEqual([])
  for (const [index, wanted] of shipped.models.entries()) {
    expect(models[index]).toEqual({
      id: wanted.model,
      displayName: wanted.display_name,
      tier: wanted.tier,
      provider: wanted.provider,
      modality: wanted.modality,
      supportsVision: wanted.supports_vision,
      supportsTools: wanted.supports_tools,
      contextWindow: wanted.context_window,
      maxOutputTokens: wanted.max_output_tokens,
      endpoints: new Set(wanted.endpoints),
      upstreams: [{ ...defined(wanted.upstreams[0]), priority: 0, weight: 1 }],
      maxConcurrency: wanted.max_concurrency,
      fallback: wanted.fallback,
      strip: wanted.strip,
      pass: wanted.pass,
      unsupported: wanted.unsupported,
      features: wanted.features,
      gather: wanted.gather,
      createdAt: noon,
    })
    expect(prices.filter((price) => price.model === wanted.model)).toMatchObject([
      {
        rates: {
          input: BigInt(wanted.input_micro),
          output: BigInt(wanted.output_micro),
          cacheRead: BigInt(wanted.cache_read_micro),
          cacheWrite: BigInt(wanted.cache_write_micro),
        },
        effectiveAt: noon.getTime(),
      },
    ])
  }
})

test("the same file again adds and changes nothing", async () => {
  await seed(noon, [model("a"), model("b", { fallback: ["a"] })])
  const before = await load()
  expect(await seed(later(1), [model("a"), model("b", { fallback: ["a"] })])).toEqual({
    modelsAdded: 0,
    modelsChanged: 0,
    pricesAdded: 0,
    costsAdded: 0,
  })
  expect(await load()).toEqual(before)
})

test("a changed rate is a new version from now, and the old one stays", async () => {
  await seed(noon, [model("a"), model("b")])
  const changed = [model("a", { input_micro: 200 }), model("b")]
  expect(await seed(later(1), changed)).toEqual({ modelsAdded: 0, modelsChanged: 0, pricesAdded: 1, costsAdded: 0 })
  expect(await inputRates("a")).toEqual([
    [noon.getTime(), 100n],
    [later(1).getTime(), 200n],
  ])
  expect(await inputRates("b")).toHaveLength(1)
})

test("each of the four rates makes a version of its own", async () => {
  await seed(noon, [model("a")])
  for (const [index, rate] of (
    ["input_micro", "output_micro", "cache_read_micro", "cache_write_micro"] as const
  ).entries())
    expect(await seed(later(index + 1), [model("a", { [rate]: 7 })])).toMatchObject({ pricesAdded: 1, costsAdded: 0 })
})

test("a rate that goes back is a version again", async () => {
  await seed(noon, [model("a")])
  await seed(later(1), [model("a", { input_micro: 200 })])
  await seed(later(2), [model("a")])
  expect((await inputRates("a")).map(([, rate]) => rate)).toEqual([100n, 200n, 100n])
})

test("the largest rate that a file can hold survives exactly", async () => {
  await seed(noon, [model("a", { input_micro: Number.MAX_SAFE_INTEGER })])
  expect(await inputRates("a")).toEqual([[noon.getTime(), 9007199254740991n]])
})

test("a rate with a coming effective time starts then, however often it is seeded before and after", async () => {
  await seed(noon, [model("a")])
  const coming = [model("a", { input_micro: 200, effective_at: later(60).toISOString() })]
  expect(await seed(later(1), coming)).toMatchObject({ pricesAdded: 1, costsAdded: 0 })
  expect(await seed(later(2), coming)).toMatchObject({ pricesAdded: 0, costsAdded: 0 })
  expect(await seed(later(61), coming)).toMatchObject({ pricesAdded: 0, costsAdded: 0 })
  const { prices } = await load()
  expect(inForce(prices, later(60).getTime() - 1)?.rates.input).toBe(prices[0]!.rates.input)
  expect(inForce(prices, later(60).getTime())?.rates.input).toBe(prices[1]!.rates.input)
  expect(await inputRates("a")).toEqual([
    [noon.getTime(), 100n],
    [later(60).getTime(), 200n],
  ])
})

test("a version that is still to come can be corrected, one in force cannot", async () => {
  await seed(noon, [model("a")])
  const coming = (rate: number) => [model("a", { input_micro: rate, effective_at: later(60).toISOString() })]
  await seed(later(1), coming(200))
  expect(await seed(later(2), coming(300))).toMatchObject({ pricesAdded: 1, costsAdded: 0 })
  expect(await inputRates("a")).toEqual([
    [noon.getTime(), 100n],
    [later(60).getTime(), 300n],
  ])
  await seed(later(61), coming(400))
  expect(await inputRates("a")).toEqual([
    [noon.getTime(), 100n],
    [later(60).getTime(), 300n],
    [later(61).getTime(), 400n],
  ])
})

test("an effective time that has passed dates a model's first version, and never one behind it", async () => {
  const since = "2026-01-01T00:00:00Z"
  await seed(noon, [model("a", { effective_at: since })])
  await seed(later(1), [model("a", { effective_at: since, input_micro: 200 })])
  expect(await inputRates("a")).toEqual([
    [Date.parse(since), 100n],
    [later(1).getTime(), 200n],
  ])
})

test("a changed field changes the model and keeps its price and its date", async () => {
  await seed(noon, [model("a")])
  const [before] = (await load()).models
  expect(await seed(later(1), [model("a", { endpoints: ["chat"], context_window: 9 })])).toEqual({
    modelsAdded: 0,
    modelsChanged: 1,
    pricesAdded: 0,
    costsAdded: 0,
  })
  const [after] = (await load()).models
  expect(after).toEqual({ ...before!, endpoints: new Set(["chat"] as const), contextWindow: 9 })
})

test("models come in the file's order, and one that the file no longer has stays", async () => {
  await seed(noon, [model("z"), model("a"), model("m")])
  await seed(later(1), [model("a"), model("z")])
  expect((await load()).models.map(({ id }) => id)).toEqual(["a", "z", "m"])
})

const until = "2027-03-01T00:00:00Z"

test("a retired model is an alias, is sold no more, and is in nobody's chain", async () => {
  await seed(noon, [model("old"), model("new"), model("left-behind", { fallback: ["old", "new"] })])
  await seed(later(1), [model("new")], [{ model: "old", target: "new", until }])
  const { models, aliases, prices } = await load()
  expect(models.map(({ id }) => id)).toEqual(["new", "left-behind"])
  expect(models[1]?.fallback).toEqual(["new"])
  expect(aliases).toEqual([{ id: "old", target: "new", until: new Date(until) }])
  expect(prices.map((price) => price.model)).toContain("old")
})

test("a retirement is reversed by putting the model back", async () => {
  await seed(noon, [model("old"), model("new")])
  await seed(later(1), [model("new")], [{ model: "old", target: "new", until }])
  expect(await seed(later(2), [model("old"), model("new")])).toEqual({
    modelsAdded: 0,
    modelsChanged: 1,
    pricesAdded: 0,
    costsAdded: 0,
  })
  const { models, aliases } = await load()
  expect(models.map(({ id }) => id)).toEqual(["old", "new"])
  expect(aliases).toEqual([])
})

test("an alias stays when the file forgets it, and takes a new end when the file gives one", async () => {
  await seed(noon, [model("new")], [{ model: "old", target: "new", until }])
  await seed(later(1), [model("new")])
  expect((await load()).aliases).toHaveLength(1)
  await seed(later(2), [model("new")], [{ model: "old", target: "new", until: "2026-12-24T00:00:00Z" }])
  expect((await load()).aliases).toEqual([{ id: "old", target: "new", until: new Date("2026-12-24T00:00:00Z") }])
})

test("an alias follows when its target is retired in turn", async () => {
  await seed(noon, [model("b"), model("c")], [{ model: "a", target: "b", until }])
  await seed(later(1), [model("c")], [{ model: "b", target: "c", until }])
  expect((await load()).aliases).toEqual([
    { id: "a", target: "c", until: new Date(until) },
    { id: "b", target: "c", until: new Date(until) },
  ])
})

test("a seeding that fails leaves nothing behind", async () => {
  await seed(noon, [model("a")])
  const broken = seed(later(1), [model("a", { tier: "other" }), model("b")], [{ model: "x", target: "nowhere", until }])
  const refusal: unknown = await broken.catch((error: unknown) => error)
  expect(refusal).toMatchObject({ constraint_name: "model_aliases_target_fkey" })
  const { models, aliases } = await load()
  expect(models).toMatchObject([{ id: "a", tier: "standard" }])
  expect(aliases).toEqual([])
})

const gather = async () => (await load()).models.map((one) => one.gather)

test("whether long answers are gathered follows the file", async () => {
  await seed(noon, [model("a"), model("b", { gather: false })])
  expect(await gather()).toEqual([true, false])
  await seed(later(1), [model("a", { gather: false }), model("b")])
  expect(await gather()).toEqual([false, true])
})

test("a pool comes back as it was written, and an older process's word on the first of it stands", async () => {
  const chat = { provider: "first", format: "chat", model: "m" } as const
  const upstreams = [
    { ...chat, priority: 5, max_concurrency: 7 },
    { ...chat, model: "n", weight: 0, requests_per_minute: 8, tokens_per_minute: 9 },
  ]
  await seed(noon, [model("a", { upstreams })])
  expect(await seed(noon, [model("a", { upstreams })])).toMatchObject({ modelsChanged: 0 })
  expect(await pool()).toEqual([
    { ...chat, priority: 5, weight: 1, maxConcurrency: 7 },
    { ...chat, model: "n", priority: 0, weight: 0, requestsPerMinute: 8, tokensPerMinute: 9 },
  ])
  const [, second] = upstreams
  expect(
    await seed(noon, [model("a", { upstreams: [defined(upstreams[0]), { ...defined(second), weight: 1 }] })]),
  ).toMatchObject({
    modelsChanged: 1,
  })
  await database.sql`update models set upstream_model = 'older'`
  expect(await pool()).toEqual([{ ...chat, model: "older", priority: 0, weight: 1 }])
  await database.sql`update models set upstreams = null`
  expect(await pool()).toEqual([{ ...chat, model: "older", priority: 0, weight: 1 }])
  await seed(noon, [model("a", { upstreams })])
  expect(await pool()).toHaveLength(2)
})

test("what one backend wants otherwise comes back as it was written, and a change of it is one of the model", async () => {
  const chat = { provider: "first", format: "chat", model: "m" } as const
  const wanted = {
    set: { reasoning_split: true, chat_template_kwargs: { note: ["a", 1.5, null] } },
    efforts: ["low" as const, "high" as const],
    needs: ["system_role" as const],
  }
  await seed(noon, [
    model("a", {
      upstreams: [
        { ...chat, ...wanted },
        { ...chat, model: "n" },
      ],
    }),
  ])
  expect(await pool()).toEqual([
    { ...chat, priority: 0, weight: 1, ...wanted },
    { ...chat, model: "n", priority: 0, weight: 1 },
  ])
  const changed = { ...wanted, set: { reasoning_split: false } }
  const again = await seed(noon, [
    model("a", {
      upstreams: [
        { ...chat, ...changed },
        { ...chat, model: "n" },
      ],
    }),
  ])
  expect(again).toMatchObject({ modelsChanged: 1 })
  expect(await pool()).toMatchObject([{ set: { reasoning_split: false } }, { model: "n" }])
})

const dollars = (input: string, more: Partial<CostSeed> = {}): CostSeed => ({
  currency: "USD",
  input,
  output: "15",
  cache_read: 0.3,
  cache_write: "3.75",
  ...more,
})
const billed = (id: string, cost: CostSeed) =>
  model(id, { upstreams: [{ provider: "p", format: "chat", model: "m", cost }] })
const inputCosts = async (id: string): Promise<[effectiveAt: number, input: bigint][]> =>
  (await load()).costs.filter((cost) => cost.model === id).map((one) => [one.effectiveAt, one.cost.rates.input])

test("a cost comes back exactly, beside its model and not in it", async () => {
  const fee = { per_call: "0.000000001", per_search: 0.01, rounding: "per_call", step: "0.001" } as const
  expect(await seed(noon, [billed("a", dollars("3.000000001", fee))])).toMatchObject({ modelsAdded: 1, costsAdded: 1 })
  const [cost] = (await load()).costs
  expect(cost).toEqual({
    id: expect.anything(),
    model: "a",
    backend: "p chat m",
    effectiveAt: noon.getTime(),
    cost: {
      currency: "USD",
      rates: { input: 3_000_000_001n, output: 15_000_000_000n, cacheRead: 300_000_000n, cacheWrite: 3_750_000_000n },
      perCall: 1n,
      perSearch: 10_000_000n,
      rounding: "per_call",
      step: 1_000_000n,
    },
  })
  const rows = await run((sql) => sql<{ upstreams: object }[]>`select upstreams from models`)
  expect(JSON.stringify(rows)).not.toContain("cost")
})

test("a changed cost is a version from now, one to come is corrected, and what is in force stays", async () => {
  await seed(noon, [billed("a", dollars("3"))])
  expect(await seed(later(1), [billed("a", dollars("3.0"))])).toMatchObject({ modelsChanged: 0, costsAdded: 0 })
  expect(await seed(later(1), [billed("a", dollars("4"))])).toMatchObject({ modelsChanged: 0, costsAdded: 1 })
  const coming = { effective_at: later(5).toISOString() }
  expect(await seed(later(2), [billed("a", dollars("5", coming))])).toMatchObject({ costsAdded: 1 })
  expect(await seed(later(3), [billed("a", dollars("6", coming))])).toMatchObject({ costsAdded: 1 })
  // A time that has passed dates no version but the first.
  const past = { effective_at: noon.toISOString() }
  expect(await seed(later(6), [billed("a", dollars("7", past))])).toMatchObject({ costsAdded: 1 })
  expect(await inputCosts("a")).toEqual([
    [noon.getTime(), 3_000_000_000n],
    [later(1).getTime(), 4_000_000_000n],
    [later(5).getTime(), 6_000_000_000n],
    [later(6).getTime(), 7_000_000_000n],
  ])
})

test("what a file no longer says of a cost stays, and another backend of the model has its own", async () => {
  const pool = (second: { readonly cost?: CostSeed }) =>
    model("a", {
      upstreams: [
        { provider: "p", format: "chat", model: "m", cost: dollars("3") },
        { provider: "p", format: "messages", model: "m", ...second },
      ],
    })
  expect(await seed(noon, [pool({ cost: dollars("4") })])).toMatchObject({ costsAdded: 2 })
  expect(await seed(later(1), [pool({})])).toMatchObject({ costsAdded: 0 })
  const backends = new Map((await load()).costs.map(({ backend, cost }) => [backend, cost.rates.input]))
  expect(backends).toEqual(
    new Map([
      ["p chat m", 3_000_000_000n],
      ["p messages m", 4_000_000_000n],
    ]),
  )
})
