/**
 * A prompt as a messages backend's request body. What this format cannot say is listed in docs/formats.md, where leaving
 * it out harms nobody; the rest is refused. Turns become messages: neighbours of one role become one, the first is the user's,
 * none is empty. System text in mid-conversation is folded into the user's turn, marked as what it is: `role: "system"` is
 * refused by older models and on some clouds, and where it is taken, only at some places.
 */
import { asNote, unsaidInNotes } from "../shared/betas.ts"
import { type NameLimits, toolInput, toolNames, type ToolNames } from "../shared/tools.ts"
import { cacheControl, keepLastMarks, MOST_MARKS, withOwnIds, writtenId } from "./content.ts"
import { Failure } from "../../failure/failure.ts"
import { isObject, type JsonObject, notServed, present } from "../../language/json.ts"
import {
  type AssistantPart,
  type DocumentPart,
  type ImagePart,
  plainType,
  type Prompt,
  type TextPart,
  type ThinkingPart,
  type ToolResultPart,
  type Turn,
  type UserPart,
} from "../../language/prompt.ts"
import { answerLimit, type ModelRequest, type Target } from "../../language/request.ts"
import type { EncodedPrompt } from "../format.ts"
import { serviceTier, ToolInputs } from "../body.ts"
import { encodeReasoning, isThought, modelTraits, type ModelTraits, refusedSamplers, thinks } from "./thinking.ts"
import { encodeToolChoice, encodeTools, toolUseOf } from "./tools.ts"

/** This format has no mode for JSON without a schema; the model is asked for it. */
const JSON_ONLY = "Answer with one valid JSON object and nothing else: no other text, no code fence."

export function encodePrompt(prompt: Prompt, request: ModelRequest, target: Target): EncodedPrompt | Failure {
  const traits = modelTraits(target.model)
  const names = toolNames(prompt, TOOL_NAMES)
  const messages = encodeTurns(prompt, traits, names)
  if (messages instanceof Failure) return messages
  const toolUse = toolUseOf(prompt)
  const tools = encodeTools(toolUse.tools, names)
  const system = encodeSystem(prompt)
  keepLastMarks([...tools, ...system, ...messages])
  // An effort is measured by the limit that is forwarded. A budget shrinks with it, from that of the model where the client named none.
  const longest = prompt.reasoning?.budgetTokens === undefined ? undefined : target.modelLimit
  return ({ maxOutputTokens, stream }) => {
    const limit = answerLimit(request, { maxOutputTokens })
    const limits = { asked: request.maxOutputTokens ?? longest ?? limit, limit }
    const { thinking, effort } = encodeReasoning(prompt.reasoning, traits, limits, messages)
    const isThinking = traits.off === "never" || thinks(thinking)
    const body = filled({
      system,
      tools,
      tool_choice: encodeToolChoice(toolUse, traits.forcesTools && !isThinking, names),
      stop_sequences: prompt.stopSequences.filter((sequence) => !isBlank(sequence)),
      ...(isThinking ? {} : encodeSampling(prompt.sampling, traits)),
      thinking,
      output_config: filled({ effort, format: encodeFormat(prompt) }),
      service_tier: serviceTier("messages", request.body),
      metadata: filled({ user_id: request.endUser }),
    })
    for (const parameter of target.strip) delete body[parameter]
    return {
      model: target.model,
      max_tokens: limit,
      ...body,
      messages,
      ...(stream && { stream: true }),
    }
  }
}

/** The backend refuses stop sequences of nothing but white space. */
const isBlank = (sequence: string): boolean => sequence.trim() === ""

/**
 * Fields of a chat or responses request of which a part or all is left out for the sake of their values or of the backend's model.
 * Sampling that is left out because this one call thinks is not among them: that is known once its answer limit is.
 */
export function leftOut(body: JsonObject, model: string): string[] {
  const stops = [body["stop"]].flat()
  return [
    ...(stops.some((stop) => typeof stop === "string" && isBlank(stop)) ? ["stop"] : []),
    ...refusedSamplers(body, modelTraits(model)),
    ...(marksIn(body) > MOST_MARKS ? ["cache_control"] : []),
  ]
}

