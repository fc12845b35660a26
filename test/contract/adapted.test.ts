/** A messages backend of the client's own format whose model takes less than was written (docs/formats.md). */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { type Provider, soleCredential } from "../../src/catalogue/model.ts"
import type { JsonObject } from "../../src/language/json.ts"
import { backendOf, startTestGateway, type TestGateway } from "../gateway/harness.ts"
import { ask } from "./calling.ts"
import { expectFailure } from "./expect-failure.ts"

/** By the model's name at the backend: what it answers. */
const answers = new Map<string, () => Response>()
const heard: JsonObject[] = []

const backend = Bun.serve({
  hostname: "127.0.0.1",
  port: 0,
  fetch: async (request) => {
    const body = (await request.json()) as JsonObject & { readonly model: string }
    heard.push(body)
    return answers.get(body.model)?.() ?? Response.json(answer)
  },
})

const answer = {
  id: "msg_1",
  type: "message",
  role: "assistant",
  model: "m",
  content: [{ type: "text", text: "Yes." }],
  stop_reason: "end_turn",
  stop_sequence: null,
  usage: { input_tokens: 5, output_tokens: 2 },
}
const refusing = (status: number, message: string) => () => Response.json({ error: { message } }, { status })

let gateway: TestGateway
let key: string

beforeAll(async () => {
  const credentials: Provider["credentials"] = [soleCredential("X")]
  const provider = { id: "vendor", label: "", baseUrl: backend.url.origin, credentials, headers: {} }
  gateway = await startTestGateway({ backends: [backendOf(provider, "k")] })
  key = (await gateway.key(await gateway.person(1_000_000))).key
})
afterAll(async () => {
  await gateway[Symbol.asyncDispose]()
  await backend.stop(true)
})

const made = (named: string, more: JsonObject = {}) =>
  gateway.model({
    format: "messages",
    endpoints: ["messages"],
    upstreams: [{ provider: "vendor", format: "messages", model: named }],
    ...more,
  })

describe("a message of the role system", () => {
  const messages = [
    { role: "user", content: "Hi" },
    { role: "system", content: [{ type: "text", text: "Be brief.", cache_control: { type: "ephemeral" } }] },
  ]
  const note = { type: "text", text: "<system>\nBe brief.\n</system>", cache_control: { type: "ephemeral" } }

  test.each([
    ["claude-haiku-4-5", [messages[0], { role: "user", content: [note] }]],
    ["claude-haiku-5-5", messages],
    ["open-model", messages],
  ])("reaches %s as that takes it", async (named, sent) => {
    const response = await ask(gateway, key, "messages", await made(named), { messages })
    expect({ status: response.status, text: await response.text() }).toMatchObject({ status: 200 })
    expect(heard.at(-1)?.["messages"]).toEqual(sent as JsonObject[])
    expect(response.headers.get("x-dropped-fields")).toBeNull()
  })

  test("is told as what the backend refuses, in words that Claude Code goes on after", async () => {
    answers.set("strict-model", refusing(400, "messages[1].role: unknown variant `system`, expected `user`"))
    const response = await ask(gateway, key, "messages", await made("strict-model"), { messages })
    const { message } = await expectFailure(response, 400, "upstream.unsupported_feature")
    expect(message).toMatch(/role .{0,2}system.*not supported/i)
  })
})
