/**
 * The vendors' own packages on models whose backend speaks another format: their stream helpers, tool runners and
 * readers of structured output are the strictest readers there are, and none of them knows that there is a translation.
 */
import Anthropic, { APIError as AnthropicError } from "@anthropic-ai/sdk"
import { betaTool } from "@anthropic-ai/sdk/helpers/beta/json-schema"
import { jsonSchemaOutputFormat } from "@anthropic-ai/sdk/helpers/json-schema"
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import OpenAI, { APIError as OpenAIError, BadRequestError } from "openai"
import type { RunnableToolFunctionWithParse } from "openai/lib/RunnableFunction"
import type { Translated } from "../../src/language/request.ts"
import { startTestGateway, type TestGateway } from "../gateway/harness.ts"
import { answer, Buyer, script, thrownBy } from "./buyer.ts"

let gateway: TestGateway
let buyer: Buyer
let openai: OpenAI
let anthropic: Anthropic
let lastRequestId: string | null = null
/** The network as it is, with an ear for the request's id, which not every helper hands on. */
const listening = async (...call: Parameters<typeof fetch>) => {
  const response = await fetch(...call)
  lastRequestId = response.headers.get("x-request-id")
  return response
}
const idOf = () => lastRequestId

beforeAll(async () => {
  gateway = await startTestGateway()
  buyer = await Buyer.with(gateway, 1_000_000)
  openai = new OpenAI({ apiKey: buyer.key, baseURL: `${gateway.url}/v1`, maxRetries: 0, fetch: listening })
  anthropic = new Anthropic({ apiKey: buyer.key, baseURL: gateway.url, maxRetries: 0, fetch: listening })
})
afterAll(() => gateway[Symbol.asyncDispose]())

/** A model of a backend's format that is served in all of them. */
const model = (backend: Translated, script: string) =>
  gateway.model({
    format: backend,
    endpoints: ["chat", "messages", "responses"],
    features: ["structured_outputs"],
    script,
  })

const question = "Where is my train?"
const messages = [{ role: "user" as const, content: question }]
const args = { from: "Gambir" }
const parameters = { type: "object" as const, properties: { from: { type: "string" as const } }, required: ["from"] }
const calling = `tool=find_train&args=${encodeURIComponent(JSON.stringify(args))}`
const platform = { platform: 9 }
const platformSchema = {
  type: "object",
  properties: { platform: { type: "integer" } },
  required: ["platform"],
  additionalProperties: false,
} as const
const telling = `text=${encodeURIComponent(JSON.stringify(platform))}`
const broken = "text=one+two+three+four&fault=error-event&after=2"
const thanks = "Thank you, the tool's result has arrived and all is well."
/** The calls that a model's backend has had. */
const callsOf = (id: string) => gateway.simulator.calls.filter((call) => call.model.startsWith(`${id}?`))

