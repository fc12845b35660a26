import { describe, expect, test } from "bun:test"
import type { ModelEvent } from "../../../src/language/prompt.ts"
import type { Json, JsonObject } from "../../../src/language/json.ts"
import { converseFormat } from "../../../src/wire/bedrock/converse.ts"
import type { StreamStep } from "../../../src/wire/format.ts"
import { RelayedStream } from "../../../src/wire/backend-stream.ts"
import { responsesFormat } from "../../../src/wire/responses/format.ts"
import { bytesOf, decodeAll, parse, sent } from "../replay.ts"
import { emptyPrompt, must } from "../chat/ask.ts"
import { answerView, request as responses } from "../responses/asking.ts"

const view = { model: "m", includeUsage: true, contextWindow: 1_000, maxOutputTokens: 100 }
const streamReader = () => new RelayedStream(converseFormat.backend.stream(view))
const usage = { inputTokens: 20, outputTokens: 9, cacheReadInputTokens: 400, cacheWriteInputTokens: 30 }
const tokens = { input: 20, output: 9, cacheRead: 400, cacheWrite: 30 }
const sse = (event: string, data: Json) => ({ event, data: JSON.stringify(data) })
const start = (contentBlockIndex: number, toolUseId: string, name: string) =>
  sse("contentBlockStart", { contentBlockIndex, start: { toolUse: { toolUseId, name } } })
const delta = (contentBlockIndex: number, said: JsonObject) =>
  sse("contentBlockDelta", { contentBlockIndex, delta: said })
const stop = (contentBlockIndex: number) => sse("contentBlockStop", { contentBlockIndex })
const end = (stopReason: string) => [sse("messageStop", { stopReason }), sse("metadata", { usage })]

const patch = { type: "custom", name: "patch", description: undefined, grammar: undefined } as const
const decode = (events: readonly { event: string; data: string }[], prompt = emptyPrompt): ModelEvent[] => {
  return decodeAll(converseFormat.backend.stream({ model: "", includeUsage: true }, prompt), events)
}
const ending = (reason: string, stopSequence?: string) => [
  { type: "finish", reason, stopSequence },
  { type: "usage", usage: { tokens, reasoning: undefined } },
  { type: "end" },
]

const begun = (index: number, id: string, name: string, custom = false) =>
  ({ type: "tool-call-start", index, id, name, custom }) as const
const piece = (index: number, text: string) => ({ type: "tool-call-delta", index, arguments: text }) as const
const stopped = (...stopSequences: string[]) => decode(end("stop_sequence"), { ...emptyPrompt, stopSequences })
const kinds = (...events: { event: string; data: string }[]): StreamStep["kind"][] => {
  const reader = streamReader()
  return events.map((event) => reader.read(event).kind)
}
const body = (content: JsonObject[]): JsonObject => ({
  output: { message: { role: "assistant", content } },
  stopReason: "tool_use",
  usage,
})

