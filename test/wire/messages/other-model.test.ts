/** A messages request that was written for one model and is answered by another (docs/formats.md, "Another model's answer"). */
import { describe, expect, test } from "bun:test"
import type { JsonObject } from "../../../src/language/json.ts"
import type { Forwarding } from "../../../src/language/request.ts"
import { Failure } from "../../../src/failure/failure.ts"
import { decodeRequest, encodeRequest } from "../../../src/wire/messages/format.ts"
import { neededBetas } from "../known-bodies.ts"

const hi: JsonObject = { role: "user", content: "Hi" }

/** The body for `model` of a request for `writtenFor`, without what every body has. */
function sent(writtenFor: string | undefined, model: string, fields: JsonObject, more: Partial<Forwarding> = {}) {
  const asked = { model: "m", max_tokens: 20_000, messages: [hi], ...fields }
  const request = decodeRequest(asked, { pass: [], betas: neededBetas })
  if (request instanceof Failure) throw new Error(request.message)
  const {
    model: _,
    max_tokens: __,
    service_tier: ___,
    ...body
  } = encodeRequest(request, {
    model,
    maxOutputTokens: 20_000,
    stream: false,
    strip: [],
    ...(writtenFor !== undefined && { writtenFor }),
    ...more,
  })
  if (!("messages" in fields)) delete body["messages"]
  return body
}

const [opus46, opus47, opus5, opus55] = ["claude-opus-4-6", "claude-opus-4-7", "claude-opus-5", "claude-opus-5-5"]
const [haiku45, haiku55] = ["claude-haiku-4-5", "claude-haiku-5-5"]
const [sonnet5, sonnet55] = ["claude-sonnet-5", "claude-sonnet-5-5"]
const effort = (named: string): JsonObject => ({ output_config: { effort: named } })
const budget = (tokens: number): JsonObject => ({ thinking: { type: "enabled", budget_tokens: tokens } })
const adaptive = (more: JsonObject = {}): JsonObject => ({ thinking: { type: "adaptive", ...more } })
const disabled: JsonObject = { thinking: { type: "disabled" } }
const auto = { tool_choice: { type: "auto" } }

const management = (edits: JsonObject[]) => ({ context_management: { edits } })

describe("what the other model does not take becomes what it takes", () => {
  test.each([
    ["an effort, the nearest below", opus47, opus46, effort("xhigh"), effort("high")],
    ["one that both have", opus47, opus46, effort("max"), effort("max")],
    ["an effort where there are none", opus46, haiku45, effort("high"), {}],
    [
      "the schema beside it stays",
      opus47,
      haiku45,
      { output_config: { effort: "low", format: { type: "x" } } },
      { output_config: { format: { type: "x" } } },
    ],
    ["a budget", haiku45, haiku55, budget(2_000), adaptive({ display: "summarized" })],
    [
      "a budget, not to be shown",
      haiku45,
      haiku55,
      { thinking: { type: "enabled", budget_tokens: 2_000, display: "omitted" } },
      adaptive({ display: "omitted" }),
    ],
    ["a budget, where thinking shows", haiku45, opus46, budget(2_000), adaptive()],
    ["adaptive thinking stays", opus47, opus46, adaptive({ display: "omitted" }), adaptive({ display: "omitted" })],
    ["an effort that becomes a budget", opus46, haiku45, { ...adaptive(), ...effort("low") }, budget(2_048)],
    ["none named, as a budget", opus46, haiku45, adaptive(), budget(8_192)],
    ["a budget where none fits", opus46, haiku45, { ...adaptive(), max_tokens: 1_024 }, disabled],
    ["no thinking between tools", sonnet55, sonnet5, { thinking: { type: "between_tools" } }, disabled],
    ["no thinking, by saying nothing", sonnet55, opus46, { thinking: { type: "between_tools" } }, {}],
    ["no thinking, as near as it comes", opus5, opus55, { ...disabled, ...effort("high") }, effort("low")],
    ["samplers where none are taken", haiku45, haiku55, { temperature: 0.5, top_k: 5 }, {}],
    ["both samplers, where one is taken", "vendor-m", haiku45, { temperature: 0.5, top_p: 0.9 }, { temperature: 0.5 }],
    ["samplers beside thinking", "vendor-m", haiku45, { ...budget(2_000), temperature: 0.5 }, budget(2_000)],
    [
      "a demand for a tool",
      opus5,
      opus55,
      { tool_choice: { type: "tool", name: "look", disable_parallel_tool_use: true } },
      { tool_choice: { type: "auto", disable_parallel_tool_use: true } },
    ],
    ["a demand for any", opus5, opus55, { tool_choice: { type: "any" } }, auto],
    ["an effort that nobody knows stays", opus47, opus46, effort("most"), effort("most")],
  ] as const)("%s: %s → %s", (_, asked, model, fields, body) => {
    expect(sent(asked, model, fields)).toEqual(body)
  })

  test("a beginning of the answer", () => {
    const messages = [hi, { role: "assistant", content: "{" }]
    const goingOn = { role: "user", content: [{ type: "text", text: "Continue." }] }
    expect(sent(haiku45, haiku55, { messages })["messages"]).toEqual([...messages, goingOn])
    expect(sent(haiku45, "claude-sonnet-4-5", { messages })["messages"]).toEqual(messages)
  })

  test("thinking that the conversation cannot go on with, and the edit that needs it", () => {
    const call = { role: "assistant", content: [{ type: "tool_use", id: "t1", name: "look", input: {} }] }
    const result = { role: "user", content: [{ type: "tool_result", tool_use_id: "t1", content: "found" }] }
    const messages = [hi, call, result]
    const edit = { type: "clear_tool_uses_20250919" }
    expect(
      sent(opus46, haiku45, { messages, ...adaptive(), ...management([{ type: "clear_thinking_20251015" }, edit]) }),
    ).toEqual({ messages, ...disabled, ...management([edit]) })
  })

  test("and a budget is lowered once, with the limit", () => {
    const body = sent(opus46, haiku45, adaptive(), { maxOutputTokens: 10_000 })
    expect(body).toEqual(budget(4_096))
  })
})

test.each([
  [undefined, haiku55],
  [haiku55, haiku55],
  [opus5, haiku55],
  ["anthropic.claude-haiku-4-5-20251001-v1:0", "claude-sonnet-4-5"],
])("what was written for %s goes to %s as it is, for both take the same", (asked, model) => {
  const fields = { ...budget(2_000), temperature: 0.5, ...effort("xhigh"), tool_choice: { type: "any" } }
  expect(sent(asked, model, fields)).toEqual(fields)
})
