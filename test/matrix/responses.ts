/** Responses, as the vendor's reference has the object and its streaming events. */
import { expect } from "bun:test"
import { isObject, type JsonObject } from "../../src/language/json.ts"
import {
  type Answer,
  type Asked,
  eventsOf,
  knows,
  merged,
  must,
  objectsIn,
  shaped,
  type Part,
  type Speaker,
  told,
  type Tool,
  type Turn,
} from "./speaker.ts"

const writePart = (part: Part): JsonObject => {
  if ("text" in part) return { type: "input_text", text: part.text }
  if ("image" in part) return { type: "input_image", image_url: part.image, detail: "auto" }
  throw new Error("no part of an input message")
}

const writeSays = (says: readonly Part[], blocks: boolean): string | JsonObject[] => {
  const [only, ...others] = says
  return !blocks && only !== undefined && "text" in only && others.length === 0 ? only.text : says.map(writePart)
}

const writeTurn = ({ role, parts }: Turn, as: Asked["as"]): JsonObject[] => {
  const said = parts.filter((part) => "text" in part || "image" in part)
  const items = parts.flatMap((part): JsonObject[] => {
    if ("call" in part) return [writeCall(part)]
    if (!("result" in part)) return []
    return [
      {
        type: "function_call_output",
        call_id: part.result,
        output: writeSays(part.says, as?.results === "blocks"),
      },
    ]
  })
  if (role === "assistant") {
    const content = said.map((part) => ({ type: "output_text", text: "text" in part ? part.text : "" }))
    return [...(content.length > 0 ? [{ type: "message", role, content }] : []), ...items]
  }
  const content = writeSays(said, false)
  const message = { role: role === "system" ? "developer" : role, content }
  return said.length > 0 ? [...items, message] : items
}

const writeCall = ({ call: call_id, name, given, custom }: Extract<Part, { call: string }>): JsonObject =>
  custom
    ? { type: "custom_tool_call", call_id, name, input: given }
    : { type: "function_call", call_id, name, arguments: given }

const writeTool = (tool: Tool): JsonObject => {
  if ("search" in tool) return { type: "web_search" }
  if ("custom" in tool) return { type: "custom", name: tool.name }
  return { type: "function", name: tool.name, parameters: tool.schema, strict: false }
}

const write = (asked: Asked): JsonObject => {
  const { system = [], as, choice, thinking, schema, json } = asked
  const effort = thinking === "off" ? "none" : asked.effort
  const content = as?.system === "blocks" ? system.map((text) => ({ type: "input_text", text })) : system.join("\n\n")
  const format = schema && { type: "json_schema", name: "answer", schema, strict: true }
  return told<JsonObject>({
    instructions: system.length > 0 && as?.system === undefined ? system.join("\n\n") : undefined,
    input: [
      ...(as?.system === undefined ? [] : [{ role: "developer", content }]),
      ...asked.turns.flatMap((turn) => writeTurn(turn, as)),
    ],
    tools: asked.tools?.map(writeTool),
    tool_choice: typeof choice === "object" ? { type: "function", ...choice } : choice,
    parallel_tool_calls: asked.oneCall === true ? false : undefined,
    max_output_tokens: asked.limit,
    temperature: asked.temperature,
    top_p: asked.topP,
    reasoning:
      effort === undefined ? undefined : told({ effort, summary: thinking === "adaptive" ? "auto" : undefined }),
    text: format || json ? { format: format ?? { type: "json_object" } } : undefined,
    safety_identifier: asked.user,
  })
}

const readContent = (content: unknown): Part[] => {
  if (typeof content === "string") return [{ text: content }]
  return objectsIn(content).map((part) => {
    const type = part["type"] as string
    switch (type) {
      case "input_text":
      case "output_text":
        return { text: part["text"] as string }
      case "input_image":
        return { image: part["image_url"] as string }
      default:
        throw new Error(`responses has no part ${JSON.stringify(part)}`)
    }
  })
}

