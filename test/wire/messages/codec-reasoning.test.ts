/** Thinking as each generation of the vendor's models takes it; what one of them refuses is a 400 for its client. */
import { describe, expect, test } from "bun:test"
import seed from "../../../seeds/catalogue.json" with { type: "json" }
import type { JsonObject } from "../../../src/language/json.ts"
import type { AssistantPart, Effort, Reasoning, Turn } from "../../../src/language/prompt.ts"
import { leftOut } from "../../../src/wire/messages/prompt-out.ts"
import { modelTraits } from "../../../src/wire/messages/thinking.ts"
import { encoded, forwarding, hello, request } from "./samples.ts"

const wants = (effort: Effort | undefined, changes: Partial<Reasoning> = {}): Reasoning => ({
  enabled: true,
  effort,
  budgetTokens: undefined,
  visible: true,
  ...changes,
})
const none = wants("none", { enabled: false })

const asks = (model: string, reasoning: Reasoning, asked = 40_000, limit = asked): JsonObject => {
  const terms = {
    request: request({ maxOutputTokens: asked }),
    forwarding: forwarding({ model, maxOutputTokens: limit }),
  }
  const { thinking, output_config } = encoded({ reasoning }, terms)
  return { thinking, output_config }
}
const budget = (tokens: number): JsonObject => ({ thinking: { type: "enabled", budget_tokens: tokens } })
const shown = { type: "adaptive", display: "summarized" }

const rows: readonly (readonly [model: string, asked: Reasoning, fields: JsonObject])[] = [
  ["claude-haiku-4-5-20251001", wants("minimal"), budget(1024)],
  ["claude-haiku-4-5-20251001", wants("low"), budget(2048)],
  ["claude-haiku-4-5-20251001", wants(undefined), budget(8192)],
  ["anthropic.claude-opus-4-5-20251101-v1:0", wants("high"), budget(16_384)],
  ["claude-opus-4-5", wants("max"), budget(32_000)],
  ["claude-opus-4-5", wants(undefined, { budgetTokens: 5000 }), budget(5000)],
  ["claude-opus-4-5", wants(undefined, { budgetTokens: 10 }), budget(1024)],
  ["claude-opus-4-5", wants(undefined, { budgetTokens: 90_000 }), budget(39_999)],
  ["claude-opus-4-5", none, { thinking: { type: "disabled" } }],
  ["claude-sonnet-4-20250514", wants("low"), budget(2048)],
  ["claude-3-7-sonnet-20250219", wants("low"), budget(2048)],
  ["kimi-k3", wants("low"), budget(2048)],
  [
    "anthropic.claude-opus-4-6-v1",
    wants("xhigh"),
    { thinking: { type: "adaptive" }, output_config: { effort: "high" } },
  ],
  ["claude-sonnet-4-6", wants("max"), { thinking: { type: "adaptive" }, output_config: { effort: "max" } }],
  ["claude-sonnet-4-6", none, {}],
  ["claude-opus-4-7", wants("xhigh"), { thinking: shown, output_config: { effort: "xhigh" } }],
  ["claude-opus-4-8", none, {}],
  ["claude-opus-5", wants("minimal"), { thinking: shown, output_config: { effort: "low" } }],
  ["claude-opus-5", wants(undefined, { budgetTokens: 5000 }), { thinking: shown }],
  [
    "claude-opus-5",
    wants("low", { visible: false }),
    { thinking: { type: "adaptive", display: "omitted" }, output_config: { effort: "low" } },
  ],
  ["claude-opus-5", none, { thinking: { type: "disabled" } }],
  ["claude-sonnet-5", none, { thinking: { type: "disabled" } }],
  ["claude-haiku-5-5", none, { thinking: { type: "disabled" } }],
  ["claude-sonnet-5-5", none, { thinking: { type: "between_tools" } }],
  ["claude-opus-5-5", none, { output_config: { effort: "low" } }],
  ["claude-fable-5-1", none, { output_config: { effort: "low" } }],
  ["claude-opus-6", none, { output_config: { effort: "low" } }],
  ["claude-haiku-5-6", none, { output_config: { effort: "low" } }],
  ["claude-sonnet-5-6", none, { output_config: { effort: "low" } }],
  ["Vendor/Claude-Opus-5", none, { thinking: { type: "disabled" } }],
  ["claude-saga", wants("high"), { thinking: shown, output_config: { effort: "high" } }],
]
test.each(rows)("%s, asked for %j, is told %j", (model, asked, fields) => {
  expect(asks(model, asked)).toEqual({ thinking: undefined, output_config: undefined, ...fields })
})

