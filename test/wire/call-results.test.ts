/**
 * Results of calls in a translated conversation. Backends of messages, chat and Converse refuse one for good in which a call has two results, or
 * none in the turn after it; responses, and many servers of chat, do not mind.
 */
import { describe, expect, test } from "bun:test"
import { type JsonObject, readText } from "../../src/language/json.ts"
import type { Turn } from "../../src/language/prompt.ts"
import { withResults } from "../../src/wire/conversation.ts"
import { exchange } from "../../src/wire/exchange.ts"
import type { BackendModel } from "../../src/wire/protocol.ts"
import { decodeRequest } from "../../src/wire/responses/format.ts"
import { must } from "./responses/asking.ts"
import { medianWork } from "./work.ts"

const user = (content: string): JsonObject => ({ role: "user", content })
const said = (content: string): JsonObject => ({ role: "assistant", content })
const call = (call_id: string, name = "f"): JsonObject => ({ type: "function_call", call_id, name, arguments: "{}" })
const output = (call_id: string, output: string): JsonObject => ({ type: "function_call_output", call_id, output })

function sent(format: BackendModel["format"], ...input: JsonObject[]): JsonObject[] {
  const request = must(decodeRequest({ model: "m", input }))
  const body = must(exchange(request, { format, model: "vendor-m" })).encodeRequest(100)
  return body["messages"] as JsonObject[]
}

/** What a chat backend is told, each message in a few words. */
const told = (...input: JsonObject[]) =>
  sent("chat", user("Go"), ...input).map(({ role, content, tool_calls: calls, tool_call_id: id }) => {
    if (role === "tool") return `${readText(id)}: ${readText(content)}`
    const ids = Array.isArray(calls) ? calls.map((call) => readText((call as JsonObject)["id"])) : []
    return ids.length > 0 ? `calls ${ids.join(" ")}` : `${readText(role)}: ${readText(content)}`
  })

describe("a chat backend", () => {
  test("is told once what came twice", () => {
    expect(told(call("a"), output("a", "1"), output("a", "1"), user("On"))).toEqual([
      "user: Go",
      "calls a",
      "a: 1",
      "user: On",
    ])
  })

  test("is told all of two results of one call as one", () => {
    expect(told(call("a"), output("a", "running"), user("On"), output("a", "done"))).toEqual([
      "user: Go",
      "calls a",
      "a: running\n\ndone",
      "user: On",
    ])
  })

  test("has a result after its call, however much later it came", () => {
    expect(told(call("a"), call("b"), output("a", "1"), said("Wait."), output("b", "2"), user("On"))).toEqual([
      "user: Go",
      "calls a b",
      "a: 1",
      "b: 2",
      "assistant: Wait.",
      "user: On",
    ])
  })

  test("has a result of each call of an id that begins anew", () => {
    expect(told(call("a"), output("a", "1"), call("a"), output("a", "1"), said("Well."))).toEqual([
      "user: Go",
      "calls a",
      "a: 1",
      "calls a",
      "a: 1",
      "assistant: Well.",
    ])
  })

  test("is not told the result of a later call for that of one that was stopped", () => {
    expect(told(call("a"), user("Stop"), call("a"), output("a", "1")).slice(-2)).toEqual(["calls a", "a: 1"])
  })

  test("has a result of a call that none came of", () => {
    expect(told(call("a"), call("b"), output("b", "2"), user("Stop"), said("Well."))).toEqual([
      "user: Go",
      "calls a b",
      "a: Error: No result.",
      "b: 2",
      "user: Stop",
      "assistant: Well.",
    ])
    expect(told(call("a"))).toEqual(["user: Go", "calls a", "a: Error: No result."])
  })
})

test("a messages backend and Converse have one result of each call in the turn after it", () => {
  const input = [user("Go"), call("a"), call("b"), output("b", "2"), output("b", "3"), said("Wait."), output("a", "1")]
  const types = (format: BackendModel["format"]) =>
    sent(format, ...input).map(({ content }) =>
      (content as JsonObject[]).map((block) => {
        const { toolUse, toolResult } = block
        const named = (toolUse ?? toolResult ?? block) as JsonObject
        return named["toolUseId"] ?? named["tool_use_id"] ?? named["id"] ?? named["text"]
      }),
    )
  const expected = [["Go"], ["a", "b"], ["a", "b"], ["Wait."], ["Continue."]]
  expect(types("bedrock")).toEqual(expected)
  expect(types("messages").slice(0, 4)).toEqual(expected.slice(0, 4))
})

const resultOf = (text: string) =>
  ({ type: "tool-result", callId: "a", parts: [{ type: "text", text }], isError: false }) as const

const turns = (count: number) =>
  Array.from({ length: count }, (_, place): Turn[] => [
    { role: "assistant", parts: [{ type: "tool-call", id: "a", name: "f", arguments: "{}", custom: false }] },
    { role: "user", parts: [resultOf(`${place}`), resultOf("again")] },
  ]).flat()

test("of any number of calls and results each is looked at once", () => {
  const [few, many] = [turns(5_000), turns(40_000)]
  const least = medianWork(() => withResults(few))
  expect(medianWork(() => withResults(many))).toBeLessThan(30 * least)
})

const idsFor = (id: string, strip: readonly string[]) => {
  const request = must(decodeRequest({ model: "m", input: [user("Go"), call(id), output(id, "1")] }))
  const body = must(exchange(request, { format: "chat", model: "m" }, { strip })).encodeRequest(100)
  return (body["messages"] as JsonObject[]).flatMap(({ tool_calls: calls, tool_call_id: result }) => [
    ...(Array.isArray(calls) ? calls.map((call) => (call as JsonObject)["id"]) : []),
    ...(result === undefined ? [] : [result]),
  ])
}

describe("ids of calls over 40 characters", () => {
  const kimi = "functions.mcp__repository__list_pull_requests:12"
  test("are shortened alike for a model of OpenAI's own chat, which refuses them", () => {
    const [ofCall, ofResult, ...others] = idsFor(kimi, ["max_tokens"])
    expect(others).toEqual([])
    expect(ofCall).toMatch(/^call_[0-9a-f]{32}$/)
    expect(ofResult).toBe(ofCall as string)
    expect(idsFor(`${kimi}0`, ["max_tokens"])).not.toContain(ofCall as string)
    expect(idsFor("x".repeat(40), ["max_tokens"])).toEqual(["x".repeat(40), "x".repeat(40)])
  })

  test("stay for every other, of which some read names in them", () => {
    expect(idsFor(kimi, [])).toEqual([kimi, kimi])
  })
})
