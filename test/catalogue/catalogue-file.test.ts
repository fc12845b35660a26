import { describe, expect, test } from "bun:test"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import {
  parseCatalogue,
  parseProviders,
  providerProblems,
  readCatalogueFile,
  readProvidersFile,
} from "../../src/catalogue/seed-files.ts"
import { type Provider, soleCredential } from "../../src/catalogue/model.ts"
import { describeProblem } from "../../src/catalogue/schema.ts"
import { catalogue, counts, messages, model, provider, rates, times, without } from "./files.ts"

describe("a bad catalogue is refused with its place, what was found and what is allowed", () => {
  const rows: readonly [name: string, json: unknown, message: string | RegExp][] = [
    ["no object", [], "c.json: found []; allowed: an object with models, aliases"],
    ["no models", {}, "c.json: models: found nothing; allowed: a list of models"],
    ["a model that is no object", { models: [7] }, /^c\.json: models\[0\]: found 7; allowed: an object with model, /],
    [
      "a missing field",
      { models: [without("display_name")] },
      'c.json: model "a": display_name: found nothing; allowed: a text that is not empty',
    ],
    [
      "a missing id",
      { models: [without("model")] },
      "c.json: models[0]: model: found nothing; allowed: a model id: letters, digits and . _ : @ / -, at most 128",
    ],
    [
      "an id with a blank",
      { models: [model("a b")] },
      'c.json: model "a b": model: found "a b"; allowed: a model id: letters, digits and . _ : @ / -, at most 128',
    ],
    [
      "a negative rate",
      { models: [model("a", { input_micro: -1 })] },
      `c.json: model "a": input_micro: found -1; allowed: ${rates}`,
    ],
    [
      "a fractional rate",
      { models: [model("a", { output_micro: 0.5 })] },
      `c.json: model "a": output_micro: found 0.5; allowed: ${rates}`,
    ],
    [
      "a rate past 2^53 - 1",
      { models: [model("a", { cache_read_micro: 2 ** 53 })] },
      `c.json: model "a": cache_read_micro: found 9007199254740992; allowed: ${rates}`,
    ],
    [
      "a rate as text",
      { models: [model("a", { cache_write_micro: "5" })] },
      `c.json: model "a": cache_write_micro: found "5"; allowed: ${rates}`,
    ],
    [
      "a window of zero",
      { models: [model("a", { context_window: 0 })] },
      `c.json: model "a": context_window: found 0; allowed: null, or ${counts}`,
    ],
    [
      "an answer limit that no column holds",
      { models: [model("a", { max_output_tokens: 2 ** 31 })] },
      `c.json: model "a": max_output_tokens: found 2147483648; allowed: ${counts}`,
    ],
    [
      "no concurrency",
      { models: [model("a", { max_concurrency: 0 })] },
      `c.json: model "a": max_concurrency: found 0; allowed: ${counts}`,
    ],
    [
      "an unknown endpoint",
      { models: [model("a", { endpoints: ["chat", "images"] })] },
      'c.json: model "a": endpoints[1]: found "images"; allowed: one of chat, messages, responses, completions, embeddings',
    ],
    [
      "no endpoint",
      { models: [model("a", { endpoints: [] })] },
      'c.json: model "a": endpoints: found []; allowed: a list without repeats, not empty; each entry one of chat, messages, responses, completions, embeddings',
    ],
    [
      "an endpoint twice",
      { models: [model("a", { endpoints: ["chat", "chat"] })] },
      /^c\.json: model "a": endpoints: found \["chat","chat"\]; allowed: a list without repeats/,
    ],
    [
      "an unknown backend format",
      { models: [model("a", { upstream: { provider: "first", format: "gemini", model: "m" } })] },
      'c.json: model "a": upstream.format: found "gemini"; allowed: one of chat, messages, responses, completions, embeddings, bedrock',
    ],
    [
      "an unknown feature",
      { models: [model("a", { features: ["vision"] })] },
      'c.json: model "a": features[0]: found "vision"; allowed: one of structured_outputs, web_search, reasoning',
    ],
    [
      "a time without a zone",
      { models: [model("a", { effective_at: "2027-01-31T00:00:00" })] },
      `c.json: model "a": effective_at: found "2027-01-31T00:00:00"; allowed: ${times}`,
    ],
    [
      "a day that does not exist",
      { models: [model("a", { effective_at: "2027-13-31T00:00:00Z" })] },
      'c.json: model "a": effective_at: found "2027-13-31T00:00:00Z"; allowed: a time that exists',
    ],
    [
      "an id twice",
      { models: [model("a"), model("a")] },
      'c.json: model "a": model: found this id more than once; allowed: an id that no other model has',
    ],
    [
      "a fallback that is not there",
      { models: [model("a", { fallback: ["b"] })] },
      'c.json: model "a": fallback[0]: found "b"; allowed: the id of a model in this file',
    ],
    [
      "a backend that does not speak an endpoint which nothing is translated to",
      { models: [model("a", { endpoints: ["embeddings"] })] },
      'c.json: model "a": upstream.format: found "chat"; allowed: embeddings',
    ],
    [
      "a backend that nothing is translated to",
      { models: [model("a", { upstream: { provider: "first", format: "completions", model: "m" } })] },
      'c.json: model "a": upstream.format: found "completions"; allowed: a format that is translated to chat and messages',
    ],
    [
      "one entry for chat and completions",
      {
        models: [
          model("a", {
            endpoints: ["chat", "completions"],
            upstream: { provider: "first", format: "completions", model: "m" },
          }),
        ],
      },
      'c.json: model "a": endpoints: found "chat, completions"; allowed: completions alone, in an entry of its own',
    ],
    [
      "vectors of another model",
      {
        models: ["a", "b"].map((id) =>
          model(id, {
            endpoints: ["embeddings"],
            upstream: { provider: "first", format: "embeddings", model: id },
            fallback: id === "a" ? ["b"] : [],
          }),
        ),
      },
      'c.json: model "a": fallback: found "b"; allowed: nothing: no other model has the same vectors',
    ],
    [
      "a fallback to itself",
      { models: [model("a", { fallback: ["a"] })] },
      'c.json: model "a": fallback[0]: found "a"; allowed: the id of another model',
    ],
    [
      "a fallback without a common endpoint",
      { models: [model("a", { fallback: ["b"] }), model("b", { endpoints: ["responses"] })] },
      'c.json: model "a": fallback[0]: found "b"; allowed: a model that is served on chat or messages',
    ],
    [
      "an alias to nowhere",
      { models: [model("a")], aliases: [{ model: "old", target: "b", until: "2027-01-31T00:00:00Z" }] },
      'c.json: alias "old": target: found "b"; allowed: the id of a model in this file',
    ],
    [
      "an alias over a live model",
      { models: [model("a"), model("b")], aliases: [{ model: "a", target: "b", until: "2027-01-31T00:00:00Z" }] },
      'c.json: alias "a": model: found the id of a model in this file; allowed: an id that is retired',
    ],
    [
      "an alias twice",
      {
        models: [model("a")],
        aliases: ["2027-01-31T00:00:00Z", "2027-02-01T00:00:00Z"].map((until) => ({
          model: "old",
          target: "a",
          until,
        })),
      },
      'c.json: alias "old": model: found this id more than once; allowed: an id that no other alias has',
    ],
    [
      "an alias without an end",
      { models: [model("a")], aliases: [{ model: "old", target: "a" }] },
      `c.json: alias "old": until: found nothing; allowed: ${times}`,
    ],
  ]
  test.each(rows)("%s", (_, json, message) => {
    const told = messages(parseCatalogue("c.json", json))
    expect(told).toHaveLength(1)
    if (typeof message === "string") expect(told[0]).toBe(message)
    else expect(told[0]).toMatch(message)
  })
})