describe.each(["messages", "responses"] as const)("openai's chat completions on a %s backend", (backend) => {
  const tools = [{ type: "function" as const, function: { name: "find_train", parameters } }]

  test("an answer in one piece and the stream helper's say the same, at the same price", async () => {
    const id = await model(backend, script)
    const ask = { model: id, messages }
    const whole = await buyer.buys(() => openai.chat.completions.create(ask), idOf)
    const asked = { ...ask, stream_options: { include_usage: true } }
    const final = await buyer.buys(() => openai.chat.completions.stream(asked).finalChatCompletion(), idOf)
    expect(whole.choices[0]).toMatchObject({ finish_reason: "stop", message: { role: "assistant", content: answer } })
    expect(whole.usage).toMatchObject({
      prompt_tokens: 160,
      completion_tokens: 7,
      total_tokens: 167,
      prompt_tokens_details: { cached_tokens: 40 },
    })
    expect(final.choices[0]?.message.content).toBe(answer)
    expect(final.choices[0]?.finish_reason).toBe("stop")
    expect(final.usage).toEqual(whole.usage)
    expect([whole.model, final.model]).toEqual([id, id])
  })

  test.each([false, true])("its tool runner runs the tools until there is an answer, streamed: %p", async (stream) => {
    const id = await model(backend, `${calling}&tools=2&rounds=2`)
    const ran: unknown[] = []
    const runnable: RunnableToolFunctionWithParse<object> = {
      type: "function",
      function: {
        name: "find_train",
        description: "Finds a train.",
        parameters,
        parse: (given) => JSON.parse(given),
        function: (given) => {
          ran.push(given)
          return "platform nine"
        },
      },
    }
    const body = { model: id, messages, tools: [runnable] }
    const runner = stream
      ? openai.chat.completions.runTools({ ...body, stream: true })
      : openai.chat.completions.runTools(body)
    expect(await runner.finalContent()).toBe(thanks)
    // Two rounds of two calls each, then the answer.
    expect(ran).toEqual([args, args, args, args])
    expect(callsOf(id)).toHaveLength(3)
  })

  test("a conversation of several turns keeps its calls and results together", async () => {
    const id = await model(backend, `${calling}&tools=2`)
    const asked = await openai.chat.completions.stream({ model: id, messages, tools }).finalChatCompletion()
    const { message, finish_reason } = asked.choices[0]!
    expect(finish_reason).toBe("tool_calls")
    const calls = message.tool_calls ?? []
    expect(new Set(calls.map((call) => call.id)).size).toBe(2)
    const results = calls.map((call) => ({ role: "tool" as const, tool_call_id: call.id, content: "nine" }))
    const turns = [...messages, message, ...results]
    const second = await openai.chat.completions.create({ model: id, messages: turns, tools, tool_choice: "none" })
    expect(second.choices[0]).toMatchObject({ finish_reason: "stop", message: { content: thanks } })
    const third = await openai.chat.completions.create({
      model: id,
      messages: [...turns, second.choices[0]!.message, { role: "user", content: "And mine?" }],
    })
    expect(third.choices[0]?.message.content).toContain("And mine?")
  })

  test("a failure after content is thrown, with its short code", async () => {
    const stream = await openai.chat.completions.create({ model: await model(backend, broken), messages, stream: true })
    let text = ""
    const error = await thrownBy(
      (async () => {
        for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? ""
      })(),
    )
    expect(text).toStartWith("one")
    expect(error).toBeInstanceOf(OpenAIError)
    expect((error as OpenAIError).code).toMatch(/^upstream_/)
  })

  test("a limit ends the answer as `length`", async () => {
    const id = await model(backend, "output=100")
    const cut = await openai.chat.completions.create({ model: id, messages, max_tokens: 20 })
    expect(cut.choices[0]?.finish_reason).toBe("length")
    expect(cut.usage?.completion_tokens).toBe(20)
  })
})

const response_format = {
  type: "json_schema" as const,
  json_schema: { name: "platform", strict: true, schema: { ...platformSchema } },
}

test("openai's structured output on a responses backend is what the schema says", async () => {
  const id = await model("responses", telling)
  const { choices } = await openai.chat.completions.parse({ model: id, messages, response_format })
  expect(JSON.parse(choices[0]?.message.content ?? "")).toEqual(platform)
  const streamed = await openai.chat.completions.stream({ model: id, messages, response_format }).finalChatCompletion()
  expect(streamed.choices[0]?.message.parsed ?? JSON.parse(streamed.choices[0]?.message.content ?? "")).toEqual(
    platform,
  )
})

test("openai's structured output on a messages backend is refused, and not retried", async () => {
  const id = await model("messages", telling)
  const error = await thrownBy(openai.chat.completions.parse({ model: id, messages, response_format }))
  expect(error).toBeInstanceOf(BadRequestError)
  expect((error as OpenAIError).headers?.get("x-error-code")).toBe("request.unsupported_feature")
  expect(callsOf(id)).toEqual([])
})

