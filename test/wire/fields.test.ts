/** Which fields of a request travel, in each format (decisions §13.3). */
import { describe, expect, test } from "bun:test"
import * as fc from "fast-check"
import type { Json, JsonObject } from "../../src/language/json.ts"
import type { ModelRequest, Translated } from "../../src/language/request.ts"
import { Failure } from "../../src/failure/failure.ts"
import * as chat from "../../src/wire/chat/format.ts"
import { type Allowance, droppedFieldsHeader, withNames } from "../../src/wire/fields.ts"
import * as messages from "../../src/wire/messages/format.ts"
import * as responses from "../../src/wire/responses/format.ts"
import { requestedBetas } from "../../src/wire/shared/betas.ts"
import { knownBodies, knownPlaces, neededBetas, withField } from "./known-bodies.ts"

const codecs = { chat, messages, responses } as const
const formats = ["chat", "messages", "responses"] as const satisfies readonly Translated[]

function understood(format: Translated, body: JsonObject, allowance: Partial<Allowance> = {}): ModelRequest {
  const request = codecs[format].decodeRequest(body, { pass: [], betas: neededBetas, ...allowance })
  if (request instanceof Failure) throw new Error(`${request.code}: ${request.message}`)
  return request
}

/** Each alone, for a list would be taken for several arguments. */
const each = (values: readonly Json[]) => values.map((value): [Json] => [value])

const hello: Readonly<Record<Translated, JsonObject>> = {
  chat: { model: "m", messages: [{ role: "user", content: "Hi" }] },
  messages: { model: "m", max_tokens: 9, messages: [{ role: "user", content: "Hi" }] },
  responses: { model: "m", input: "Hi" },
}

