/** A chat client's `prompt_cache_key` is that of responses; backends of all other formats do not have it. */
import { expect, test } from "bun:test"
import type { Json, JsonObject } from "../../src/language/json.ts"
import { decodeRequest } from "../../src/wire/chat/format.ts"
import { exchange } from "../../src/wire/exchange.ts"
import { droppedNames, must } from "./responses/asking.ts"

const responses = { format: "responses", model: "vendor-m" } as const
const ask = (key: Json): JsonObject => ({
  model: "m",
  messages: [{ role: "user", content: "Hi" }],
  prompt_cache_key: key,
})

function sent(key: Json, strip: readonly string[] = []): Json | undefined {
  const translation = must(exchange(must(decodeRequest(ask(key))), responses, { strip }))
  return translation.encodeRequest(100)["prompt_cache_key"]
}

test("a responses backend is sent the key, or nothing where there is none or its model does not take it", () => {
  expect(sent("session-1")).toBe("session-1")
  expect(sent(null)).toBeUndefined()
  expect(sent("session-1", ["prompt_cache_key"])).toBeUndefined()
})

test("a key of 64 characters goes as it is; a longer one fits, is the same each time, and told apart from others", () => {
  const longest = "k".repeat(64)
  expect(sent(longest)).toBe(longest)
  const first = sent(`${longest}1`)
  expect(first).toMatch(/^[\w-]{1,64}$/)
  expect(sent(`${longest}1`)).toBe(first)
  expect(sent(`${longest}2`)).not.toBe(first)
})

test.each([[1], [{}], [true]])("a key of %p is none, and named", (key) => {
  expect(sent(key)).toBeUndefined()
  expect(droppedNames(ask(key), "chat", "responses")).toEqual(["prompt_cache_key"])
  expect(droppedNames(ask(key), "chat", "messages")).toEqual(["prompt_cache_key"])
})

test.each([
  ["chat", "responses", []],
  ["chat", "chat", []],
  ["chat", "messages", ["prompt_cache_key"]],
  ["chat", "bedrock", ["prompt_cache_key"]],
  ["responses", "responses", []],
  ["responses", "chat", ["prompt_cache_key"]],
  ["responses", "messages", ["prompt_cache_key"]],
] as const)("from %s to %s it is named as left out where it is: %j", (client, format, names) => {
  const body = client === "chat" ? ask("k") : { model: "m", input: "Hi", prompt_cache_key: "k" }
  expect(droppedNames(body, client, format)).toEqual([...names])
})
