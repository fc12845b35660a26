import { describe, expect, test } from "bun:test"
import type { Translated } from "../../src/language/request.ts"
import type { JsonObject } from "../../src/language/json.ts"
import { type BackendModel, formats } from "../../src/wire/protocol.ts"
import { exchange } from "../../src/wire/exchange.ts"
import { must } from "./chat/ask.ts"

const messages = [{ role: "user", content: "Hi" }]
const bodies: Readonly<Record<Translated, JsonObject>> = {
  chat: { model: "m", messages },
  messages: { model: "m", max_tokens: 9_000, messages },
  responses: { model: "m", input: "Hi" },
}
const backends: readonly (readonly [string, BackendModel, asked: JsonObject, path: RegExp])[] = [
  [
    "chat",
    { format: "chat", model: "v" },
    { stream: true, stream_options: { include_usage: true } },
    /^\/v1\/chat\/completions$/,
  ],
  ["messages", { format: "messages", model: "v" }, { stream: true }, /^\/v1\/messages$/],
  ["responses", { format: "responses", model: "v" }, { stream: true }, /^\/v1\/responses$/],
  ["bedrock", { format: "bedrock", model: "meta.llama" }, {}, /\/converse-stream$/],
  [
    "bedrock's messages",
    { format: "bedrock", model: "anthropic.claude-x" },
    { stream: true },
    /\/invoke-with-response-stream$/,
  ],
]
const pairs = (["chat", "messages", "responses"] as const).flatMap((client) =>
  backends.map(([name, ...backend]) => [client, name, ...backend] as const),
)

describe.each(pairs)("a %s client on a %s backend", (client, _, backend, asked, path) => {
  const met = must(exchange(must(formats[client].client.decodeRequest(bodies[client])), backend))

  test("is asked for a stream where its answer is to be gathered, and for the same answer", () => {
    const whole = met.encodeRequest(10_000)
    const streamed = met.asStream().encodeRequest(10_000)
    expect(streamed).toMatchObject(asked)
    expect({ ...streamed, stream: undefined, stream_options: undefined }).toEqual({
      ...whole,
      stream: undefined,
      stream_options: undefined,
    })
    expect(whole).not.toHaveProperty("stream")
    expect(whole).not.toHaveProperty("stream_options")
    expect(met.asStream().path).toMatch(path)
    expect(met.path).not.toMatch(/stream$/)
  })
})
