/**
 * Conversations that the vendors' own packages lead with one model and then go on with another, as coding agents let their
 * users do at any time: what the first one thought is in them, and the other one's backend knows nothing of it.
 */
import Anthropic from "@anthropic-ai/sdk"
import OpenAI from "openai"
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import type { JsonObject } from "../../src/language/json.ts"
import type { Translated } from "../../src/language/request.ts"
import { startTestGateway, type TestGateway } from "../gateway/harness.ts"

let gateway: TestGateway
let key: string
let anthropic: Anthropic
let openai: OpenAI

beforeAll(async () => {
  gateway = await startTestGateway()
  key = (await gateway.key(await gateway.person(1_000_000))).key
  anthropic = new Anthropic({ apiKey: key, baseURL: gateway.url, maxRetries: 0 })
  openai = new OpenAI({ apiKey: key, baseURL: `${gateway.url}/v1`, maxRetries: 0 })
})
afterAll(() => gateway[Symbol.asyncDispose]())

let names = 0
const model = (backend: Translated, script: string, name = "other", endpoint: Translated = "messages") =>
  gateway.model({ format: backend, endpoints: [endpoint], script, model: `${name}-${++names}` })
const reads = () => model("responses", "tool=find_train", "gpt", "responses")
/** What a model's backend was sent, call by call. */
const sent = (id: string): JsonObject[] =>
  gateway.simulator.calls.filter((call) => call.model.startsWith(`${id}?`)).map(({ body }) => body ?? {})

const question = { role: "user" as const, content: "Where is my train?" }
const thinking = { type: "enabled", budget_tokens: 1_024 } as const
const thinks = "think=3&text=At+nine."
const findTrain = {
  name: "find_train",
  input_schema: { type: "object" as const, properties: {} },
}

/** The conversation with an answer and the result of its call. */
const withResult = (content: Anthropic.ContentBlockParam[]) => {
  const call = content.find((block) => block.type === "tool_use")
  const result = { type: "tool_result" as const, tool_use_id: call?.id ?? "", content: "At nine." }
  return [question, { role: "assistant" as const, content }, { role: "user" as const, content: [result] }]
}
/** The loop of the format's own documentation: all of the output goes back, and the result of each call. */
const withOutput = (asked: OpenAI.Responses.ResponseInput, output: OpenAI.Responses.ResponseOutputItem[]) => [
  ...asked,
  ...output.filter((item) => item.type === "reasoning" || item.type === "function_call"),
  ...output
    .filter((item) => item.type === "function_call")
    .map((call) => ({ type: "function_call_output" as const, call_id: call.call_id, output: "nine" })),
]

describe("thinking that nobody signed", () => {
  test.each([false, true])("is left out where a vendor's model goes on, streamed: %p", async (stream) => {
    const [first, second] = [await model("chat", thinks), await model("messages", "text=Yes.", "claude-sonnet-4-5")]
    const ask = { model: first, max_tokens: 4_000, thinking, messages: [question] }
    const answer = stream
      ? await anthropic.messages.stream(ask).finalMessage()
      : await anthropic.messages.create({ ...ask, stream: false })
    expect(answer.content).toMatchObject([{ type: "thinking", signature: "" }, { type: "text" }])

    const turns = [question, { role: "assistant" as const, content: answer.content }, question]
    await anthropic.messages.create({ ...ask, model: second, messages: turns })
    expect(sent(second)).toMatchObject([
      { thinking, messages: [question, { content: [{ type: "text", text: "At nine." }] }, question] },
    ])
  })

  test("is left out in the midst of tools, and a model that would have had to think before them goes on without", async () => {
    const first = await model("chat", "think=3&tool=find_train")
    const [older, newer] = [
      await model("messages", "text=Yes.", "claude-sonnet-4-5"),
      await model("messages", "text=Yes.", "claude-opus-5"),
    ]
    const ask = { model: first, max_tokens: 4_000, thinking, messages: [question], tools: [findTrain] }
    const { content } = await anthropic.messages.create(ask)
    const call = content.find((block) => block.type === "tool_use")
    const result = { type: "tool_result" as const, tool_use_id: call?.id ?? "", content: "At nine." }
    const turns = [question, { role: "assistant" as const, content }, { role: "user" as const, content: [result] }]
    await anthropic.messages.create({ ...ask, model: older, messages: turns })
    await anthropic.messages.create({ ...ask, model: newer, thinking: { type: "adaptive" }, messages: turns })
    const calling = [question, { content: [{ type: "tool_use" }] }, { content: [result] }]
    expect(sent(older)).toMatchObject([{ thinking: { type: "disabled" }, messages: calling }])
    expect(sent(newer)).toMatchObject([{ thinking: { type: "adaptive" }, messages: calling }])
  })

  test("is kept for a backend that signs nothing itself", async () => {
    const id = await model("messages", "text=Yes.", "kimi")
    const thought = { type: "thinking" as const, thinking: "At nine?", signature: "" }
    const turns = [question, { role: "assistant" as const, content: [thought] }, question]
    await anthropic.messages.create({ model: id, max_tokens: 4_000, messages: turns })
    expect(sent(id)).toMatchObject([{ messages: [question, { content: [thought] }, question] }])
  })
})

/** A conversation with a call and its result, as a backend is sent it. */
const callOf = (id: string) => ({
  messages: [
    question,
    { content: [{ type: "text" }, { type: "tool_use", id, name: "find_train" }] },
    { content: [{ type: "tool_result", tool_use_id: id, content: "At nine." }] },
  ],
})

