/** Every answer to an API key says what is left of its limits (gateway-api.md, "Limits"), also where nothing is taken of them. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { type Init, type Person, startTestGateway, type TestGateway } from "../gateway/harness.ts"
import { covers } from "./rows.ts"

let gateway: TestGateway
let person: Person
const models: Record<string, string> = {}

beforeAll(async () => {
  gateway = await startTestGateway()
  person = await gateway.person(1_000_000)
  models["messages"] = await gateway.model({ format: "messages" })
  models["responses"] = await gateway.model({ format: "responses" })
})
afterAll(() => gateway[Symbol.asyncDispose]())

const LIMITS = {
  requests_per_minute: 10,
  tokens_per_minute: 10_000,
  spending_limit_micro: 5_000_000,
  spending_period: "daily",
}
const hello = [{ role: "user", content: "Hello" }]

/** What an answer says of the key's limits, but for when they are whole again. */
const told = (response: Response) =>
  Object.fromEntries([...response.headers].filter(([name]) => /^x-(?:ratelimit|key)-(?!reset)/.test(name)))
const UNTOUCHED = {
  "x-ratelimit-limit": "10",
  "x-ratelimit-remaining": "10",
  "x-ratelimit-limit-tokens": "10000",
  "x-ratelimit-remaining-tokens": "10000",
  "x-key-limit-micro": "5000000",
  "x-key-usage-micro": "0",
  "x-key-remaining-micro": "5000000",
  "x-key-limit-period": "daily",
}

const dry: Init = { headers: { "X-Dry-Run": "true" } }
const rows: readonly (readonly [what: string, status: number, path: string, body: () => object, init: Init])[] = [
  ["a count", 200, "/v1/messages/count_tokens", () => ({ model: models["messages"], messages: hello }), {}],
  [
    "a count of responses",
    200,
    "/v1/responses/input_tokens",
    () => ({ model: models["responses"], input: "Hello" }),
    {},
  ],
  ["a count that is refused", 400, "/v1/messages/count_tokens", () => ({ model: "nobody", messages: hello }), {}],
  ["a dry run", 200, "/v1/chat/completions", () => ({ model: "plain", messages: hello }), dry],
  ["a dry run of what would be refused", 200, "/v1/chat/completions", () => ({ model: "nobody" }), dry],
  [
    "a dry run that is none",
    400,
    "/v1/chat/completions",
    () => ({ model: "plain", messages: hello }),
    { headers: { "X-Dry-Run": "perhaps" } },
  ],
]

test.each(rows)(`${covers("limit.rpm", "limit.tpm", "limit.budget")} %s`, async (_, status, path, body, init) => {
  const { key } = await gateway.key(person, LIMITS)
  const response = await gateway.post(path, key, body(), init)
  expect(response.status).toBe(status)
  expect(told(response)).toEqual(UNTOUCHED)
  await response.text()
})

test("a dry run that the key's owner has turned off", async () => {
  const { key } = await gateway.key(person, { ...LIMITS, shows_balance: false })
  const response = await gateway.post("/v1/chat/completions", key, { model: "plain", messages: hello }, dry)
  expect(response.status).toBe(403)
  expect(told(response)).toEqual(UNTOUCHED)
  await response.text()
})

test("a dry run for an account that is frozen", async () => {
  const frozen = await gateway.person(10_000)
  const { key } = await gateway.key(frozen, LIMITS)
  await gateway.freeze(frozen, "a test")
  const response = await gateway.post("/v1/chat/completions", key, { model: "plain", messages: hello }, dry)
  expect(await response.json()).toMatchObject({ refused_by: { code: "auth.account_frozen" } })
  expect(told(response)).toEqual(UNTOUCHED)
})
