/**
 * The vendors' own SDKs read the simulator, without a gateway between them: what they accept is the true wire.
 */
import Anthropic from "@anthropic-ai/sdk"
import { describe, expect, test } from "bun:test"
import OpenAI from "openai"
import { at, simulatorForFile } from "./ask.ts"

const simulator = simulatorForFile()
const openai = new OpenAI({ apiKey: "sk-sim", baseURL: `${simulator.url}/v1`, maxRetries: 0 })
const anthropic = new Anthropic({ apiKey: "sk-sim", baseURL: simulator.url, maxRetries: 0 })

const messages = [{ role: "user" as const, content: "Where is my train?" }]
const heard = "Hello from the simulator. You said: Where is my train?"
const call = `tool=find_train&args=${encodeURIComponent('{"from":"Gambir","to":"Bandung"}')}`
const args = { from: "Gambir", to: "Bandung" }
const parameters = { type: "object" as const, properties: { from: { type: "string" } } }

describe("chat completions", () => {
  const tools = [{ type: "function" as const, function: { name: "find_train", parameters } }]

  test("an answer in one piece is read with its usage", async () => {
    const reply = await openai.chat.completions.create({ model: "sim", messages })
    expect(reply.choices[0]?.message.content).toBe(heard)
    expect(reply.choices[0]?.finish_reason).toBe("stop")
    expect(reply.usage?.total_tokens).toBe((reply.usage?.prompt_tokens ?? 0) + 10)
  })

  test("a stream adds up to the same answer and ends with the usage that was asked for", async () => {
    const stream = openai.chat.completions.stream({ model: "sim", messages, stream_options: { include_usage: true } })
    const reply = await stream.finalChatCompletion()
    expect(reply.choices[0]?.message.content).toBe(heard)
    expect(reply.usage?.completion_tokens).toBe(10)
  })

  test("parallel tool calls in a stream come whole", async () => {
    const model = `sim?${call}&tools=2`
    const reply = await openai.chat.completions.stream({ model, messages, tools }).finalChatCompletion()
    const calls = reply.choices[0]?.message.tool_calls ?? []
    expect(calls.map((one) => JSON.parse(String(at(one, "function", "arguments"))))).toEqual([args, args])
    expect(new Set(calls.map((one) => one.id)).size).toBe(2)
    expect(reply.choices[0]?.finish_reason).toBe("tool_calls")
  })

  test("a tool call in one piece, answered, is followed by text", async () => {
    const model = `sim?${call}`
    const first = await openai.chat.completions.create({ model, messages, tools })
    const asked = first.choices[0]!.message
    const result = { role: "tool" as const, tool_call_id: asked.tool_calls![0]!.id, content: "at nine" }
    const second = await openai.chat.completions.create({ model, messages: [...messages, asked, result], tools })
    expect(second.choices[0]?.message.content).toContain("result has arrived")
  })

  test("an error inside a stream is thrown with the vendor's code", async () => {
    const stream = openai.chat.completions.stream({ model: "sim?fault=error-event&after=2", messages })
    expect(await stream.finalChatCompletion().catch((error) => at(error, "code"))).toBe("server_is_overloaded")
  })

  test("a prompt that is too long is a 400 with the vendor's code", async () => {
    const failed = openai.chat.completions.create({ model: "sim?fault=context", messages })
    const error = await failed.catch((thrown: unknown) => thrown)
    expect([at(error, "status"), at(error, "code")]).toEqual([400, "context_length_exceeded"])
  })
})

