/**
 * A client's messages request as a prompt, for a backend of another format. `request.body` has passed `decodeRequest`.
 * What has no meaning beyond the vendor's own backend is listed in docs/formats.md; `system` is kept whole, the block
 * that Claude Code bills by included: the encoder of a format whose caches that would defeat leaves it out. What a block of a
 * known type leaves out is read as nothing. A block that only the vendor's own backend could make sense of is refused, but for
 * the traces of tools that ran there: the answer that followed them says what they found.
 */
import { isToolChange } from "../shared/betas.ts"
import { readCache, unseal } from "./content.ts"
import { isObject, type Json, type JsonObject, misshapen, present, readText, shown } from "../../language/json.ts"
import { Failure } from "../../failure/failure.ts"
import type {
  AssistantPart,
  DocumentPart,
  Effort,
  ImagePart,
  OutputFormat,
  Prompt,
  Reasoning,
  TextPart,
  ToolResultPart,
  Turn,
  UserPart,
} from "../../language/prompt.ts"
import type { ModelRequest } from "../../language/request.ts"
import { decodeToolChoice, decodeTools } from "./tools.ts"

export function decodePrompt({ body }: ModelRequest): Prompt | Failure {
  const turns = decodeTurns(body["messages"])
  if (turns instanceof Failure) return turns
  const tools = decodeTools(body["tools"])
  if (tools instanceof Failure) return tools
  const choice = decodeToolChoice(body["tool_choice"])
  if (choice instanceof Failure) return choice
  const stopSequences = readStops(body["stop_sequences"])
  if (stopSequences instanceof Failure) return stopSequences
  const sampling = decodeSampling(body)
  if (sampling instanceof Failure) return sampling
  const reasoning = decodeReasoning(body)
  if (reasoning instanceof Failure) return reasoning
  const output = decodeOutput(body)
  if (output instanceof Failure) return output
  return {
    instructions: decodeText(body["system"]),
    turns,
    tools,
    ...choice,
    stopSequences,
    sampling,
    output,
    reasoning,
  }
}

function decodeTurns(value: Json | undefined): Turn[] | Failure {
  const turns: Turn[] = []
  for (const message of Array.isArray(value) ? value.filter((each) => isObject(each)) : []) {
    const turn = decodeTurn(message)
    if (turn instanceof Failure) return turn
    // An empty system message may carry another effort for the turns to come, which other formats do not have.
    if (turn.parts.length > 0) turns.push(turn)
  }
  return turns
}

function decodeTurn({ role, content }: JsonObject): Turn | Failure {
  if (role === "system") {
    const parts = decodeEach(content, systemParts)
    return parts instanceof Failure ? parts : { role, parts }
  }
  if (role === "assistant") {
    const parts = decodeAssistant(content)
    return parts instanceof Failure ? parts : { role, parts }
  }
  const parts = decodeUser(content)
  return parts instanceof Failure ? parts : { role: "user", parts }
}

function readStops(value: Json | undefined): string[] | Failure {
  if (!present(value)) return []
  if (Array.isArray(value) && value.every((each) => typeof each === "string")) return value
  return misshapen(`'stop_sequences' is ${shown(value)}; it must be an array of strings.`)
}

function decodeSampling(body: JsonObject): Prompt["sampling"] | Failure {
  const wrong = ["temperature", "top_p", "top_k"].find(
    (field) => present(body[field]) && typeof body[field] !== "number",
  )
  if (wrong !== undefined) return misshapen(`'${wrong}' is ${shown(body[wrong])}; it must be a number.`)
  const number = (field: string): number | undefined => (typeof body[field] === "number" ? body[field] : undefined)
  return { temperature: number("temperature"), topP: number("top_p"), topK: number("top_k") }
}

const EFFORTS: readonly Effort[] = ["low", "medium", "high", "xhigh", "max"]

