/** Messages of the role `system` in mid-conversation, to backends of the client's own format (docs/formats.md). */
import { describe, expect, test } from "bun:test"
import { decode } from "../../../src/bodies/body-processor.ts"
import { Failure } from "../../../src/failure/failure.ts"
import type { Json, JsonObject } from "../../../src/language/json.ts"
import { exchange } from "../../../src/wire/exchange.ts"
import { modelTraits } from "../../../src/wire/messages/thinking.ts"
import { neededBetas } from "../known-bodies.ts"

const hi: JsonObject = { role: "user", content: "Hi" }
const mark = { type: "ephemeral", ttl: "5m" }

const decoded = (model: string, messages: Json[], format: "messages" | "bedrock" = "messages") => {
  const backend = { format, model }
  const request = decode(
    "messages",
    { model: "m", max_tokens: 64, messages },
    {
      allowance: { pass: [], betas: neededBetas },
      call: {
        secret: new Uint8Array(32),
        accountId: "acc_1",
        backends: [backend],
        strip: [],
        dropped: [],
        conversationName: undefined,
      },
    },
  )
  if (request instanceof Failure) throw new Error(request.message)
  const met = exchange(request, backend)
  if (met instanceof Failure) throw new Error(met.message)
  return { dropped: request.dropped.names, sent: met.encodeRequest(64)["messages"] as JsonObject[] }
}

const sent = (messages: Json[], model = "claude-opus-4-7") => decoded(model, messages).sent

test.each([
  ["claude-3-haiku-20240307", false],
  ["anthropic.claude-opus-4-5-20251101-v1:0", false],
  ["anthropic.claude-opus-4-6-v1", false],
  ["claude-sonnet-4-6", false],
  ["claude-opus-4-7", false],
  ["anthropic.claude-haiku-4-5-20251001-v1:0", false],
  ["claude-opus-4-8", true],
  ["claude-opus-5", true],
  ["claude-sonnet-5", true],
  ["claude-sonnet-5-5", true],
  ["claude-haiku-5-5", true],
  ["claude-fable-5", true],
  ["claude-of-tomorrow", true],
  // Whether a compatible backend takes them is known to nobody but itself.
  ["vendor-m", true],
])("%s takes them as they are: %p", (model, takes) => {
  expect(modelTraits(model).systemTurns).toBe(takes)
  const messages = [hi, { role: "system", content: "Be brief." }]
  expect(sent(messages, model)).toEqual(
    takes ? messages : [hi, { role: "user", content: "<system>\nBe brief.\n</system>" }],
  )
})

describe("a model that refuses them gets them in the user's turn", () => {
  test("block by block, with their cache marks", () => {
    const content = [
      { type: "text", text: "Be brief." },
      { type: "text", text: "Be kind.", cache_control: mark },
    ]
    expect(sent([hi, { role: "system", content }])).toEqual([
      hi,
      {
        role: "user",
        content: [
          { type: "text", text: "<system>\nBe brief.\n</system>" },
          { type: "text", text: "<system>\nBe kind.\n</system>", cache_control: mark },
        ],
      },
    ])
  })

  test("after the results of tools, which come first in a turn", () => {
    const call = { role: "assistant", content: [{ type: "tool_use", id: "t1", name: "look", input: {} }] }
    const result = { role: "user", content: [{ type: "tool_result", tool_use_id: "t1", content: "found" }] }
    const note = { role: "user", content: "<system>\nMind this.\n</system>" }
    const system = { role: "system", content: "Mind this." }
    expect(sent([hi, call, system, system, result, hi])).toEqual([hi, call, result, note, note, hi])
    expect(sent([hi, call, result, system])).toEqual([hi, call, result, note])
    // Where no result follows, nothing moves.
    expect(sent([hi, system, hi])).toEqual([hi, note, hi])
    expect(sent([hi, system])).toEqual([hi, note])
  })

  test("but not what only those who take them understand, which is named", () => {
    const messages = [
      { ...hi, output_config: { effort: "low" } },
      { role: "system", content: [], output_config: { effort: "low" } },
      { role: "system", content: " \n" },
      {
        role: "system",
        content: [
          { type: "tool_removal", tool: { type: "tool_reference", name: "look" } },
          { type: "text", text: "" },
          { type: "text", text: "Gone." },
        ],
        clear_at: "never",
      },
    ]
    expect(decoded("claude-sonnet-4-6", messages)).toEqual({
      dropped: ["messages.output_config", "messages.clear_at", "messages.content.tool_removal"],
      sent: [
        messages[0] as JsonObject,
        { role: "user", content: [{ type: "text", text: "<system>\nGone.\n</system>" }] },
      ],
    })
    expect(decoded("claude-opus-5", messages)).toEqual({ dropped: [], sent: messages })
  })

  test("and nothing else of the request is touched", () => {
    const messages = [
      hi,
      { role: "assistant", content: [{ type: "thinking", thinking: "Hm.", signature: "c2ln" }] },
      { role: "user", content: [{ type: "text", text: "x-anthropic-billing-header: a", cache_control: mark }] },
    ]
    expect(sent(messages)).toEqual(messages)
  })
})
