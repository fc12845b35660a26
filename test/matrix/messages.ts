/** Messages, as the vendor's reference and streaming guide have them. */
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
  if ("text" in part) return { type: "text", text: part.text }
  if ("image" in part) return { type: "image", source: imageSource(part.image) }
  if ("thinking" in part) return { type: "thinking", thinking: part.thinking, signature: part.seal ?? "" }
  if ("call" in part) return { type: "tool_use", id: part.call, name: part.name, input: JSON.parse(part.given) }
  throw new Error("results are written apart")
}

const imageSource = (url: string): JsonObject => {
  const [, media_type, data] = /^data:([^;]+);base64,(.*)$/.exec(url) ?? []
  return data === undefined ? { type: "url", url } : { type: "base64", media_type: must(media_type, "a type"), data }
}

const writeSays = (says: readonly Part[], blocks: boolean): string | JsonObject[] => {
  const [only, ...others] = says
  return !blocks && only !== undefined && "text" in only && others.length === 0 ? only.text : says.map(writePart)
}

const writeTurn = ({ role, parts }: Turn, as: Asked["as"]): JsonObject => {
  const results = parts.some((part) => "result" in part)
  if (!results) return { role, content: writeSays(parts, false) }
  const content = parts.map((part) =>
    "result" in part
      ? told<JsonObject>({
          type: "tool_result",
          tool_use_id: part.result,
          content: writeSays(part.says, as?.results === "blocks"),
          is_error: part.failed,
        })
      : writePart(part),
  )
  return { role, content }
}

const writeTool = (tool: Tool): JsonObject => {
  if ("search" in tool) return { type: "web_search_20250305", name: "web_search" }
  if ("custom" in tool) throw new Error("no tool of messages")
  return { name: tool.name, input_schema: tool.schema }
}

const CHOICES = { auto: "auto", none: "none", required: "any" } as const

const write = (asked: Asked): JsonObject => {
  const { system = [], as, choice, effort, schema, thinking, budget } = asked
  const format = schema && { type: "json_schema", schema }
  const chosen: JsonObject | undefined =
    typeof choice === "object" ? { type: "tool", name: choice.name } : choice && { type: CHOICES[choice] }
  return told<JsonObject>({
    max_tokens: asked.limit ?? 8192,
    system:
      system.length === 0
        ? undefined
        : as?.system === "blocks"
          ? system.map((text) => ({ type: "text", text }))
          : system.join("\n\n"),
    messages: asked.turns.map((turn) => writeTurn(turn, as)),
    tools: asked.tools?.map(writeTool),
    tool_choice: asked.oneCall === true ? { type: "auto", ...chosen, disable_parallel_tool_use: true } : chosen,
    stop_sequences: asked.stops && [...asked.stops],
    temperature: asked.temperature,
    top_p: asked.topP,
    top_k: asked.topK,
    thinking:
      budget !== undefined
        ? { type: "enabled", budget_tokens: budget }
        : thinking && { type: thinking === "off" ? "disabled" : thinking },
    output_config: effort !== undefined || format ? told<JsonObject>({ effort, format }) : undefined,
    metadata: asked.user === undefined ? undefined : { user_id: asked.user },
  })
}

const readParts = (content: unknown): Part[] =>
  typeof content === "string" ? [{ text: content }] : objectsIn(content ?? []).map(readPart)

const readPart = (block: JsonObject): Part => {
  const type = block["type"] as string
  switch (type) {
    case "text":
      return { text: block["text"] as string }
    case "image": {
      const { type: kind, url, media_type: media, data } = block["source"] as Record<string, string>
      return { image: kind === "url" ? must(url, "a url") : `data:${media};base64,${data}` }
    }
    case "thinking":
      return told({ thinking: block["thinking"] as string, seal: (block["signature"] as string) || undefined })
    case "tool_use":
      return { call: block["id"] as string, name: block["name"] as string, given: JSON.stringify(block["input"]) }
    case "tool_result": {
      const failed = block["is_error"] === true ? { failed: true as const } : {}
      return { result: block["tool_use_id"] as string, says: readParts(block["content"]), ...failed }
    }
    default:
      throw new Error(`messages has no block ${JSON.stringify(block)}`)
  }
}

const readTool = ({ type, name, input_schema: schema }: JsonObject): Tool =>
  type === undefined ? { name: name as string, schema: schema as JsonObject } : { search: type as string }

const readChoice = (choice: JsonObject | undefined): Asked["choice"] => {
  if (choice === undefined) return undefined
  if (choice["type"] === "tool") return { name: choice["name"] as string }
  return choice["type"] === "any" ? "required" : (choice["type"] as "auto" | "none")
}