/** The same of a messages request, which may have been written for another model. */
export function leftOutOfOwn(body: JsonObject, model: string, writtenFor: string | undefined): string[] {
  const traits = modelTraits(model)
  const isOther = writtenFor !== undefined && modelTraits(writtenFor) !== traits
  return [
    ...(traits.systemTurns ? [] : unsaidInNotes(body["messages"])),
    ...(isOther ? refusedSamplers(body, traits) : []),
  ]
}

/** Of tools, of messages and of their parts. */
function marksIn({ messages, tools }: JsonObject): number {
  const objects = [messages, tools].flatMap((list) =>
    Array.isArray(list) ? list.filter((item) => isObject(item)) : [],
  )
  const parts = objects.flatMap(({ content }) =>
    Array.isArray(content) ? content.filter((part) => isObject(part)) : [],
  )
  return [...objects, ...parts].filter(({ cache_control: mark }) => present(mark)).length
}

/** Without what is not there, and without lists and objects of nothing. */
const filled = (fields: JsonObject): JsonObject =>
  Object.fromEntries(
    Object.entries(fields).filter(
      ([, value]) =>
        value !== undefined && (typeof value !== "object" || value === null || Object.keys(value).length > 0),
    ),
  )

function encodeSystem({ instructions, output }: Prompt): JsonObject[] {
  const system = textBlocks(instructions)
  if (output?.kind === "json") system.push({ type: "text", text: JSON_ONLY })
  return system
}

const encodeFormat = ({ output }: Prompt): JsonObject | undefined =>
  output?.kind === "schema" ? { type: "json_schema", schema: output.schema } : undefined

function encodeSampling(
  { temperature, topP, topK }: Prompt["sampling"],
  { samplers }: Pick<ModelTraits, "samplers">,
): JsonObject {
  if (samplers === "none") return {}
  return {
    temperature: temperature === undefined ? undefined : Math.min(Math.max(temperature, 0), 1),
    top_p: temperature === undefined || samplers === "all" ? topP : undefined,
    top_k: topK,
  }
}

// Turns as messages: neighbours of one role become one, the first is the user's, none is empty. System text in
// mid-conversation is folded into the user's turn, marked as what it is: `role: "system"` is refused by older models and
// on some clouds, and where it is taken, only at some places.

/** Before a conversation that the assistant opened, or that has only instructions. */
const OPENING = "."
/** After a last turn of the assistant, for models that do not go on with it. */
export const GOING_ON = { role: "user", content: [{ type: "text", text: "Continue." }] }

interface Message {
  readonly role: "user" | "assistant"
  readonly content: JsonObject[]
}

function encodeTurns(
  { turns }: Pick<Prompt, "turns">,
  { prefill }: Pick<ModelTraits, "prefill">,
  names: ToolNames,
): JsonObject[] | Failure {
  const messages: Message[] = []
  const inputs = new ToolInputs()
  for (const turn of withOwnIds(turns)) {
    const role = turn.role === "assistant" ? "assistant" : "user"
    const content = turn.role === "assistant" ? assistantBlocks(turn.parts, names, inputs) : spokenBlocks(turn)
    if (content instanceof Failure) return content
    const before = messages.at(-1)
    if (before?.role === role) before.content.push(...content)
    else if (content.length > 0) messages.push({ role, content })
  }
  if (messages[0]?.role !== "user") messages.unshift({ role: "user", content: [{ type: "text", text: OPENING }] })
  const last = messages.at(-1)
  if (last?.role === "assistant") endWith(last, messages, prefill)
  return messages.map(({ role, content }) => ({ role, content: resultsFirst(content) }))
}

const spokenBlocks = (turn: Exclude<Turn, { role: "assistant" }>): JsonObject[] | Failure =>
  turn.role === "user" ? userBlocks(turn.parts) : textBlocks(turn.parts.map(asNote))

/** The backend takes the results of tools nowhere else. */
const resultsFirst = (content: readonly JsonObject[]): JsonObject[] => [
  ...content.filter(({ type }) => type === "tool_result"),
  ...content.filter(({ type }) => type !== "tool_result"),
]

/**
 * A turn to go on with may not end in white space, nor have thinking in it: there the backend does not think. A model that does not go
 * on with one is asked to.
 */
