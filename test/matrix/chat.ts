/** Chat completions, as the vendor's reference has them. */
import { expect } from "bun:test"
import { isObject, type JsonObject } from "../../src/language/json.ts"
import {
  type Asked,
  type Answer,
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
  if ("text" in part) return { type: "text", text: part.text }
  if ("image" in part) return { type: "image_url", image_url: { url: part.image } }
  throw new Error("no part of chat")
}

const writeTurn = ({ role, parts }: Turn, as: Asked["as"]): JsonObject[] => {
  if (role === "system") return [{ role, content: parts.map(writePart) }]
  if (role === "assistant") {
    const calls = parts.flatMap((part) => ("call" in part ? [writeCall(part)] : []))
    const content = parts.flatMap((part) => ("text" in part ? [part.text] : [])).join("")
    return [told({ role, content: content === "" ? null : content, tool_calls: calls.length > 0 ? calls : undefined })]
  }
  const results = parts.flatMap((part): JsonObject[] =>
    "result" in part
      ? [{ role: "tool", tool_call_id: part.result, content: writeSays(part.says, as?.results === "blocks") }]
      : [],
  )
  const own = parts.filter((part) => !("result" in part))
  return own.length === 0 ? results : [...results, { role, content: writeSays(own, false) }]
}

const writeSays = (says: readonly Part[], blocks: boolean): string | JsonObject[] => {
  const [only, ...others] = says
  return !blocks && only !== undefined && "text" in only && others.length === 0 ? only.text : says.map(writePart)
}

const writeCall = ({ call: id, name, given, custom }: Extract<Part, { call: string }>): JsonObject =>
  custom
    ? { id, type: "custom", custom: { name, input: given } }
    : { id, type: "function", function: { name, arguments: given } }

const writeTool = (tool: Tool): JsonObject => {
  if ("search" in tool) return { type: "web_search" }
  if ("custom" in tool) return { type: "custom", custom: { name: tool.name } }
  return { type: "function", function: { name: tool.name, parameters: tool.schema } }
}

const write = (asked: Asked): JsonObject => {
  const { system = [], as, choice, thinking, budget, schema, json } = asked
  const role = as?.system === "developer" ? "developer" : "system"
  const content = as?.system === "blocks" ? system.map((text) => ({ type: "text", text })) : system.join("\n\n")
  const format = schema && { type: "json_schema", json_schema: { name: "answer", schema, strict: true } }
  return told<JsonObject>({
    messages: [
      ...(system.length > 0 ? [{ role, content }] : []),
      ...asked.turns.flatMap((turn) => writeTurn(turn, as)),
    ],
    tools: asked.tools?.map(writeTool),
    tool_choice: typeof choice === "object" ? { type: "function", function: choice } : choice,
    parallel_tool_calls: asked.oneCall === true ? false : undefined,
    stop: asked.stops && [...asked.stops],
    max_tokens: asked.limit,
    temperature: asked.temperature,
    top_p: asked.topP,
    top_k: asked.topK,
    reasoning_effort: thinking === "off" ? "none" : asked.effort,
    thinking: budget === undefined ? undefined : { type: "enabled", budget_tokens: budget },
    response_format: json === true ? { type: "json_object" } : format,
    user: asked.user,
    n: asked.answers,
  })
}

const readParts = (content: unknown): Part[] => {
  if (content === null || content === undefined) return []
  if (typeof content === "string") return [{ text: content }]
  return objectsIn(content).map((part) => {
    if (part["type"] === "text") return { text: part["text"] as string }
    const image = part["image_url"]
    if (part["type"] === "image_url" && isObject(image)) return { image: image["url"] as string }
    throw new Error(`chat has no part ${JSON.stringify(part)}`)
  })
}

const readCalls = (calls: unknown): Extract<Part, { call: string }>[] =>
  calls === undefined
    ? []
    : objectsIn(calls).map(({ id, type, function: called, custom }) => {
        if (type === "custom" && isObject(custom))
          return { call: id as string, name: custom["name"] as string, given: custom["input"] as string, custom: true }
        expect(type).toBe("function")
        if (!isObject(called)) throw new Error("a call of no function")
        return { call: id as string, name: called["name"] as string, given: called["arguments"] as string }
      })

