import { describe, expect, test } from "bun:test"
import { parseCatalogue, parseProviders, providerProblems } from "../../src/catalogue/seed-files.ts"
import { type Provider, soleCredential } from "../../src/catalogue/model.ts"
import { describeProblem } from "../../src/catalogue/schema.ts"
import { catalogue, messages, model, provider } from "./files.ts"

const pooled = (...upstreams: object[]) => ({ models: [{ ...model("a"), upstream: undefined, upstreams }] })

const nested = (levels: number): object => (levels === 1 ? {} : { a: nested(levels - 1) })
const sized = (bytes: number) => ({ note: "x".repeat(bytes - JSON.stringify({ note: "" }).length) })

describe("a bad pool is refused with its place", () => {
  const chat = { provider: "first", format: "chat", model: "m" }
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

  const writes = "a field that the gateway does not write itself"
  const routes = "a field that routes nothing"
  test.each<[set: unknown, place: string, allowed: string]>([
    [7, "", "an object of request fields by their names"],
    [{ "a b": 1 }, "", "names of letters, digits and _, at most 64"],
    [{ ["x".repeat(65)]: 1 }, "", "names of letters, digits and _, at most 64"],
    ...["model", "tools", "service_tier", "Provider", "n", "best_of", "max_new_tokens"].map(
      (name) => [{ top_k: 1, [name]: 1 }, `.${name}`, routes] as [object, string, string],
    ),
    ...["max_tokens", "maxOutputTokens"].map(
      (name) => [{ [name]: 1 }, `.${name}`, "a field that limits no answer"] as [object, string, string],
    ),
    ...["stream", "stream_options", "messages", "system", "store", "user", "metadata", "inferenceConfig"].map(
      (name) => [{ [name]: 1 }, `.${name}`, writes] as [object, string, string],
    ),
    ...["modalities", "context_management", "performanceConfig", "enable_search"].map(
      (name) =>
        [{ [name]: 1 }, `.${name}`, "a field that costs no more than the model's rates"] as [object, string, string],
    ),
    [{ a: [{ b: { models: [] } }] }, ".a[0].b.models", routes],
    [{ reasoning: { max_tokens: 9 } }, ".reasoning.max_tokens", "a field that limits no answer"],
    [sized(4_097), "", "at most 4096 bytes of JSON"],
    [nested(9), ".a.a.a.a.a.a.a.a", "values that are at most 8 deep"],
    [{ a: "\0" }, ".a", "a text of whole characters without NUL"],
    [{ a: { "\uD800": 1 } }, ".a.\uD800", "a text of whole characters without NUL"],
  ])("a set of %j", (set, place, allowed) => {
    const [problem, ...others] = messages(parseCatalogue("c.json", pooled({ ...chat, set })))
    expect(problem).toStartWith(`c.json: model "a": upstreams[0].set${place}: found `)
    expect(problem).toEndWith(`; allowed: ${allowed}`)
    expect(others).toEqual([])
  })

  test.each<[object, string]>([
    [
      { needs: ["system_last"] },
      'needs[0]: found "system_last"; allowed: one of system_role, system_first, answer_after_tools, short_call_ids',
    ],
    [
      { format: "messages", needs: ["system_role"] },
      'needs: found ["system_role"]; allowed: nothing for a backend that does not speak chat',
    ],
    [{ efforts: [] }, "efforts: found []; allowed: a list without repeats, not empty; each entry one of none, "],
    [{ efforts: ["low", "low"] }, 'efforts: found ["low","low"]; allowed: a list without repeats, not empty; '],
    [
      { efforts: ["lowest"] },
      'efforts[0]: found "lowest"; allowed: one of none, minimal, low, medium, high, xhigh, max',
    ],
    [
      { format: "bedrock", model: "anthropic.claude-opus-5", set: { top_k: 1, reasoning_split: true } },
      'set.reasoning_split: found {"top_k":1,"reasoning_split":true}; allowed: for this backend one of stop_sequences, temperature, top_p, top_k, thinking, output_config',
    ],
  ])("%j", (fields, message) => {
    const [problem, ...others] = messages(parseCatalogue("c.json", pooled({ ...chat, ...fields })))
    expect(problem).toStartWith(`c.json: model "a": upstreams[0].${message}`)
    expect(others).toEqual([])
  })

  test("a set as large and as deep as can be is read as it was written, and so is what a template makes of its own", () => {
    for (const set of [sized(4_096), nested(8), { chat_template_kwargs: { tools: { max_tokens: 1 } } }]) {
      const upstream = { ...chat, set, efforts: ["high", "none"], needs: ["short_call_ids", "system_role"] }
      expect(catalogue(pooled(upstream)).models[0]?.upstreams).toEqual([upstream] as never)
    }
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

const keyed = (...keys: object[]) => ({ providers: [{ ...provider(), api_key_env: undefined, keys }] })

describe("credentials that cannot be told apart or found are refused with their place", () => {
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
