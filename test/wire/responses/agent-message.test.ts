/** What one agent of Codex tells another, such as the task of an agent that it starts. */
import { expect, test } from "bun:test"
import { Failure } from "../../../src/failure/failure.ts"
import type { Json, JsonObject } from "../../../src/language/json.ts"
import { exchange } from "../../../src/wire/exchange.ts"
import { decodeRequest, responsesFormat } from "../../../src/wire/responses/format.ts"
import { decoded, must, request } from "./asking.ts"

const HEAD = "Message Type: NEW_TASK\nTask name: /root/list_files\nSender: /root\nPayload:\n"
const told = (...content: JsonObject[]): JsonObject => ({
  type: "agent_message",
  id: "amsg_1",
  author: "/root",
  recipient: "/root/list_files",
  content: [{ type: "input_text", text: HEAD }, ...content],
})
/** As a model writes the text that seals nothing, in the place where its client expects a sealed one. */
const task = { type: "encrypted_content", encrypted_content: "List the files." }
const sealed = { type: "encrypted_content", encrypted_content: "gAAAAABo3xyz" }
const text = (words: string) => ({ type: "text", text: words }) as const
const asked = (item: Json) => request({ input: [{ role: "developer", content: "Be brief." }, item] })

test.each([
  ["sealed", told(sealed)],
  ["readable", told(task)],
])("a backend of the format gets it as it came: %s", (_, item) => {
  expect(asked(item).dropped.names).toEqual([])
  const body = must(exchange(asked(item), { format: "responses", model: "vendor-m" })).encodeRequest(100)
  expect(body["input"]).toMatchObject([{ role: "developer" }, item])
})

test("it is what the user says to a backend of another format", () => {
  expect(decoded({ input: [told(task)] }).turns).toMatchObject([
    { role: "user", parts: [text(HEAD), text("List the files.")] },
  ])
  expect(decoded({ input: [{ ...told(), content: "List them." }] }).turns).toMatchObject([
    { role: "user", parts: [text("List them.")] },
  ])
})

test("what only the model that sealed it can read is refused there, and not left out", () => {
  const failure = responsesFormat.client.decodePrompt(asked(told(sealed)))
  expect(failure instanceof Failure && failure.code).toBe("request.unsupported_feature")
})

test("images in it are images", () => {
  const image = { type: "input_image", image_url: "data:image/png;base64,AAAA" }
  expect(asked(told(image)).features).toContain("vision")
})

test("a call says which of its arguments are sealed", () => {
  const call = {
    type: "function_call",
    call_id: "c1",
    name: "spawn_agent",
    namespace: "collaboration",
    arguments: "{}",
    encrypted_function_args: ["message"],
  }
  const known = must(decodeRequest({ model: "m", input: [call] }))
  expect(known.dropped.names).toEqual([])
  expect(known.body["input"]).toEqual([call])
})
