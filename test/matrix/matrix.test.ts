/**
 * Every client's format against every backend's, over real HTTP, feature by feature, streamed and not: a cell works, so
 * that the backend heard what was asked and the client got what was answered, or it is refused as docs/formats.md says.
 * At the end the matrix is printed, and nothing in it may be empty.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { join } from "node:path"
import type { JsonObject } from "../../src/language/json.ts"
import type { Translated } from "../../src/language/request.ts"
import { type Person, startTestGateway, type TestGateway } from "../gateway/harness.ts"
import { chat } from "./chat.ts"
import { messages } from "./messages.ts"
import { responses } from "./responses.ts"
import { type Pair, type Row, rows } from "./rows.ts"
import { type Answer, type Asked, must, type Speaker } from "./speaker.ts"

const speakers: Readonly<Record<Translated, Speaker>> = { chat, messages, responses }
const endpoints: readonly Translated[] = ["chat", "messages", "responses"]
const pairs: readonly Pair[] = endpoints.flatMap((client) =>
  endpoints.map((backend) => ({ client, backend, translated: client !== backend })),
)
const named = ({ client, backend }: Pair) => `${client} → ${backend}`

let gateway: TestGateway
let person: Person
let key: string
/** The catalogue's models, one for each row and backend. */
const models = new Map<string, Promise<string>>()
const outcomes = new Map<string, string>()

beforeAll(async () => {
  gateway = await startTestGateway()
  person = await gateway.person(10_000_000)
  key = (await gateway.key(person)).key
})
afterAll(async () => {
  await gateway[Symbol.asyncDispose]()
  const width = Math.max(...rows.map(({ name }) => name.length))
  const columns = pairs.map(named)
  const line = (first: string, cells: readonly string[]) =>
    `${first.padEnd(width)} | ${cells.map((cell, at) => cell.padEnd(columns[at]?.length ?? 0)).join(" | ")}`
  const table = rows.map(({ name }) =>
    line(
      name,
      pairs.map((pair) => outcomes.get(`${name}, ${named(pair)}`) ?? "?"),
    ),
  )
  process.stdout.write(`${[line("client → backend", columns), ...table].join("\n")}\n`)
})

const modelOf = (row: Row, backend: Translated): Promise<string> => {
  const wish = {
    script: row.script,
    pass: ["thinking", "top_k"],
    endpoints: [...endpoints],
    supports_vision: true,
    features,
    ...row.model,
  }
  const id = `${row.name}, ${backend}`
  const known = models.get(id)
  if (known !== undefined) return known
  const name = row.model?.model
  const model = gateway.model({
    format: backend,
    ...wish,
    ...(name !== undefined && { model: `${name}-on-${backend}` }),
  })
  models.set(id, model)
  return model
}
const features: ("structured_outputs" | "web_search")[] = ["structured_outputs", "web_search"]

describe.each(pairs.map((pair) => [named(pair), pair] as const))("%s", (_, pair) => {
  describe.each(rows.map((row) => [row.name, row] as const))("%s", (_, row) => {
    const cell = `${row.name}, ${named(pair)}`
    if (row.unsayable?.includes(pair.client) === true) {
      outcomes.set(cell, "–")
      return
    }
    const code = row.refused?.(pair)
    test.each([false, true])(code ?? "works, streamed: %p", async (stream) => {
      const model = await modelOf(row, pair.backend)
      const body = { model, ...speakers[pair.client].write(row.asked), ...(stream && { stream }) }
      if (pair.client === "chat" && stream) Object.assign(body, { stream_options: { include_usage: true } })
      if (code !== undefined) await isRefused(pair, body, code)
      else await works(pair, row, body)
      outcomes.set(cell, code === undefined ? "works" : "refused")
    })
  })
})

async function isRefused(pair: Pair, body: JsonObject, code: string): Promise<void> {
  const before = gateway.simulator.calls.length
  const response = await gateway.post(speakers[pair.client].path, key, body)
  expect(await response.json()).toMatchObject({ code, retryable: false })
  expect(response.status).toBe(400)
  expect(gateway.simulator.calls.length).toBe(before)
}

