/**
 * Every route of the OpenAPI document of the running gateway, with drawn ids, queries, headers and bodies: such as its schema asks for,
 * mutated, and none at all. `LOKET_FUZZ_RUNS` says how many for each route.
 */
import { afterAll, beforeAll, expect, test } from "bun:test"
import * as fc from "fast-check"
import { createSessionToken } from "../../src/accounts/bearer-tokens.ts"
import type { Json, OpenapiDocument } from "../../src/http/openapi.ts"
import { startTestGateway, type Person, type TestGateway } from "../gateway/harness.ts"
import { bugs } from "./expect-failure.ts"
import { mutate, mutations, problemOf } from "./fuzzing.ts"

const RUNS = Number(process.env["LOKET_FUZZ_RUNS"] ?? 5)
/** In which an answer has to be whole, on the slowest machine. */
const ANSWER_MS = 30_000
/** Of all runs, there too. */
const TEST_MS = 60_000 + 20_000 * RUNS

interface Parameter {
  readonly name: string
  readonly in: "path" | "query" | "header"
  readonly required?: boolean
  readonly schema: Json
}

let gateway: TestGateway
let document: OpenapiDocument
let owner: Person
let operator: Person
let key: string
let token: string
/** By the part of a path that stands before it. */
let known: Readonly<Record<string, readonly string[]>>

beforeAll(async () => {
  gateway = await startTestGateway({
    env: { PAYMENT_SIMULATED_SECRET: "a secret of the tests", OPERATOR_SECOND_FACTOR: "false" },
  })
  owner = await gateway.person(1_000_000)
  operator = await gateway.person(10_000)
  const victim = await gateway.person(10_000)
  await gateway.sql`update accounts set role = 'operator' where id = ${operator.accountId}`
  const ownKey = await gateway.key(owner)
  const spare = await gateway.key(owner)
  key = ownKey.key
  const post = async (path: string, body: object) =>
    (await (await gateway.dashboard(owner, path, { method: "POST", body: JSON.stringify(body) })).json()) as Record<
      string,
      string
    >
  token = (await post(`/keys/${ownKey.id}/tokens`, { name: "a token" }))["token"] ?? ""
  const called = await gateway.model({ format: "chat" })
  const operated = await gateway.model({ format: "chat" })
  const run = await post("/runs", { key_id: ownKey.id, budget_micro: 1_000_000 })
  const topUp = await post("/top-ups", { amount_rp: 10_000 })
  const answered = await gateway.post("/v1/chat/completions", key, {
    model: called,
    max_tokens: 5,
    messages: [{ role: "user", content: "hi" }],
  })
  const requestId = answered.headers.get("x-request-id") ?? ""
  await gateway.usage(owner, requestId)
  known = {
    keys: [spare.id],
    runs: [run["id"] ?? ""],
    "top-ups": [topUp["id"] ?? ""],
    "simulated-pay": [topUp["id"] ?? ""],
    usage: [requestId],
    accounts: [victim.accountId],
    models: [operated],
    members: ["simulated/default/plain", victim.accountId],
    payments: ["simulated"],
    called: [called],
  }
  document = (await (await fetch(`${gateway.url}/openapi.json`)).json()) as OpenapiDocument
})
afterAll(() => gateway[Symbol.asyncDispose]())

/** A session of its own for each request, because some end sessions. */
async function session({ accountId }: Person): Promise<string> {
  const { token: secret, hash } = createSessionToken()
  await gateway.sql`
    insert into sessions (token_hash, account_id, expires_at) values (${hash}, ${accountId}, now() + interval '1 hour')`
  return secret
}

const oddText = fc.constantFrom(
  "",
  " ",
  "\0",
  "\ud800",
  "\u202e",
  "a".repeat(5_000),
  "2027-01-31T17:00:00Z",
  "9999-12-31T23:59:59.999Z",
  "-271821-04-20T00:00:00.000Z",
  "1e400",
  "-1",
  "%",
  "'",
  "Asia/Jakarta",
  "https://hooks.example.com/",
  "someone@example.com",
)

