/** The key by which responses backends find what they keep of prompts that begin alike, where the client wrote none (docs/formats.md). */
import { afterAll, beforeAll, expect, test } from "bun:test"
import type { JsonObject } from "../../src/language/json.ts"
import type { Translated } from "../../src/language/request.ts"
import { type Person, startTestGateway, type TestGateway } from "../gateway/harness.ts"
import { ask, formats } from "./calling.ts"

let gateway: TestGateway
let person: Person
let key: string
const models = new Map<string, string>()

beforeAll(async () => {
  gateway = await startTestGateway()
  person = await gateway.person(1_000_000)
  key = (await gateway.key(person)).key
  for (const backend of formats) models.set(backend, await gateway.model({ format: backend, endpoints: [...formats] }))
  models.set(
    "stripped",
    await gateway.model({ format: "responses", endpoints: [...formats], strip: ["prompt_cache_key"] }),
  )
})
afterAll(() => gateway[Symbol.asyncDispose]())

/** What a backend is sent as the key. */
async function sent(
  client: Translated,
  fields: JsonObject = {},
  { as = key, headers = {}, backend = "responses" } = {},
) {
  const response = await ask(gateway, as, client, models.get(backend) ?? "", fields, { headers })
  expect({ status: response.status, text: await response.text() }).toMatchObject({ status: 200 })
  expect(response.headers.get("x-dropped-fields")).toBeNull()
  return gateway.simulator.calls.at(-1)?.body?.["prompt_cache_key"]
}

const said = (client: Translated, instructions: string, ...turns: string[]): JsonObject => {
  const messages = turns.map((content, place) => ({ role: place % 2 === 0 ? "user" : "assistant", content }))
  if (client === "responses") return { instructions, input: messages }
  if (client === "messages") return { system: instructions, messages }
  return { messages: [{ role: "system", content: instructions }, ...messages] }
}

test.each([...formats])(
  "from %s one is sent that means nothing elsewhere, and is another account's never",
  async (client) => {
    const mine = await sent(client, said(client, "Be brief.", "Hi"))
    expect(mine).toMatch(/^[0-9a-f]{32}$/)
    expect(await sent(client, said(client, "Be brief.", "Hi", "Hello.", "Go on"))).toBe(mine)
    // Instructions that all conversations of an application begin with are kept for all of them.
    expect(await sent(client, said(client, "Be brief.", "Bye"))).toBe(mine)
    const other = await gateway.key(await gateway.person(10_000))
    expect(await sent(client, said(client, "Be brief.", "Hi"), { as: other.key })).not.toBe(mine)
    const second = await gateway.key(person)
    expect(await sent(client, said(client, "Be brief.", "Hi"), { as: second.key })).toBe(mine)
  },
)

test.each([...formats])("from %s a conversation that has a name is sent that name's", async (client) => {
  const named = async (name: string, instructions: string) =>
    await sent(client, said(client, instructions, "Hi"), { headers: { "x-session-id": name } })
  const mine = await named("one", "Be brief.")
  expect(mine).toMatch(/^[0-9a-f]{32}$/)
  expect(await named("one", "Be kind.")).toBe(mine)
  expect(await named("other", "Be brief.")).not.toBe(mine)
  expect(await sent(client, said(client, "Be brief.", "Hi"))).not.toBe(mine)
})

test("the client's own is the one that is sent, and none to a model that takes none or a backend that knows none", async () => {
  const own = { prompt_cache_key: "mine" }
  expect(await sent("chat", own)).toBe("mine")
  expect(await sent("responses", own)).toBe("mine")
  expect(await sent("responses", { prompt_cache_key: null })).toMatch(/^[0-9a-f]{32}$/)
  for (const client of formats) expect(await sent(client, {}, { backend: "stripped" })).toBeUndefined()
  for (const client of formats)
    for (const backend of ["chat", "messages"]) expect(await sent(client, {}, { backend })).toBeUndefined()
})

test("a body that another thread works on has the same one", async () => {
  const long = "word ".repeat(60_000)
  const headers = { "x-session-id": "large" }
  const small = await sent("chat", said("chat", "Be brief.", "Hi"), { headers })
  expect(await sent("chat", said("chat", long, "Hi"), { headers })).toBe(small)
  expect(await sent("responses", said("responses", long, "Hi"), { headers })).toBe(small)
})