test("all problems of a file are told at once, one a field", () => {
  const told = messages(
    parseCatalogue("c.json", { models: [model("a", { input_micro: -1.5, tier: "" }), without("model")] }),
  )
  expect(told).toHaveLength(3)
})

test("lists that a model leaves out are empty, and so are aliases, and its long answers are gathered", () => {
  const { fallback: _, strip: __, pass: _pass, unsupported: ___, features: ____, gather: _____, ...bare } = model("a")
  const read = catalogue({ models: [bare] })
  expect(read.models[0]).toMatchObject({
    fallback: [],
    strip: [],
    pass: [],
    unsupported: [],
    features: [],
    gather: true,
  })
  expect(catalogue({ models: [{ ...bare, gather: false }] }).models[0]).toMatchObject({ gather: false })
  expect(read.aliases).toEqual([])
})

const passing = (...pass: string[]) => messages(parseCatalogue("c.json", { models: [model("a", { pass })] }))

test("a field that routes or limits the answer cannot be passed, in whatever letters, nor can what is no name", () => {
  expect(catalogue({ models: [model("a", { pass: ["min_p", "chat_template_kwargs"] })] }).models).toHaveLength(1)
  for (const name of ["provider", "Models", "bestOf", "service_tier", "guided_json", "n"])
    expect(passing("min_p", name)).toEqual([
      `c.json: model "a": pass[1]: found "${name}"; allowed: a field that routes nothing`,
    ])
  for (const name of ["max_new_tokens", "num_predict", "numReturnSequences"])
    expect(passing(name)[0]).toEndWith("allowed: a field that routes nothing")
  for (const name of ["max_tokens", "max_completion_tokens", "maxOutputTokens", "max_length"])
    expect(passing("min_p", name)).toEqual([
      `c.json: model "a": pass[1]: found "${name}"; allowed: a field that limits no answer`,
    ])
  const allowed = "a name of a request field: letters, digits and _, at most 64"
  for (const name of ["__proto__", "a b", "x".repeat(65), ""]) expect(passing(name)[0]).toEndWith(`allowed: ${allowed}`)
  expect(passing("x".repeat(64))).toEqual([])
})

