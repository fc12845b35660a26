/** Schemas of tools that one vendor takes and another refuses. */
import { expect, test } from "bun:test"
import type { Json, JsonObject } from "../../src/language/json.ts"
import { exchange } from "../../src/wire/exchange.ts"
import { decodeRequest as decodeChat } from "../../src/wire/chat/format.ts"
import { decodeRequest as decodeMessages } from "../../src/wire/messages/format.ts"
import { decodeRequest as decodeResponses } from "../../src/wire/responses/format.ts"
import { must } from "./responses/asking.ts"

const said = { model: "m", messages: [{ role: "user", content: "Hi" }] }

/** A request in each format, with one tool of this schema. */
const clients = {
  chat: (parameters: JsonObject) =>
    decodeChat({ ...said, tools: [{ type: "function", function: { name: "f", parameters } }] }),
  messages: (input_schema: JsonObject) =>
    decodeMessages({ ...said, max_tokens: 100, tools: [{ name: "f", input_schema }] }),
  responses: (parameters: JsonObject) =>
    decodeResponses({ model: "m", input: "Hi", tools: [{ type: "function", name: "f", parameters }] }),
}

function sent(client: keyof typeof clients, format: "chat" | "responses", schema: JsonObject): Json | undefined {
  const request = must(clients[client](schema))
  const body = must(exchange(request, { format, model: "vendor-m" })).encodeRequest(100)
  const [tool] = (Array.isArray(body["tools"]) ? body["tools"] : []) as JsonObject[]
  const { function: called = tool } = tool ?? {}
  return (called as JsonObject)["parameters"]
}

const pairs = [
  ["messages", "chat"],
  ["messages", "responses"],
  ["chat", "responses"],
  ["responses", "chat"],
] as const

test.each(pairs)("from %s to %s an object that names no properties has none, and says so", (client, format) => {
  expect(sent(client, format, { type: "object", additionalProperties: false })).toEqual({
    type: "object",
    additionalProperties: false,
    properties: {},
  })
  expect(sent(client, format, { type: "object", properties: null })).toEqual({ type: "object", properties: {} })
})

test.each(pairs)("from %s to %s any other schema stays as it is", (client, format) => {
  const one = { type: "object", properties: { a: { type: "object" } }, required: ["a"] }
  expect(sent(client, format, one)).toEqual(one)
})
