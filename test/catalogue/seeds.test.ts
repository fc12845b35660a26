import { expect, test } from "bun:test"
import { providerProblems, readCatalogueFile, readProvidersFile } from "../../src/catalogue/seed-files.ts"
import { soleCredential } from "../../src/catalogue/model.ts"
import { describeProblem } from "../../src/catalogue/schema.ts"

const read = await readCatalogueFile()
if (Array.isArray(read)) throw new Error(read.map(describeProblem).join("\n"))
const { models, aliases } = read

const on = (provider: string) => models.filter(({ upstreams }) => upstreams[0]?.provider === provider)
const onFirst = on("first")
const onSecond = on("second")
const vendor = models.filter(({ upstreams }) => upstreams[0]?.format === "messages")

test("34 models are sold: 32 of the first provider on chat and messages, 2 of the second on chat and responses", () => {
  expect(models).toHaveLength(34)
  expect(onFirst).toHaveLength(32)
  expect(onSecond).toHaveLength(2)
  for (const { endpoints } of onFirst) expect(endpoints).toEqual(["chat", "messages"])
  for (const { endpoints, upstreams } of onSecond) {
    expect(endpoints).toEqual(["chat", "responses"])
    expect(upstreams).toMatchObject([{ format: "responses" }])
  }
  expect(aliases).toEqual([])
})

test("the first provider hosts the vendor's own models and others", () => {
  expect(vendor.length).toBeGreaterThan(0)
  for (const { model } of vendor) expect(model).toStartWith("claude-")
  const others = onFirst.filter((model) => !vendor.includes(model))
  expect(others.length).toBeGreaterThan(0)
  for (const { upstreams } of others) expect(upstreams).toMatchObject([{ format: "chat" }])
})

test("the vendor's cache reads cost exactly 10 % of its input and its cache writes 125 %", () => {
  for (const model of vendor) {
    expect(model.cache_read_micro * 10).toBe(model.input_micro)
    expect(model.cache_write_micro * 4).toBe(model.input_micro * 5)
  }
})

/** Whoever lacks one of these refuses requests that use it; no request is refused for want of reasoning. */
const refusable = (model: (typeof models)[number]) => model.features.filter((feature) => feature !== "reasoning")

test("structured outputs and web search are sold with the vendor's and the responses models only", () => {
  for (const model of models) {
    const sold = vendor.includes(model) || onSecond.includes(model)
    expect(refusable(model)).toEqual(sold ? ["structured_outputs", "web_search"] : [])
  }
})

test("only the newest large vendor model has its sampling parameters stripped, and Mistral's the newer name of the limit", () => {
  expect(models.filter((model) => model.strip.length > 0).map((model) => [model.model, model.strip])).toEqual([
    ["claude-opus-5-5", ["temperature", "top_p", "top_k"]],
    ["mistral-large-3", ["max_completion_tokens"]],
    ["ministral-3-14b", ["max_completion_tokens"]],
  ])
})

const needsOf = (id: string) => models.find(({ model }) => model === id)?.upstreams[0]?.needs

test("Mistral's models need what their templates refuse otherwise, and models that know a developer nothing", () => {
  for (const id of ["mistral-large-3", "ministral-3-14b"])
    expect(needsOf(id)).toEqual(["system_role", "answer_after_tools", "short_call_ids"])
  expect(needsOf("qwen3-32b")).toEqual(["system_role"])
  for (const id of ["gpt-oss-120b", "gpt-oss-20b"]) expect(needsOf(id)).toBeUndefined()
})

test("a model supports tools exactly if it does not refuse them, and some refuse", () => {
  for (const model of models) expect(model.supports_tools).toBe(!model.unsupported.includes("tools"))
  expect(models.some((model) => !model.supports_tools)).toBe(true)
})

test("the modality says what the vision flag says", () => {
  for (const model of models) expect(model.modality).toBe(model.supports_vision ? "text+image" : "text")
})

test("some windows are not verified, and no answer limit is larger than its window", () => {
  const verified = models.flatMap(({ context_window, max_output_tokens }) =>
    context_window === null ? [] : [{ context_window, max_output_tokens }],
  )
  expect(verified.length).toBeGreaterThan(0)
  expect(verified.length).toBeLessThan(models.length)
  for (const model of verified) expect(model.max_output_tokens).toBeLessThan(model.context_window)
})

test("a fallback serves all endpoints of the model that it stands in for, and what it takes", () => {
  const byId = new Map(models.map((model) => [model.model, model]))
  for (const model of models) {
    for (const target of model.fallback.map((id) => byId.get(id))) {
      expect(target?.endpoints).toEqual(model.endpoints)
      expect(target && refusable(target)).toEqual(refusable(model))
      if (model.supports_vision) expect(target?.supports_vision).toBe(true)
      if (model.supports_tools) expect(target?.supports_tools).toBe(true)
    }
  }
})

test("concurrency caps lie between 32 and 256, and rates are above zero", () => {
  for (const model of models) {
    expect(model.max_concurrency).toBeWithin(32, 257)
    for (const rate of [model.input_micro, model.output_micro, model.cache_read_micro, model.cache_write_micro]) {
      expect(rate).toBeGreaterThan(0)
    }
  }
})

test("every model's provider is in the shipped providers file, under the label that the model shows", async () => {
  const file = await readProvidersFile()
  if (Array.isArray(file)) throw new Error(file.map(describeProblem).join("\n"))
  expect(providerProblems("seeds/catalogue.json", read, file)).toEqual([])
  const labels = new Map(file.providers.map((provider) => [provider.id, provider.label]))
  for (const model of models) expect(labels.get(model.upstreams[0]?.provider ?? "")).toBe(model.provider)
  expect(file.providers).toMatchObject([
    { id: "first", credentials: [soleCredential("FIRST_PROVIDER_API_KEY")], headers: {} },
    { id: "second", credentials: [soleCredential("SECOND_PROVIDER_API_KEY")], headers: {} },
  ])
})
