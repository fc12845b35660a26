/** What holds for every request that is understood, in all three formats. */
import { describe, expect, test } from "bun:test"
import * as fc from "fast-check"
import type { Json, JsonObject } from "../../src/language/json.ts"
import { Failure } from "../../src/failure/failure.ts"
import type { ClientSide } from "../../src/wire/format.ts"
import * as chat from "../../src/wire/chat/format.ts"
import * as messages from "../../src/wire/messages/format.ts"
import * as responses from "../../src/wire/responses/format.ts"
import { textTokens } from "../../src/wire/tokens.ts"

const strip = ["temperature", "top_k"]
const OWNED = ["model", "stream", "stream_options", "store", "thinking", "temperature", "top_k"]
/** What the gateway writes of its own. */
const WRITTEN = ["service_tier", "safety_identifier", "metadata"]

interface Case {
  readonly name: string
  readonly codec: Pick<ClientSide, "decodeRequest" | "encodeRequest">
  readonly prompt: JsonObject
  readonly limits: readonly string[]
}

const formats: readonly Case[] = [
  {
    name: "chat",
    codec: chat,
    prompt: { messages: [{ role: "user", content: "Hi" }] },
    limits: ["max_tokens", "max_completion_tokens"],
  },
  {
    name: "messages",
    codec: messages,
    prompt: { messages: [{ role: "user", content: "Hi" }] },
    limits: ["max_tokens"],
  },
  { name: "responses", codec: responses, prompt: { input: "Hi" }, limits: ["max_output_tokens"] },
]

const json = fc.jsonValue({ maxDepth: 3 }) as fc.Arbitrary<Json>
/** Fields that no format knows, `__proto__` among them. */
const unknownFields = fc.dictionary(
  fc.oneof(
    fc.string().map((key) => `x_${key}`),
    fc.constant("__proto__"),
  ),
  json,
)

for (const { name, codec, prompt, limits } of formats) {
  const body = fc
    .record({
      unknown: unknownFields,
      known: fc.record(
        {
          stream: fc.constantFrom<Json[]>(true, false, null),
          store: fc.constantFrom<Json[]>(true, false, null),
          temperature: fc.double({ noNaN: true, noDefaultInfinity: true }),
          top_k: fc.nat(),
          thinking: fc.record({ type: fc.constant("enabled"), budget_tokens: fc.integer({ min: 1024, max: 60_000 }) }),
        },
        { requiredKeys: [] },
      ),
      limit: fc.integer({ min: 1, max: 100_000 }),
      field: fc.constantFrom(...limits),
    })
    .map(({ unknown, known, limit, field }): JsonObject => ({
      ...unknown,
      ...known,
      ...prompt,
      model: "m",
      [field]: limit,
    }))

  describe(`a ${name} request, encoded`, () => {
    test("leaves the client's body as it was, leaves out what it does not know, and never raises the limit", () => {
      fc.assert(
        fc.property(body, fc.integer({ min: 1, max: 100_000 }), (body, maxOutputTokens) => {
          const before = JSON.stringify(body)
          const request = codec.decodeRequest(body)
          if (request instanceof Failure) throw new Error(request.message)
          const sent = codec.encodeRequest(request, { model: "vendor", maxOutputTokens, stream: request.stream, strip })
          expect(JSON.stringify(body)).toBe(before)
          expect(sent["model"]).toBe("vendor")

          const written = limits.map((field) => sent[field]).filter((limit) => limit !== undefined)
          const limit = Math.min(request.maxOutputTokens ?? 0, maxOutputTokens)
          // The newer name never travels alone.
          expect(written).toEqual(Object.hasOwn(body, "max_completion_tokens") ? [limit, limit] : [limit])
          for (const parameter of strip) expect(Object.hasOwn(sent, parameter)).toBe(false)
          const known = [...OWNED, ...WRITTEN, ...limits, ...Object.keys(prompt)]
          expect(Object.keys(sent).filter((key) => !known.includes(key))).toEqual([])
          for (const key of Object.keys(prompt)) expect(JSON.stringify(sent[key])).toBe(JSON.stringify(body[key]))
          expect(sent["store"] ?? false).toBe(false)
        }),
      )
    })

    test("is decoded or refused, and never throws, whatever was written", () => {
      const keys = [
        "messages",
        "input",
        "tools",
        "stream",
        "max_tokens",
        "system",
        "thinking",
        "text",
        "n",
        "functions",
      ]
      fc.assert(
        fc.property(fc.dictionary(fc.constantFrom(...keys), json), (fields) => {
          const request = codec.decodeRequest({ ...prompt, max_tokens: 5, ...fields, model: "m" })
          if (!(request instanceof Failure)) expect(request.inputTokens).toBeGreaterThanOrEqual(1)
        }),
        { numRuns: 500 },
      )
    })
  })
}

