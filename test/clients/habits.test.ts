/**
 * Habits of some chat backends that are no faults, seen by the vendors' own packages: ids of calls that begin anew in each
 * answer, models that do not take `max_tokens`, and metadata that is taken only with what is stored.
 */
import { createAnthropic } from "@ai-sdk/anthropic"
import { createOpenAI } from "@ai-sdk/openai"
import Anthropic from "@anthropic-ai/sdk"
import { betaTool } from "@anthropic-ai/sdk/helpers/beta/json-schema"
import { generateText, isStepCount, streamText, tool } from "ai"
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import OpenAI, { BadRequestError } from "openai"
import { z } from "zod"
import { isObject, type JsonObject } from "../../src/language/json.ts"
import { startTestGateway, type TestGateway } from "../gateway/harness.ts"
import { Buyer, thrownBy } from "./buyer.ts"

let gateway: TestGateway
let buyer: Buyer
let openai: OpenAI
let anthropic: Anthropic

beforeAll(async () => {
  gateway = await startTestGateway()
  buyer = await Buyer.with(gateway, 1_000_000)
  openai = new OpenAI({ apiKey: buyer.key, baseURL: `${gateway.url}/v1`, maxRetries: 0 })
  anthropic = new Anthropic({ apiKey: buyer.key, baseURL: gateway.url, maxRetries: 0 })
})
afterAll(() => gateway[Symbol.asyncDispose]())

const chatModel = (script: string, strip: string[] = []) =>
  gateway.model({ format: "chat", endpoints: ["chat", "messages", "responses"], strip, script })
const question = "Where is my train?"
const messages = [{ role: "user" as const, content: question }]
/** The bodies that a model's backend was sent, oldest first. */
const sent = (id: string) =>
  gateway.simulator.calls.filter((call) => call.model.startsWith(`${id}?`)).map((call) => call.body ?? {})
const objects = (value: unknown): JsonObject[] => (Array.isArray(value) ? value.filter(isObject) : [])

const settings = () => ({ apiKey: buyer.key, baseURL: `${gateway.url}/v1` })

/** Four rounds of two calls each, which the backend calls `call_0` and `call_1` every time; then the answer. */
const fourRounds = "tool=find_train&tools=2&rounds=4&ids=repeated"

describe("ids that begin anew in each answer", () => {
  const ran: unknown[] = []
  const description = "Finds a train."
  const execute = () => ran.push("once")
  const tools = { find_train: tool({ description, inputSchema: z.object({}), execute }) }
  const providerOptions = { openai: { store: false } }
  const loop = { prompt: question, tools, maxOutputTokens: 1000, stopWhen: isStepCount(9), providerOptions }
  const runner = (id: string, stream: boolean) => {
    const inputSchema = { type: "object" as const, properties: {} }
    const tools = [betaTool({ name: "find_train", description, inputSchema, run: () => String(execute()) })]
    const asked = { model: id, max_tokens: 1000, messages, tools, stream, thread: false as const }
    return anthropic.beta.messages.toolRunner(asked).runUntilDone()
  }

  test.each([
    ["anthropic's tool runner", (id: string) => runner(id, false)],
    ["anthropic's tool runner, streamed", (id: string) => runner(id, true)],
    ["generateText on messages", (id: string) => generateText({ ...loop, model: createAnthropic(settings())(id) })],
    ["streamText on messages", (id: string) => streamText({ ...loop, model: createAnthropic(settings())(id) }).text],
    ["generateText on responses", (id: string) => generateText({ ...loop, model: createOpenAI(settings())(id) })],
    ["streamText on responses", (id: string) => streamText({ ...loop, model: createOpenAI(settings())(id) }).text],
  ])("%s gets an id of its own for each call, and ends with the answer", async (_, run) => {
    ran.length = 0
    const id = await chatModel(fourRounds)
    await run(id)
    expect(ran).toHaveLength(8)
    const bodies = sent(id)
    expect(bodies).toHaveLength(5)
    const turns = objects(bodies.at(-1)?.["messages"])
    const calls = turns.flatMap((turn) => objects(turn["tool_calls"])).map((call) => call["id"])
    expect(new Set(calls).size).toBe(8)
    // The results come to the backend under the same ids, in the same order.
    expect(turns.flatMap((turn) => turn["tool_call_id"] ?? [])).toEqual(calls)
  })
})

describe("a model that takes no `max_tokens`, with that in its `strip`,", () => {
  test.each([
    ["chat", (model: string) => openai.chat.completions.create({ model, messages, max_tokens: 50 })],
    ["chat without a limit", (model: string) => openai.chat.completions.create({ model, messages })],
    ["a chat stream", (model: string) => openai.chat.completions.stream({ model, messages }).finalChatCompletion()],
    ["messages", (model: string) => anthropic.messages.create({ model, messages, max_tokens: 50 })],
    [
      "a messages stream",
      (model: string) => anthropic.messages.stream({ model, messages, max_tokens: 50 }).finalMessage(),
    ],
    ["responses", (model: string) => openai.responses.create({ model, input: question, max_output_tokens: 50 })],
  ])("answers %s", async (_, ask) => {
    const id = await chatModel("refuses=max_tokens", ["max_tokens"])
    expect(JSON.stringify(await ask(id))).toContain("Hello from the simulator.")
    expect(sent(id)).toMatchObject([{ max_completion_tokens: expect.any(Number) }])
  })

  test("refuses the call where it is not in its `strip`, in words that name nobody's backend", async () => {
    const error = await thrownBy(
      openai.chat.completions.create({ model: await chatModel("refuses=max_tokens"), messages }),
    )
    expect(error).toBeInstanceOf(BadRequestError)
    expect((error as BadRequestError).headers.get("x-error-code")).toBe("upstream.unsupported_feature")
  })
})

describe("metadata, which OpenAI takes only with what is stored,", () => {
  const user_id = "user_a_account__session_b"

  test("is not made of a messages client's `user_id`: the backend gets a name that is opaque", async () => {
    const id = await chatModel("refuses=metadata")
    const asked = { model: id, max_tokens: 50, messages, metadata: { user_id } }
    expect((await anthropic.messages.create(asked)).stop_reason).toBe("end_turn")
    const [body] = sent(id)
    expect(body).not.toHaveProperty("metadata")
    expect(body?.["safety_identifier"]).toMatch(/^[0-9a-f]{32}-[0-9a-f]{31}$/)
  })

  test("of a responses client stays here, and is in its answer", async () => {
    const id = await chatModel("refuses=metadata")
    const answer = await openai.responses.create({ model: id, input: question, metadata: { order: "7" } })
    expect(answer.metadata).toEqual({ order: "7" })
  })

  test("of a chat client is left out and named where it is in the model's `strip`, even with a wish to store", async () => {
    const id = await chatModel("refuses=metadata", ["metadata"])
    const asked = { model: id, messages, metadata: { order: "7" }, store: true }
    const { data, response } = await openai.chat.completions.create(asked).withResponse()
    expect(data.choices[0]?.finish_reason).toBe("stop")
    expect(response.headers.get("x-dropped-fields")).toBe("metadata")
    expect(sent(id)).toMatchObject([{ store: false }])
  })

  test("of a chat client travels elsewhere, for many backends take it without storing", async () => {
    const id = await chatModel("text=yes")
    await openai.chat.completions.create({ model: id, messages, metadata: { order: "7" } })
    expect(sent(id)).toMatchObject([{ metadata: { order: "7" } }])
  })
})
