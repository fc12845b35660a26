/** A messages backend of the client's own format whose model takes less than was written (docs/formats.md). */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { type Provider, soleCredential } from "../../src/catalogue/model.ts"
import type { JsonObject } from "../../src/language/json.ts"
import { backendOf, startTestGateway, type TestGateway } from "../gateway/harness.ts"
import { ask, requestId, rowsOf } from "./calling.ts"
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

describe("a request that another model answers", () => {
  const written = { temperature: 0.5, thinking: { type: "enabled", budget_tokens: 2_000 }, max_tokens: 4_000 }

  test("is written as that takes it", async () => {
    const fallback = [await made("claude-haiku-5-5")]
    answers.set("claude-haiku-4-5", refusing(429, "Slow down."))
    const response = await ask(gateway, key, "messages", await made("claude-haiku-4-5", { fallback }), written)
    expect(response.status).toBe(200)
    expect(response.headers.get("x-model")).toBe(fallback[0] ?? "")
    expect(heard.at(-2)).toMatchObject({ model: "claude-haiku-4-5", ...written })
    expect(heard.at(-1)).toMatchObject({ thinking: { type: "adaptive", display: "summarized" }, max_tokens: 4_000 })
    expect(heard.at(-1)).not.toContainKey("temperature")
    // The names are those for the model that was asked.
    expect(response.headers.get("x-dropped-fields")).toBeNull()
    answers.delete("claude-haiku-4-5")
  })

  test("so is a large one", async () => {
    const fallback = [await made("claude-haiku-5-5", { context_window: null })]
    answers.set("claude-haiku-4-5", refusing(429, "Slow down."))
    const messages = [{ role: "user", content: "word ".repeat(60_000) }]
    const model = await made("claude-haiku-4-5", { fallback, context_window: null })
    const response = await ask(gateway, key, "messages", model, { ...written, messages })
    expect({ status: response.status, text: await response.text() }).toMatchObject({ status: 200 })
    expect(heard.at(-1)).toMatchObject({ thinking: { type: "adaptive", display: "summarized" }, messages })
    expect(heard.at(-1)).not.toContainKey("temperature")
    answers.delete("claude-haiku-4-5")
  })

  test("so is one for a retired id, by what that id names", async () => {
    const target = await made("claude-haiku-5-5")
    const until = new Date(Date.now() + 60_000)
    await gateway.sql`insert into model_aliases (alias, target, until) values ('claude-haiku-4-5', ${target}, ${until})`
    await gateway.refreshCatalogue()
    const response = await ask(gateway, key, "messages", "claude-haiku-4-5", written)
    expect(response.status).toBe(200)
    expect(heard.at(-1)).toMatchObject({ thinking: { type: "adaptive", display: "summarized" } })
    expect(heard.at(-1)).not.toContainKey("temperature")
    expect(response.headers.get("x-dropped-fields")).toBe("temperature")
  })

  test.each([
    [429, "upstream.rate_limited"],
    [400, "upstream.context_length_exceeded"],
  ] as const)("and refuses fails as the asked one did: a %p is %s", async (status, code) => {
    const words = status === 429 ? "Slow down." : "prompt is too long: 9 tokens > 8 maximum"
    answers.set("asked", refusing(status, words))
    for (const message of ["stop_sequences: at most 4", "temperature is not supported"]) {
      answers.set("other", refusing(400, message))
      const response = await ask(gateway, key, "messages", await made("asked", { fallback: [await made("other")] }))
      const failure = await expectFailure(response, status, code)
      if (status === 400) expect(failure.message).toBe(words)
      expect(heard.at(-1)?.["model"]).toBe("other")
      const marker = status === 429 ? "fallback_429" : "fallback_oversize"
      expect(await rowsOf(gateway, requestId(response))).toMatchObject([
        { status: "upstream_error", error_code: code, charge_micro: 0n },
        { status: marker, charge_micro: 0n },
      ])
    }
    answers.set("other", refusing(500, "Broken."))
    const broken = await ask(gateway, key, "messages", await made("asked", { fallback: [await made("other")] }))
    await expectFailure(broken, 502, "dependency.upstream_unavailable")
  })
})
