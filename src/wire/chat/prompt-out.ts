/** A prompt as the body for a chat backend. What chat cannot say is refused, or harmless and listed in docs/formats.md. */
import { Failure } from "../../failure/failure.ts"
import { isObject, type JsonObject, withProperties } from "../../language/json.ts"
import {
  type AssistantPart,
  BILLING_HEADER,
  type DocumentPart,
  fileName,
  type ImagePart,
  type OutputFormat,
  type Prompt,
  type TextPart,
  type ThinkingPart,
  type Tool,
  type ToolCallPart,
  type ToolChoice,
  type ToolResultPart,
  type UserPart,
} from "../../language/prompt.ts"
import { answerLimit, type Endpoint, lowerBudget, type ModelRequest, type Target } from "../../language/request.ts"
import type { EncodedPrompt } from "../format.ts"
import { serviceTier, ToolInputs } from "../body.ts"
import { freeTextSchema, NARROW, toolInputText, toolNames, type ToolNames, writtenName } from "../shared/tools.ts"
import { chatEffort } from "./prompt-in.ts"

export function encodePrompt(prompt: Prompt, request: ModelRequest, target: Target): EncodedPrompt | Failure {
  const names = toolNames(prompt, NARROW)
  const messages = writeMessages(prompt, { names, id: limitField(target) === "max_tokens" ? anyId : shortId })
  if (messages instanceof Failure) return messages
  const toolUse = writeToolUse(prompt, request.endpoint, names)
  if (toolUse instanceof Failure) return toolUse
  const { sampling, stopSequences } = prompt
  const parameters: JsonObject = {
    ...toolUse,
    temperature: sampling.temperature,
    top_p: sampling.topP,
    stop: stopSequences.length > 0 ? [...stopSequences] : undefined,
    response_format: prompt.output && writeOutput(prompt.output),
    reasoning_effort: chatEffort(prompt.reasoning),
    service_tier: serviceTier("chat", request.body),
    safety_identifier: request.endUser,
  }
  for (const parameter of target.strip) delete parameters[parameter]
  const said = Object.fromEntries(Object.entries(parameters).filter(([, value]) => value !== undefined))
  return ({ maxOutputTokens, stream }) => ({
    model: target.model,
    messages,
    [limitField(target)]: answerLimit(request, { maxOutputTokens }),
    ...said,
    ...(stream && { stream: true, stream_options: { include_usage: true } }),
  })
}

/**
 * Where the answer limit is written. OpenAI's models that think refuse the older name, which every other backend knows; they have it in
 * their `strip`. The limit itself is never taken away (decisions §3).
 */
export const limitField = ({ strip }: Pick<Target, "strip">): "max_tokens" | "max_completion_tokens" =>
  strip.includes("max_tokens") ? "max_completion_tokens" : "max_tokens"

function writeOutput(output: OutputFormat): JsonObject {
  if (output.kind === "json") return { type: "json_object" }
  const definition: JsonObject = { name: writtenName(output.name ?? "answer", NARROW) }
  if (output.description !== undefined) definition.description = output.description
  definition.schema = output.schema
  if (output.strict !== undefined) definition.strict = output.strict
  return { type: "json_schema", json_schema: definition }
}

// Tools as a chat backend knows them. A custom tool, which takes free text, becomes a function with one string: most chat
// backends know functions only. What its grammar asks for stands in that string's description.

type CallableTool = Exclude<Tool, { type: "web-search" }>

function writeToolUse(prompt: Prompt, client: Endpoint, names: ToolNames): JsonObject | Failure {
  const callable = prompt.tools.filter((tool): tool is CallableTool => tool.type !== "web-search")
  // Coding agents on responses offer a search with every request, whether it is needed or not: refusing it would turn
  // them away, and a model without it answers as well as it can. Elsewhere whoever offers it means it.
  if (callable.length < prompt.tools.length && client !== "responses")
    return new Failure("request.unsupported_feature", { message: "This model's backend has no web search." })
  const choice = prompt.toolChoice
  if (choice?.kind === "tool" && !callable.some(({ name }) => name === choice.name))
    return new Failure("request.unsupported_feature", {
      message: "The tool that the model is told to call is not one that this model's backend can be given.",
    })
  // Backends refuse a choice or a flag without tools.
  if (callable.length === 0) return {}
  return {
    tools: callable.map((tool) => writeTool(tool, names)),
    tool_choice: writeChoice(choice, names),
    parallel_tool_calls: prompt.parallelTools,
  }
}

