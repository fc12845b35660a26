/** An answer that was refused and says nothing, to clients of another format than its backend's (docs/formats.md). */
import { describe, expect, test } from "bun:test"
import type { JsonObject } from "../../src/language/json.ts"
import type { Translated } from "../../src/language/request.ts"
import { exchange } from "../../src/wire/exchange.ts"
import { type BackendModel, formats } from "../../src/wire/protocol.ts"
import { must } from "./chat/ask.ts"

const WORDS = "The model refused to answer, or a content filter withheld the answer."
const messages = [{ role: "user", content: "Hi" }]
const asked: Readonly<Record<Translated, JsonObject>> = {
  chat: { model: "m", messages },
  messages: { model: "m", max_tokens: 90, messages },
  responses: { model: "m", input: "Hi" },
}
const vendor: BackendModel = { format: "messages", model: "v" }
const open: BackendModel = { format: "chat", model: "v" }

function answering(client: Translated, backend: BackendModel) {
  const request = must(formats[client].client.decodeRequest({ ...asked[client], stream: true }))
  const view = { model: "m", includeUsage: true, requestId: "req_1", nowMs: 0, inputTokens: 7, request }
  return { met: must(exchange(request, backend)), view }
}

const reply = (client: Translated, body: JsonObject, backend = vendor) => {
  const { met, view } = answering(client, backend)
  return must(met.readReply(body, view)).body
}

/** The data of all events. */
function streamed(client: Translated, events: readonly JsonObject[], backend = vendor): JsonObject[] {
  const { met, view } = answering(client, backend)
  const reader = met.streamReader(view)
  const bytes = events
    .map((body) => reader.read({ event: (body["type"] ?? "") as string, data: JSON.stringify(body) }))
    .map((step) => ("bytes" in step ? step.bytes : ""))
    .join("")
  return bytes
    .split("\n")
    .filter((line) => line.startsWith("data: {"))
    .map((line) => JSON.parse(line.slice(6)) as JsonObject)
}

const usage = { input_tokens: 9, output_tokens: 3 }
const whole = (...content: JsonObject[]): JsonObject => ({ id: "msg_1", content, stop_reason: "refusal", usage })
const thought = { type: "thinking", thinking: "Hm.", signature: "c2ln" }
const stream = (reason: string, ...blocks: JsonObject[]): JsonObject[] => [
  { type: "message_start", message: { id: "msg_1", usage } },
  ...blocks.flatMap((content_block, index) => [
    { type: "content_block_start", index, content_block },
    { type: "content_block_stop", index },
  ]),
  { type: "message_delta", delta: { stop_reason: reason }, usage },
  { type: "message_stop" },
]
const text = { type: "text", text: "I" }
const call = { type: "tool_use", id: "t1", name: "look", input: {} }

describe("a chat client is told in words", () => {
  test.each([[[]], [[thought]], [[{ type: "text", text: "" }]]])("whole: %j", (content: JsonObject[]) => {
    expect(reply("chat", whole(...content))["choices"]).toMatchObject([
      { message: { content: null, refusal: WORDS }, finish_reason: "content_filter" },
    ])
  })
  test.each([[[]], [[thought]]])("streamed: %j", (blocks: JsonObject[]) => {
    const choices = streamed("chat", stream("refusal", ...blocks)).flatMap((chunk) => chunk["choices"] as JsonObject[])
    expect(choices.at(-2)).toMatchObject({ delta: { refusal: WORDS }, finish_reason: null })
    expect(choices.at(-1)).toMatchObject({ delta: {}, finish_reason: "content_filter" })
  })
})

describe("a responses client is told in words", () => {
  const part = { type: "refusal", refusal: WORDS }
  test("whole", () => {
    expect(reply("responses", whole())).toMatchObject({
      status: "incomplete",
      incomplete_details: { reason: "content_filter" },
      output: [{ type: "message", content: [part] }],
    })
  })
  test("streamed, with all of its events", () => {
    const events = streamed("responses", stream("refusal"))
    expect(events.map(({ type }) => type)).toEqual([
      "response.created",
      "response.in_progress",
      "response.output_item.added",
      "response.content_part.added",
      "response.refusal.delta",
      "response.refusal.done",
      "response.content_part.done",
      "response.output_item.done",
      "response.incomplete",
    ])
    expect(events.map((event) => event["sequence_number"])).toEqual(events.map((_, place) => place))
    expect(events.at(4)).toMatchObject({ delta: WORDS })
    expect(events.at(-1)).toMatchObject({ response: { output: [{ type: "message", content: [part] }] } })
  })
})

const said = (client: Translated, body: JsonObject, events: readonly JsonObject[], backend = vendor) =>
  JSON.stringify([reply(client, body, backend), streamed(client, events, backend)])

describe("but not", () => {
  test.each([["chat"], ["responses"]] as const)(
    "where the answer says something, or ended otherwise (%s)",
    (client) => {
      for (const block of [text, call])
        expect(said(client, whole(block), stream("refusal", block))).not.toContain("withheld")
      expect(said(client, { ...whole(), stop_reason: "end_turn" }, stream("end_turn"))).not.toContain("withheld")
    },
  )

  test("to a messages client, for which the reason is enough", () => {
    const choice = { index: 0, finish_reason: "content_filter" }
    const body = { id: "1", choices: [{ ...choice, message: { role: "assistant", content: "" } }] }
    const chunks = [{ id: "1", choices: [{ ...choice, delta: {} }] }]
    expect(said("messages", body, chunks, open)).not.toContain("withheld")
    expect(said("responses", body, chunks, open)).toContain("withheld")
  })
})
