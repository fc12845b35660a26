/** A backend that takes its time, behind a translation: the vendors' packages must not notice how silence is filled. */
import Anthropic from "@anthropic-ai/sdk"
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import OpenAI from "openai"
import type { Translated } from "../../src/language/request.ts"
import { startTestGateway, type TestGateway } from "../gateway/harness.ts"
import { answer, Buyer } from "./buyer.ts"

let gateway: TestGateway
let openai: OpenAI
let anthropic: Anthropic
/** The last answer as it came over the network. */
let raw: Promise<string>

const listening = async (...call: Parameters<typeof fetch>) => {
  const response = await fetch(...call)
  raw = response.clone().text()
  return response
}

beforeAll(async () => {
  gateway = await startTestGateway({ env: { HEARTBEAT_MS: "50" } })
  const { key } = await Buyer.with(gateway, 1_000_000)
  openai = new OpenAI({ apiKey: key, baseURL: `${gateway.url}/v1`, maxRetries: 0, fetch: listening })
  anthropic = new Anthropic({ apiKey: key, baseURL: gateway.url, maxRetries: 0, fetch: listening })
})
afterAll(() => gateway[Symbol.asyncDispose]())

/** Silent before its first word, for many heartbeats, and between any two of them. */
const slow = (backend: Translated) =>
  gateway.model({
    format: backend,
    endpoints: ["chat", "messages", "responses"],
    script: `ttft=800&pace=80&text=${encodeURIComponent(answer)}`,
  })
const messages = [{ role: "user" as const, content: "Where is my train?" }]
const textOf = (message: Anthropic.Message) =>
  message.content.map((block) => block.type === "text" && block.text).join()

const ways = [
  [
    "openai's chat completions",
    "messages",
    async (model: string) => {
      const { choices } = await openai.chat.completions.stream({ model, messages }).finalChatCompletion()
      return choices[0]?.message.content
    },
  ],
  [
    "openai's responses",
    "chat",
    async (model: string) => (await openai.responses.stream({ model, input: "Hi" }).finalResponse()).output_text,
  ],
  [
    "anthropic's messages",
    "responses",
    async (model: string) =>
      textOf(await anthropic.messages.stream({ model, max_tokens: 100, messages }).finalMessage()),
  ],
] as const

describe.each(ways)("%s on a %s backend", (_, backend, ask) => {
  test("reads its answer over the heartbeats in its stream", async () => {
    expect(await ask(await slow(backend))).toBe(answer)
    const told = await raw
    expect(told).toStartWith(": heartbeat\n")
    expect(told.match(/^: heartbeat$/gm)?.length).toBeGreaterThan(3)
  })
})

test("openai's responses in one piece are read over the spaces before its body", async () => {
  const response = await openai.responses.create({ model: await slow("messages"), input: "Hi" })
  expect([response.status, response.output_text]).toEqual(["completed", answer])
  expect(await raw).toMatch(/^ {2,}\{/)
})

test("openai's responses in one piece tell a failure after the spaces in the answer's status", async () => {
  const script = "ttft=800&fault=status&status=400"
  const model = await gateway.model({ format: "chat", endpoints: ["chat", "responses"], script })
  const response = await openai.responses.create({ model, input: "Hi" })
  expect(response).toMatchObject({
    status: "failed",
    error: { code: "invalid_request", type: "invalid_request_error" },
  })
  expect(await raw).toMatch(/^ {2,}\{/)
})
