/** Outputs of tools that nobody called, as Codex begins a scheduled task or tells one thread what another has to say. */
import { expect, test } from "bun:test"
import { Failure } from "../../../src/failure/failure.ts"
import type { JsonObject } from "../../../src/language/json.ts"
import { exchange } from "../../../src/wire/exchange.ts"
import { responsesFormat } from "../../../src/wire/responses/format.ts"
import { decoded, must, request } from "./asking.ts"

const told = {
  type: "function_call_output",
  id: "fco_1",
  name: "automation_update",
  namespace: "codex_app",
  output: "Automation: Tidy up\n\nTidy up the repository.",
}
const input = [{ role: "developer", content: "Be brief." }, told]
const text = (text: string) => ({ type: "text", text }) as const

test("it is what the user says, under the tool's name", () => {
  expect(decoded({ input })).toMatchObject({
    instructions: [text("Be brief.")],
    turns: [{ role: "user", parts: [text("[Output of codex_app__automation_update]"), text(told.output)] }],
  })
  const image = { type: "input_image", image_url: "https://example.com/a.png" }
  expect(decoded({ input: [{ ...told, namespace: null, call_id: null, output: [image] }] }).turns).toMatchObject([
    { role: "user", parts: [text("[Output of automation_update]"), { type: "image" }] },
  ])
})

test("it answers none of the calls that were made", () => {
  const call = { type: "function_call", call_id: "c1", name: "f", arguments: "{}" }
  const result = { type: "function_call_output", call_id: "c1", output: "ok" }
  const body = must(exchange(request({ input: [call, told, result] }), { format: "chat", model: "vendor-m" }))
  expect((body.encodeRequest(100)["messages"] as JsonObject[]).map(({ role }) => role)).toEqual([
    "assistant",
    "tool",
    "user",
  ])
})

test("a backend of the format gets it as it came", () => {
  const body = must(exchange(request({ input }), { format: "responses", model: "vendor-m" }))
  expect(body.encodeRequest(100)["input"]).toEqual(input)
})

test.each([
  ["without a name either", { name: undefined }],
  ["of which the call's id is empty", { call_id: "" }],
])("one %s is refused", (_, fields) => {
  const failure = responsesFormat.client.decodePrompt(request({ input: [{ ...told, ...fields }] }))
  expect(failure instanceof Failure && failure.code).toBe("request.invalid_request")
})
