/** Habits of some vendors' backends that are no faults: ids of calls that begin anew, and fields that they do not take. */
import { describe, expect, test } from "bun:test"
import { isObject, type Json } from "../../src/language/json.ts"
import { ask, at, eventsOf, formats, simulatorForFile, stream } from "./ask.ts"

const simulator = simulatorForFile()

const message = (reply: unknown): string => String(at(reply, "error", "message"))

const idsIn = (text: string): string[] => [...new Set(text.match(/\b(?:call|toolu)_(?:sim\w+|\d+)/g))]

describe.each(formats)("%s: ids", (format) => {
  const schema = { type: "object", properties: {} }
  const tools = {
    chat: [{ type: "function", function: { name: "look", parameters: schema } }],
    messages: [{ name: "look", input_schema: schema }],
    responses: [{ type: "function", name: "look", parameters: schema }],
  }[format]
  const idsOf = async (script: string, more = {}): Promise<string[]> =>
    idsIn(await (await ask(simulator, format, `tool=look&tools=2${script}`, { tools, ...more })).text())

  test("are each answer's own, or begin anew in each where that is scripted", async () => {
    expect(await idsOf("")).not.toEqual(await idsOf(""))
    const prefix = format === "messages" ? "toolu" : "call"
    for (const more of [{}, {}, stream, stream])
      expect(await idsOf("&ids=repeated", more)).toEqual([`${prefix}_0`, `${prefix}_1`])
  })
})

describe.each(formats)("%s: a tool that must be called", (format) => {
  const schema = { type: "object", properties: { from: { type: "string" }, seats: { type: "integer", minimum: 2 } } }
  const names = ["look", "find"]
  const tools = names.map((name) => {
    if (format === "messages") return { name, input_schema: schema }
    const definition = { name, parameters: schema }
    return format === "chat" ? { type: "function", function: definition } : { type: "function", ...definition }
  })
  const chosen = {
    chat: { any: "required", find: { type: "function", function: { name: "find" } } },
    messages: { any: { type: "any" }, find: { type: "tool", name: "find" } },
    responses: { any: "required", find: { type: "function", name: "find" } },
  }[format]
  const calls = async (tool_choice: Json | undefined, script = "") => {
    const reply = await (await ask(simulator, format, script, { tools, ...(tool_choice && { tool_choice }) })).text()
    return names.filter((name) => reply.includes(`"name":"${name}"`))
  }

  test("is called with the smallest arguments that its schema allows", async () => {
    expect(await calls(chosen.any)).toEqual(["look"])
    expect(await calls(chosen.find)).toEqual(["find"])
    expect(await calls(undefined)).toEqual([])
    const reply = await (await ask(simulator, format, "", { tools, tool_choice: chosen.find })).text()
    expect(reply.replaceAll("\\", "")).toContain('{"from":"simulated","seats":2}')
  })

  test("gives way to what is scripted, and to nothing where there is no such tool", async () => {
    expect(await calls(chosen.any, "tool=find")).toEqual(["find"])
    expect(await calls(chosen.any, "text=no")).toEqual([])
    expect(await calls(chosen.any, "output=2")).toEqual([])
    expect((await ask(simulator, format, "", { tools: tools.slice(0, 1), tool_choice: chosen.find })).status).toBe(200)
  })
})

describe("chat: refuses", () => {
  const refusals = [
    ["max_tokens", { max_tokens: 9 }, 400, "Use 'max_completion_tokens' instead."],
    ["max_tokens", { max_completion_tokens: 9 }, 200, ""],
    ["max_tokens", { max_tokens: null }, 200, ""],
    ["metadata", { metadata: { a: "b" } }, 400, "only allowed when 'store' is enabled"],
    ["metadata", { metadata: { a: "b" }, store: false }, 400, "only allowed when 'store' is enabled"],
    ["metadata", { metadata: { a: "b" }, store: true }, 200, ""],
    ["metadata", { max_tokens: 9 }, 200, ""],
    ["max_tokens,metadata", { metadata: {} }, 400, "store"],
    ["max_tokens,metadata", { max_tokens: 9 }, 400, "max_completion_tokens"],
  ] as const
  test.each(refusals)("%s of %j: %d", async (fields, more, status, words) => {
    for (const how of [{}, stream]) {
      const response = await ask(simulator, "chat", `refuses=${fields}`, { ...more, ...how })
      expect(response.status).toBe(status)
      if (status === 400) expect(message(await response.json())).toContain(words)
      else if (how === stream) expect(eventsOf(await response.text()).at(-1)).toBe("[DONE]")
    }
  })

  test("is of chat alone, and of fields that a vendor refuses", async () => {
    for (const format of ["messages", "responses"] as const) {
      const response = await ask(simulator, format, "refuses=metadata")
      expect([response.status, message(await response.json())]).toEqual([400, expect.stringContaining("refuses")])
    }
    const odd = await ask(simulator, "chat", "refuses=max_tokens,odd")
    expect([odd.status, message(await odd.json())]).toEqual([400, expect.stringContaining("odd")])
  })

  test("is told in the journal as an answer that is none", async () => {
    await ask(simulator, "chat", "refuses=max_tokens", { max_tokens: 1000 })
    expect(simulator.calls[0]?.outcome).toBe("faulted")
  })
})

test("responses say their text settings and metadata again, or the vendor's own, in each event that has them", async () => {
  const text = { format: { type: "json_schema", name: "n", schema: { type: "object" } }, verbosity: "low" }
  const metadata = { order: "7" }
  for (const [asked, repeated] of [
    [{}, { text: { format: { type: "text" } }, metadata: {} }],
    [
      { text, metadata },
      { text, metadata },
    ],
    [{ text: { verbosity: "low" } }, { text: { format: { type: "text" }, verbosity: "low" } }],
  ]) {
    expect(await (await ask(simulator, "responses", "", asked)).json()).toMatchObject(repeated ?? {})
    const events = eventsOf(await (await ask(simulator, "responses", "", { ...asked, ...stream })).text())
    const whole = events.flatMap((event) => (isObject(event) && isObject(event["response"]) ? [event["response"]] : []))
    expect(whole).toHaveLength(3)
    for (const response of whole) expect(response).toMatchObject(repeated ?? {})
  }
})