function decodeReasoning(body: JsonObject): Reasoning | undefined | Failure {
  const config = isObject(body["output_config"]) ? body["output_config"] : {}
  const named = config["effort"]
  const effort = EFFORTS.find((each) => each === named)
  if (present(named) && effort === undefined)
    return misshapen(`'output_config.effort' is ${shown(named)}; it must be one of ${EFFORTS.join(", ")}.`)
  const thinking = isObject(body["thinking"]) ? body["thinking"] : undefined
  if (thinking === undefined && effort === undefined) return undefined
  const budget = thinking?.["budget_tokens"]
  return {
    enabled: thinking === undefined || !OFF.includes(thinking["type"] ?? null),
    effort,
    budgetTokens: thinking?.["type"] === "enabled" && typeof budget === "number" ? budget : undefined,
    visible: thinking?.["display"] !== "omitted",
  }
}

/** `between_tools` is the vendor's nearest to no thinking on models that cannot do without. */
const OFF: readonly Json[] = ["disabled", "between_tools"]

/** `output_format` is what it was called while it was new. */
function decodeOutput(body: JsonObject): OutputFormat | undefined | Failure {
  const config = isObject(body["output_config"]) ? body["output_config"] : {}
  const format = present(config["format"]) ? config["format"] : body["output_format"]
  if (!isObject(format)) return undefined
  const { type, schema } = format
  if (type !== "json_schema") {
    const message = `'output_config.format' of type ${shown(type)} is not served; send a 'json_schema'.`
    return new Failure("request.unsupported_feature", { message })
  }
  if (!isObject(schema)) return misshapen(`'output_config.format.schema' is ${shown(schema)}; it must be an object.`)
  return { kind: "schema", name: undefined, description: undefined, schema, strict: undefined }
}

// Content blocks as parts of the neutral language. The request's shape has been checked; what a block of a known type
// leaves out is read as nothing. A block that only the vendor's own backend could make sense of is refused, but for the
// traces of tools that ran there: the answer that followed them says what they found.

type ShownPart = TextPart | ImagePart | DocumentPart

const blocksOf = (content: Json | undefined): JsonObject[] => {
  if (typeof content === "string") return [{ type: "text", text: content }]
  return Array.isArray(content) ? content.filter((block) => isObject(block)) : []
}

/** Each block of some content; the first refusal ends it. */
function decodeEach<T>(content: Json | undefined, decode: (block: JsonObject) => T[] | Failure): T[] | Failure {
  const parts: T[] = []
  for (const block of blocksOf(content)) {
    const decoded = decode(block)
    if (decoded instanceof Failure) return decoded
    parts.push(...decoded)
  }
  return parts
}

const decodeText = (content: Json | undefined): TextPart[] =>
  blocksOf(content).flatMap((block) => (block["type"] === "text" ? textParts(block) : []))

/** Tools that come and go in mid-conversation are all offered at once. */
function systemParts(block: JsonObject): TextPart[] | Failure {
  if (block["type"] === "text") return textParts(block)
  return isToolChange(block) ? [] : unsupported(block)
}

const decodeUser = (content: Json | undefined): UserPart[] | Failure =>
  decodeEach<UserPart>(content, (block) => (block["type"] === "tool_result" ? toolResult(block) : shownParts(block)))

function textParts(block: JsonObject): TextPart[] {
  const text = readText(block["text"])
  return text === "" ? [] : [{ type: "text", text, ...readCache(block) }]
}

function toolResult(block: JsonObject): ToolResultPart[] | Failure {
  const parts = decodeEach(block["content"], shownParts)
  if (parts instanceof Failure) return parts
  const callId = readText(block["tool_use_id"])
  return [{ type: "tool-result", callId, parts, isError: block["is_error"] === true, ...readCache(block) }]
}

function shownParts(block: JsonObject): ShownPart[] | Failure {
  switch (readText(block["type"])) {
    case "text":
      return textParts(block)
    case "image":
      return imagePart(block)
    case "document":
      return documentParts(block)
    case "search_result":
      return [searchResult(block)]
    case "tool_reference":
      return [{ type: "text", text: `The tool ${readText(block["tool_name"])} is available.`, ...readCache(block) }]
    default:
      return unsupported(block)
  }
}