async function works(pair: Pair, row: Row, body: JsonObject): Promise<void> {
  const client = speakers[pair.client]
  const first = await call(pair, body)
  const answer = row.goesOn === true ? await call(pair, client.goOn(body, first)) : first
  const sent = must(gateway.simulator.calls.at(-1)?.body, "a call of the backend")
  const { as: _, user, limit = 8192, ...asked } = row.asked
  const expected: Asked = { limit, ...asked, ...row.heard?.(pair, first) }
  const { user: told, ...heard } = speakers[pair.backend].read(sent)
  expect(heard).toEqual(expected)
  // The account by a name that means nothing elsewhere, and after it the client's own end user, by another such name.
  expect(told).toMatch(user === undefined ? /^[0-9a-f]{32}$/ : /^[0-9a-f]{32}-[0-9a-f]{31}$/)
  expect(sent["service_tier"]).toBe(pair.backend === "messages" ? "standard_only" : "default")

  const got = row.got(pair)
  expect(Object.keys(got).length).toBeGreaterThan(0)
  const { thinking, seal, text, refusal, calls, finish, stop, usage } = answer
  const seen = { thinking, seal, text, refusal, calls: [...calls], finish, stop, usage }
  const parts: Record<string, unknown> = seen
  for (const [part, wanted] of Object.entries(got)) expect({ [part]: parts[part] }).toEqual({ [part]: wanted })
  expect(new Set(calls.map(({ id }) => id)).size).toBe(calls.length)
}

/** One call, whose answer is of the catalogue's model and costs what its counts say. */
async function call(pair: Pair, body: JsonObject): Promise<Answer> {
  const client = speakers[pair.client]
  const response = await gateway.post(client.path, key, body)
  const told = await response.text()
  if (response.status !== 200) throw new Error(`${response.status} ${told} ${gateway.complaints.at(-1) ?? ""}`)
  const whole = body["stream"] === true ? client.added(told) : (JSON.parse(told) as JsonObject)
  expect(whole["model"]).toBe(body["model"] as string)
  const answer = client.answer(whole)
  const { input, cacheRead, cacheWrite, output } = answer.usage
  expect(await gateway.usage(person, response.headers.get("x-request-id") ?? "")).toMatchObject({
    status: "ok",
    input_tokens: input,
    cache_read_tokens: cacheRead,
    cache_write_tokens: cacheWrite,
    output_tokens: output,
    charge_micro: input * 1_000 + cacheRead * 100 + cacheWrite * 1_250 + output * 5_000,
  })
  return answer
}

describe.each(pairs.map((pair) => [named(pair), pair] as const))("%s, a stream that breaks", (_, pair) => {
  const faults = ["fault=error-event&error=overloaded&after=2", "fault=cut&after=2", "fault=reset&after=2"]
  test.each(faults)("%s is told as a failure of the client's format, after what was said", async (fault) => {
    const model = await gateway.model({
      format: pair.backend,
      endpoints: [...endpoints],
      script: `text=one+two+three+four&${fault}`,
    })
    const client = speakers[pair.client]
    const response = await gateway.post(client.path, key, { model, ...client.write({ turns }), stream: true })
    const told = await response.text()
    expect(response.status).toBe(200)
    expect(told).toContain("one")
    expect(client.failure(told)).toMatchObject({ message: expect.any(String), type: expect.any(String) })
    expect(() => client.added(told)).toThrow()
    expect(await gateway.usage(person, response.headers.get("x-request-id") ?? "")).toMatchObject({
      status: "upstream_error",
      charge_micro: 0,
    })
  })
})
const turns: Asked["turns"] = [{ role: "user", parts: [{ text: "Hello" }] }]

test("no cell of the matrix is empty", () => {
  const cells = rows.flatMap(({ name }) => pairs.map((pair) => `${name}, ${named(pair)}`))
  expect(cells.filter((cell) => !outcomes.has(cell))).toEqual([])
})

test("docs/formats.md names every refusal, by its pairs and its code", async () => {
  const page = await Bun.file(join(import.meta.dir, "../../docs/formats.md")).text()
  const lines = rows.flatMap(({ name, refused, unsayable = [] }) => {
    const cells = pairs.flatMap((pair) => {
      const code = unsayable.includes(pair.client) ? undefined : refused?.(pair)
      return code === undefined ? [] : [{ pair, code }]
    })
    const codes = new Set(cells.map(({ code }) => code))
    return [...codes].map((code) => {
      const those = cells.filter((cell) => cell.code === code).map((cell) => named(cell.pair))
      return `| ${name} | ${those.join(", ")} | \`${code}\` |`
    })
  })
  expect(lines.filter((line) => !page.includes(line))).toEqual([])
  expect(page.match(/^\| .* → .* \| `request\./gm)).toHaveLength(lines.length)
})