describe.each(["chat", "messages"] as const)("openai's responses on a %s backend", (backend) => {
  const tools = [{ type: "function" as const, name: "find_train", parameters, strict: false }]

  test("an answer in one piece and the stream helper's say the same, at the same price", async () => {
    const id = await model(backend, script)
    const ask = { model: id, input: question }
    const whole = await buyer.buys(() => openai.responses.create(ask), idOf)
    const final = await buyer.buys(() => openai.responses.stream(ask).finalResponse(), idOf)
    expect([whole.status, whole.output_text, final.status, final.output_text]).toEqual([
      "completed",
      answer,
      "completed",
      answer,
    ])
    expect(whole.usage).toMatchObject({
      input_tokens: 160,
      input_tokens_details: { cached_tokens: 40 },
      output_tokens: 7,
      total_tokens: 167,
    })
    expect(final.usage).toEqual(whole.usage as NonNullable<typeof whole.usage>)
  })

  test("calls and results go back and forth, with the thinking before them", async () => {
    const id = await model(backend, `${calling}&tools=2&think=3`)
    const asked = await openai.responses
      .stream({ model: id, input: question, tools, reasoning: { effort: "medium", summary: "auto" } })
      .finalResponse()
    const calls = asked.output.filter((item) => item.type === "function_call")
    expect(calls.map(({ arguments: given }) => JSON.parse(given))).toEqual([args, args])
    expect(asked.output[0]?.type).toBe("reasoning")
    const results = calls.map(({ call_id }) => ({ type: "function_call_output" as const, call_id, output: "nine" }))
    const input = [
      { role: "user" as const, content: question },
      ...(asked.output as OpenAI.Responses.ResponseInputItem[]),
      ...results,
    ]
    const second = await openai.responses.create({ model: id, input, tools })
    expect(second.output_text).toBe(thanks)
  })

  test("a failure after content ends the stream as failed, with its code", async () => {
    const events: string[] = []
    let code: string | undefined
    for await (const event of await openai.responses.create({
      model: await model(backend, broken),
      input: question,
      stream: true,
    })) {
      events.push(event.type)
      if (event.type === "response.failed") code = event.response.error?.code
    }
    expect(events.at(-1)).toBe("response.failed")
    expect(events).toContain("response.output_text.delta")
    expect(code).toMatch(/^upstream_/)
  })

  test("an answer cut by its limit is incomplete, and says why", async () => {
    const cut = await openai.responses.create({
      model: await model(backend, "output=100"),
      input: question,
      max_output_tokens: 20,
    })
    expect([cut.status, cut.incomplete_details?.reason]).toEqual(["incomplete", "max_output_tokens"])
  })

  test("a call cut by its limit is incomplete, for its arguments are not all that the model wrote", async () => {
    const asked = { model: await model(backend, `${calling}&tools=2`), input: question, tools, max_output_tokens: 4 }
    const whole = await openai.responses.create(asked)
    const final = await openai.responses.stream(asked).finalResponse()
    const calls = [
      { type: "function_call", status: "completed" },
      { type: "function_call", status: "incomplete" },
    ]
    expect([whole.output, final.output]).toMatchObject([calls, calls])
  })
})

test("openai's parsed responses on a chat backend are what the schema says", async () => {
  const id = await model("chat", telling)
  const text = {
    format: { type: "json_schema" as const, name: "platform", strict: true, schema: { ...platformSchema } },
  }
  const parsed = await openai.responses.parse({ model: id, input: question, text })
  expect(parsed.output_parsed).toEqual(platform as never)
})