const readItem = (item: JsonObject): Turn => {
  const { role, content, call_id: id, name } = item
  const type = (item["type"] ?? "message") as string
  switch (type) {
    case "message": {
      const who = role === "user" || role === "assistant" ? role : "system"
      return { role: who, parts: readContent(content) }
    }
    case "function_call":
      return {
        role: "assistant",
        parts: [{ call: id as string, name: name as string, given: item["arguments"] as string }],
      }
    case "custom_tool_call":
      return {
        role: "assistant",
        parts: [{ call: id as string, name: name as string, given: item["input"] as string, custom: true }],
      }
    case "function_call_output":
    case "custom_tool_call_output":
      return { role: "user", parts: [{ result: id as string, says: readContent(item["output"]) }] }
    case "reasoning": {
      const seal = (item["encrypted_content"] as string | null | undefined) ?? undefined
      return { role: "assistant", parts: [told({ thinking: summaryOf(item), seal })] }
    }
    default:
      throw new Error(`responses has no item ${JSON.stringify(item)}`)
  }
}

const summaryOf = ({ summary }: JsonObject): string =>
  objectsIn(summary)
    .map(({ type, text }) => {
      expect(type).toBe("summary_text")
      return text as string
    })
    .join("\n\n")

const readTool = (tool: JsonObject): Tool => {
  const name = tool["name"] as string
  if (tool["type"] === "custom") return { name, custom: true }
  if (tool["type"] !== "function") return { search: tool["type"] as string }
  // Left out, it would mean that the schema is strict.
  expect(tool["strict"]).toBe(false)
  return { name, schema: tool["parameters"] as JsonObject }
}

const read = (body: JsonObject): Asked => {
  knows(
    body,
    "model instructions input stream store include tools",
    "tool_choice parallel_tool_calls max_output_tokens temperature top_p reasoning text safety_identifier service_tier max_tool_calls " +
      "prompt_cache_key",
  )
  expect(body["store"]).toBe(false)
  const { instructions, input, tools, tool_choice: choice, reasoning, text } = body
  const turns = objectsIn(input).map(readItem)
  const first = turns.findIndex(({ role }) => role !== "system")
  const developer = turns.slice(0, first).flatMap(({ parts }) => parts.map((part) => ("text" in part ? part.text : "")))
  const system = [...(typeof instructions === "string" ? [instructions] : []), ...developer]
  const effort = isObject(reasoning) ? (reasoning["effort"] as string) : undefined
  const format = isObject(text) && isObject(text["format"]) ? text["format"] : undefined
  return told<Asked>({
    system: system.length > 0 ? system : undefined,
    turns: merged(turns.slice(first)),
    tools: tools === undefined ? undefined : objectsIn(tools).map(readTool),
    choice: isObject(choice) ? { name: choice["name"] as string } : (choice as Asked["choice"]),
    oneCall: body["parallel_tool_calls"] === false ? true : undefined,
    limit: body["max_output_tokens"] as number,
    temperature: body["temperature"] as number | undefined,
    topP: body["top_p"] as number | undefined,
    thinking: effort === "none" ? "off" : undefined,
    effort: effort === "none" ? undefined : effort,
    schema: format?.["schema"] as JsonObject | undefined,
    json: format?.["type"] === "json_object" ? true : undefined,
    user: body["safety_identifier"] as string | undefined,
  })
}

