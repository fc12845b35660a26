import { describe, expect, test } from "bun:test"
import type { Json, JsonObject } from "../../src/language/json.ts"
import { Failure } from "../../src/failure/failure.ts"
import type { FailureCode } from "../../src/failure/table.ts"
import { readReply as chat } from "../../src/wire/chat/reply.ts"
import { messagesFormat } from "../../src/wire/messages/format.ts"
import { readReply as messages } from "../../src/wire/messages/reply.ts"
import { responsesFormat } from "../../src/wire/responses/format.ts"
import { readReply as responses } from "../../src/wire/responses/reply.ts"
import { fixture, type Format, view } from "./replay.ts"

const read = { chat, messages, responses }
const recorded = async (name: string): Promise<JsonObject> =>
  JSON.parse(new TextDecoder().decode(await fixture(`${name}.json`)))

const answers: [Format, string, object][] = [
  ["chat", "chat/text", { input: 176, cacheRead: 1024, cacheWrite: 0, output: 30 }],
  ["chat", "chat/tools", { input: 82, cacheRead: 0, cacheWrite: 0, output: 17 }],
  ["messages", "messages/thinking-tools", { input: 12, cacheRead: 9000, cacheWrite: 300, output: 210 }],
  ["messages", "messages/refusal", { input: 564, cacheRead: 0, cacheWrite: 0, output: 22 }],
  ["responses", "responses/text", { input: 36, cacheRead: 0, cacheWrite: 0, output: 87 }],
  ["responses", "responses/incomplete", { input: 208, cacheRead: 1792, cacheWrite: 0, output: 16 }],
]

test.each(answers)("%s: of %s only the model changes, and the tokens are counted", async (format, name, tokens) => {
  const body = await recorded(name)
  const before = structuredClone(body)
  const reply = read[format](body, view)
  expect(reply).toEqual({ body: { ...before, model: view.model }, tokens, searches: 0 } as typeof reply)
  expect(body).toEqual(before)
})

const broken: [Format, Json, FailureCode][] = [
  ["chat", {}, "dependency.upstream_unavailable"],
  ["chat", { choices: {} }, "dependency.upstream_unavailable"],
  ["chat", { choices: "text" }, "dependency.upstream_unavailable"],
  ["chat", { choices: [] }, "dependency.upstream_unavailable"],
  ["chat", { error: { message: "x", code: 502 } }, "dependency.upstream_unavailable"],
  ["chat", { error: { message: "prompt is too long" }, choices: [] }, "upstream.context_length_exceeded"],
  ["chat", { choices: [{ message: { content: "a" }, finish_reason: "error" }] }, "dependency.upstream_unavailable"],
  [
    "chat",
    { choices: [{ message: { content: "a" }, finish_reason: "insufficient_system_resource" }] },
    "dependency.upstream_unavailable",
  ],
  [
    "chat",
    { choices: [{}, { message: { content: "" }, error: { code: 429, message: "x" } }] },
    "upstream.rate_limited",
  ],
  ["messages", { type: "message", content: "text" }, "dependency.upstream_unavailable"],
  ["messages", { type: "error", error: { type: "rate_limit_error" } }, "upstream.rate_limited"],
  ["messages", { type: "error" }, "dependency.upstream_unavailable"],
  ["messages", { error: { type: "rate_limit_error" }, content: [] }, "upstream.rate_limited"],
  ["responses", { status: "completed" }, "dependency.upstream_unavailable"],
  ["responses", { status: "failed", output: [], error: null }, "dependency.upstream_unavailable"],
  ["responses", { status: "failed", output: [], error: { code: "rate_limit_exceeded" } }, "upstream.rate_limited"],
  ["responses", { status: "completed", output: [], error: { code: "invalid_prompt" } }, "upstream.invalid_request"],
  ["responses", { status: "cancelled", output: [] }, "dependency.upstream_unavailable"],
  ["responses", { status: "in_progress", output: [] }, "dependency.upstream_unavailable"],
]
test.each(broken)("%s: %j is a failure", (format, body, code) => {
  const reply = read[format](body as JsonObject, view)
  expect(reply).toBeInstanceOf(Failure)
  expect(reply).toMatchObject({ code })
})