describe.each(["chat", "responses"] as const)("anthropic's messages on a %s backend", (backend) => {
  const ask = { max_tokens: 1000, messages }
  const tools = [{ name: "find_train", input_schema: parameters }]

  test("an answer in one piece and the stream helper's say the same, at the same price", async () => {
    const id = await model(backend, script)
    const whole = await buyer.buys(() => anthropic.messages.create({ model: id, ...ask }), idOf)
    const final = await buyer.buys(() => anthropic.messages.stream({ model: id, ...ask }).finalMessage(), idOf)
    const { id: _, ...said } = whole
    const { id: __, parsed_output, ...accumulated } = final
    expect(parsed_output).toBeNull()
    expect(accumulated).toEqual(said as never)
    expect(whole).toMatchObject({
      content: [{ type: "text", text: answer }],
      stop_reason: "end_turn",
      model: id,
      usage: { input_tokens: 100, cache_read_input_tokens: 40, cache_creation_input_tokens: 20, output_tokens: 7 },
    })
  })

  test.each([false, true])("its tool runner runs the tools until there is an answer, streamed: %p", async (stream) => {
    const id = await model(backend, `${calling}&tools=2&rounds=2`)
    const ran: unknown[] = []
    const tool = betaTool({
      name: "find_train",
      description: "Finds a train.",
      inputSchema: parameters,
      run: (given) => {
        ran.push(given)
        return "platform nine"
      },
    })
    const runner = anthropic.beta.messages.toolRunner({ model: id, ...ask, tools: [tool], stream, thread: false })
    const last = await runner.runUntilDone()
    expect(last.content).toMatchObject([{ type: "text", text: thanks }])
    expect(last.stop_reason).toBe("end_turn")
    expect(ran).toEqual([args, args, args, args])
    expect(callsOf(id)).toHaveLength(3)
  })

  test("thinking is shown to whoever asked for it, and a conversation with it goes on", async () => {
    const id = await model(backend, `${calling}&think=3`)
    const thinking = { type: "adaptive" as const }
    const first = await anthropic.messages.stream({ model: id, ...ask, tools, thinking }).finalMessage()
    expect(first.content.map(({ type }) => type)).toEqual(["thinking", "tool_use"])
    expect(first.stop_reason).toBe("tool_use")
    const results = first.content.flatMap((block) =>
      block.type === "tool_use" ? [{ type: "tool_result" as const, tool_use_id: block.id, content: "nine" }] : [],
    )
    const turns = [
      ...messages,
      { role: "assistant" as const, content: first.content },
      { role: "user" as const, content: results },
    ]
    const second = await anthropic.messages.create({ model: id, ...ask, messages: turns, tools })
    expect(second.content.at(-1)).toMatchObject({ type: "text", text: thanks })
  })

  test("its parser of structured output reads what the schema says", async () => {
    const id = await model(backend, telling)
    const output_config = { format: jsonSchemaOutputFormat(platformSchema) }
    const { parsed_output } = await anthropic.messages.parse({ model: id, ...ask, output_config })
    expect(parsed_output).toEqual(platform)
    const streamed = await anthropic.messages.stream({ model: id, ...ask, output_config }).finalMessage()
    expect(streamed.parsed_output).toEqual(platform)
  })

  test("a failure after content is thrown as an error of the format", async () => {
    const stream = anthropic.messages.stream({ model: await model(backend, broken), ...ask })
    let text = ""
    stream.on("text", (delta) => (text += delta))
    const error = await thrownBy(stream.finalMessage())
    expect(text).toStartWith("one")
    expect(error).toBeInstanceOf(AnthropicError)
    expect((error as AnthropicError).error).toMatchObject({
      type: "error",
      error: { type: expect.stringMatching(/_error$/) },
      request_id: expect.stringMatching(/^req_/),
    })
  })
})

test("anthropic's tool runner holds its conversation at the backend unless told not to, and the refusal says how", async () => {
  const id = await model("chat", calling)
  const tools = [betaTool({ name: "find_train", description: "Finds.", inputSchema: parameters, run: () => "nine" })]
  const error = await thrownBy(anthropic.beta.messages.toolRunner({ model: id, max_tokens: 100, messages, tools }))
  expect(error).toBeInstanceOf(AnthropicError)
  expect((error as AnthropicError).error).toMatchObject({
    code: "request.unsupported_feature",
    hint: expect.stringContaining("thread: false"),
  })
  expect(callsOf(id)).toEqual([])
})