test("a lowered thinking budget is one that the backend takes, or thinking is off", () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1025, max: 100_000 }).chain((limit) =>
        fc.record({
          limit: fc.constant(limit),
          budget: fc.integer({ min: 1024, max: 2 * limit }),
          allowed: fc.integer({ min: 1, max: limit - 1 }),
        }),
      ),
      ({ limit, budget, allowed }) => {
        const thinking = { type: "enabled", budget_tokens: budget }
        const request = messages.decodeRequest({
          model: "m",
          messages: [{ role: "user", content: "Hi" }],
          max_tokens: limit,
          thinking,
        })
        if (request instanceof Failure) throw new Error(request.message)
        const sent = messages.encodeRequest(request, {
          model: "m",
          maxOutputTokens: allowed,
          stream: false,
          strip: [],
        })["thinking"]
        if (allowed <= 1024) return expect(sent).toEqual({ type: "disabled" })
        const lowered = (sent as { budget_tokens: number }).budget_tokens
        expect(Number.isInteger(lowered) && lowered >= 1024 && lowered < allowed).toBe(true)
      },
    ),
  )
})

const text = "Setiap pagi Bu Sari membuka warungnya. ".repeat(20)
const user = { role: "user", content: "Hi" }
const schema = { type: "object", properties: { a: { type: "string", description: text } } }
const called = { name: "f", description: text, parameters: { type: "object" } }
const chatCall = { id: "c", type: "function", function: { name: "f", arguments: JSON.stringify({ a: text }) } }
/** Every place of a request whose text the model reads. */
const read: readonly (readonly [format: string, place: string, fields: JsonObject])[] = [
  ["chat", "a message", { messages: [user, { role: "user", content: text }] }],
  ["chat", "a part", { messages: [user, { role: "user", content: [{ type: "text", text }] }] }],
  ["chat", "a system message", { messages: [{ role: "system", content: text }, user] }],
  ["chat", "a call", { messages: [user, { role: "assistant", tool_calls: [chatCall] }] }],
  ["chat", "a result", { messages: [user, { role: "tool", tool_call_id: "c", content: text }] }],
  ["chat", "a tool", { tools: [{ type: "function", function: called }] }],
  ["chat", "a function", { functions: [called] }],
  ["chat", "the answer's schema", { response_format: { type: "json_schema", json_schema: { name: "n", schema } } }],
  ["chat", "a field that the catalogue passes", { chat_template_kwargs: { a: text } }],
  ["messages", "a message", { messages: [user, { role: "user", content: text }] }],
  ["messages", "a block", { messages: [user, { role: "user", content: [{ type: "text", text }] }] }],
  ["messages", "the system prompt", { system: text }],
  ["messages", "a system block", { system: [{ type: "text", text }] }],
  [
    "messages",
    "a call",
    {
      messages: [user, { role: "assistant", content: [{ type: "tool_use", id: "c", name: "f", input: { a: text } }] }],
    },
  ],
  [
    "messages",
    "a result",
    { messages: [user, { role: "user", content: [{ type: "tool_result", tool_use_id: "c", content: text }] }] },
  ],
  ["messages", "a tool", { tools: [{ name: "f", description: text, input_schema: { type: "object" } }] }],
  ["messages", "the answer's schema", { output_config: { format: { type: "json_schema", schema } } }],
  ["messages", "the answer's schema by its older name", { output_format: { type: "json_schema", schema } }],
  ["responses", "the input", { input: text }],
  ["responses", "an item", { input: [{ role: "user", content: [{ type: "input_text", text }] }] }],
  ["responses", "the instructions", { instructions: text }],
  [
    "responses",
    "a call",
    { input: [user, { type: "function_call", call_id: "c", name: "f", arguments: JSON.stringify({ a: text }) }] },
  ],
  ["responses", "a result", { input: [user, { type: "function_call_output", call_id: "c", output: text }] }],
  ["responses", "a tool", { tools: [{ type: "function", ...called }] }],
  ["responses", "the answer's schema", { text: { format: { type: "json_schema", name: "n", schema } } }],
]

test.each(read)("%s: %s is in the estimate that a call is admitted by", (format, _, fields) => {
  const found = formats.find(({ name }) => name === format)
  const estimate = (more: JsonObject): number => {
    const body = { model: "m", max_tokens: 100, ...found?.prompt, ...more }
    const request = found?.codec.decodeRequest(body, { pass: ["chat_template_kwargs"], betas: [] })
    if (request === undefined || request instanceof Failure) throw new Error(request?.message)
    return request.inputTokens
  }
  const more = estimate(fields) - estimate({})
  expect(more).toBeGreaterThanOrEqual(Math.floor(textTokens(text)) - 1)
  // The first tool has the prompt for all of them with it.
  expect(more).toBeLessThan(textTokens(text) + 450)
})
