/** A stream whose events do not say which place their item has in the output, as llama.cpp's: they go by the item's id. */
import { expect, test } from "bun:test"
import { type JsonObject, readText } from "../../../src/language/json.ts"
import { encodeSse } from "../../../src/wire/sse.ts"
import { bytesOf } from "../replay.ts"
import { added, decodeBytes } from "./answers.ts"

const replyOf = (...events: JsonObject[]) =>
  added(decodeBytes(bytesOf(events.map((event) => encodeSse(readText(event["type"]), JSON.stringify(event))).join(""))))
const item = (event: "added" | "done", fields: JsonObject): JsonObject => ({
  type: `response.output_item.${event}`,
  item: fields,
})
const call = (call_id: string, name: string, args: string): JsonObject => ({
  type: "function_call",
  call_id,
  name,
  arguments: args,
})
const piece = (item_id: string, delta: string): JsonObject => ({
  type: "response.function_call_arguments.delta",
  item_id,
  delta,
})

const stream = [
  { type: "response.created", response: { id: "resp_1", status: "in_progress" } },
  item("added", { type: "reasoning", id: "rs_1", summary: [] }),
  { type: "response.reasoning_text.delta", item_id: "rs_1", delta: "Two calls." },
  item("added", { type: "message", id: "msg_1", role: "assistant", content: [] }),
  { type: "response.output_text.delta", item_id: "msg_1", delta: "I look " },
  { type: "response.output_text.delta", item_id: "msg_1", delta: "both up." },
  item("added", call("fc_1", "a", "")),
  piece("fc_1", '{"x":'),
  piece("fc_1", "1}"),
  item("added", call("fc_2", "b", "")),
  piece("fc_2", "{}"),
  { type: "response.output_text.done", item_id: "msg_1", text: "I look both up." },
  item("done", {
    type: "reasoning",
    id: "rs_1",
    summary: [],
    content: [{ type: "reasoning_text", text: "Two calls." }],
  }),
  item("done", { type: "message", id: "msg_1", content: [{ type: "output_text", text: "I look both up." }] }),
  item("done", call("fc_1", "a", '{"x":1}')),
  item("done", call("fc_2", "b", "{}")),
  {
    type: "response.completed",
    response: { id: "resp_1", status: "completed", usage: { input_tokens: 5, output_tokens: 9 } },
  },
]

test("thinking, text and each of the calls are told apart", () => {
  expect(replyOf(...stream).parts).toEqual([
    { type: "thinking", text: "Two calls.", seal: undefined },
    { type: "text", text: "I look both up." },
    { type: "tool-call", id: "fc_1", name: "a", arguments: '{"x":1}', custom: false },
    { type: "tool-call", id: "fc_2", name: "b", arguments: "{}", custom: false },
  ])
})