describe("a ConverseStream in the neutral language", () => {
  test("thinking, its seals, and text", () => {
    const events = [
      sse("messageStart", { role: "assistant" }),
      delta(0, { reasoningContent: { text: "Hm." } }),
      delta(0, { reasoningContent: { signature: "c2ln" } }),
      stop(0),
      delta(1, { reasoningContent: { redactedContent: "cmVk" } }),
      stop(1),
      delta(2, { text: "Hi" }),
      stop(2),
      ...end("end_turn"),
    ]
    expect(decode(events)).toEqual([
      { type: "start", id: undefined, usage: undefined },
      { type: "thinking-delta", text: "Hm." },
      { type: "thinking-seal", seal: { by: "messages", data: "c2ln" } },
      { type: "part-end" },
      { type: "thinking-seal", seal: { by: "messages-redacted", data: "cmVk" } },
      { type: "part-end" },
      { type: "text-delta", text: "Hi" },
      { type: "part-end" },
      ...ending("stop"),
    ] as ModelEvent[])
  })

  test("calls whose pieces interleave, one without arguments, and one of a tool that takes free text", () => {
    const events = [
      start(1, "a", "weather"),
      start(2, "b", "patch"),
      start(3, "c", "now"),
      delta(1, { toolUse: { input: '{"city":' } }),
      delta(2, { toolUse: { input: '{"input":"+a' } }),
      delta(1, { toolUse: { input: '"Solo"}' } }),
      delta(2, { toolUse: { input: '"}' } }),
      ...end("tool_use"),
    ]
    const calls = decode(events, { ...emptyPrompt, tools: [patch] }).slice(0, -3)
    expect(calls).toEqual([
      begun(0, "a", "weather"),
      begun(1, "b", "patch", true),
      begun(2, "c", "now"),
      piece(0, '{"city":'),
      piece(0, '"Solo"}'),
      piece(1, "+a"),
      piece(2, "{}"),
    ])
  })

  const blocks = {
    first: [start(0, "a", "patch"), delta(0, { toolUse: { input: '{"input":"+a"}' } }), stop(0)],
    second: [start(1, "b", "weather"), delta(1, { toolUse: { input: '{"city":"Solo"}' } }), stop(1)],
  }
  test.each([
    ["in order", [0, 1, 2, 3, 4, 5]],
    ["mixed", [0, 3, 1, 2, 4, 5]],
  ])("calls whose blocks end, %s, keep their free text and all that comes for those after them", (_, order) => {
    const tools = [{ type: "custom", name: "patch" }]
    const prompt = must(responsesFormat.client.decodePrompt(responses({ tools })))
    const all = [...blocks.first, ...blocks.second]
    const events = [...order.flatMap((place) => all[place] ?? []), ...end("tool_use")]
    const encoder = responsesFormat.client.eventEncoder(answerView({ tools }))
    const told = decode(events, prompt).flatMap((event) => encoder.encode(event))
    const last = parse([bytesOf(sent(told))]).at(-1)?.data ?? ""
    expect(JSON.parse(last).response.output).toMatchObject([
      { type: "custom_tool_call", call_id: "a", input: "+a" },
      { type: "function_call", call_id: "b", arguments: '{"city":"Solo"}' },
    ])
  })

  test.each([
    ["end_turn", "stop"],
    ["max_tokens", "length"],
    ["model_context_window_exceeded", "length"],
    ["content_filtered", "content-filter"],
    ["guardrail_intervened", "content-filter"],
    ["something_new", "stop"],
  ])("an answer that ended by %s finished by %s", (told, reason) => {
    expect(decode(end(told))).toEqual(ending(reason) as ModelEvent[])
  })

  test("the sequence that stopped an answer is known where there was but one", () => {
    expect(stopped("END")).toEqual(ending("stop-sequence", "END") as ModelEvent[])
    expect(stopped("END", "STOP")).toEqual(ending("stop-sequence") as ModelEvent[])
  })

  test("a turn that called a tool ended for that, whatever is said", () => {
    expect(decode([start(0, "a", "weather"), ...end("end_turn")])).toContainEqual({
      type: "finish",
      reason: "tool-calls",
      stopSequence: undefined,
    })
  })
})

describe("the reader of a ConverseStream", () => {
  test("tells content from what only surrounds it", () => {
    expect(
      kinds(
        sse("messageStart", { role: "assistant" }),
        sse("contentBlockStart", { contentBlockIndex: 0, start: {} }),
        delta(0, { text: "" }),
        delta(0, { reasoningContent: { signature: "c2ln" } }),
        delta(0, { text: "Hi" }),
        stop(0),
        ...end("end_turn"),
      ),
    ).toEqual(["preamble", "preamble", "preamble", "preamble", "content", "trailer", "trailer", "terminal"])
    expect(kinds(start(0, "a", "weather"))).toEqual(["content"])
    for (const said of [
      { toolUse: { input: "{}" } },
      { reasoningContent: { text: "Hm." } },
      { reasoningContent: { redactedContent: "cmVk" } },
    ])
      expect({ said, kind: kinds(delta(0, said)) }).toEqual({ said, kind: ["content"] })
    for (const said of [{ toolUse: { input: "" } }, { reasoningContent: { text: "" } }, { toolUse: null }])
      expect({ said, kind: kinds(delta(0, said)) }).toEqual({ said, kind: ["preamble"] })
  })

  test.each([
    ["throttlingException", "upstream.rate_limited"],
    ["validationException", "upstream.invalid_request"],
    ["modelStreamErrorException", "dependency.upstream_unavailable"],
    ["internalServerException", "dependency.upstream_unavailable"],
    ["serviceUnavailableException", "dependency.upstream_unavailable"],
  ])("%s is %s", (type, code) => {
    const reader = streamReader()
    const step = reader.read(sse("error", { type: "error", error: { type, message: "no" } }))
    expect(step).toMatchObject({ kind: "failure", failure: { code } })
  })

  test("an exception whose words are those of an overflow is one", () => {
    const error = { type: "validationException", message: "Input is too long for requested model" }
    const step = streamReader().read(sse("error", { type: "error", error }))
    expect(step).toMatchObject({ kind: "failure", failure: { code: "upstream.context_length_exceeded" } })
  })

  test("what is no JSON is a failure", () => {
    expect(streamReader().read({ event: "metadata", data: "{" }).kind).toBe("failure")
  })

  test.each<[string, Json, typeof tokens | undefined]>([
    ["counts", usage, tokens],
    ["counts without a cache", { inputTokens: 20, outputTokens: 9 }, { ...tokens, cacheRead: 0, cacheWrite: 0 }],
    ["a negative count", { ...usage, outputTokens: -1 }, undefined],
    ["no counts", {}, undefined],
  ])("%s are believed or not", (_, told, expected) => {
    const reader = streamReader()
    reader.read(sse("metadata", { usage: told }))
    expect(reader.tokens()).toEqual(expected)
  })
})

