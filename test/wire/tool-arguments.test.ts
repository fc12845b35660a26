/** Arguments of earlier calls towards chat backends, several of which parse them and refuse the whole conversation for one that is broken. */
import { expect, test } from "bun:test"
import type { Json, JsonObject } from "../../src/language/json.ts"
import { exchange } from "../../src/wire/exchange.ts"
import { decodeRequest } from "../../src/wire/responses/format.ts"
import { must } from "./responses/asking.ts"

function sent(...items: JsonObject[]): Json[] {
  const input = items.flatMap((item, index): JsonObject[] => {
    const call_id = `c${index}`
    const isCustom = item["type"] === "custom_tool_call"
    return [
      { type: "function_call", name: "f", ...item, call_id },
      { type: isCustom ? "custom_tool_call_output" : "function_call_output", call_id, output: "done" },
    ]
  })
  const request = must(decodeRequest({ model: "m", input: [{ role: "user", content: "Hi" }, ...input] }))
  const body = must(exchange(request, { format: "chat", model: "vendor-m" })).encodeRequest(100)
  const messages = body["messages"] as JsonObject[]
  return messages
    .flatMap(({ tool_calls: calls }) => (Array.isArray(calls) ? calls : []))
    .map((call) => ((call as JsonObject)["function"] as JsonObject)["arguments"] ?? null)
}

test.each([
  ["cut off", '{"cmd": "ls'],
  ["no JSON", "ls -l"],
  ["a list", '["a"]'],
  ["a text", '"a"'],
  ["null", "null"],
])("arguments that are %s stand in an object", (_, text) => {
  expect(sent({ arguments: text })).toEqual([JSON.stringify({ raw: text })])
})

test.each(['{"a":1}', ' {"id": 9007199254740993, "b" : [1.0]}\n', "{}"])(
  "those of an object stay as they are: %s",
  (text) => {
    expect(sent({ arguments: text })).toEqual([text])
  },
)

test("none are an empty object, and a free text stands in one", () => {
  expect(sent({ arguments: " " }, { type: "custom_tool_call", input: '{"x' })).toEqual(["{}", '{"input":"{\\"x"}'])
})

test("what has too many values to be looked through stays as it is", () => {
  const text = JSON.stringify({ a: Array.from({ length: 210_000 }, () => "b") })
  expect(sent({ arguments: text })).toEqual([text])
})