const text = (schema: Json): fc.Arbitrary<unknown> => {
  const { minLength = 0, maxLength = 60 } = schema as { minLength?: number; maxLength?: number }
  const plain = fc.string({ minLength, maxLength: Math.min(maxLength, minLength + 60) })
  const ids = fc.constantFrom(...Object.values(known).flat())
  let fitting: fc.Arbitrary<string> = plain
  try {
    if (typeof schema["pattern"] === "string") fitting = fc.stringMatching(new RegExp(schema["pattern"], "u"))
  } catch {
    // A pattern that nothing can be drawn from, such as one that looks ahead.
    fitting = fc.constantFrom("a name", "chat", "IDR", "USD")
  }
  return fc.oneof({ weight: 4, arbitrary: fitting }, { weight: 1, arbitrary: ids }, { weight: 1, arbitrary: oddText })
}

const numeric = (schema: Json, isWhole: boolean): fc.Arbitrary<unknown> => {
  const { minimum = -10, maximum = 2 ** 53 - 1 } = schema as { minimum?: number; maximum?: number }
  const whole = fc.oneof(
    fc.integer({ min: minimum, max: Math.min(maximum, minimum + 100_000) }),
    fc.constantFrom(minimum, maximum, minimum - 1, maximum + 1),
  )
  return isWhole ? whole : fc.oneof(whole, fc.double({ min: minimum, max: maximum, noNaN: true }))
}

/** What a schema asks for, and in part what it only nearly asks for. */
function fitting(schema: Json, depth = 0): fc.Arbitrary<unknown> {
  const { anyOf, allOf, enum: words, const: word, properties, items, $ref } = schema as Record<string, never>
  if (word !== undefined) return fc.constant<unknown>(word)
  if (words !== undefined) return fc.constantFrom(...(words as readonly unknown[]))
  if ($ref !== undefined) return fitting(document.components.schemas[String($ref).split("/").at(-1) ?? ""] ?? {}, depth)
  if (anyOf !== undefined) return fc.oneof(...(anyOf as readonly Json[]).map((each) => fitting(each, depth + 1)))
  if (allOf !== undefined)
    return fc
      .tuple(...(allOf as readonly Json[]).map((each) => fitting(each, depth + 1)))
      .map((all) => Object.assign({}, ...all) as unknown)
  const type = [schema["type"]].flat()[0]
  if (type === "string") return text(schema)
  if (type === "integer") return numeric(schema, true)
  if (type === "number") return numeric(schema, false)
  if (type === "boolean") return fc.boolean()
  if (type === "null") return fc.constant(null)
  if (type === "array")
    return fc.array(fitting((items ?? {}) as Json, depth + 1), {
      maxLength: Math.min(5, Number(schema["maxItems"] ?? 5)),
    })
  if (type === "object" && properties !== undefined) {
    const required = (schema["required"] ?? []) as readonly string[]
    const fields = Object.entries(properties as Record<string, Json>).map(
      ([name, each]) => [name, fitting(each, depth + 1)] as const,
    )
    return fc.record(Object.fromEntries(fields), { requiredKeys: [...required] })
  }
  return depth > 3 ? fc.constant<unknown>("deep") : fc.jsonValue({ maxDepth: 2 })
}

interface Drawn {
  readonly path: string
  readonly query: readonly (readonly [string, string])[]
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | Uint8Array<ArrayBuffer> | undefined
  /** Somebody else than whom the route is for. */
  readonly isStranger: boolean
}

const asText = (value: unknown): string => (typeof value === "string" ? value : (JSON.stringify(value) ?? ""))
const header = (value: unknown): string =>
  asText(value)
    .replaceAll(/[^\x20-\x7e]/g, "?")
    .slice(0, 1_000)

const given = (pairs: (readonly [string, unknown])[]) => pairs.filter(([, value]) => value !== undefined)