const decodedTurn = (parts: JsonObject[]) =>
  must(converseFormat.backend.decodeReply({ body: { ...body(parts), stopReason: "end_turn" } }, emptyPrompt))

describe("a whole Converse answer", () => {
  test("is read with all its parts", () => {
    const content = [
      { reasoningContent: { reasoningText: { text: "Hm.", signature: "c2ln" } } },
      { reasoningContent: { reasoningText: { text: "", signature: "ZW1w" } } },
      { reasoningContent: { redactedContent: "cmVk" } },
      { text: "Hi" },
      { toolUse: { toolUseId: "a", name: "weather", input: { city: "Solo" } } },
      { toolUse: { toolUseId: "b", name: "patch", input: { input: "+a" } } },
    ]
    const reply = must(converseFormat.backend.readReply(body(content), view))
    expect(reply.tokens).toEqual(tokens)
    expect(must(converseFormat.backend.decodeReply(reply, { ...emptyPrompt, tools: [patch] }))).toEqual({
      id: undefined,
      parts: [
        { type: "thinking", text: "Hm.", seal: { by: "messages", data: "c2ln" } },
        { type: "thinking", text: "", seal: { by: "messages", data: "ZW1w" } },
        { type: "thinking", text: "", seal: { by: "messages-redacted", data: "cmVk" } },
        { type: "text", text: "Hi" },
        { type: "tool-call", id: "a", name: "weather", arguments: '{"city":"Solo"}', custom: false },
        { type: "tool-call", id: "b", name: "patch", arguments: "+a", custom: true },
      ],
      finish: "tool-calls",
      stopSequence: undefined,
      usage: { tokens, reasoning: undefined },
    })
  })

  test.each<[JsonObject[], boolean]>([
    [[{ text: "Hi" }], true],
    [[{ text: "" }, { text: "Hi" }], true],
    [[{ toolUse: { toolUseId: "a", name: "weather", input: {} } }], true],
    [[{ reasoningContent: { reasoningText: { text: "Hm." } } }], true],
    [[{ reasoningContent: { redactedContent: "cmVk" } }], true],
    [[{ text: "" }], false],
    [[{ reasoningContent: {} }], false],
    [[], false],
  ])("of %j has content: %p, which zeros do not count", (content, has) => {
    const nothing = { inputTokens: 0, outputTokens: 0 }
    const empty = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 }
    const reply = converseFormat.backend.readReply({ ...body(content), usage: nothing }, view)
    expect(reply).toMatchObject({ tokens: has ? undefined : empty, searches: 0 })
  })

  test("gives calls ids of their own, as a stream does, where they share one or an earlier call has it", () => {
    const uses = ["a", "b", "b"].map((toolUseId) => ({ toolUse: { toolUseId, name: "weather", input: {} } }))
    const earlier = { type: "tool-call", id: "a", name: "weather", arguments: "{}", custom: false } as const
    const asked = { ...emptyPrompt, turns: [{ role: "assistant", parts: [earlier] }] } as const
    const { parts } = must(converseFormat.backend.decodeReply({ body: body(uses) }, asked))
    const streamed = decode(
      uses.flatMap(({ toolUse: { toolUseId, name } }, index) => [
        start(index, toolUseId, name),
        delta(index, { toolUse: { input: "{}" } }),
        stop(index),
      ]),
      asked,
    )
    const ids = ["call__0", "b", "call__2"]
    expect(parts.map((part) => part.type === "tool-call" && part.id)).toEqual(ids)
    expect(streamed.flatMap((event) => (event.type === "tool-call-start" ? event.id : []))).toEqual(ids)
  })

  test("that calls a tool beside its words ended for that, and thinking may have no seal", () => {
    const content = [
      { reasoningContent: { reasoningText: { text: "Hm." } } },
      { reasoningContent: { reasoningText: { text: "" } } },
      { text: "Let me look." },
      { toolUse: { toolUseId: "a", name: "weather", input: {} } },
    ]
    expect(decodedTurn(content)).toMatchObject({ finish: "tool-calls" })
    expect(decodedTurn(content).parts.slice(0, 2)).toEqual([
      { type: "thinking", text: "Hm.", seal: undefined },
      { type: "text", text: "Let me look." },
    ])
    expect(decodedTurn(content.slice(0, 3))).toMatchObject({ finish: "stop" })
  })

  test.each([
    {},
    { Output: { __type: "com.amazon.coral.service#UnknownOperationException" } },
    { output: { message: {} } },
  ])("%j is none", (found: JsonObject) => {
    expect(converseFormat.backend.readReply(found, view)).toMatchObject({ code: "dependency.upstream_unavailable" })
  })
})