function writeTool(tool: CallableTool, names: ToolNames): JsonObject {
  const { description } = tool
  const written: JsonObject = { name: names.written(tool.name) }
  if (description !== undefined) written.description = description
  written.parameters = tool.type === "function" ? withProperties(tool.parameters) : freeTextSchema(tool.grammar)
  // Absent is false, and not every backend knows the field.
  if (tool.type === "function" && tool.strict === true) written.strict = true
  return { type: "function", function: written }
}

function writeChoice(choice: ToolChoice | undefined, names: ToolNames): JsonObject[string] {
  if (choice === undefined) return undefined
  return choice.kind === "tool" ? { type: "function", function: { name: names.written(choice.name) } } : choice.kind
}

// Instructions and turns as the messages of a chat request, in the shape that every chat backend takes: one system
// message at the front, neighbours of one role merged, the results of tools right after their calls. A tool message
// holds text alone, so what else a result holds follows in the user message after it.

const MEDIA_FOLLOWS = "[The images and files of this result follow in the next user message.]"
const ERROR_MARK = "Error: "

interface CallWriting {
  readonly names: ToolNames
  /** The same for a call and for its result. */
  readonly id: (id: string) => string
}

const anyId = (id: string): string => id

/** OpenAI's own chat refuses longer ones. Other servers take them, and some models read a tool's name in them. */
const LONGEST_ID = 40
const shortId = (id: string): string =>
  id.length <= LONGEST_ID ? id : `call_${new Bun.CryptoHasher("sha256").update(id).digest("hex").slice(0, 32)}`

function writeMessages(prompt: Prompt, writing: CallWriting): JsonObject[] | Failure {
  const messages: JsonObject[] = []
  const inputs = new ToolInputs()
  const system = joined(
    [...prompt.instructions, ...prompt.turns.flatMap((turn) => (turn.role === "system" ? turn.parts : []))].filter(
      ({ text }) => !text.startsWith(BILLING_HEADER),
    ),
  )
  if (system !== "") messages.push({ role: "system", content: system })
  for (const run of runsOf(prompt)) {
    if (run.role === "assistant") {
      messages.push(writeAssistant(run.parts, writing, inputs))
    } else {
      const written = writeUser(run.parts, writing)
      if (written instanceof Failure) return written
      for (const message of written) messages.push(message)
    }
  }
  return messages
}

/** Texts as one, for the places where many backends take a string only. */
const joined = (texts: readonly { readonly text: string }[]): string =>
  texts
    .map(({ text }) => text)
    .filter((text) => text !== "")
    .join("\n\n")

type Run =
  | { readonly role: "user"; readonly parts: UserPart[] }
  | { readonly role: "assistant"; readonly parts: AssistantPart[] }

/** The turns without the system's; those that would say nothing part no neighbours. */
function runsOf(prompt: Prompt): Run[] {
  const runs: Run[] = []
  for (const turn of prompt.turns) {
    if (turn.role === "system" || !turn.parts.some(says)) continue
    const last = runs.at(-1)
    if (turn.role === "user" && last?.role === "user") for (const part of turn.parts) last.parts.push(part)
    else if (turn.role === "assistant" && last?.role === "assistant")
      for (const part of turn.parts) last.parts.push(part)
    else if (turn.role === "user") runs.push({ role: "user", parts: [...turn.parts] })
    else runs.push({ role: "assistant", parts: [...turn.parts] })
  }
  return runs
}

/** Thinking alone is no answer: no backend takes a message of nothing else. */
function says(part: UserPart | AssistantPart): boolean {
  if (part.type === "text" || part.type === "refusal") return part.text !== ""
  if (part.type === "document" && part.source.kind === "text") return documentText(part, part.source.text).text !== ""
  return part.type !== "thinking"
}

function writeAssistant(parts: readonly AssistantPart[], writing: CallWriting, inputs: ToolInputs): JsonObject {
  const content = joined(parts.filter((part) => part.type === "text"))
  const refusal = joined(parts.filter((part) => part.type === "refusal"))
  const thinking = joined(parts.filter((part) => part.type === "thinking").filter(isReadable))
  const calls = parts.filter((part) => part.type === "tool-call")
  const message: JsonObject = { role: "assistant", content: content === "" ? null : content }
  if (refusal !== "") message.refusal = refusal
  if (thinking !== "") message.reasoning_content = thinking
  if (calls.length > 0) message.tool_calls = calls.map((call) => writeCall(call, writing, inputs))
  return message
}

/** A seal is another backend's, which alone can read it; what it seals is that backend's too. */
const isReadable = ({ seal }: ThinkingPart): boolean => seal === undefined

/** Several backends parse the arguments of earlier calls, and refuse the whole conversation where they are broken. */
const writeCall = (call: ToolCallPart, { names, id }: CallWriting, inputs: ToolInputs): JsonObject => ({
  id: id(call.id),
  type: "function",
  function: { name: names.written(call.name), arguments: toolInputText(call, inputs) },
})