/** All that is drawn for one route. */
function requests(template: string, method: string, operation: Json): fc.Arbitrary<Drawn> {
  const parameters = (operation["parameters"] ?? []) as readonly Parameter[]
  const parts = template.split("/").map((part, at, all) => {
    if (!part.startsWith("{")) return fc.constant(part)
    const before = all.slice(0, at).findLast((each) => !each.startsWith("{")) ?? ""
    const mine = template.startsWith("/v1/models") ? known["called"] : known[before]
    const other = fc
      .oneof(fc.string({ maxLength: 30 }), oddText)
      .filter((each) => each !== "" && each !== "." && each !== "..")
    const id =
      mine === undefined
        ? other
        : fc.oneof({ weight: 3, arbitrary: fc.constantFrom(...mine) }, { weight: 1, arbitrary: other })
    return id.map((each) => encodeURIComponent(each.toWellFormed()))
  })
  const some = (place: "query" | "header") =>
    parameters
      .filter((each) => each.in === place)
      .map(({ name, schema, required }) =>
        fc.tuple(fc.constant(name), fc.option(fitting(schema), { freq: required ? 9 : 1, nil: undefined })),
      )
  const { requestBody } = operation as { requestBody?: { content?: Record<string, { schema?: Json }> } }
  const schema = requestBody?.content?.["application/json"]?.schema
  const fits = schema === undefined ? fc.constant<unknown>({}) : fitting(schema)
  const body: fc.Arbitrary<string | Uint8Array<ArrayBuffer> | undefined> =
    method === "get"
      ? fc.constant(undefined)
      : fc.oneof(
          { weight: 4, arbitrary: fits.map((each) => JSON.stringify(each)) },
          {
            weight: 4,
            arbitrary: fc.tuple(fits, mutations).map(([each, changes]) => JSON.stringify(mutate(each, changes)) ?? ""),
          },
          { weight: 1, arbitrary: fc.jsonValue({ maxDepth: 3 }).map((each) => JSON.stringify(each)) },
          { weight: 1, arbitrary: fc.uint8Array({ maxLength: 40 }).map((each) => new Uint8Array(each)) },
        )
  return fc.record({
    path: fc.tuple(...parts).map((all) => all.join("/")),
    query: fc.oneof(
      {
        weight: 4,
        arbitrary: fc
          .tuple(...some("query"))
          .map((all) => given(all).map(([name, value]) => [name, asText(value)] as const)),
      },
      {
        weight: 1,
        arbitrary: fc.array(fc.tuple(fc.string({ maxLength: 8 }), fc.string({ maxLength: 20 })), { maxLength: 3 }),
      },
    ),
    headers: fc
      .tuple(...some("header"))
      .map((all) => Object.fromEntries(given(all).map(([name, value]) => [name, header(value)]))),
    body,
    isStranger: fc.integer({ min: 0, max: 9 }).map((each) => each === 0),
  })
}

async function credential(template: string, operation: Json, isStranger: boolean): Promise<Record<string, string>> {
  const schemes = ((operation["security"] ?? []) as readonly Json[]).flatMap((each) => Object.keys(each))
  if (schemes.length === 0) return {}
  if (isStranger) return { Authorization: `Bearer ${template.startsWith("/v1/") ? await session(owner) : key}` }
  if (schemes.includes("key")) return { Authorization: `Bearer ${key}` }
  if (schemes.includes("token")) return { Authorization: `Bearer ${token}` }
  return { Authorization: `Bearer ${await session(template.startsWith("/operator/") ? operator : owner)}` }
}

test(
  "a drawn request to any route is answered by a success or an error of the catalogue, in time, with a request id",
  async () => {
    const problems: string[] = []
    const statuses = new Map<string, number>()
    let made = 0
    let routes = 0
    for (const [template, operations] of Object.entries(document.paths)) {
      for (const [method, operation] of Object.entries(operations)) {
        const terms = operation as unknown as Json
        routes++
        const ask = async ({ path, query, headers, body, isStranger }: Drawn) => {
          const search = new URLSearchParams(query.map((pair) => [...pair])).toString()
          const response = await fetch(gateway.url + path + (search === "" ? "" : `?${search}`), {
            method: method.toUpperCase(),
            headers: { ...headers, ...(await credential(template, terms, isStranger)) },
            redirect: "manual",
            signal: AbortSignal.timeout(ANSWER_MS),
            ...(body !== undefined && { body }),
          })
          made++
          const kind = `${String(response.status)[0]}xx`
          statuses.set(kind, (statuses.get(kind) ?? 0) + 1)
          const problem = await problemOf(response, template === "/events")
          if (problem !== undefined) throw new Error(problem)
        }
        const result = await fc.check(fc.asyncProperty(requests(template, method, terms), ask), { numRuns: RUNS })
        if (!result.failed) continue
        const drawn = fc.stringify(result.counterexample?.[0])
        problems.push(`${method.toUpperCase()} ${template}: ${String(result.errorInstance)}\n  ${drawn}`)
        // At once: of a long run something is known though it is ended.
        process.stderr.write(`${problems.at(-1)}\n`)
      }
    }
    const kinds = [...statuses].map(([kind, count]) => `${count} ${kind}`)
    process.stderr.write(`fuzz: ${made} requests to ${routes} routes: ${kinds.join(", ")}\n`)
    expect(problems).toEqual([])
    expect(bugs(gateway)).toEqual([])
    expect(routes).toBeGreaterThan(150)
  },
  TEST_MS,
)
