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
} from "../../src/catalogue/catalogue-file.ts"
import { type Provider, soleCredential } from "../../src/catalogue/model.ts"
import { describeProblem } from "../../src/catalogue/problem.ts"
import type { CatalogueFile } from "../../src/catalogue/schema.ts"

type Fields = Record<string, unknown>

const model = (id: string, fields: Fields = {}): Fields => ({
  model: id,
  display_name: id,
  tier: "standard",
  provider: "First",
  modality: "text",
  supports_vision: false,
  supports_tools: true,
  input_micro: 100,
  output_micro: 400,
  cache_read_micro: 10,
  cache_write_micro: 125,
  context_window: 1000,
  max_output_tokens: 100,
  endpoints: ["chat", "messages"],
  upstream: { provider: "first", format: "chat", model: `vendor.${id}` },
  max_concurrency: 4,
  fallback: [],
  strip: [],
  pass: [],
  unsupported: [],
  features: [],
  gather: true,
  ...fields,
})
const without = (field: string): Fields => {
  const { [field]: _, ...rest } = model("a")
  return rest
}
const provider = (fields: Fields = {}): Fields => ({
  id: "first",
  label: "First",
  base_url: "https://first.example",
  api_key_env: "FIRST_PROVIDER_API_KEY",
  headers: {},
  ...fields,
})

const messages = (result: object): string[] => (Array.isArray(result) ? result.map(describeProblem) : [])
const catalogue = (json: unknown): CatalogueFile => {
  const result = parseCatalogue("c.json", json)
  if (Array.isArray(result)) throw new Error(messages(result).join("\n"))
  return result
}