describe("an answer that can be given", () => {
  test("may be empty where the format allows it", () => {
    expect(messages({ content: [], usage: { input_tokens: 3, output_tokens: 0 } }, view)).toMatchObject({
      tokens: { input: 3, output: 0 },
    })
    expect(responses({ output: [], error: null, usage: null }, view)).toMatchObject({ body: { output: [] } })
  })
  test("may have no believable usage", () => {
    for (const usage of [undefined, null, {}, { prompt_tokens: -1, completion_tokens: 2 }]) {
      expect(chat({ choices: [{ message: { content: "a" } }], usage }, view)).toMatchObject({ tokens: undefined })
    }
  })
  test.each([
    [{ input_tokens: 12 }, { input_tokens: 12, output_tokens: 0 }],
    [{ output_tokens: 3 }, { input_tokens: 77, output_tokens: 3 }],
    [
      { input_tokens: null, cache_read_input_tokens: 9, output_tokens: 3 },
      { input_tokens: 0, cache_read_input_tokens: 9, output_tokens: 3 },
    ],
    [{ service_tier: "standard" }, { service_tier: "standard", input_tokens: 77, output_tokens: 0 }],
  ])("of messages counts what its SDKs cannot do without, whole and streamed: %j", (usage, told) => {
    const estimated = { ...view, inputTokens: 77 }
    const body = { type: "message", content: [], usage }
    expect(messages(body, estimated)).toMatchObject({ body: { usage: told } })
    const begun = { type: "message_start", message: body }
    const event = { event: "message_start", data: JSON.stringify(begun) }
    const relayed = messagesFormat.backend.stream(estimated).relayed(event, begun)
    expect(JSON.parse(relayed?.data ?? "")).toMatchObject({ message: { usage: told } })
  })
  const counts = { input_tokens: 9, output_tokens: 3, total_tokens: 12 }
  const [cached, reasoning] = [{ cached_tokens: 0 }, { reasoning_tokens: 0 }]
  test.each([
    [{ input_tokens: 9, output_tokens: 3 }, counts],
    [{ ...counts, total_tokens: null }, counts],
    [
      { ...counts, input_tokens_details: {}, output_tokens_details: { reasoning_tokens: null } },
      { ...counts, input_tokens_details: cached, output_tokens_details: reasoning },
    ],
    [
      { ...counts, input_tokens_details: { cache_write_tokens: 2 }, output_tokens_details: null },
      { ...counts, input_tokens_details: { cache_write_tokens: 2, ...cached }, output_tokens_details: null },
    ],
    [
      { ...counts, total_tokens: 99 },
      { ...counts, total_tokens: 99 },
    ],
    [
      { input_tokens: -1, output_tokens: 3 },
      { input_tokens: -1, output_tokens: 3 },
    ],
    [{}, {}],
    [null, null],
  ])("of responses counts what Codex cannot do without, whole and streamed: %j", (usage, told) => {
    const response = { id: "r", model: view.model, output: [], usage }
    expect(responses(response, view)).toMatchObject({ body: { usage: told } })
    for (const type of ["response.completed", "response.incomplete"]) {
      const body = { type, response }
      const relayed = responsesFormat.backend.stream(view).relayed({ event: type, data: JSON.stringify(body) }, body)
      expect(JSON.parse(relayed?.data ?? "")).toEqual({ type, response: { ...response, usage: told } })
    }
  })
  test("is not counted by zeros where any part of it has content", () => {
    const choices = [{ message: { content: "" } }, { message: { content: "a" } }]
    const content = [
      { type: "text", text: "" },
      { type: "text", text: "a" },
    ]
    const nothing = { prompt_tokens: 0, completion_tokens: 0, input_tokens: 0, output_tokens: 0 }
    expect(chat({ choices, usage: nothing }, view)).toMatchObject({ tokens: undefined })
    expect(messages({ content, usage: nothing }, view)).toMatchObject({ tokens: undefined })
    const output = [
      { type: "reasoning", summary: [] },
      { type: "message", content: [{ type: "output_text", text: "a" }] },
    ]
    expect(responses({ output, usage: nothing }, view)).toMatchObject({ tokens: undefined })
    const empty = { input: 0, cacheRead: 0, cacheWrite: 0, output: 0 }
    expect(chat({ choices: choices.slice(0, 1), usage: nothing }, view)).toMatchObject({ tokens: empty })
    expect(messages({ content: content.slice(0, 1), usage: nothing }, view)).toMatchObject({ tokens: empty })
    expect(responses({ output: output.slice(0, 1), usage: nothing }, view)).toMatchObject({ tokens: empty })
  })
  test("tells the searches that a messages backend ran, whole and streamed: as it counts them, or as it began them", () => {
    const search = { type: "server_tool_use", id: "s", name: "web_search", input: {} }
    const content = [search, { type: "text", text: "a" }, search]
    for (const [claim, searches] of [
      [undefined, 2],
      [{ web_search_requests: 1 }, 1],
    ] as const) {
      const usage = { input_tokens: 3, output_tokens: 1, ...(claim && { server_tool_use: claim }) }
      expect(messages({ content, usage }, view)).toMatchObject({ searches })
      const stream = messagesFormat.backend.stream(view)
      const say = (type: string, fields: JsonObject) => stream.meaning({ event: type, data: "" }, { type, ...fields })
      for (const [index, content_block] of content.entries()) say("content_block_start", { index, content_block })
      say("message_delta", { delta: { stop_reason: "end_turn" }, usage })
      expect(stream.searches()).toBe(searches)
    }
  })
  test("names the catalogue's model even where the backend named none", () => {
    expect(chat({ choices: [{}] }, view)).toMatchObject({ body: { model: "catalogue/model" } })
  })
})