test("a client that says nothing of thinking leaves it to the model", () => {
  const { thinking, output_config } = encoded({})
  expect([thinking, output_config]).toEqual([undefined, undefined])
})

describe("a budget", () => {
  const haiku = "claude-haiku-4-5"
  const limits: readonly (readonly [asked: number, limit: number, thinking: JsonObject | undefined])[] = [
    [10_000, 10_000, { type: "enabled", budget_tokens: 8000 }],
    [1200, 1200, { type: "enabled", budget_tokens: 1024 }],
    [1025, 1025, { type: "enabled", budget_tokens: 1024 }],
    [1024, 1024, undefined],
    [16, 16, undefined],
    [40_000, 4000, { type: "enabled", budget_tokens: 1638 }],
    [40_000, 1100, { type: "enabled", budget_tokens: 1024 }],
    [40_000, 1000, { type: "disabled" }],
  ]
  test.each(limits)("beneath a limit of %d lowered to %d is %j", (asked, limit, thinking) => {
    expect(asks(haiku, wants("high"), asked, limit)["thinking"]).toEqual(thinking)
  })

  const unlimited: readonly (readonly [limit: number, thinking: JsonObject])[] = [
    [16_000, { type: "enabled", budget_tokens: 8_000 }],
    [6_000, { type: "enabled", budget_tokens: 3_000 }],
    [1_000, { type: "disabled" }],
  ]
  test.each(unlimited)("of a client that named no limit leaves room beneath one of %d: %j", (limit, thinking) => {
    const terms = {
      request: request({ maxOutputTokens: undefined }),
      forwarding: forwarding({ model: haiku, maxOutputTokens: limit, modelLimit: 16_000 }),
    }
    expect(encoded({ reasoning: wants(undefined, { budgetTokens: 8_000 }) }, terms)["thinking"]).toEqual(thinking)
  })

  const call: AssistantPart = { type: "tool-call", id: "1", name: "f", arguments: "{}", custom: false }
  const result: Turn = { role: "user", parts: [{ type: "tool-result", callId: "1", parts: [], isError: false }] }
  const loop = (...parts: AssistantPart[]): Turn[] => [hello, { role: "assistant", parts }, result]
  const sealed: AssistantPart = { type: "thinking", text: "hm", seal: { by: "messages", data: "s" } }
  const foreign: AssistantPart = { type: "thinking", text: "hm", seal: { by: "responses", data: "s" } }
  const loops: readonly (readonly [string, readonly Turn[], boolean])[] = [
    ["calls that it thought before", loop(sealed, call), true],
    ["calls whose thinking the client could not keep", loop(call), false],
    ["words, and calls whose thinking the client could not keep", loop({ type: "text", text: "a" }, call), false],
    ["calls that another backend thought before", loop(foreign, call), false],
    ["an answer without calls", [hello, { role: "assistant", parts: [{ type: "text", text: "a" }] }, hello], true],
    ["a turn that it is to go on with", [hello, { role: "assistant", parts: [{ type: "text", text: "a" }] }], false],
  ]
  test.each(loops)("after %s: thinking asked for is %#", (_, turns, thinks) => {
    const terms = { forwarding: forwarding({ model: haiku }) }
    expect(encoded({ turns, reasoning: wants("low") }, terms)["thinking"] !== undefined).toBe(thinks)
  })

  test("is not needed by models that decide for themselves", () => {
    const terms = { forwarding: forwarding({ model: "claude-opus-4-8" }) }
    expect(encoded({ turns: loop(call), reasoning: wants("low") }, terms)["thinking"]).toEqual(shown)
  })
})

