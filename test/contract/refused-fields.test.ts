/** What of a request would not have travelled is named also where the model is the reason that none of it does (decisions §13.3). */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { type Person, startTestGateway, type TestGateway } from "../gateway/harness.ts"
import { ask } from "./calling.ts"
import { expectFailure } from "./expect-failure.ts"
import { covers } from "./rows.ts"

let gateway: TestGateway
let person: Person
beforeAll(async () => {
  gateway = await startTestGateway()
  person = await gateway.person(10_000)
})
afterAll(() => gateway[Symbol.asyncDispose]())

const picture = "https://example.com/a.png"
const turn = (part: object) => [{ role: "user", content: [part] }]

test.each([
  ["chat", { messages: turn({ type: "image_url", image_url: { url: picture } }) }, "request.invalid"],
  ["messages", { messages: turn({ type: "image", source: { type: "url", url: picture } }) }, "request.invalid"],
  ["responses", { input: turn({ type: "input_image", image_url: picture }) }, "request.invalid"],
  ["chat", { tools: [{ type: "web_search" }] }, "request.unsupported_feature"],
  ["messages", { tools: [{ type: "web_search_20250305", name: "web_search" }] }, "request.unsupported_feature"],
  ["responses", { tools: [{ type: "web_search" }] }, "request.unsupported_feature"],
] as const)(`${covers("13.3")} on %s, of a model that does not have %j`, async (format, more, code) => {
  const model = await gateway.model({ format })
  const { key } = await gateway.key(person)
  const response = await ask(gateway, key, format, model, { ...more, x_new: 1 })
  await expectFailure(response, 400, code)
  expect(response.headers.get("x-dropped-fields")).toBe("x_new")
})