function endWith(last: Message, messages: Message[], prefill: boolean): void {
  if (!prefill) {
    messages.push({ role: "user", content: [...GOING_ON.content] })
    return
  }
  messages.pop()
  const content = last.content.filter((block) => !isThought(block))
  const end = content.at(-1)
  if (typeof end?.["text"] === "string") content[content.length - 1] = { ...end, text: end["text"].trimEnd() }
  if (content.length > 0) messages.push({ role: last.role, content })
}

// Parts of the neutral language as content blocks. Text that says nothing is left out, because backends of this format
// refuse it; so is thinking that another kind of backend sealed, which this one could not read.

/** What a backend of this format takes as a tool's name. */
export const TOOL_NAMES: NameLimits = { longest: 128, shortened: 128 }

function textBlocks(parts: readonly TextPart[]): JsonObject[] {
  return parts.filter(({ text }) => text.trim() !== "").map(textBlock)
}

const textBlock = ({ text, cache }: TextPart): JsonObject => ({ type: "text", text, ...cacheControl(cache) })

function userBlocks(parts: readonly UserPart[]): JsonObject[] | Failure {
  const blocks: JsonObject[] = []
  for (const part of parts) {
    const encoded = part.type === "tool-result" ? resultBlock(part) : shownBlock(part)
    if (encoded instanceof Failure) return encoded
    blocks.push(...encoded)
  }
  return blocks
}

function shownBlock(part: TextPart | ImagePart | DocumentPart): JsonObject[] | Failure {
  if (part.type === "text") return textBlocks([part])
  if (part.type === "document") return documentBlock(part)
  return [{ type: "image", source: imageSource(part.source), ...cacheControl(part.cache) }]
}

function imageSource(source: ImagePart["source"]): JsonObject {
  if (source.kind === "url") return { type: "url", url: source.url }
  const mediaType = plainType(source.mediaType)
  // Clients write the ending of a file's name, which other vendors take and this one refuses.
  return { type: "base64", media_type: mediaType === "image/jpg" ? "image/jpeg" : mediaType, data: source.base64 }
}

function documentBlock({ source, name, cache }: DocumentPart): JsonObject[] | Failure {
  const encoded = documentSource(source)
  if (encoded instanceof Failure) return encoded
  if (encoded["data"] === "") return []
  return [{ type: "document", source: encoded, ...(name !== undefined && { title: name }), ...cacheControl(cache) }]
}

function documentSource(source: DocumentPart["source"]): JsonObject | Failure {
  if (source.kind === "url") return { type: "url", url: source.url }
  if (source.kind === "text") return plainText(source.text)
  const mediaType = plainType(source.mediaType)
  if (mediaType === "application/pdf") return { type: "base64", media_type: mediaType, data: source.base64 }
  if (mediaType.startsWith("text/") || mediaType === "application/json")
    return plainText(Buffer.from(source.base64, "base64").toString("utf8"))
  return notServed("A document of this media type is not served for this model; send a PDF or text.")
}

const plainText = (text: string): JsonObject => ({
  type: "text",
  media_type: "text/plain",
  data: text.trim() === "" ? "" : text,
})

function resultBlock({ callId, parts, isError, cache }: ToolResultPart): JsonObject[] | Failure {
  const content = userBlocks(parts)
  if (content instanceof Failure) return content
  return [
    {
      type: "tool_result",
      tool_use_id: writtenId(callId),
      ...(content.length > 0 && { content }),
      ...(isError && { is_error: true }),
      ...cacheControl(cache),
    },
  ]
}

const assistantBlocks = (parts: readonly AssistantPart[], names: ToolNames, inputs: ToolInputs): JsonObject[] =>
  parts.flatMap((part) => {
    if (part.type === "thinking") return thinkingBlocks(part)
    if (part.type === "tool-call")
      return {
        type: "tool_use",
        id: writtenId(part.id),
        name: names.written(part.name),
        input: toolInput(part, inputs),
      }
    return textBlocks([{ ...part, type: "text" }])
  })

function thinkingBlocks({ text, seal }: ThinkingPart): JsonObject[] {
  if (seal?.by === "messages") return [{ type: "thinking", thinking: text, signature: seal.data }]
  return seal?.by === "messages-redacted" ? [{ type: "redacted_thinking", data: seal.data }] : []
}