test("while the model thinks, no sampling is asked for", () => {
  const sampling = { temperature: 0.2, topP: 0.9, topK: 5 }
  expect(Object.keys(encoded({ sampling, reasoning: wants("low") }))).not.toContainAnyValues([
    "temperature",
    "top_p",
    "top_k",
  ])
  expect(encoded({ sampling, reasoning: none })).toMatchObject({ temperature: 0.2, top_k: 5 })
})

test.each([
  ["claude-sonnet-4-6", true],
  ["anthropic.claude-opus-4-6-v1", true],
  ["claude-opus-4-7", false],
  ["claude-opus-4-8", false],
  ["anthropic.claude-opus-5", false],
  ["claude-sonnet-5", false],
  ["claude-sonnet-5-5", false],
  ["claude-haiku-5-5", false],
  ["kimi-k3", true],
])("%s takes sampling parameters while it does not think: %p", (model, takes) => {
  const sampling = { temperature: 0.2, topP: undefined, topK: 5 }
  for (const reasoning of [undefined, none]) {
    const body = encoded({ sampling, reasoning }, { forwarding: forwarding({ model }) })
    expect([body["temperature"], body["top_k"]]).toEqual(takes ? [0.2, 5] : [undefined, undefined])
  }
  expect(leftOut({ temperature: 0.2, top_k: 5 }, model)).toEqual(takes ? [] : ["temperature", "top_k"])
})

test.each([
  ["claude-3-7-sonnet-20250219", true],
  ["claude-opus-4-20250514", true],
  ["claude-opus-4-1-20250805", false],
  ["claude-haiku-4-5", false],
  ["kimi-k3", true],
])("%s takes a temperature and top_p side by side: %p", (model, both) => {
  const sampling = { temperature: 0.2, topP: 0.9, topK: undefined }
  const body = encoded({ sampling }, { forwarding: forwarding({ model }) })
  expect([body["temperature"], body["top_p"]]).toEqual([0.2, both ? 0.9 : undefined])
})

test("an effort stands beside the answer's schema", () => {
  const output = { kind: "schema", name: undefined, description: undefined, schema: {}, strict: undefined } as const
  const terms = { forwarding: forwarding({ model: "claude-opus-5" }) }
  expect(encoded({ output, reasoning: wants("max") }, terms)["output_config"]).toEqual({
    effort: "max",
    format: { type: "json_schema", schema: {} },
  })
})

test("each messages backend of the catalogue is known by its name", () => {
  const traits = seed.models
    .filter(({ upstream }) => upstream.format === "messages")
    .map(({ upstream: { model } }) => [model.replace("anthropic.", ""), modelTraits(model)] as const)
    .map(([model, { thinking, off, forcesTools, prefill }]) => `${model} ${thinking} ${off} ${forcesTools} ${prefill}`)
  expect(traits).toEqual([
    "claude-opus-5-5 adaptive never false false",
    "claude-opus-5 adaptive disabled true false",
    "claude-opus-4-8 adaptive omit true false",
    "claude-opus-4-7 adaptive omit true false",
    "claude-opus-4-6-v1 adaptive omit true false",
    "claude-opus-4-5-20251101-v1:0 budget disabled true true",
    "claude-sonnet-5-5 adaptive between_tools false false",
    "claude-sonnet-5 adaptive disabled true false",
    "claude-sonnet-4-6 adaptive omit true false",
    "claude-haiku-5-5 adaptive disabled true false",
    "claude-haiku-4-5-20251001-v1:0 budget disabled true true",
  ])
})