describe.each(formats)("of a %s request", (format) => {
  test("all that is known travels as it was written", () => {
    const { body, dropped } = understood(format, knownBodies[format])
    expect(body).toBe(knownBodies[format])
    expect(dropped).toEqual({ names: [], more: false })
  })

  test("a field that is not known does not travel, wherever it stands, and is named", () => {
    const body = knownBodies[format]
    const before = JSON.stringify(body)
    const places = fc.constantFrom(...knownPlaces(body))
    const names = fc.constantFrom(
      "x_new",
      "speed",
      "provider",
      "models",
      "prewarm",
      "best_of",
      "__proto__",
      "constructor",
    )
    const value = fc.jsonValue({ maxDepth: 2 }).filter((found) => found !== null) as fc.Arbitrary<Json>
    fc.assert(
      fc.property(places, names, value, (path, name, found) => {
        fc.pre(!(format === "messages" && path.length === 0 && name === "speed"))
        const request = understood(format, withField(body, path, name, found))
        expect(JSON.stringify(request.body)).toBe(before)
        const field = [...path.filter((step) => typeof step === "string"), name].join(".")
        expect(request.dropped).toEqual({ names: [field], more: false })
        expect(request.inputTokens).toBe(understood(format, body).inputTokens)
      }),
      { numRuns: 400 },
    )
  })

  test("null is nothing, and not told of: neither one that is known nor another, nor one that a catalogue passes", () => {
    const nulls = Object.fromEntries(
      [...Object.keys(knownBodies[format]), "x_new", "x_passed"].map((name) => [name, null]),
    )
    const { body, dropped } = understood(format, { ...nulls, ...hello[format] }, { pass: ["x_passed"] })
    expect(body).toEqual(hello[format])
    expect(dropped).toEqual({ names: [], more: false })
  })

  test("what a catalogue passes travels, but nothing that routes", () => {
    const pass = ["x_new", "chat_template_kwargs", "provider", "best_of"]
    const written = {
      x_new: { kept: [1, { deep: true }], models: ["a"], deep: { Provider: "b", "service-tier": "priority", ok: 1 } },
      chat_template_kwargs: { thinking: true, speed: 9 },
      provider: { order: ["a"] },
      best_of: 9,
    }
    const { body, dropped } = understood(format, { ...hello[format], ...written }, { pass })
    expect(body["x_new"]).toEqual({ kept: [1, { deep: true }], deep: { ok: 1 } })
    expect(body["chat_template_kwargs"]).toEqual(written.chat_template_kwargs)
    expect(body).not.toContainAnyKeys(["provider", "best_of"])
    expect(dropped.names.toSorted()).toEqual([
      "best_of",
      "provider",
      "x_new.deep.Provider",
      "x_new.deep.service-tier",
      "x_new.models",
    ])
  })

  test("what a catalogue passes says no other answer limit", () => {
    const limits = { max_new_tokens: 9e9, maxLength: 9e9, maxOutputTokens: 9e9 }
    const { body, dropped } = understood(
      format,
      { ...hello[format], ...limits, x_new: { num_predict: 9e9, max_tokens: 5, schema: { maxLength: 3 } } },
      { pass: ["x_new", ...Object.keys(limits)] },
    )
    expect(body).toEqual({ ...hello[format], x_new: { max_tokens: 5, schema: { maxLength: 3 } } })
    expect(dropped.names.toSorted()).toEqual(["maxLength", "maxOutputTokens", "max_new_tokens", "x_new.num_predict"])
  })

  test("another model of the chain gets only what it takes itself", () => {
    const request = understood(format, { ...hello[format], x_new: 1, y_new: 2 }, { pass: ["x_new", "y_new"] })
    const forwarding = { model: "vendor", maxOutputTokens: 9, stream: false, strip: [] }
    expect(codecs[format].encodeRequest(request, { ...forwarding, pass: ["y_new"] })).toContainKey("y_new")
    expect(codecs[format].encodeRequest(request, { ...forwarding, pass: ["y_new"] })).not.toContainKey("x_new")
    expect(codecs[format].encodeRequest(request, forwarding)).not.toContainAnyKeys(["x_new", "y_new"])
  })

  test.each([undefined, null, "auto", "default", "flex", "standard", "standard_only"])(
    "the service tier %p is the standard one, or flex",
    (tier) => {
      const request = understood(format, { ...hello[format], ...(tier !== undefined && { service_tier: tier }) })
      const sent = codecs[format].encodeRequest(request, {
        model: "vendor",
        maxOutputTokens: 9,
        stream: false,
        strip: [],
      })
      const standard = format === "messages" ? "standard_only" : "default"
      expect(sent["service_tier"]).toBe(tier === "flex" ? "flex" : standard)
    },
  )

  test.each(
    each(["priority", "PRIORITY", "Default", "fast", "ultrafast", " auto", "", ["priority"], ["auto"], {}, true, 0]),
  )("the service tier %p is refused", (tier) => {
    const refused = codecs[format].decodeRequest({ ...hello[format], service_tier: tier })
    expect(refused instanceof Failure ? refused.code : "taken").toBe("request.unsupported_feature")
  })

  test("the client's own names of its end users do not travel", () => {
    const own = {
      user: "raw",
      safety_identifier: "raw",
      ...(format === "messages" && { metadata: { user_id: "raw" } }),
    }
    const request = understood(format, { ...hello[format], ...own })
    expect(request.ownEndUser).toBe("raw")
    for (const endUser of ["opaque", undefined]) {
      const asked: ModelRequest = { ...request, ...(endUser !== undefined && { endUser }) }
      const sent = JSON.stringify(
        codecs[format].encodeRequest(asked, { model: "v", maxOutputTokens: 9, stream: false, strip: [] }),
      )
      expect(sent).not.toContain("raw")
      expect(sent.includes("opaque")).toBe(endUser !== undefined)
    }
  })
})

/** A request that marks a cache on a block that is signed. */
const signed = (life: Json): JsonObject => ({
  ...hello.messages,
  messages: [
    { role: "user", content: "Hi" },
    {
      role: "assistant",
      content: [{ type: "thinking", thinking: "hm", signature: "c2ln", x_signed: 1, ...mark(life) }],
    },
  ],
})

/** How many searches a responses backend is allowed. */
const searches = (fields: JsonObject) =>
  responses.encodeRequest(understood("responses", { ...hello.responses, ...fields }), {
    model: "v",
    maxOutputTokens: 9,
    stream: false,
    strip: [],
  })["max_tool_calls"]

const mark = (ttl: Json) => ({ cache_control: { type: "ephemeral", ttl } })
const text = (ttl: Json) => ({ type: "text", text: "Hi", ...mark(ttl) })