test("two models may fall back to a third that falls back no further", () => {
  const shared = { models: [model("a", { fallback: ["b", "c"] }), model("b", { fallback: ["c"] }), model("c")] }
  expect(catalogue(shared).models).toHaveLength(3)
})

test("only an entry that says so has its calls signed", () => {
  const signing = { region: "us-east-1", secret_key_env: "SECRET", session_token_env: "TOKEN" }
  const read = (auth: string) => parseProviders("p.json", { providers: [provider({ ...signing, auth })] })
  const signature = { secretKey: { env: "SECRET" }, sessionToken: { env: "TOKEN" } }
  expect(read("sigv4")).toMatchObject({
    providers: [{ signing: { region: "us-east-1" }, credentials: [{ signing: signature }] }],
  })
  expect(read("bearer")).toMatchObject({ providers: [{ signing: undefined }] })
})

test("a provider says whether its backends are told of traces", () => {
  const told = { providers: [provider({ trace_context: true }), provider({ id: "second" })] }
  expect(parseProviders("p.json", told)).toMatchObject({ providers: [{ traceContext: true }, { id: "second" }] })
})

test("a trailing slash of a base address is cut", () => {
  expect(parseProviders("p.json", { providers: [provider({ base_url: "http://127.0.0.1:9/api/" })] })).toMatchObject({
    providers: [{ baseUrl: "http://127.0.0.1:9/api" }],
  })
})

test("a model whose provider is in no providers file is named", () => {
  const read = catalogue({
    models: [model("a"), model("b", { upstream: { provider: "third", format: "chat", model: "m" } })],
  })
  const credentials: Provider["credentials"] = [soleCredential("K")]
  const providers = [{ id: "first", label: "First", baseUrl: "https://first.example", credentials, headers: {} }]
  expect(providerProblems("c.json", read, { providers }).map(describeProblem)).toEqual([
    'c.json: model "b": upstream.provider: found "third"; allowed: a provider of the providers file: first',
  ])
})