const readTurn = (message: JsonObject): Turn => {
  const { role, content, tool_calls: calls, reasoning_content: thinking } = message
  if (role === "tool")
    return { role: "user", parts: [{ result: message["tool_call_id"] as string, says: readParts(content) }] }
  if (role === "assistant") {
    const thought = typeof thinking === "string" ? [{ thinking }] : []
    return { role, parts: [...thought, ...readParts(content), ...readCalls(calls)] }
  }
  return { role: role === "user" ? "user" : "system", parts: readParts(content) }
}

const readTool = ({ type, function: called, custom }: JsonObject): Tool => {
  if (type === "custom" && isObject(custom)) return { name: custom["name"] as string, custom: true }
  expect(type).toBe("function")
  if (!isObject(called)) throw new Error("a tool that is no function")
  return { name: called["name"] as string, schema: called["parameters"] as JsonObject }
}

const read = (body: JsonObject): Asked => {
  const { messages, tools, tool_choice: choice, stream_options: options, reasoning_effort: effort, thinking } = body
  const {
    model: _model,
    stream,
    parallel_tool_calls: parallel,
    stop,
    max_tokens: limit,
    response_format: format,
  } = body
  const { temperature, top_p: topP, top_k: topK, user, safety_identifier: teller, n, ...unknown } = body
  knows(
    unknown,
    "model messages stream stream_options tools tool_choice",
    "parallel_tool_calls stop max_tokens response_format reasoning_effort thinking service_tier",
  )
  expect(user ?? teller).toBe(must(teller, "who asks") as string)
  // The counts are asked for, always and only where there is a stream to put them in.
  expect(options).toEqual(stream === true ? { include_usage: true } : undefined)
  const turns = objectsIn(messages).map(readTurn)
  const first = turns.findIndex(({ role }) => role !== "system")
  const system = turns.slice(0, first).flatMap(({ parts }) => parts.map((part) => ("text" in part ? part.text : "")))
  const schema = isObject(format) && isObject(format["json_schema"]) ? format["json_schema"]["schema"] : undefined
  return told<Asked>({
    system: system.length > 0 ? system : undefined,
    turns: merged(turns.slice(first)),
    tools: tools === undefined ? undefined : objectsIn(tools).map(readTool),
    choice: isObject(choice) ? (choice["function"] as { name: string }) : (choice as Asked["choice"]),
    oneCall: parallel === false ? true : undefined,
    stops: stop as string[] | undefined,
    limit: limit as number,
    temperature: temperature as number | undefined,
    topP: topP as number | undefined,
    topK: topK as number | undefined,
    thinking: effort === "none" ? "off" : undefined,
    effort: effort === "none" ? undefined : (effort as string | undefined),
    budget: isObject(thinking) ? (thinking["budget_tokens"] as number) : undefined,
    schema: schema as JsonObject | undefined,
    json: isObject(format) && format["type"] === "json_object" ? true : undefined,
    user: teller as string,
    answers: n as number | undefined,
  })
}

const answer = (whole: JsonObject): Answer => {
  shaped(whole, {
    id: expect.any(String),
    object: "chat.completion",
    created: expect.any(Number),
    model: expect.any(String),
  })
  const choice = must(objectsIn(whole["choices"])[0], "a choice")
  const { message, index, finish_reason: finish } = choice
  expect(index).toBe(0)
  if (!isObject(message)) throw new Error("a choice without a message")
  expect(message["role"]).toBe("assistant")
  expect(message).toHaveProperty("content")
  const usage = must(whole["usage"], "the usage") as Record<string, number> & JsonObject
  const { cached_tokens: cacheRead = 0, cache_write_tokens: cacheWrite = 0 } = usage[
    "prompt_tokens_details"
  ] as unknown as Record<string, number>
  const prompt = must(usage["prompt_tokens"], "prompt_tokens")
  const output = must(usage["completion_tokens"], "completion_tokens")
  expect(usage["total_tokens"]).toBe(prompt + output)
  return {
    thinking: (message["reasoning_content"] as string | undefined) ?? "",
    seal: undefined,
    text: (message["content"] as string | null) ?? "",
    refusal: (message["refusal"] as string | null | undefined) ?? "",
    calls: readCalls(message["tool_calls"]).map(({ call: id, name, given, custom = false }) => ({
      id,
      name,
      given,
      custom,
    })),
    finish: finish as string,
    stop: undefined,
    usage: { input: prompt - cacheRead - cacheWrite, cacheRead, cacheWrite, output },
    turn: [message],
  }
}