/** A request that marks a cache in all the ways of messages. */
const marked = (life: Json): JsonObject => ({
  model: "m",
  max_tokens: 9,
  system: [{ ...text(life), x_kept: 1 }],
  messages: [
    {
      role: "user",
      content: [text(life), { type: "tool_result", tool_use_id: "t", content: [text(life)], ...mark(life) }],
    },
  ],
  tools: [{ name: "f", input_schema: { type: "object" }, ...mark(life) }],
  ...mark(life),
})

/** A request that marks a cache in all the ways of chat. */
const onChat = (life: Json, short: Json): JsonObject => ({
  model: "m",
  messages: [{ role: "user", content: [{ ...text(life), prompt_cache_breakpoint: { mode: "explicit", ttl: short } }] }],
  prompt_cache_options: { ttl: short },
})

test("of what an SDK writes out of a chat answer only content may be null", () => {
  const nothing = { refusal: null, annotations: null, function_call: null, name: null, tool_call_id: null, audio: null }
  const asked = {
    role: "assistant",
    content: null,
    tool_calls: [{ id: "c", type: "function", function: { name: "f", arguments: "{}" } }],
  }
  const messages = [
    { role: "user", content: "Hi" },
    { ...asked, ...nothing },
    { role: "assistant", content: "y", tool_calls: null },
  ]
  const { body, dropped } = understood("chat", { model: "m", messages })
  expect(body["messages"]).toEqual([{ role: "user", content: "Hi" }, asked, { role: "assistant", content: "y" }])
  expect(dropped.names).toEqual([])
})

test("arguments of a call that are an object, as some chat backends write them, travel back whole", () => {
  const given = { name: "f", arguments: { city: "Bandung", days: [1, null] } }
  const messages = [
    { role: "user", content: "Hi" },
    { role: "assistant", content: "", tool_calls: [{ id: "c", type: "function", function: given }] },
    { role: "assistant", content: "", function_call: given },
  ]
  const { body, dropped, inputTokens } = understood("chat", { model: "m", messages })
  expect(body["messages"]).toEqual(messages)
  expect(dropped.names).toEqual([])
  expect(inputTokens).toBeGreaterThan(understood("chat", hello.chat).inputTokens + 20)
})

test("nulls inside of what a backend may want to be there travel as they came", () => {
  const input = [
    { type: "shell_call", call_id: "c", action: { commands: ["ls"], timeout_ms: null, max_output_length: null } },
  ]
  const tools = [{ type: "function", name: "f", parameters: null, strict: null }]
  expect(understood("responses", { model: "m", input, tools }).body).toMatchObject({ input, tools })
  const system = [{ type: "text", text: "x", cache_control: null }]
  expect(understood("messages", { ...hello.messages, system }).body).toMatchObject({ system })
})

