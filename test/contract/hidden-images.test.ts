/** Images that do not call themselves so, for a model without vision. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import type { JsonObject } from "../../src/language/json.ts"
import { holdsImage } from "../../src/language/request.ts"
import { startTestGateway, type TestGateway } from "../gateway/harness.ts"
import { ask } from "./calling.ts"
import { expectFailure } from "./expect-failure.ts"

const png = Buffer.from("89504e470d0a1a0a0000000d49484452", "hex").toString("base64")
const jpeg = Buffer.from("ffd8ffe000104a464946", "hex").toString("base64")
const gif = Buffer.from("GIF89a0000").toString("base64")
const webp = (size: string) => Buffer.from(`RIFF${size}WEBPVP8 `).toString("base64")
const pdf = Buffer.from("%PDF-1.7").toString("base64")
const wav = Buffer.from("RIFF0000WAVEfmt ").toString("base64")

const file = (file_data: string): JsonObject => ({ type: "file", file: { filename: "a", file_data } })
const input = (file_data: string): JsonObject => ({ type: "input_file", filename: "a", file_data })
const document = (source: JsonObject): JsonObject => ({ type: "document", source })
const at = (url: string) => document({ type: "url", url })

test.each([
  [file(`data:;base64,${png}`)],
  [file(`data:application/octet-stream;base64,${jpeg}`)],
  [file(gif)],
  [input(`data:;charset=x;base64,${webp("0000")}`)],
  [input(webp("~~~~"))],
  [{ type: "input_file", file_url: "https://example.com/a.PNG?size=1" }],
  [document({ type: "base64", data: png })],
  [document({ type: "base64", media_type: "application/octet-stream", data: png })],
  [at("https://example.com/a.jpeg")],
  [at("https://example.com/a.webp#b")],
])("is one: %j", (part: JsonObject) => expect(holdsImage(part)).toBe(true))

test.each([
  [file(`data:;base64,${pdf}`)],
  [file(`data:application/pdf;base64,${png}`)],
  [input(wav)],
  [{ type: "input_file", file_url: "https://example.com/a.png/report.pdf" }],
  [at("https://example.com/a.svg")],
  [at("https://example.com/?of=a.png.txt")],
  [document({ type: "text", media_type: "text/plain", data: png })],
  [{ type: "text", text: png }],
  [{ type: "search_result", source: "https://example.com/a.png" }],
])("is none: %j", (part: JsonObject) => expect(holdsImage(part)).toBe(false))

let gateway: TestGateway
let key: string

beforeAll(async () => {
  gateway = await startTestGateway()
  key = (await gateway.key(await gateway.person(1_000_000))).key
})
afterAll(() => gateway[Symbol.asyncDispose]())

const said = (part: JsonObject) => [{ role: "user", content: [{ type: "text", text: "Look" }, part] }]

test("none reaches a model without vision, an image that a model made earlier neither", async () => {
  const made = [
    { role: "user", content: "Draw" },
    { type: "image_generation_call", id: "ig_1", status: "completed", result: png },
    { role: "user", content: "Again" },
  ]
  const calls = [
    ["chat", { messages: said(file(`data:;base64,${png}`)) }],
    ["messages", { messages: said(at("https://example.com/a.png")) }],
    ["responses", { input: made }],
  ] as const
  for (const [format, fields] of calls) {
    const blind = await gateway.model({ format })
    const seeing = await gateway.model({ format, supports_vision: true })
    await expectFailure(await ask(gateway, key, format, blind, fields), 400, "request.invalid")
    expect((await ask(gateway, key, format, seeing, fields)).status).toBe(200)
  }
})

test("a format of the answer that other backends do not have is refused, and told", async () => {
  const model = await gateway.model({
    format: "chat",
    endpoints: ["messages"],
    features: ["structured_outputs"],
  })
  const refusals = [
    [{ output_config: { format: { type: "json_object" } } }, "request.unsupported_feature", "'json_schema'"],
    [{ output_format: { type: "grammar" } }, "request.unsupported_feature", '"grammar"'],
    [{ output_config: { format: { type: "json_schema" } } }, "request.invalid_request", "schema"],
  ] as const
  for (const [fields, code, words] of refusals) {
    const { message } = await expectFailure(await ask(gateway, key, "messages", model, fields), 400, code)
    expect(message).toContain(words)
  }
  const schema = { type: "object", properties: {}, additionalProperties: false }
  const good = { output_config: { format: { type: "json_schema", schema } } }
  expect((await ask(gateway, key, "messages", model, good)).status).toBe(200)
})