const rates = "a whole number of micro-rupiah for one token, 0 to 9007199254740991"
const counts = "a whole number from 1 to 2147483647"
const times = "an ISO 8601 time with its zone, such as 2027-01-31T00:00:00Z"

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
      'c.json: model "a": endpoints[1]: found "images"; allowed: one of chat, messages, responses',
    ],
    [
      "no endpoint",
      { models: [model("a", { endpoints: [] })] },
      'c.json: model "a": endpoints: found []; allowed: a list without repeats, not empty; each entry one of chat, messages, responses',
    ],
    [
      "an endpoint twice",
      { models: [model("a", { endpoints: ["chat", "chat"] })] },
      /^c\.json: model "a": endpoints: found \["chat","chat"\]; allowed: a list without repeats/,
    ],
    [
      "an unknown backend format",
      { models: [model("a", { upstream: { provider: "first", format: "gemini", model: "m" } })] },
      'c.json: model "a": upstream.format: found "gemini"; allowed: one of chat, messages, responses, bedrock',
    ],
    [
      "an unknown feature",
      { models: [model("a", { features: ["vision"] })] },
      'c.json: model "a": features[0]: found "vision"; allowed: one of structured_outputs, web_search',
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

describe("a bad pool is refused with its place", () => {
  const chat = { provider: "first", format: "chat", model: "m" }
  const pooled = (...upstreams: object[]) => ({ models: [{ ...model("a"), upstream: undefined, upstreams }] })
  const rows: [name: string, json: unknown, message: string][] = [
    [
      "no backend",
      { models: [{ ...model("a"), upstream: undefined }] },
      "upstream: found nothing; allowed: a backend, or a list of them in upstreams",
    ],
    [
      "one beside a list",
      { models: [{ ...model("a"), upstreams: [chat] }] },
      "upstreams: found upstreams beside upstream; allowed: either of them",
    ],
    [
      "an empty list",
      pooled(),
      "upstreams: found []; allowed: a list of 1 to 64 backends, each an object with provider, format, model",
    ],
    [
      "more than anybody has",
      pooled(...Array.from({ length: 65 }, (_, index) => ({ ...chat, model: `m${index}` }))),
      'upstreams: found [{"provider":"first","format":"chat","model":"m0"},{"prov…; allowed: a list of 1 to 64 backends, each an object with provider, format, model',
    ],
    [
      "a backend twice",
      pooled(chat, { ...chat, format: "messages" }, { ...chat, weight: 2 }),
      "upstreams[2]: found the same backend as upstreams[0]; allowed: a backend that no other entry is",
    ],
    [
      "weights of nothing",
      pooled({ ...chat, weight: 0 }, { ...chat, model: "n", weight: 0 }),
      "upstreams: found no weight but 0; allowed: a backend with a weight of 1 or more",
    ],
    [
      "the one backend without weight",
      { models: [model("a", { upstream: { ...chat, weight: 0 } })] },
      "upstream.weight: found no weight but 0; allowed: a backend with a weight of 1 or more",
    ],
    [
      "a weight too much",
      pooled({ ...chat, weight: 10_001 }),
      "upstreams[0].weight: found 10001; allowed: a whole number from 0 to 10000",
    ],
    [
      "a broken priority",
      pooled(chat, { ...chat, model: "n", priority: 100.5 }),
      "upstreams[1].priority: found 100.5; allowed: a whole number from 0 to 100",
    ],
    [
      "a limit of nothing",
      pooled({ ...chat, tokens_per_minute: 0 }),
      "upstreams[0].tokens_per_minute: found 0; allowed: a whole number from 1 to 2147483647",
    ],
    [
      "searches that no backend makes",
      { models: [{ ...model("a", { features: ["web_search"] }), upstream: undefined, upstreams: [chat] }] },
      'features[0]: found "web_search"; allowed: a feature that a backend of the model serves: this one needs responses on responses, or messages on messages',
    ],
  ]
  test.each(rows)("%s", (_, json, message) => {
    expect(messages(parseCatalogue("c.json", json))).toEqual([`c.json: model "a": ${message}`])
  })

  test("each backend's provider has to be there", () => {
    const read = catalogue(pooled(chat, { ...chat, provider: "third" }, { ...chat, provider: "fourth" }))
    const credentials: Provider["credentials"] = [soleCredential("K")]
    const providers = [{ id: "first", label: "First", baseUrl: "https://first.example", credentials, headers: {} }]
    expect(providerProblems("c.json", read, { providers }).map(describeProblem)).toEqual([
      'c.json: model "a": upstreams[1].provider: found "third"; allowed: a provider of the providers file: first',
      'c.json: model "a": upstreams[2].provider: found "fourth"; allowed: a provider of the providers file: first',
    ])
  })

  test("one backend reads as a pool of one, with all that a member may say", () => {
    const upstream = { ...chat, priority: 100, weight: 10_000, max_concurrency: 3, requests_per_minute: 2 }
    expect(catalogue({ models: [model("a", { upstream })] }).models[0]?.upstreams).toEqual([upstream] as never)
  })
})

describe("credentials that cannot be told apart or found are refused with their place", () => {
  const keyed = (...keys: object[]) => ({ providers: [{ ...provider(), api_key_env: undefined, keys }] })
  const a = { name: "a", env: "A" }
  const rows: [name: string, json: unknown, ...told: string[]][] = [
    [
      "none",
      { providers: [{ ...provider(), api_key_env: undefined }] },
      "api_key_env: found nothing; allowed: the name of an environment variable, or a list of keys",
    ],
    [
      "one beside a list",
      { providers: [{ ...provider(), keys: [a] }] },
      "keys: found keys beside api_key_env; allowed: either of them",
    ],
    [
      "an empty list",
      keyed(),
      "keys: found []; allowed: a list of 1 to 64 credentials, each an object with a name, and env or file",
    ],
    [
      "a name twice",
      keyed(a, { name: "a", env: "B" }),
      'keys[1].name: found "a"; allowed: a name that no other key has',
    ],
    [
      "a secret twice",
      keyed(a, { name: "b", env: "A" }),
      'keys[1]: found the same secret as another key, "A"; allowed: a secret of its own',
    ],
    [
      "no secret",
      keyed(a, { name: "b" }),
      "keys[1].env: found nothing; allowed: the name of an environment variable, or a file",
    ],
    ["two places", keyed({ ...a, file: "/k" }), "keys[0].file: found it beside env; allowed: either of them"],
    [
      "a path that depends on where one stands",
      keyed({ name: "a", file: "key" }),
      'keys[0].file: found "key"; allowed: the absolute path of a file',
    ],
    [
      "a name that would end a member's",
      keyed({ name: "a/b", env: "A" }),
      'keys[0].name: found "a/b"; allowed: a name of letters, digits, _ and -, at most 64',
    ],
    [
      "weights of nothing",
      keyed({ ...a, weight: 0 }),
      "keys: found no weight but 0; allowed: a key with a weight of 1 or more",
    ],
    [
      "nothing to sign with",
      { providers: [{ ...provider({ auth: "sigv4", region: "us-east-1" }), api_key_env: undefined, keys: [a] }] },
      'keys[0].secret_key_env: found nothing; allowed: what "auth": "sigv4" signs with',
    ],
    [
      "a secret for all of them",
      { providers: [{ ...provider({ secret_key_env: "S" }), api_key_env: undefined, keys: [a] }] },
      "secret_key_env: found it beside keys; allowed: secret_key_env of each of the keys",
    ],
  ]
  test.each(rows)("%s", (_, json, ...told) => {
    expect(messages(parseProviders("p.json", json))).toEqual(told.map((one) => `p.json: provider "first": ${one}`))
  })

  test("each key has its own weight, limits and signature", () => {
    const limits = { max_concurrency: 1, requests_per_minute: 2, tokens_per_minute: 3 }
    const keys = [
      { ...a, secret_key_env: "SA", ...limits },
      { name: "b", file: "/run/b", secret_key_file: "/run/sb", session_token_env: "TB", weight: 0 },
    ]
    const json = { providers: [{ ...provider({ auth: "sigv4", region: "us-east-1" }), api_key_env: undefined, keys }] }
    const read = parseProviders("p.json", json)
    expect(Array.isArray(read) ? read : read.providers[0]?.credentials).toEqual([
      {
        name: "a",
        key: { env: "A" },
        weight: 1,
        maxConcurrency: 1,
        requestsPerMinute: 2,
        tokensPerMinute: 3,
        signing: { secretKey: { env: "SA" }, sessionToken: undefined },
      },
      {
        name: "b",
        key: { file: "/run/b" },
        weight: 0,
        signing: { secretKey: { file: "/run/sb" }, sessionToken: { env: "TB" } },
      },
    ])
  })
})

describe("a bad providers file is refused the same way", () => {
  const address = "an http or https address without query, and without /v1 at its end"
  const rows: readonly [name: string, json: unknown, message: string][] = [
    ["no providers", {}, "p.json: providers: found nothing; allowed: a list of providers"],
    [
      "no address",
      { providers: [provider({ base_url: "first" })] },
      `p.json: provider "first": base_url: found "first"; allowed: ${address}`,
    ],
    [
      "an address with /v1",
      { providers: [provider({ base_url: "https://first.example/v1/" })] },
      `p.json: provider "first": base_url: found "https://first.example/v1/"; allowed: ${address}`,
    ],
    [
      "an address that does not parse",
      { providers: [provider({ base_url: "http://[" })] },
      `p.json: provider "first": base_url: found "http://["; allowed: ${address}`,
    ],
    [
      "a key instead of a variable's name",
      { providers: [provider({ api_key_env: "sk-1" })] },
      'p.json: provider "first": api_key_env: found "sk-1"; allowed: the name of an environment variable',
    ],
    [
      "a signed provider without a region",
      { providers: [provider({ auth: "sigv4", secret_key_env: "SECRET" })] },
      'p.json: provider "first": region: found nothing; allowed: what "auth": "sigv4" signs with',
    ],
    [
      "a signed provider without a secret",
      { providers: [provider({ auth: "sigv4", region: "us-east-1" })] },
      'p.json: provider "first": secret_key_env: found nothing; allowed: what "auth": "sigv4" signs with',
    ],
    [
      "a zone instead of a region",
      { providers: [provider({ region: "us-east-1a" })] },
      'p.json: provider "first": region: found "us-east-1a"; allowed: a region, such as ap-southeast-3',
    ],
    [
      "a trace context that is no yes or no",
      { providers: [provider({ trace_context: "yes" })] },
      'p.json: provider "first": trace_context: found "yes"; allowed: true or false',
    ],
    [
      "a header that is no text",
      { providers: [provider({ headers: { "x-team": 7 } })] },
      'p.json: provider "first": headers.x-team: found 7; allowed: a text',
    ],
    [
      "an id twice",
      { providers: [provider(), provider()] },
      'p.json: provider "first": id: found this id more than once; allowed: an id that no other provider has',
    ],
  ]
  test.each(rows)("%s", (_, json, message) => {
    expect(messages(parseProviders("p.json", json))).toEqual([message])
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

test("a field that routes cannot be passed, in whatever letters, nor can what is no name", () => {
  const told = (...pass: string[]) => messages(parseCatalogue("c.json", { models: [model("a", { pass })] }))
  expect(catalogue({ models: [model("a", { pass: ["min_p", "chat_template_kwargs"] })] }).models).toHaveLength(1)
  for (const name of ["provider", "Models", "bestOf", "service_tier", "guided_json", "n"])
    expect(told("min_p", name)).toEqual([
      `c.json: model "a": pass[1]: found "${name}"; allowed: a field that routes nothing`,
    ])
  const allowed = "a name of a request field: letters, digits and _, at most 64"
  for (const name of ["__proto__", "a b", "x".repeat(65), ""]) expect(told(name)[0]).toEndWith(`allowed: ${allowed}`)
  expect(told("x".repeat(64))).toEqual([])
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