describe("values that cost more than there are rates for:", () => {
  test.each(each(["1h", "1H", "24h", ["1h"], { a: 1 }, 3_600]))("a cache's life of %p is the short one", (ttl) => {
    const { body, dropped } = understood("messages", marked(ttl))
    expect(body).toEqual(marked("5m"))
    expect(dropped.names).toEqual([])
    expect(understood("messages", signed(ttl)).body).toEqual(signed("5m"))
    expect(understood("chat", onChat(ttl, ttl)).body).toEqual(onChat("5m", "30m"))
    const asked = { model: "m", input: "Hi", prompt_cache_options: { mode: "explicit", ttl } }
    expect(understood("responses", asked).body["prompt_cache_options"]).toEqual({ mode: "explicit", ttl: "30m" })
  })

  test.each(each(["fast", "FAST", "turbo", ["standard"], {}, 2, true]))("a speed of %p is refused", (speed) => {
    const refused = messages.decodeRequest({ ...hello.messages, speed })
    expect(refused instanceof Failure ? refused.code : "taken").toBe("request.unsupported_feature")
  })
  test("the standard speed is what there is", () => {
    expect(understood("messages", { ...hello.messages, speed: "standard" }).body).not.toContainKey("speed")
  })

  test.each(each([["audio"], ["Audio"], ["text", "image"], "audio", { a: 1 }]))(
    "modalities %p are refused",
    (modalities) => {
      const refused = chat.decodeRequest({ ...hello.chat, modalities })
      expect(refused instanceof Failure ? refused.code : "taken").toBe("request.unsupported_feature")
    },
  )

  const dropped: readonly (readonly [format: Translated, fields: JsonObject, names: readonly string[]])[] = [
    ["messages", { inference_geo: "us" }, ["inference_geo"]],
    ["messages", { compaction: { type: "summarize" } }, ["compaction"]],
    [
      "messages",
      { context_management: { edits: [{ type: "compact_20260112" }, { type: "clear_thinking_20251015" }] } },
      ["context_management.edits.compact_20260112"],
    ],
    ["messages", { diagnostics: { previous_message_id: null } }, ["diagnostics"]],
    [
      "messages",
      {
        messages: [
          { role: "user", content: "Hi" },
          {
            role: "system",
            content: [
              {
                type: "tool_addition",
                tool: { type: "tool_definition", definition: { type: "advisor_20260301", model: "m" } },
              },
            ],
          },
        ],
      },
      ["messages.content.tool.definition"],
    ],
    [
      "chat",
      {
        models: ["a"],
        route: "fallback",
        provider: { order: ["a"] },
        plugins: [{ id: "web" }],
        fallbacks: ["a"],
        best_of: 50,
        guided_regex: "a*",
        chat_template: "{{ x }}",
      },
      ["models", "route", "provider", "plugins", "fallbacks", "best_of", "guided_regex", "chat_template"],
    ],
    ["chat", { prompt_cache_options: { prewarm: true, mode: "implicit" } }, ["prompt_cache_options.prewarm"]],
    ["responses", { reasoning: { mode: "pro", effort: "low" } }, ["reasoning.mode"]],
    ["responses", { reasoning: [{ Mode: "PRO" }] }, ["reasoning.Mode"]],
    [
      "responses",
      { generate: false, prompt_cache_options: { prewarm: true } },
      ["generate", "prompt_cache_options.prewarm"],
    ],
    ["responses", { context_management: [{ type: "compaction", compact_threshold: 1 }] }, ["context_management"]],
    [
      "responses",
      { moderation: { model: "m" }, image: {}, access_programs: {} },
      ["moderation", "image", "access_programs"],
    ],
    [
      "responses",
      { input: [{ role: "user", content: "Hi" }, { type: "compaction_trigger" }, { type: ["compaction_trigger"] }] },
      ["input.compaction_trigger", "input.type"],
    ],
  ]
  test.each(dropped)("%s %j is left out", (format, written, names) => {
    const request = understood(format, { ...hello[format], ...written })
    expect(request.dropped.names).toEqual([...names])
    for (const name of names) expect(JSON.stringify(request.body)).not.toContain(`"${name.split(".").at(-1)}"`)
  })

  test("where a backend searches, how often is always said, and at most five times", () => {
    const search = { tools: [{ type: "web_search" }] }
    expect([128, null, 5].map((most) => searches({ ...search, max_tool_calls: most }))).toEqual([5, 5, 5])
    for (const none of ["128", [1], -1, 0, 1.5])
      expect(() => searches({ ...search, max_tool_calls: none })).toThrow("request.invalid_request")
    expect(searches({ ...search, max_tool_calls: 4 })).toBe(4)
    expect(searches({})).toBeUndefined()
    const found = { type: "tool_search_output", tools: [{ type: "web_search_preview" }] }
    expect(searches({ input: [{ role: "user", content: "Hi" }, found] })).toBe(5)
  })
  test("in a list of objects that are judged a text does not pass for one", () => {
    const edits = ["compact_20260112", { type: "clear_tool_uses_20250919" }]
    const request = understood("messages", { ...hello.messages, context_management: { edits } })
    expect(request.body["context_management"]).toEqual({ edits: [{ type: "clear_tool_uses_20250919" }] })
    expect(request.dropped.names).toEqual(["context_management.edits"])
  })
  test("a tool that the backend would run is refused also where a search for tools has found it", () => {
    const found = { type: "tool_search_output", tools: [{ type: "image_generation" }] }
    const refused = responses.decodeRequest({ model: "m", input: [{ role: "user", content: "Hi" }, found] })
    expect(refused instanceof Failure ? refused.code : "taken").toBe("request.unsupported_feature")
  })
})