/** One role chunk, deltas, one finish, the usage, the end mark; every chunk of one id, time and model. */
const added = (stream: string): JsonObject => {
  const events = eventsOf(stream)
  expect(events.pop()).toEqual({ event: undefined, data: "[DONE]" })
  const chunks = events.map(({ event, data }) => {
    expect(event).toBeUndefined()
    return JSON.parse(data) as JsonObject
  })
  const head = must(chunks[0], "a first chunk")
  const message: JsonObject & { tool_calls?: JsonObject[] } = { content: null }
  let finish: string | undefined
  let usage: JsonObject | undefined
  for (const [at, chunk] of chunks.entries()) {
    expect(chunk["object"]).toBe("chat.completion.chunk")
    expect([chunk["id"], chunk["created"], chunk["model"]]).toEqual([head["id"], head["created"], head["model"]])
    const [choice] = objectsIn(chunk["choices"])
    if (choice === undefined) {
      // Only the last chunk before the end mark has no choices: an empty one elsewhere breaks clients.
      expect(at).toBe(chunks.length - 1)
      usage = chunk["usage"] as JsonObject
      continue
    }
    expect(chunk["usage"]).toBeNull()
    // Of several answers, the first.
    if (choice["index"] !== 0) continue
    expect(finish).toBeUndefined()
    finish = (choice["finish_reason"] as string | null) ?? undefined
    const delta = choice["delta"] as JsonObject
    expect(delta["role"]).toBe(at === 0 ? "assistant" : (undefined as never))
    if (at === 0) message["role"] = delta["role"]
    for (const field of ["content", "refusal", "reasoning_content"])
      if (typeof delta[field] === "string") message[field] = ((message[field] as string | null) ?? "") + delta[field]
    for (const piece of delta["tool_calls"] === undefined ? [] : objectsIn(delta["tool_calls"])) addCall(message, piece)
  }
  const { id, created, model } = head
  return {
    id,
    created,
    model,
    object: "chat.completion",
    usage,
    choices: [{ index: 0, message, finish_reason: must(finish, "a finish reason") }],
  }
}

/** A call's id and name come once, with its first piece, and indexes count from 0. */
function addCall(message: JsonObject & { tool_calls?: JsonObject[] }, piece: JsonObject): void {
  const { index, ...call } = piece
  const calls = (message.tool_calls ??= [])
  const known = calls[index as number]
  if (known === undefined) {
    expect(index).toBe(calls.length)
    shaped(call, { id: expect.any(String), type: expect.any(String) })
    calls.push(structuredClone(call))
    return
  }
  expect(call["id"]).toBeUndefined()
  for (const [kind, field] of [
    ["function", "arguments"],
    ["custom", "input"],
  ] as const) {
    const more = call[kind]
    const before = known[kind]
    if (isObject(more) && isObject(before)) before[field] = `${before[field] as string}${more[field] as string}`
  }
}

export const chat: Speaker = {
  endpoint: "chat",
  path: "/v1/chat/completions",
  write,
  read,
  answer,
  added,
  goOn: (body, { turn, calls }) => ({
    ...body,
    messages: [
      ...objectsIn(body["messages"]),
      ...turn,
      ...calls.map(({ id }) => ({ role: "tool", tool_call_id: id, content: "31 degrees" })),
    ],
  }),
  failure(stream) {
    const events = eventsOf(stream)
    if (events.pop()?.data !== "[DONE]") return undefined
    const last = JSON.parse(events.pop()?.data ?? "{}") as JsonObject
    return isObject(last["error"]) && last["choices"] === undefined ? last["error"] : undefined
  },
}