describe("messages", () => {
  const tools = [{ name: "find_train", input_schema: parameters }]

  test("an answer in one piece is read with its usage", async () => {
    const reply = await anthropic.messages.create({ model: "sim", max_tokens: 50, messages })
    expect(at(reply.content, 0, "text")).toBe(heard)
    expect(reply.stop_reason).toBe("end_turn")
    expect(reply.usage.output_tokens).toBe(10)
  })

  test("a stream adds up to the same answer", async () => {
    const model = "sim?input=100&cached=40&written=10"
    const reply = await anthropic.messages.stream({ model, max_tokens: 50, messages }).finalMessage()
    expect(at(reply.content, 0, "text")).toBe(heard)
    const { input_tokens, cache_read_input_tokens, cache_creation_input_tokens, output_tokens } = reply.usage
    expect([input_tokens, cache_read_input_tokens, cache_creation_input_tokens, output_tokens]).toEqual([
      100, 40, 10, 10,
    ])
  })

  test("thinking is signed, and comes before text and parallel tool calls", async () => {
    const model = `sim?think=3&text=Looking&${call}&tools=2`
    const reply = await anthropic.messages.stream({ model, max_tokens: 100, messages, tools }).finalMessage()
    expect(reply.content.map((block) => block.type)).toEqual(["thinking", "text", "tool_use", "tool_use"])
    expect(at(reply.content, 0, "signature")).toBeString()
    expect(at(reply.content, 3, "input")).toEqual(args)
    expect(reply.stop_reason).toBe("tool_use")
  })

  test("a tool call in one piece, answered, is followed by text", async () => {
    const shared = { model: `sim?${call}`, max_tokens: 100, tools }
    const first = await anthropic.messages.create({ ...shared, messages })
    const id = String(at(first.content, 0, "id"))
    const second = await anthropic.messages.create({
      ...shared,
      messages: [
        ...messages,
        { role: "assistant", content: first.content },
        { role: "user", content: [{ type: "tool_result", tool_use_id: id, content: "at nine" }] },
      ],
    })
    expect(String(at(second.content, 0, "text"))).toContain("result has arrived")
  })

  test("an error inside a stream is thrown with the vendor's type", async () => {
    const stream = anthropic.messages.stream({ model: "sim?fault=error-event&after=2", max_tokens: 50, messages })
    const error = await stream.finalMessage().catch((thrown: unknown) => thrown)
    expect(at(error, "error", "error", "type")).toBe("overloaded_error")
  })
})

describe("responses", () => {
  const tools = [{ type: "function" as const, name: "find_train", parameters, strict: false }]
  const input = "Where is my train?"

  test("an answer in one piece is read with its usage", async () => {
    const reply = await openai.responses.create({ model: "sim?cached=4&reasoning=2", input })
    expect(reply.output_text).toBe(heard)
    expect(reply.usage?.output_tokens).toBe(12)
    expect(reply.usage?.input_tokens_details.cached_tokens).toBe(4)
    expect(reply.usage?.output_tokens_details.reasoning_tokens).toBe(2)
  })

  test("a stream adds up to the same answer", async () => {
    const reply = await openai.responses.stream({ model: "sim?think=2", input }).finalResponse()
    expect(reply.output.map((item) => item.type)).toEqual(["reasoning", "message"])
    expect(reply.output_text).toBe(heard)
  })

  test("an answer that the limit cuts is incomplete", async () => {
    const reply = await openai.responses.stream({ model: "sim", input, max_output_tokens: 3 }).finalResponse()
    expect(reply.status).toBe("incomplete")
    expect(reply.incomplete_details?.reason).toBe("max_output_tokens")
    expect(reply.output_text).toBe("Hello from the")
  })

  test("parallel tool calls in a stream come whole, and answered are followed by text", async () => {
    const shared = { model: `sim?${call}&tools=2`, tools }
    const first = await openai.responses.stream({ ...shared, input }).finalResponse()
    const calls = first.output.flatMap((item) => (item.type === "function_call" ? [item] : []))
    expect(calls.map((one) => JSON.parse(one.arguments))).toEqual([args, args])
    const results = calls.map(({ call_id }) => ({ type: "function_call_output" as const, call_id, output: "at nine" }))
    const plain = calls.map(({ call_id, name, arguments: given }) => ({
      type: "function_call" as const,
      call_id,
      name,
      arguments: given,
    }))
    const conversation = [{ role: "user" as const, content: input }, ...plain, ...results]
    const second = await openai.responses.create({ ...shared, input: conversation })
    expect(second.output_text).toContain("result has arrived")
  })

  test("a failure under 200 is a status in the body", async () => {
    const reply = await openai.responses.create({ model: "sim?fault=failed", input })
    expect([reply.status, reply.error?.code]).toEqual(["failed", "server_is_overloaded" as never])
  })
})