describe("a field of a beta", () => {
  const needs: readonly (readonly [beta: string, names: readonly string[]])[] = [
    ["context-management-2025-06-27", ["context_management"]],
    ["mid-conversation-tool-changes-2026-07-01", ["messages.content.tool_removal"]],
    ["per-turn-control-2026-07-01", ["messages.output_config"]],
    ["mid-conversation-system-clear-at-2026-08-21", ["messages.clear_at"]],
    ["thinking-binding-controls-2026-08-01", ["thinking.block_binding"]],
    ["task-budgets-2026-03-13", ["output_config.task_budget"]],
  ]
  test.each(needs)("of %s does not travel without it", (beta, names) => {
    const betas = neededBetas.filter((one) => one !== beta)
    expect(understood("messages", knownBodies.messages, { betas }).dropped.names).toEqual([...names])
  })
})

test("flags of betas are told apart, each once and in their order: those that travel, and all others", () => {
  const [one, other] = ["context-management-2025-06-27", "task-budgets-2026-03-13"] as const
  const nothing = { listed: [], others: [] }
  const asked = `${one}, x-1,, ${other} ,x-1,${one}`
  expect(requestedBetas(asked)).toEqual({ listed: [one, other], others: ["x-1"] })
  expect(requestedBetas(asked, (beta) => beta !== one)).toEqual({ listed: [other], others: [one, "x-1"] })
  expect([requestedBetas(null), requestedBetas("")]).toEqual([nothing, nothing])
})

const header = (...names: string[]) =>
  droppedFieldsHeader(
    understood("chat", { ...hello.chat, ...Object.fromEntries(names.map((name) => [name, 1])) }).dropped,
  )
const many = (count: number) => Array.from({ length: count }, (_, place) => `x_${place}`)

const withOthers = (names: string[], more: boolean, others: string[]) => withNames({ names, more }, others)

describe("the header", () => {
  test("is not there where nothing was left out", () => expect(header()).toBeUndefined())
  test("has twenty names", () => expect(header(...many(20))).toBe(many(20).join(", ")))
  test("has no more than twenty, and says that there were more", () =>
    expect(header(...many(21))).toBe(`${many(20).join(", ")}, ...`))
  test("has a name of 64 characters, and none of 65", () => {
    expect(header("a".repeat(64))).toBe("a".repeat(64))
    expect(header("a".repeat(65))).toBe("...")
  })
  test.each(["a b", "a\r\nSet-Cookie: x", "naïve", "", "...", ".", "a,b"])("does not say %j", (name) => {
    expect(header(name)).toBe("...")
    expect(header("x_ok", name)).toBe("x_ok, ...")
  })
  test("names a field once, in however many places it stood", () => {
    const tools = Array.from({ length: 30 }, () => ({ type: "function", function: { name: "f", x_new: 1 } }))
    expect(droppedFieldsHeader(understood("chat", { ...hello.chat, tools }).dropped)).toBe("tools.function.x_new")
  })
  test("stays whole where a known name comes once more after twenty", () => {
    const tools = [{ type: "function", function: { name: "f", x_new: 1 } }]
    const twice = [...tools, ...tools]
    const written = { tools, ...Object.fromEntries(many(19).map((name) => [name, 1])), functions: [], x_last: 1 }
    expect(droppedFieldsHeader(understood("chat", { ...written, tools: twice, ...hello.chat }).dropped)).toEndWith(
      "...",
    )
    const { x_last: _, ...most } = written
    const told = droppedFieldsHeader(understood("chat", { ...most, tools: twice, ...hello.chat }).dropped)
    expect(told).toBe(["tools.function.x_new", ...many(19)].join(", "))
  })
  test("has the names of what was left out first, and then what has no words in the backend's format", () => {
    expect(withOthers(["a"], false, ["b", "a"])).toEqual({ names: ["a", "b"], more: false })
    expect(withOthers(["a"], true, ["b"])).toEqual({ names: ["a", "b"], more: true })
    expect(withOthers(many(20), false, ["b"])).toEqual({ names: many(20), more: true })
    expect(withOthers(["a"], true, [])).toEqual({ names: ["a"], more: true })
  })
})
