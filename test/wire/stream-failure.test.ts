/** The reports as the formats' own SDKs take them: what matters is that a failed stream is never read as an answer. */
import { describe, expect, test } from "bun:test"
import Anthropic, { APIError as MessagesError } from "@anthropic-ai/sdk"
import OpenAI, { APIError } from "openai"
import { Failure } from "../../src/failure/failure.ts"
import { type FailureCode, failureCodes } from "../../src/failure/table.ts"
import { streamFailure as chat } from "../../src/wire/shared/chunks.ts"
import { streamFailure as messages } from "../../src/wire/messages/events-out.ts"
import { failedReply, streamFailure as responses } from "../../src/wire/responses/events-out.ts"
import { bytesOf, fixture, parse, replay, sent, view } from "./replay.ts"

const context = { requestId: "req_1", model: "catalogue/model", started: false }
const down = new Failure("dependency.upstream_unavailable")
const events = (bytes: string) => parse([bytesOf(bytes)])
const data = (bytes: string) => events(bytes).map(({ data }) => (data === "[DONE]" ? data : JSON.parse(data)))

const told: [FailureCode, string, string, string][] = [
  ["dependency.upstream_unavailable", "upstream_unavailable", "server_error", "api_error"],
  ["gateway.capacity", "upstream_capacity", "server_error", "overloaded_error"],
  ["upstream.context_length_exceeded", "context_length_exceeded", "invalid_request_error", "invalid_request_error"],
  ["upstream.rate_limited", "rate_limited", "rate_limit_error", "rate_limit_error"],
  ["upstream.invalid_request", "invalid_request", "invalid_request_error", "invalid_request_error"],
  ["upstream.unsupported_feature", "unsupported_feature", "invalid_request_error", "invalid_request_error"],
  ["internal.error", "internal", "server_error", "api_error"],
]
test.each(told)("%s has its short code and type in each format", (failureCode, code, type, messagesType) => {
  const failure = new Failure(failureCode)
  const message = expect.stringContaining(failure.message)
  expect(data(chat(failure, context))).toEqual([{ error: { message, type, code, request_id: "req_1" } }, "[DONE]"])
  expect(events(messages(failure, context)).map(({ event }) => event)).toEqual(["error"])
  expect(data(messages(failure, context))).toEqual([
    { type: "error", error: { type: messagesType, message }, request_id: "req_1" },
  ])
  expect(data(responses(failure, context))[1]).toMatchObject({
    type: "response.failed",
    response: { status: "failed", error: { code, message, type, param: null } },
  })
})

test("a sharper short code of the failure wins", () => {
  const late = new Failure("dependency.upstream_unavailable", { stream: "upstream_timeout" })
  expect(data(chat(late, context))[0]).toMatchObject({ error: { code: "upstream_timeout" } })
})

test("guidance is appended to the message, because a stream has no hint", () => {
  const message = "prompt is too long: 9 tokens > 8 maximum"
  const failure = new Failure("upstream.context_length_exceeded", { message, hint: "Shorten it." })
  expect(data(chat(failure, context))[0]).toMatchObject({ error: { message: `${message}. Shorten it.` } })
  expect(data(messages(failure, context))[0]).toMatchObject({ error: { message: `${message}. Shorten it.` } })
})

test("no report is broken by a line end in a message", () => {
  const failure = new Failure("internal.error", { message: "a\nb" })
  for (const report of [chat, messages, responses]) expect(() => data(report(failure, context))).not.toThrow()
})