const read = (body: JsonObject): Asked => {
  knows(
    body,
    "model max_tokens stream system messages tools tool_choice",
    "stop_sequences temperature top_p top_k thinking output_config metadata service_tier",
  )
  const { system, messages, tools, tool_choice: choice, thinking, output_config: config, metadata } = body
  const { effort, format } = (config ?? {}) as { effort?: string; format?: JsonObject }
  const thought = thinking as { type: string; budget_tokens?: number } | undefined
  const systems = readParts(system).map((part) => ("text" in part ? part.text : ""))
  const turns = objectsIn(messages).map(({ role, content }): Turn => ({
    role: role as Turn["role"],
    parts: readParts(content),
  }))
  return told<Asked>({
    system: systems.length > 0 ? systems : undefined,
    turns: merged(turns),
    tools: tools === undefined ? undefined : objectsIn(tools).map(readTool),
    choice: readChoice(choice as JsonObject | undefined),
    oneCall: isObject(choice) && choice["disable_parallel_tool_use"] === true ? true : undefined,
    stops: body["stop_sequences"] as string[] | undefined,
    limit: body["max_tokens"] as number,
    temperature: body["temperature"] as number | undefined,
    topP: body["top_p"] as number | undefined,
    topK: body["top_k"] as number | undefined,
    thinking: thought?.type === "adaptive" ? "adaptive" : thought?.type === "disabled" ? "off" : undefined,
    effort,
    budget: thought?.budget_tokens,
    schema: format?.["schema"] as JsonObject | undefined,
    user: isObject(metadata) ? (metadata["user_id"] as string) : undefined,
  })
}

const answer = (whole: JsonObject): Answer => {
  shaped(whole, {
    id: expect.stringMatching(/^msg_/),
    type: "message",
    role: "assistant",
    model: expect.any(String),
    usage: { input_tokens: expect.any(Number), output_tokens: expect.any(Number) },
  })
  const content = objectsIn(whole["content"])
  const parts = content.map(readPart)
  const usage = whole["usage"] as Record<string, number>
  const joined = (field: "text" | "thinking") =>
    parts.map((part) => (field in part ? (part as Record<string, string>)[field] : "")).join("")
  return {
    thinking: joined("thinking"),
    seal: parts.flatMap((part) => ("thinking" in part && part.seal !== undefined ? [part.seal] : []))[0],
    text: joined("text"),
    refusal: "",
    calls: parts.flatMap((part) =>
      "call" in part ? [{ id: part.call, name: part.name, given: part.given, custom: false }] : [],
    ),
    finish: must(whole["stop_reason"] as string | null, "a stop reason"),
    stop: (whole["stop_sequence"] as string | null) ?? undefined,
    usage: {
      input: must(usage["input_tokens"], "input_tokens"),
      cacheRead: usage["cache_read_input_tokens"] ?? 0,
      cacheWrite: usage["cache_creation_input_tokens"] ?? 0,
      output: must(usage["output_tokens"], "output_tokens"),
    },
    turn: [{ role: "assistant", content }],
  }
}

/** `message_start`, each block from its start through its deltas to its stop, `message_delta`, `message_stop`. */
const added = (stream: string): JsonObject => {
  const events = eventsOf(stream).map(({ event, data }) => {
    const parsed = JSON.parse(data) as JsonObject
    expect(parsed["type"]).toBe(must(event, "an event: line"))
    return parsed
  })
  const said = events.filter(({ type }) => type !== "ping")
  expect([said[0]?.["type"], said.at(-2)?.["type"], said.at(-1)?.["type"]]).toEqual([
    "message_start",
    "message_delta",
    "message_stop",
  ])
  const message = structuredClone(must(said[0], "message_start")["message"]) as JsonObject
  shaped(message, { content: [], stop_reason: null, usage: { input_tokens: expect.any(Number) } })
  const content: JsonObject[] = []
  let open: { block: JsonObject; json: string } | undefined
  for (const event of said.slice(1, -2)) {
    const { type, index } = event
    if (type === "content_block_start") {
      expect(open).toBeUndefined()
      expect(index).toBe(content.length)
      open = { block: structuredClone(event["content_block"]) as JsonObject, json: "" }
      content.push(open.block)
      continue
    }
    const { block, json } = must(open, "an open block")
    expect(index).toBe(content.length - 1)
    if (type === "content_block_stop") {
      if (block["type"] === "tool_use") block["input"] = JSON.parse(json === "" ? "{}" : json)
      open = undefined
      continue
    }
    expect(type).toBe("content_block_delta")
    const delta = event["delta"] as Record<string, string>
    const field = must(DELTAS[must(delta["type"], "a delta's type")], "a delta that is known")
    if (field === "partial_json") open = { block, json: json + delta[field] }
    else block[field] = `${block[field] as string}${delta[field]}`
  }
  expect(open).toBeUndefined()
  const last = must(said.at(-2), "message_delta") as { delta: JsonObject; usage: JsonObject }
  // What is not told again stands; what is told replaces it, as the SDKs have it.
  return { ...message, ...last.delta, content, usage: { ...(message["usage"] as JsonObject), ...last.usage } }
}

const DELTAS: Readonly<Record<string, string>> = {
  text_delta: "text",
  thinking_delta: "thinking",
  signature_delta: "signature",
  input_json_delta: "partial_json",
}

export const messages: Speaker = {
  endpoint: "messages",
  path: "/v1/messages",
  write,
  read,
  answer,
  added,
  goOn: (body, { turn, calls }) => ({
    ...body,
    messages: [
      ...objectsIn(body["messages"]),
      ...turn,
      {
        role: "user",
        content: calls.map(({ id }) => ({ type: "tool_result", tool_use_id: id, content: "31 degrees" })),
      },
    ],
  }),
  failure(stream) {
    const last = eventsOf(stream).at(-1)
    const data = JSON.parse(last?.data ?? "{}") as JsonObject
    return last?.event === "error" && data["type"] === "error" ? (data["error"] as JsonObject) : undefined
  },
}
