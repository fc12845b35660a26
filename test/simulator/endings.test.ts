/** How an answer ends other than by being said: a stop sequence, a refusal; and tools that take free text. */
import { describe, expect, test } from "bun:test"
import type { JsonObject } from "../../src/language/json.ts"
import { ask, at, eventsOf, type Format, simulatorForFile, stream } from "./ask.ts"

const simulator = simulatorForFile()
const asked = async (format: Format, script: string, more: JsonObject = {}) => ({
  whole: (await (await ask(simulator, format, script, more)).json()) as JsonObject,
  events: eventsOf(await (await ask(simulator, format, script, { ...more, ...stream })).text()),
})

/** The pieces of a text that stand at this place of the events. */
const joined = (events: readonly (JsonObject | string)[], ...path: readonly (string | number)[]): string =>
  events
    .map((event) => at(event, ...path))
    .filter((piece) => typeof piece === "string")
    .join("")

describe("a stop sequence", () => {
  test("on chat ends the text before it, and is not told", async () => {
    const { whole, events } = await asked("chat", "text=one+two+END+three", { stop: ["three", "END"] })
    expect(whole).toMatchObject({ choices: [{ message: { content: "one two " }, finish_reason: "stop" }] })
    expect(joined(events, "choices", 0, "delta", "content")).toBe("one two ")
  })

  test("on messages ends the text before it, and is told", async () => {
    const { whole, events } = await asked("messages", "text=one+two+END", { stop_sequences: ["END"] })
    const ending = { stop_reason: "stop_sequence", stop_sequence: "END" }
    expect(whole).toMatchObject({ content: [{ type: "text", text: "one two " }], ...ending })
    expect(events.find((event) => at(event, "type") === "message_delta")).toMatchObject({ delta: ending })
  })

  test("that the text does not come to changes nothing", async () => {
    const { whole } = await asked("messages", "text=one+two", { stop_sequences: ["END"] })
    expect(whole).toMatchObject({ content: [{ text: "one two" }], stop_reason: "end_turn", stop_sequence: null })
  })
})

describe("a refusal", () => {
  const script = "refusal=I+would+rather+not"

  test("is a field of its own on chat", async () => {
    const { whole, events } = await asked("chat", script)
    const message = { content: null, refusal: "I would rather not" }
    expect(whole).toMatchObject({ choices: [{ message, finish_reason: "stop" }] })
    expect(joined(events, "choices", 0, "delta", "refusal")).toBe(message.refusal)
  })

  test("is a stop reason on messages", async () => {
    const { whole } = await asked("messages", script)
    expect(whole).toMatchObject({ content: [{ type: "text" }], stop_reason: "refusal" })
  })

  test("is a part of its own on responses", async () => {
    const { whole, events } = await asked("responses", script)
    const content = [{ type: "refusal", refusal: "I would rather not" }]
    expect(whole).toMatchObject({ status: "completed", output: [{ type: "message", content }] })
    const types = events.map((event) => at(event, "type"))
    expect(types).toContain("response.refusal.delta")
    expect(types).toContain("response.refusal.done")
  })
})

describe("a tool that takes free text is given it as it is", () => {
  const script = `tool=patch&args=${encodeURIComponent('{"input":"*** Begin"}')}`

  test("on chat", async () => {
    const tools = [{ type: "custom", custom: { name: "patch" } }]
    const { whole, events } = await asked("chat", script, { tools })
    const call = { type: "custom", custom: { name: "patch", input: "*** Begin" } }
    expect(whole).toMatchObject({ choices: [{ message: { tool_calls: [call] } }] })
    expect(joined(events, "choices", 0, "delta", "tool_calls", 0, "custom", "input")).toBe("*** Begin")
  })

  test("on responses", async () => {
    const { whole, events } = await asked("responses", script, { tools: [{ type: "custom", name: "patch" }] })
    expect(whole).toMatchObject({ output: [{ type: "custom_tool_call", name: "patch", input: "*** Begin" }] })
    expect(events.find((event) => at(event, "type") === "response.custom_tool_call_input.done")).toMatchObject({
      input: "*** Begin",
    })
  })
})