const answer = (whole: JsonObject): Answer => {
  shaped(whole, {
    id: expect.stringMatching(/^resp_/),
    object: "response",
    created_at: expect.any(Number),
    status: expect.stringMatching(/^(completed|incomplete)$/),
    error: null,
    model: expect.any(String),
    store: false,
    tools: expect.any(Array),
  })
  const output = objectsIn(whole["output"])
  const parts = output.flatMap(({ type, content }) => (type === "message" ? objectsIn(content) : []))
  const joined = (type: string, field: string) =>
    parts.map((part) => (part["type"] === type ? (part[field] as string) : "")).join("")
  const usage = whole["usage"] as Record<string, number> & JsonObject
  const { cached_tokens: cacheRead = 0, cache_write_tokens: cacheWrite = 0 } = usage[
    "input_tokens_details"
  ] as unknown as Record<string, number>
  const [input, out] = [must(usage["input_tokens"], "input_tokens"), must(usage["output_tokens"], "output_tokens")]
  expect(usage["total_tokens"]).toBe(input + out)
  const reasoning = output.filter(({ type }) => type === "reasoning")
  const reason = isObject(whole["incomplete_details"]) ? whole["incomplete_details"]["reason"] : undefined
  return {
    thinking: reasoning.map(summaryOf).join(""),
    seal: (reasoning[0]?.["encrypted_content"] as string | null | undefined) ?? undefined,
    text: joined("output_text", "text"),
    refusal: joined("refusal", "refusal"),
    calls: output.flatMap((item) => {
      const custom = item["type"] === "custom_tool_call"
      if (!custom && item["type"] !== "function_call") return []
      const given = item[custom ? "input" : "arguments"] as string
      return [{ id: item["call_id"] as string, name: item["name"] as string, given, custom }]
    }),
    finish: (reason ?? whole["status"]) as string,
    stop: undefined,
    usage: { input: input - cacheRead - cacheWrite, cacheRead, cacheWrite, output: out },
    turn: output,
  }
}

/** Events numbered from 0; each item and part added before its deltas and done after; the end repeats the whole. */
const added = (stream: string): JsonObject => {
  const events = eventsOf(stream).map(({ event, data }, at) => {
    const parsed = JSON.parse(data) as JsonObject & { type: string }
    expect([parsed.type, parsed["sequence_number"]]).toEqual([must(event, "an event: line"), at])
    return parsed
  })
  expect(events.slice(0, 2).map(({ type }) => type)).toEqual(["response.created", "response.in_progress"])
  const last = must(events.at(-1), "a last event")
  expect(last.type).toMatch(/^response\.(completed|incomplete)$/)
  const open = new Map<string, { said: string; done: number }>()
  const items: JsonObject[] = []
  for (const event of events.slice(2, -1)) {
    const at = event["output_index"] as number
    if (event.type === "response.output_item.added") {
      expect(at).toBe(items.length)
      items.push(event["item"] as JsonObject)
      continue
    }
    expect(event["item_id"] ?? (event["item"] as JsonObject)["id"]).toBe(must(items[at], "an item")["id"] as string)
    if (event.type === "response.output_item.done") {
      expect(open.get(`${at}`)?.done ?? 1).toBe(1)
      items[at] = event["item"] as JsonObject
    } else if (event.type.endsWith(".delta")) {
      const said = open.get(`${at}`) ?? { said: "", done: 0 }
      expect(said.done).toBe(0)
      open.set(`${at}`, { said: said.said + (event["delta"] as string), done: 0 })
    } else if (/\.(text|refusal|arguments|input|summary_text)\.done$|_(arguments|input|text)\.done$/.test(event.type)) {
      const said = open.get(`${at}`)?.said ?? ""
      expect(event["text"] ?? event["refusal"] ?? event["arguments"] ?? event["input"]).toBe(said)
      open.set(`${at}`, { said, done: 1 })
    } else expect(event.type).toMatch(/part\.(added|done)$/)
  }
  const response = last["response"] as JsonObject
  expect(response["output"]).toEqual(items)
  return response
}

export const responses: Speaker = {
  endpoint: "responses",
  path: "/v1/responses",
  write,
  read,
  answer,
  added,
  goOn: (body, { turn, calls }) => ({
    ...body,
    input: [
      ...objectsIn(body["input"]),
      ...turn,
      ...calls.map(({ id, custom }) => ({
        type: custom ? "custom_tool_call_output" : "function_call_output",
        call_id: id,
        output: "31 degrees",
      })),
    ],
  }),
  failure(stream) {
    const events = eventsOf(stream)
    const last = JSON.parse(events.at(-1)?.data ?? "{}") as JsonObject
    const response = last["response"]
    if (events[0]?.event !== "response.created" || last["type"] !== "response.failed" || !isObject(response))
      return undefined
    return response["status"] === "failed" ? (response["error"] as JsonObject) : undefined
  },
}
