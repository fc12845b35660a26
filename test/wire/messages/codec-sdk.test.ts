/** The vendor's own SDK reads what the encoder writes: streamed and whole, over real HTTP. */
import Anthropic, { APIError } from "@anthropic-ai/sdk"
import { afterAll, expect, test } from "bun:test"
import type { ModelEvent } from "../../../src/language/prompt.ts"
import type { JsonObject } from "../../../src/language/json.ts"
import { Failure } from "../../../src/failure/failure.ts"
import { messagesFormat } from "../../../src/wire/messages/format.ts"
import { streamFailure } from "../../../src/wire/messages/events-out.ts"
import { stream, summed, usage, view } from "./samples.ts"

const answers = new Map<string, string>()
const server = Bun.serve({
  port: 0,
  hostname: "127.0.0.1",
  fetch: async (asked) => {
    const { model, stream: streamed } = (await asked.json()) as { model: string; stream?: boolean }
    const type = streamed === true ? "text/event-stream" : "application/json"
    return new Response(answers.get(model), { headers: { "content-type": type } })
  },
})
afterAll(() => server.stop(true))
const client = new Anthropic({ apiKey: "k", baseURL: server.url.href, maxRetries: 0 })
const ask = (model: string) => ({ model, max_tokens: 100, messages: [{ role: "user" as const, content: "Hi" }] })

const id = "chatcmpl-1"
const start: ModelEvent = { type: "start", id, usage: undefined }
const finish = (reason: Extract<ModelEvent, { type: "finish" }>["reason"]): ModelEvent => ({
  type: "finish",
  reason,
  stopSequence: undefined,
})
const rest = (reason: Extract<ModelEvent, { type: "finish" }>["reason"]): ModelEvent[] => [
  finish(reason),
  { type: "usage", usage: usage(31, 9) },
  { type: "end" },
]
const tool = (index: number): ModelEvent => ({
  type: "tool-call-start",
  index,
  id: `call_${index}`,
  name: `f${index}`,
  custom: false,
})
const json = (index: number, piece: string): ModelEvent => ({ type: "tool-call-delta", index, arguments: piece })

const rows: readonly (readonly [
  name: string,
  events: readonly ModelEvent[],
  content: readonly object[],
  reason: string,
])[] = [
  [
    "text",
    [{ type: "text-delta", text: "Hal" }, { type: "text-delta", text: "lo" }, ...rest("stop")],
    [{ type: "text", text: "Hallo" }],
    "end_turn",
  ],
  [
    "parallel tools",
    [tool(0), tool(1), json(0, '{"a'), json(1, '{"b":'), json(0, '":1}'), json(1, '"é"}'), ...rest("stop")],
    [
      { type: "tool_use", id: "call_0", name: "f0", input: { a: 1 } },
      { type: "tool_use", id: "call_1", name: "f1", input: { b: "é" } },
    ],
    "tool_use",
  ],
  [
    "a tool without arguments",
    [tool(0), json(0, "{}"), ...rest("tool-calls")],
    [{ type: "tool_use", id: "call_0", input: {} }],
    "tool_use",
  ],
  [
    "thinking",
    [
      { type: "thinking-delta", text: "hm" },
      { type: "thinking-seal", seal: { by: "messages", data: "s" } },
      { type: "thinking-seal", seal: { by: "messages-redacted", data: "r" } },
      { type: "text-delta", text: "a" },
      ...rest("stop"),
    ],
    [
      { type: "thinking", thinking: "hm", signature: "s" },
      { type: "redacted_thinking", data: "r" },
      { type: "text", text: "a" },
    ],
    "end_turn",
  ],
  [
    "refusal",
    [{ type: "refusal-delta", text: "No." }, ...rest("content-filter")],
    [{ type: "text", text: "No." }],
    "refusal",
  ],
  ["length", [{ type: "text-delta", text: "Hal" }, ...rest("length")], [{ type: "text", text: "Hal" }], "max_tokens"],
  ["nothing", rest("stop"), [], "end_turn"],
]
test.each(rows)("streamed %s", async (name, events, content, reason) => {
  answers.set(name, stream([start, ...events]).text)
  const message = await client.messages.stream(ask(name)).finalMessage()
  expect(message).toMatchObject({ id: "msg_abc-123", model: "catalogue/model", role: "assistant", stop_reason: reason })
  expect(message.usage).toMatchObject({ input_tokens: 31, output_tokens: 9 })
  expect(message.content).toMatchObject([...content])
  expect(message.content).toHaveLength(content.length)
})

test.each(rows)("whole %s", async (name, events, content, reason) => {
  const message: JsonObject = messagesFormat.client.encodeReply(summed([start, ...events]), view())
  answers.set(name, JSON.stringify(message))
  const read = await client.messages.create(ask(name))
  expect(read).toMatchObject({ id: "msg_abc-123", stop_reason: reason, usage: { input_tokens: 31, output_tokens: 9 } })
  expect(read.content).toMatchObject([...content])
})

test("our estimate stands where the backend counted nothing", async () => {
  answers.set("uncounted", stream([start, { type: "text-delta", text: "a" }, { type: "end" }]).text)
  const { usage: read } = await client.messages.stream(ask("uncounted")).finalMessage()
  expect(read).toMatchObject({ input_tokens: 77, output_tokens: 0 })
})

test("a stream that broke off is raised as the failure that the gateway adds to it", async () => {
  const begun = stream([start, { type: "text-delta", text: "a" }]).text
  const failure = new Failure("dependency.upstream_unavailable")
  answers.set("broken", begun + streamFailure(failure, { requestId: "req_1", model: "m" }))
  const read = client.messages.stream(ask("broken")).finalMessage()
  expect(await read.catch((error: unknown) => error)).toBeInstanceOf(APIError)
})