describe("a failed responses stream", () => {
  test("has all that the type of OpenAI's package does not leave open", () => {
    const required = {
      error: expect.anything(),
      incomplete_details: null,
      instructions: null,
      metadata: {},
      object: "response",
      output: [],
      parallel_tool_calls: true,
      temperature: null,
      tool_choice: "auto",
      tools: [],
      top_p: null,
    }
    const [, failed] = data(responses(down, context))
    expect(failed).toMatchObject({ response: required })
    expect(failedReply(down, context)).toMatchObject(required)
  })
  test("that had not begun begins first", () => {
    const [created, failed] = data(responses(down, { ...context, nowMs: 5_999 }))
    expect(created).toMatchObject({
      type: "response.created",
      sequence_number: 0,
      response: { id: "resp_1", created_at: 5, model: "catalogue/model", status: "in_progress", error: null },
    })
    expect(failed).toMatchObject({ type: "response.failed", sequence_number: 1, response: { id: "resp_1" } })
  })

  test("that had begun keeps its identity and its numbers", async () => {
    const bytes = await fixture("responses/text.sse")
    const { reader } = replay("responses", [bytes.subarray(0, 2000)])
    const position = reader.position()
    const reports = data(responses(down, { ...context, started: true, position }))
    expect(reports).toHaveLength(1)
    expect(reports[0]).toMatchObject({
      sequence_number: position?.sequence,
      response: { id: "resp_67ccd3a9da748190", created_at: 1_763_600_001 },
    })
  })

  test("that was not streamed is the same object, under 200", () => {
    expect(failedReply(down, context)).toMatchObject({
      object: "response",
      status: "failed",
      output: [],
      error: { code: "upstream_unavailable", type: "server_error", param: null },
    })
  })
})

const answering = (body: string) => ({
  apiKey: "key",
  baseURL: "http://127.0.0.1",
  maxRetries: 0,
  fetch: async () => new Response(body, { headers: { "content-type": "text/event-stream" } }),
})
const input = { model: "m", stream: true } as const

/** Drains a stream; resolves to what it threw, or to undefined when the client took it for a whole answer. */
const thrownBy = async (stream: Promise<AsyncIterable<unknown>>): Promise<unknown> => {
  try {
    for await (const _ of await stream);
    return undefined
  } catch (error) {
    return error
  }
}

describe.each(failureCodes)("the SDKs are told of %s", (code) => {
  const failure = new Failure(code)

  test("in a chat stream", async () => {
    const client = new OpenAI(answering(`: heartbeat\n${chat(failure, context)}`))
    const thrown = await thrownBy(client.chat.completions.create({ ...input, messages: [] }))
    expect(thrown).toBeInstanceOf(APIError)
    expect(String(thrown)).toContain(failure.message)
  })

  test("in a messages stream", async () => {
    const client = new Anthropic(answering(`: heartbeat\n${messages(failure, context)}`))
    const thrown = await thrownBy(client.messages.create({ ...input, max_tokens: 1, messages: [] }))
    expect(thrown).toBeInstanceOf(MessagesError)
    expect(String(thrown)).toContain(failure.message)
  })

  test("in a responses stream", async () => {
    const client = new OpenAI(answering(`: heartbeat\n${responses(failure, context)}`))
    const seen = []
    for await (const event of await client.responses.create({ ...input, input: "" })) seen.push(event)
    expect(seen).toMatchObject([
      { type: "response.created" },
      {
        type: "response.failed",
        response: { status: "failed", error: { message: expect.stringContaining(failure.message) } },
      },
    ])
  })
})

describe("the SDKs read what the readers hand on", () => {
  test("a chat stream with parallel tools", async () => {
    const { steps } = replay("chat", [await fixture("chat/parallel-tools.sse")])
    const runner = new OpenAI(answering(sent(steps))).chat.completions.stream({ model: "m", messages: [] })
    const { model, choices } = await runner.finalChatCompletion()
    expect(model).toBe(view.model)
    expect(choices[0]?.message.tool_calls?.map((call) => call.type === "function" && call.function.arguments)).toEqual([
      '{"city":"Bandung"}',
      '{"tz":"Asia/Jakarta"}',
    ])
  })

  test("a messages stream with thinking", async () => {
    const { steps } = replay("messages", [await fixture("messages/thinking-cache.sse")])
    const client = new Anthropic(answering(sent(steps)))
    const message = await client.messages.stream({ model: "m", max_tokens: 1, messages: [] }).finalMessage()
    expect(message).toMatchObject({
      model: view.model,
      content: [{ thinking: "27 times 453:" }, { text: "12,231" }],
      usage: { input_tokens: 12, output_tokens: 210 },
    })
  })

  test("a responses stream with reasoning and tools", async () => {
    const { steps } = replay("responses", [await fixture("responses/reasoning-tools.sse")])
    const final = await new OpenAI(answering(sent(steps))).responses.stream({ model: "m", input: "" }).finalResponse()
    expect(final).toMatchObject({ model: view.model, output: [{ name: "get_weather" }, { name: "get_time" }] })
  })
})
