import { describe, expect, test } from "bun:test"
import type { Offer } from "../../src/catalogue/model.ts"
import type { ModelRequest } from "../../src/language/request.ts"
import { connectionFault, withClientDetail } from "../../src/upstream/client.ts"
import { classifyBackendError } from "../../src/wire/backend-error.ts"
import type { Json, JsonObject } from "../../src/language/json.ts"

const body: JsonObject = { temperature: 3, messages: [{ content: "x" }], tools: [{ input_schema: { type: "text" } }] }

/** What the client is told of a backend's 400. */
function told(answer: Json): string {
  const { failure, field } = classifyBackendError(400, answer, new Headers(), 0)
  const asked = { request: { body } as ModelRequest, offer: {} as Offer }
  return withClientDetail({ ...connectionFault(false), failure, field, status: 400 }, asked).failure.message
}
const rejected = (field: string) => `The model's backend rejected '${field}' of the request.`

describe("the field that a backend's refusal names", () => {
  test.each<[string, Json, string]>([
    ["as a parameter", { error: { message: "Bad.", param: "temperature" } }, rejected("temperature")],
    ["before a colon", { type: "error", error: { message: "temperature: range: 0..1" } }, rejected("temperature")],
    ["by a path", { error: { message: "messages.0.content: must not be x" } }, rejected("messages.0.content")],
    [
      "by brackets",
      { error: { message: "Bad.", param: "tools[0].input_schema.type" } },
      rejected("tools.0.input_schema.type"),
    ],
    ["in steps", { detail: [{ loc: ["body", "messages", 0, "content"], msg: "bad" }] }, rejected("messages.0.content")],
    [
      "as something it has not",
      { error: { message: "Unsupported parameter.", code: "unsupported_parameter", param: "temperature" } },
      "The model's backend does not support 'temperature' of the request.",
    ],
  ])("is told where it stands %s", (_, answer, message) => expect(told(answer)).toBe(message))

  test.each<[string, Json]>([
    ["the client did not send it", { error: { message: "Bad.", param: "top_p" } }],
    ["it is of every object", { error: { message: "Bad.", param: "constructor" } }],
    ["it is a name as long as none", { error: { message: "Bad.", param: "a".repeat(65) } }],
    ["it is no name", { error: { message: "Bad.", param: "temperature is s3cr3t" } }],
    ["it is words before a colon", { error: { message: "the secret: is this" } }],
    ["its steps are endless", { detail: [{ loc: ["body", ...Array<string>(30).fill("messages")], msg: "bad" }] }],
  ])("is not where %s", (_, answer) => expect(told(answer)).toBe("The model's backend rejected the request."))
})