test("a path that leads nowhere, and a file that is no JSON, are problems and no exceptions", async () => {
  const folder = await mkdtemp(join(tmpdir(), "loket-catalogue-"))
  try {
    const missing = join(folder, "missing.json")
    const broken = join(folder, "broken.json")
    await Bun.write(broken, '{"models": [')
    expect(messages(await readCatalogueFile(missing))).toEqual([`${missing}: found no such file; allowed: a JSON file`])
    expect(messages(await readProvidersFile(missing))).toEqual([`${missing}: found no such file; allowed: a JSON file`])
    expect(messages(await readCatalogueFile(broken))[0]).toStartWith(`${broken}: found no JSON (`)
    expect(messages(await readProvidersFile(folder))).toEqual([
      `${folder}: found what cannot be read (EISDIR); allowed: a JSON file`,
    ])
  } finally {
    await rm(folder, { recursive: true })
  }
})

test("a field that is not known is passed over and told, not refused", () => {
  const upstream = { provider: "first", format: "chat", model: "m", url: "x" }
  const result = parseCatalogue("c.json", { models: [model("a", { inptu_micro: 3, upstream })], prices: [] })
  if (Array.isArray(result)) throw new Error(messages(result).join("\n"))
  expect(result.passedOver.map(({ entry, field }) => [entry, field])).toEqual([
    [undefined, "prices"],
    ['model "a"', "inptu_micro"],
    ['model "a"', "upstream.url"],
  ])
  expect(result.models[0]).not.toHaveProperty("inptu_micro")
})

test("two models may stand in for each other", () => {
  const json = { models: [model("a", { fallback: ["b"] }), model("b", { fallback: ["a"] })] }
  expect(Array.isArray(parseCatalogue("c.json", json))).toBeFalse()
})

const usd = { currency: "USD", input: "3", output: 15, cache_read: "0.3", cache_write: 3.75 }
const costing = (cost: object) => ({
  models: [model("a", { upstream: { provider: "first", format: "chat", model: "m", cost } })],
})

test("a cost is checked with its place in the file", () => {
  expect(messages(parseCatalogue("c.json", costing(usd)))).toEqual([])
  expect(messages(parseCatalogue("c.json", costing({ ...usd, rounding: "per_call", step: "0.01" })))).toEqual([])
  const { currency: _, ...without } = usd
  const at = 'c.json: model "a": upstream.cost'
  const amount = "allowed: a decimal of the currency from 0 to 1000000000, with at most nine decimals"
  const wrong: [object, string][] = [
    [
      without,
      `${at}.currency: found nothing; allowed: the ISO 4217 code of the currency that the backend bills in, such as USD`,
    ],
    [{ ...usd, currency: "XQZ" }, `${at}.currency: found "XQZ"; allowed: the ISO 4217 code of a currency`],
    [{ ...usd, input: "3,5" }, `${at}.input: found "3,5"; ${amount}`],
    [{ ...usd, input: "0.0000000001" }, `${at}.input: found "0.0000000001"; ${amount}`],
    [{ ...usd, input: "1000000000.1" }, `${at}.input: found "1000000000.1"; ${amount}`],
    [{ ...usd, output: -1 }, `${at}.output: found -1; ${amount}`],
    [{ ...usd, step: "1" }, `${at}.step: found "1"; allowed: nothing, where the rounding is none`],
    [
      { ...usd, rounding: "per_call" },
      `${at}.step: found nothing; allowed: what is rounded to, above 0, where the rounding is per_call`,
    ],
    [
      { ...usd, effective_at: "2026-13-01T00:00:00Z" },
      `${at}.effective_at: found "2026-13-01T00:00:00Z"; allowed: a time that exists`,
    ],
  ]
  for (const [cost, message] of wrong) expect(messages(parseCatalogue("c.json", costing(cost)))).toEqual([message])
})