test("ids of calls that another model made are of the characters that a vendor's model takes, and only for it", async () => {
  const [vendors, others] = [
    await model("messages", "text=Yes.", "claude-opus-5"),
    await model("messages", "text=Yes.", "kimi"),
  ]
  // As Kimi names its calls.
  const id = "functions.find_train:0"
  const calling = { type: "tool_use" as const, id, name: "find_train", input: {} }
  const messages = withResult([{ type: "text" as const, text: "I look." }, calling])
  for (const each of [vendors, others]) await anthropic.messages.create({ model: each, max_tokens: 100, messages })
  expect(sent(vendors)).toMatchObject([callOf("functions_find_train_0")])
  expect(sent(others)).toMatchObject([callOf(id)])
})

describe("thinking that the client does not want to see", () => {
  const ask = { max_tokens: 4_000, thinking: { type: "adaptive", display: "omitted" } as const, tools: [findTrain] }
  const calls = "think=3&text=I+look.&tool=find_train"
  test.each([false, true])(
    "is carried to the chat backend that goes on after its call, streamed: %p",
    async (stream) => {
      const id = await model("chat", calls)
      const asked = { ...ask, model: id, messages: [question] }
      const answer = stream
        ? await anthropic.messages.stream(asked).finalMessage()
        : await anthropic.messages.create({ ...asked, stream: false })
      // A copy, for the runner writes what it matched into what it was given.
      expect(structuredClone(answer.content)).toMatchObject([
        { type: "text", text: "I look." },
        { type: "thinking", thinking: "", signature: expect.stringMatching(/^loket1\./) },
        { type: "tool_use" },
      ])
      await anthropic.messages.create({ ...asked, stream: false, messages: withResult(answer.content) })
      const [, again] = sent(id)
      expect(again).toMatchObject({
        messages: [
          question,
          { role: "assistant", content: "I look.", reasoning_content: expect.stringMatching(/^\w+( \w+)* ?$/) },
          { role: "tool" },
        ],
      })
    },
  )

  test("does not reach a vendor's model, and reaches another backend of the format as what can be read", async () => {
    const [first, vendors, others] = [
      await model("chat", calls),
      await model("messages", "text=Yes.", "claude-opus-5"),
      await model("messages", "text=Yes.", "kimi"),
    ]
    const { content } = await anthropic.messages.create({ ...ask, model: first, messages: [question] })
    const messages = withResult(content)
    await anthropic.messages.create({ ...ask, model: vendors, messages })
    await anthropic.messages.create({ ...ask, model: others, messages })
    const said = [{ type: "text", text: "I look." }]
    const thought = { type: "thinking", thinking: expect.stringMatching(/\w/), signature: "" }
    expect(sent(vendors)).toMatchObject([{ messages: [question, { content: [...said, { type: "tool_use" }] }, {}] }])
    expect(sent(others)).toMatchObject([
      { messages: [question, { content: [...said, thought, { type: "tool_use" }] }, {}] },
    ])
  })

  test("stays away where no call needs it: the text comes first", async () => {
    const id = await model("chat", thinks)
    const { content } = await anthropic.messages.create({ ...ask, model: id, messages: [question] })
    expect(content).toMatchObject([{ type: "text", text: "At nine." }])
  })
})

describe("reasoning that a responses backend could not read", () => {
  const parameters = { type: "object", properties: {} }
  const tools = [{ type: "function" as const, name: "find_train", parameters, strict: false }]

  test.each(["chat", "messages"] as const)("is left out where it came of a %s backend", async (backend) => {
    const [first, second] = [await model(backend, "think=3&tool=find_train", "other", "responses"), await reads()]
    const begun = await openai.responses.create({
      model: first,
      input: [question],
      tools,
      reasoning: { effort: "low" },
    })
    expect(begun.output.map(({ type }) => type)).toEqual(["reasoning", "function_call"])
    await openai.responses.create({ model: second, input: withOutput([question], begun.output), tools })
    expect(sent(second)).toEqual([
      expect.objectContaining({
        input: [
          question,
          {
            type: "function_call",
            call_id: expect.any(String),
            name: "find_train",
            arguments: "{}",
            status: "completed",
          },
          { type: "function_call_output", call_id: expect.any(String), output: "nine" },
        ],
      }),
    ])
  })

  test("is left out where its seal was not asked for, since the backend keeps none that it could look up", async () => {
    const id = await reads()
    const { output } = await openai.responses.create({ model: id, input: [question], tools })
    const summary = {
      type: "reasoning" as const,
      id: "rs_1",
      summary: [{ type: "summary_text" as const, text: "Hm." }],
    }
    await openai.responses.create({ model: id, input: withOutput([question], [summary, ...output]), tools })
    const [, again] = sent(id)
    expect(again?.["input"]).toMatchObject([question, { type: "function_call" }, { type: "function_call_output" }])
  })

  test("is kept where the backend sealed it, or where it says what it thought", async () => {
    const id = await reads()
    const sealed = { type: "reasoning" as const, id: "rs_1", summary: [], encrypted_content: "gAAA" }
    const open = {
      type: "reasoning" as const,
      id: "rs_2",
      summary: [],
      content: [{ type: "reasoning_text" as const, text: "Hm." }],
    }
    const input = [question, sealed, open, { id: "msg_1", role: "assistant" as const, content: "At nine." }, question]
    await openai.responses.create({ model: id, input })
    expect(sent(id)).toMatchObject([{ input }])
  })
})
