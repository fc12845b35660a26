/** How much is to be said: chat's `verbosity` is the `text.verbosity` of responses. */
import { describe, expect, test } from "bun:test"
import { Failure } from "../../src/failure/failure.ts"
import type { Json, JsonObject } from "../../src/language/json.ts"
import { decodeRequest } from "../../src/wire/chat/format.ts"
import { exchange } from "../../src/wire/exchange.ts"
import { droppedNames, must } from "./responses/asking.ts"

const schema = { type: "object", properties: {} }
const ask = (fields: JsonObject): JsonObject => ({
  model: "m",
  messages: [{ role: "user", content: "Hi" }],
  ...fields,
})

/** The text settings that a responses backend is sent. */
function textOf(fields: JsonObject, strip: readonly string[] = []): Json | undefined {
  const request = must(decodeRequest(ask(fields)))
  const translation = must(exchange(request, { format: "responses", model: "vendor-m" }, { strip }))
  return translation.encodeRequest(100)["text"]
}

describe("a responses backend", () => {
  test("is told how much a chat client wants to hear, beside the schema of the answer", () => {
    expect(textOf({ verbosity: "low" })).toEqual({ verbosity: "low" })
    const response_format = { type: "json_schema", json_schema: { name: "n", schema } }
    const format = { type: "json_schema", name: "n", schema }
    expect(textOf({ verbosity: "high", response_format })).toEqual({ format, verbosity: "high" })
    expect(textOf({ response_format })).toEqual({ format })
  })

  test("is not told where nothing was asked, or its model does not take it", () => {
    expect(textOf({ verbosity: null })).toBeUndefined()
    expect(textOf({ verbosity: "low" }, ["verbosity"])).toBeUndefined()
  })
})

test.each([["chatty"], [1], [{}]])("a verbosity of %p is none", (verbosity) => {
  const request = must(decodeRequest(ask({ verbosity })))
  const failure = exchange(request, { format: "responses", model: "vendor-m" }, { strip: [] })
  expect(failure instanceof Failure && failure.code).toBe("request.invalid_request")
})

test.each([
  ["responses", []],
  ["chat", []],
  ["messages", ["verbosity"]],
  ["bedrock", ["verbosity"]],
] as const)("for a backend of %s it is named as left out where it is: %j", (format, names) => {
  expect(droppedNames(ask({ verbosity: "low" }), "chat", format)).toEqual([...names])
})
