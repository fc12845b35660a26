/** A stream that gives several items one place in the output, as gateways do that count each kind of item by itself. */
import { expect, test } from "bun:test"
import { type JsonObject, readText } from "../../../src/language/json.ts"
import { backendStream } from "../../../src/wire/responses/events-in.ts"
import { gatherer } from "../../../src/wire/responses/reply.ts"
import { encodeSse } from "../../../src/wire/sse.ts"
import { bytesOf } from "../replay.ts"
import { added, decodeBytes } from "./answers.ts"

const replyOf = (...events: JsonObject[]) =>
  added(decodeBytes(bytesOf(events.map((event) => encodeSse(readText(event["type"]), JSON.stringify(event))).join(""))))
const at = (type: string, fields: JsonObject): JsonObject => ({ type: `response.${type}`, output_index: 0, ...fields })
const call = (id: string, name: string, args: string): JsonObject => ({
  type: "function_call",
  id: `fc_${id}`,
  call_id: id,
  name,
  arguments: args,
})

const stream = [
  { type: "response.created", response: { id: "resp_1", status: "in_progress" } },
  at("output_item.added", { item: { type: "message", id: "msg_1", role: "assistant", content: [] } }),
  at("output_text.delta", { item_id: "msg_1", content_index: 0, delta: "Both." }),
  at("output_item.done", {
    item: { type: "message", id: "msg_1", content: [{ type: "output_text", text: "Both." }] },
  }),
  at("output_item.added", { item: call("a", "f", "") }),
  at("function_call_arguments.delta", { item_id: "fc_a", delta: '{"x":1}' }),
  at("output_item.done", { item: call("a", "f", '{"x":1}') }),
  at("output_item.added", { item: call("b", "g", "") }),
  at("function_call_arguments.delta", { item_id: "fc_b", delta: '{"y":2}' }),
  at("output_item.done", { item: call("b", "g", '{"y":2}') }),
  { type: "response.completed", response: { id: "resp_1", status: "completed" } },
]

test("what begins where another item is over is another item", () => {
  expect(replyOf(...stream).parts).toEqual([
    { type: "text", text: "Both." },
    { type: "tool-call", id: "a", name: "f", arguments: '{"x":1}', custom: false },
    { type: "tool-call", id: "b", name: "g", arguments: '{"y":2}', custom: false },
  ])
})

test("an answer that is gathered has all of them", () => {
  const gathering = gatherer()
  for (const event of stream) gathering.take({ event: readText(event["type"]), data: "" }, event)
  const { output } = gathering.reply()
  expect((output as JsonObject[]).map(({ id }) => readText(id))).toEqual(["msg_1", "fc_a", "fc_b"])
})

const search = (id: string) => ({
  type: "web_search_call",
  id,
  status: "completed",
  action: { type: "search", query: "x" },
})

test("each search is counted", () => {
  const reading = backendStream({ model: "m", includeUsage: true })
  const searching = ["ws_1", "ws_2"].flatMap((id) => [
    at("output_item.added", { item: search(id) }),
    at("output_item.done", { item: search(id) }),
  ])
  for (const event of [...searching, ...stream]) reading.meaning({ event: readText(event["type"]), data: "" }, event)
  expect(reading.searches()).toBe(2)
})