function writeUser(said: readonly UserPart[], writing: CallWriting): JsonObject[] | Failure {
  const parts = said.map((part) =>
    part.type === "tool-result" ? { ...part, parts: part.parts.map(asText) } : asText(part),
  )
  const results = parts.filter((part) => part.type === "tool-result")
  const own = parts.filter((part) => part.type !== "tool-result")
  const media = results.flatMap((result) => result.parts.filter(isMedia))
  const content: JsonObject[] = []
  for (const part of [...media, ...own].filter(says)) {
    const written = writePart(part)
    if (written instanceof Failure) return written
    content.push(written)
  }
  const messages = results.map((result) => writeResult(result, writing))
  const [first, ...others] = content
  if (first === undefined) return messages
  const alone = others.length === 0 && first.type === "text" ? first.text : undefined
  return [...messages, { role: "user", content: alone ?? content }]
}

/** As files many backends take PDFs alone, and refuse the call. */
function asText<Part extends TextPart | ImagePart | DocumentPart>(part: Part): Part | DocumentPart {
  if (part.type !== "document" || part.source.kind !== "data" || !TEXTUAL.test(part.source.mediaType)) return part
  return { ...part, source: { kind: "text", text: Buffer.from(part.source.base64, "base64").toString("utf8") } }
}

const TEXTUAL = /^(?:text\/|application\/json\b)/i

/** A text that came as a document is text here too, and can stand in a tool message. */
const isMedia = (part: UserPart): part is ImagePart | DocumentPart =>
  part.type === "image" || (part.type === "document" && part.source.kind !== "text")

function writeResult(result: ToolResultPart, { id }: CallWriting): JsonObject {
  const texts = result.parts.flatMap((part) => {
    if (part.type === "text") return [part]
    return part.type === "document" && part.source.kind === "text" ? [documentText(part, part.source.text)] : []
  })
  if (result.parts.some(isMedia)) texts.push({ type: "text", text: MEDIA_FOLLOWS })
  const text = joined(texts)
  return { role: "tool", tool_call_id: id(result.callId), content: result.isError ? ERROR_MARK + text : text }
}

function writePart(part: TextPart | ImagePart | DocumentPart): JsonObject | Failure {
  if (part.type === "text") return { type: "text", text: part.text }
  const { source } = part
  const url = source.kind === "data" ? `data:${source.mediaType};base64,${source.base64}` : undefined
  if (part.type === "image") {
    const image: JsonObject = { url: source.kind === "url" ? source.url : (url ?? "") }
    if (part.detail !== undefined && DETAILS.has(part.detail)) image.detail = part.detail
    return { type: "image_url", image_url: image }
  }
  if (source.kind === "text") return { type: "text", text: documentText(part, source.text).text }
  if (source.kind === "data")
    return { type: "file", file: { filename: fileName(part.name, source.mediaType), file_data: url } }
  return new Failure("request.unsupported_feature", {
    message: "This model's backend takes no documents by URL.",
    hint: "Send the document's data in base64 instead.",
  })
}

/** Backends refuse others; responses clients write `original` too. */
const DETAILS: ReadonlySet<string> = new Set(["auto", "low", "high"])

const documentText = ({ name }: DocumentPart, text: string): TextPart => ({
  type: "text",
  text: name === undefined ? text : `${name}:\n\n${text}`,
})

/**
 * Lowers the budgets of thinking that the catalogue passes with a lowered answer limit (decisions §3), by the names that backends
 * of this format have for them. Changes `body`, which is the copy that is to be forwarded; what lies within it is replaced, never changed.
 */
export function lowerBudgets(body: JsonObject, asked: number, limit: number): JsonObject {
  if (limit >= asked) return body
  const inProportion = (budget: number) => (budget > 0 ? Math.max(1, Math.floor((budget / asked) * limit)) : budget)
  const { thinking, thinking_budget: bare, reasoning } = body
  if (isObject(thinking) && thinking["type"] === "enabled" && typeof thinking["budget_tokens"] === "number") {
    const lowered = lowerBudget(thinking["budget_tokens"], asked, limit)
    body["thinking"] = lowered === undefined ? { type: "disabled" } : { ...thinking, budget_tokens: lowered }
  }
  if (typeof bare === "number") body["thinking_budget"] = inProportion(bare)
  if (isObject(reasoning) && typeof reasoning["max_tokens"] === "number")
    body["reasoning"] = { ...reasoning, max_tokens: inProportion(reasoning["max_tokens"]) }
  return body
}
