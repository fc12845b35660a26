/**
 * A conversation as the items that a responses backend takes. Item ids are not sent: they would name items that the
 * backend has stored, and nothing is stored there.
 */
import { unreachable } from "../../../actors/unreachable.ts"
import type { JsonObject } from "../../language/json.ts"
import type {
  AssistantPart,
  DataSource,
  DocumentPart,
  ImagePart,
  TextPart,
  ToolResultPart,
  Turn,
  UserPart,
} from "../../language/prompt.ts"
import type { ToolNames } from "../shared/tools.ts"

/** The backend refuses longer ones. */
const LONGEST_CALL_ID = 64
/** What a tool's result begins with when the tool failed, which this format has no field for. */
const ERROR_MARK = "[The tool failed]"

export function encodeItems(turns: readonly Turn[], names: ToolNames): JsonObject[] {
  const customCalls = new Set(
    turns.flatMap(({ parts }) => parts.flatMap((part) => (part.type === "tool-call" && part.custom ? [part.id] : []))),
  )
  return turns.flatMap((turn) => {
    switch (turn.role) {
      case "user":
        return userItems(turn.parts, customCalls)
      case "assistant":
        return assistantItems(turn.parts, names)
      case "system":
        return developerItem(turn.parts)
      default:
        return unreachable(turn)
    }
  })
}

export const developerItem = (parts: readonly TextPart[]): JsonObject[] =>
  message("developer", parts.filter(saysSomething).map(inputPart))

/** The backend refuses a text with nothing in it. */
const saysSomething = (part: { readonly type: string; readonly text?: string }): boolean =>
  part.type !== "text" || part.text !== ""

const message = (role: string, content: readonly JsonObject[]): JsonObject[] =>
  content.length === 0 ? [] : [{ type: "message", role, content: [...content] }]

function userItems(parts: readonly UserPart[], customCalls: ReadonlySet<string>): JsonObject[] {
  const items: JsonObject[] = []
  let content: JsonObject[] = []
  for (const part of parts.filter(saysSomething)) {
    if (part.type !== "tool-result") {
      content.push(inputPart(part))
      continue
    }
    items.push(...message("user", content), resultItem(part, customCalls.has(part.callId)))
    content = []
  }
  return [...items, ...message("user", content)]
}

function assistantItems(parts: readonly AssistantPart[], names: ToolNames): JsonObject[] {
  const items: JsonObject[] = []
  let content: JsonObject[] = []
  for (const part of parts.filter(saysSomething)) {
    if (part.type === "text") content.push({ type: "output_text", text: part.text })
    else if (part.type === "refusal") content.push({ type: "refusal", refusal: part.text })
    else {
      items.push(...message("assistant", content), ...thoughtOrCall(part, names))
      content = []
    }
  }
  return [...items, ...message("assistant", content)]
}

function thoughtOrCall(part: Exclude<AssistantPart, { type: "text" | "refusal" }>, names: ToolNames): JsonObject[] {
  if (part.type === "thinking") {
    // Only what this backend sealed means anything to it.
    if (part.seal?.by !== "responses") return []
    const summary = part.text === "" ? [] : [{ type: "summary_text", text: part.text }]
    return [{ type: "reasoning", summary, encrypted_content: part.seal.data }]
  }
  const call = { call_id: callId(part.id), name: names.written(part.name) }
  return [
    part.custom
      ? { type: "custom_tool_call", ...call, input: part.arguments }
      : { type: "function_call", ...call, arguments: part.arguments },
  ]
}

function resultItem({ callId: id, parts, isError }: ToolResultPart, custom: boolean): JsonObject {
  const marked: ToolResultPart["parts"] = isError ? [{ type: "text", text: ERROR_MARK }, ...parts] : parts
  const type = custom ? "custom_tool_call_output" : "function_call_output"
  const texts = marked.map((part) => (part.type === "text" ? part.text : undefined))
  const output = texts.every((text) => text !== undefined)
    ? texts.join("\n")
    : marked.filter(saysSomething).map(inputPart)
  return { type, call_id: callId(id), output }
}

/** A call and its result are shortened alike, so they still find each other. */
const callId = (id: string): string =>
  id.length <= LONGEST_CALL_ID ? id : `call_${new Bun.CryptoHasher("sha256").update(id).digest("base64url")}`

function inputPart(part: TextPart | ImagePart | DocumentPart): JsonObject {
  switch (part.type) {
    case "text":
      return { type: "input_text", text: part.text }
    case "image": {
      const url = part.source.kind === "data" ? dataUrl(part.source) : part.source.url
      return { type: "input_image", image_url: url, detail: part.detail ?? "auto" }
    }
    case "document":
      return documentPart(part)
    default:
      return unreachable(part)
  }
}

function documentPart({ source, name }: DocumentPart): JsonObject {
  if (source.kind === "text")
    return { type: "input_text", text: name === undefined ? source.text : `${name}\n\n${source.text}` }
  if (source.kind === "url") return { type: "input_file", file_url: source.url }
  // Data without a name is refused.
  const filename = name ?? `document.${source.mediaType.split("/").at(-1) ?? "bin"}`
  return { type: "input_file", filename, file_data: dataUrl(source) }
}

// `data:` URLs with base64 in them (RFC 2397), which is how this format carries images and files inline.

const dataUrl = ({ mediaType, base64 }: DataSource): string => `data:${mediaType};base64,${base64}`

/** Undefined where it is no such URL. Only the head is looked at: what follows may be megabytes. */
export function readDataUrl(url: string): DataSource | undefined {
  const comma = url.indexOf(",")
  if (comma < 0 || !url.slice(0, 5).toLowerCase().startsWith("data:")) return undefined
  const [mediaType = "", ...parameters] = url.slice(5, comma).split(";")
  if (mediaType === "" || parameters.at(-1)?.toLowerCase() !== "base64") return undefined
  return { kind: "data", mediaType, base64: url.slice(comma + 1) }
}