function imagePart(block: JsonObject): ImagePart[] | Failure {
  const source = sourceOf(block)
  if (source["type"] === "url") return [{ type: "image", source: urlSource(source), ...readCache(block) }]
  return source["type"] === "base64"
    ? [{ type: "image", source: dataSource(source), ...readCache(block) }]
    : unsupported(block)
}

const sourceOf = ({ source }: JsonObject): JsonObject => (isObject(source) ? source : {})
const urlSource = ({ url }: JsonObject): { kind: "url"; url: string } => ({ kind: "url", url: readText(url) })
const dataSource = (source: JsonObject): { kind: "data"; mediaType: string; base64: string } => ({
  kind: "data",
  mediaType: readText(source["media_type"]),
  base64: readText(source["data"]),
})

/** A document's context goes before it; one that is made of blocks is its texts, and its images after them. */
function documentParts(block: JsonObject): ShownPart[] | Failure {
  const context: TextPart[] = textParts({ text: block["context"] })
  const name = typeof block["title"] === "string" ? block["title"] : undefined
  const source = sourceOf(block)
  const document = (from: DocumentPart["source"]): DocumentPart => ({
    type: "document",
    source: from,
    name,
    ...readCache(block),
  })
  switch (readText(source["type"])) {
    case "base64":
      return [...context, document(dataSource(source))]
    case "url":
      return [...context, document(urlSource(source))]
    case "text":
      return [...context, document({ kind: "text", text: readText(source["data"]) })]
    case "content": {
      const parts = decodeEach(source["content"], shownParts)
      if (parts instanceof Failure) return parts
      const text = parts.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("\n\n")
      return [...context, document({ kind: "text", text }), ...parts.filter(({ type }) => type !== "text")]
    }
    default:
      return unsupported(block)
  }
}

const searchResult = (block: JsonObject): DocumentPart => ({
  type: "document",
  source: {
    kind: "text",
    text: [readText(block["source"]), ...decodeText(block["content"]).map(({ text }) => text)].join("\n\n"),
  },
  name: typeof block["title"] === "string" ? block["title"] : undefined,
  ...readCache(block),
})

const decodeAssistant = (content: Json | undefined): AssistantPart[] | Failure => decodeEach(content, assistantParts)

function assistantParts(block: JsonObject): AssistantPart[] | Failure {
  switch (readText(block["type"])) {
    case "text":
      return textParts(block)
    case "thinking":
      return thinkingPart(readText(block["thinking"]), readText(block["signature"]))
    case "redacted_thinking":
      return [{ type: "thinking", text: "", seal: { by: "messages-redacted", data: readText(block["data"]) } }]
    case "tool_use":
      return [toolCall(block)]
    case "compaction":
      return textParts({ text: block["content"] })
    default:
      return ranAtBackend(readText(block["type"])) ? [] : unsupported(block)
  }
}

/** The blocks of a backend's own answer: what nobody but that backend could make sense of is left out. */
export const decodeAnswered = (blocks: readonly JsonObject[]): AssistantPart[] =>
  blocks.flatMap((block) => {
    const parts = assistantParts(block)
    return parts instanceof Failure ? [] : parts
  })

function thinkingPart(text: string, signature: string): AssistantPart[] {
  const carried = unseal(signature)
  if (carried !== "") return [{ type: "thinking", text: carried, seal: undefined }]
  const seal = signature === "" ? undefined : ({ by: "messages", data: signature } as const)
  return text === "" && seal === undefined ? [] : [{ type: "thinking", text, seal }]
}

const toolCall = ({ id, name, input }: JsonObject): AssistantPart => ({
  type: "tool-call",
  id: readText(id),
  name: readText(name),
  arguments: JSON.stringify(isObject(input) ? input : {}),
  custom: false,
})

const ranAtBackend = (type: string): boolean =>
  type === "server_tool_use" || type === "mcp_tool_use" || type.endsWith("_tool_result")

const unsupported = (block: JsonObject): Failure =>
  new Failure("request.unsupported_feature", {
    message: `Content blocks of type ${shown(block["type"])} as they stand here are not served for this model.`,
    hint: "Send the content as text, images (base64 or url) or documents.",
  })
