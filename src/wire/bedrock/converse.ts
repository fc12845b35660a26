/**
 * Converse: its answer as a stream, a prompt as the body of a call, and the format assembled, which only backends speak.
 *
 * A stream is `messageStart` … `messageStop`, and then `metadata` with the counts, which is the end. Calls of tools are put
 * together by the reader that chat has: pieces of arguments under an index.
 *
 * Of a call the model stands in the path, and so does whether the answer is streamed. What Converse cannot say is refused, or
 * harmless and listed in docs/formats.md. Tools that were called earlier must be told even where the request offers none, and
 * there is no way to forbid a tool that is told.
 */
import type { Tokens } from "../../../actors/money/price.ts"
import { Failure } from "../../failure/failure.ts"
import { filled, isObject, isText, type Json, type JsonObject, notServed } from "../../language/json.ts"
import {
  BILLING_HEADER,
  type ModelEvent,
  type OutputFormat,
  type Prompt,
  type Tool,
  type ToolChoice,
} from "../../language/prompt.ts"
import { answerLimit, type Endpoint, type ModelRequest, type Target } from "../../language/request.ts"
import { classifyErrorObject } from "../backend-error.ts"
import type { BackendStream, ClientView, EncodedPrompt, EventMeaning, Format } from "../format.ts"
import { CallReader, freeTextSchema, NARROW, toolNames, type ToolNames, writtenName } from "../shared/tools.ts"
import type { SseEvent } from "../sse.ts"
import { plausibleTokens } from "../tokens.ts"
import { blocksOf, textBlocks } from "./blocks-out.ts"
import { converseTraits } from "./invoke.ts"
import { decodeReply, gatherer, readFinish, readReply, readUsage, usageTokens } from "./reply.ts"

const backendStream = (_: ClientView, prompt?: Prompt): BackendStream => new ConverseStream(prompt)

/** No client speaks it, so nothing of it is sent as it is. */
class ConverseStream implements BackendStream {
  readonly openPlaces = { texts: new Set<string>(), ofStream: new Set<string>() }
  readonly #decoder: EventDecoder | undefined
  #usage: Json | undefined

  constructor(prompt: Prompt | undefined) {
    this.#decoder = prompt && new EventDecoder(prompt)
  }

  meaning({ event }: SseEvent, body: JsonObject): EventMeaning {
    if (event === "error") return classifyErrorObject(body)
    if (event === "metadata") {
      this.#usage = body["usage"]
      return "terminal"
    }
    return hasContent(event, body) ? "content" : "empty"
  }

  relayed(): undefined {
    return undefined
  }

  events(event: SseEvent, body: JsonObject | undefined): readonly ModelEvent[] {
    return this.#decoder?.decode(event, body) ?? []
  }

  onPassedThrough(): void {}

  tokens(hasContent: boolean): Tokens | undefined {
    return plausibleTokens(usageTokens(this.#usage), hasContent)
  }

  /** Converse has no search of its own. */
  searches(): number {
    return 0
  }

  position(): undefined {
    return undefined
  }
}

const hasContent = (type: string, body: JsonObject): boolean => {
  if (type === "contentBlockStart") return isObject(body["start"]) && isObject(body["start"]["toolUse"])
  return type === "contentBlockDelta" && isObject(body["delta"]) && isContent(body["delta"])
}

/** A signature only seals the thinking before it. */
const isContent = ({ text, toolUse, reasoningContent: thinking }: JsonObject): boolean =>
  filled(text) ||
  (isObject(toolUse) && filled(toolUse["input"])) ||
  (isObject(thinking) && (filled(thinking["text"]) || filled(thinking["redactedContent"])))

class EventDecoder {
  readonly #stopSequences: readonly string[]
  readonly #calls: CallReader
  /** Places of calls, whose ends are not told: a call's free text is known when the answer is over, and pieces may interleave. */
  readonly #called = new Set<Json | undefined>()

  constructor(prompt: Prompt) {
    this.#stopSequences = prompt.stopSequences
    this.#calls = new CallReader(prompt)
  }

  decode(event: SseEvent, body: JsonObject = {}): ModelEvent[] {
    switch (event.event) {
      case "messageStart":
        return [{ type: "start", id: undefined, usage: undefined }]
      case "contentBlockStart":
        return this.#start(body)
      case "contentBlockDelta":
        return this.#delta(body)
      case "contentBlockStop":
        return this.#called.has(body["contentBlockIndex"]) ? [] : [{ type: "part-end" }]
      case "messageStop": {
        const last = this.#calls.close()
        return [...last, { type: "finish", ...readFinish(body["stopReason"], this.#calls.called, this.#stopSequences) }]
      }
      case "metadata": {
        const usage = readUsage(body["usage"])
        return usage === undefined ? [{ type: "end" }] : [{ type: "usage", usage }, { type: "end" }]
      }
      default:
        return []
    }
  }

  #start({ start, contentBlockIndex: index }: JsonObject): ModelEvent[] {
    const call = isObject(start) ? start["toolUse"] : undefined
    if (!isObject(call)) return []
    this.#called.add(index)
    return this.#calls.take({ index, id: call["toolUseId"], function: { name: call["name"] } }, "")
  }

  #delta({ delta, contentBlockIndex: index }: JsonObject): ModelEvent[] {
    if (!isObject(delta)) return []
    const { text, toolUse, reasoningContent } = delta
    if (isObject(toolUse)) return this.#calls.take({ index, function: { arguments: toolUse["input"] } }, "")
    if (isObject(reasoningContent)) return thinkingEvents(reasoningContent)
    return isText(text) ? [{ type: "text-delta", text }] : []
  }
}

/** The vendor that signs its thinking signs it the same in each of its formats; other vendors here sign nothing. */
function thinkingEvents({ text, signature, redactedContent }: JsonObject): ModelEvent[] {
  const events: ModelEvent[] = []
  if (isText(text)) events.push({ type: "thinking-delta", text })
  if (isText(signature)) events.push({ type: "thinking-seal", seal: { by: "messages", data: signature } })
  if (isText(redactedContent))
    events.push({ type: "thinking-seal", seal: { by: "messages-redacted", data: redactedContent } })
  return events
}

export const converseFormat: Format = {
  backend: { encodePrompt, readReply, decodeReply, stream: backendStream, gatherer },
}

/** Converse has no mode for JSON without a schema; the model is asked for it. */
const JSON_ONLY = "Answer with one valid JSON object and nothing else: no other text, no code fence."

function encodePrompt(prompt: Prompt, request: ModelRequest, target: Target): EncodedPrompt | Failure {
  const traits = converseTraits(target.model)
  const names = toolNames(prompt, NARROW)
  const messages = blocksOf(prompt, names, traits)
  if (messages instanceof Failure) return messages
  const toolConfig = writeToolConfig(prompt, request.endpoint, names)
  if (toolConfig instanceof Failure) return toolConfig
  const kept = (parameter: string) => !target.strip.includes(parameter)
  const { temperature, topP, topK } = prompt.sampling
  const inferenceConfig: JsonObject = {}
  if (temperature !== undefined && kept("temperature"))
    inferenceConfig["temperature"] = Math.min(Math.max(temperature, 0), 1)
  if (topP !== undefined && kept("top_p")) inferenceConfig["topP"] = topP
  const stops = prompt.stopSequences.filter((sequence) => sequence !== "")
  if (stops.length > 0) inferenceConfig["stopSequences"] = stops
  const system = textBlocks(
    prompt.instructions.filter(({ text }) => !text.startsWith(BILLING_HEADER)),
    traits,
  )
  if (prompt.output?.kind === "json") system.push({ text: JSON_ONLY })
  const fields = traits.fields(prompt.reasoning, { topK: kept("top_k") ? topK : undefined })
  return ({ maxOutputTokens }) => ({
    messages,
    ...(system.length > 0 && { system }),
    inferenceConfig: { maxTokens: answerLimit(request, { maxOutputTokens }), ...inferenceConfig },
    ...(toolConfig !== undefined && { toolConfig }),
    ...(prompt.output?.kind === "schema" && { outputConfig: { textFormat: textFormat(prompt.output) } }),
    ...(Object.keys(fields).length > 0 && { additionalModelRequestFields: fields }),
  })
}

/** The schema travels as text here. */
const textFormat = ({ name, description, schema }: Extract<OutputFormat, { kind: "schema" }>): JsonObject => ({
  type: "json_schema",
  structure: {
    jsonSchema: {
      schema: JSON.stringify(schema),
      name: writtenName(name ?? "answer", NARROW),
      ...(description !== undefined && { description }),
    },
  },
})

// Tools and the choice among them, as Converse takes them. Tools that were called earlier must be told even where the
// request offers none, and there is no way to forbid a tool that is told.

type CallableTool = Exclude<Tool, { type: "web-search" }>

/** Undefined where no tool is offered and none was called. */
function writeToolConfig(prompt: Prompt, client: Endpoint, names: ToolNames): JsonObject | undefined | Failure {
  const offered = prompt.tools.filter((tool): tool is CallableTool => tool.type !== "web-search")
  // Coding agents on responses offer a search with every request (decisions §8); elsewhere whoever offers it means it.
  if (offered.length < prompt.tools.length && client !== "responses")
    return notServed("This model's backend has no web search.")
  const { toolChoice: choice } = prompt
  if (choice?.kind === "tool" && !offered.some(({ name }) => name === choice.name))
    return notServed("The tool that the model is told to call is not one that it can be given.")
  // Codex writes the limit for each model that it does not know, and deals with several calls all the same.
  if (offered.length > 0 && prompt.parallelTools === false && client !== "responses")
    return notServed("One tool call at most cannot be asked of this model; leave the limit on parallel calls out.")
  const called = calledNames(prompt)
  if (choice?.kind === "none" && called.length > 0)
    return notServed("After tool calls, this model cannot be kept from calling tools; leave the tool choice out.")
  const known = new Set(offered.map(({ name }) => name))
  const forgotten = called.filter((name) => !known.has(name))
  const tools = [
    ...(choice?.kind === "none" ? [] : offered.map((tool) => toolSpec(tool, names))),
    ...forgotten.map((name) => specOf(names.written(name), undefined, { type: "object" })),
  ]
  if (tools.length === 0) return undefined
  const toolChoice = offered.length > 0 ? writeChoice(choice, names) : undefined
  return { tools, ...(toolChoice !== undefined && { toolChoice }) }
}

function toolSpec(tool: CallableTool, names: ToolNames): JsonObject {
  const schema = tool.type === "custom" ? freeTextSchema(tool.grammar) : { ...tool.parameters, type: "object" }
  return specOf(names.written(tool.name), tool.description, schema)
}

/** A description may not be empty. */
const specOf = (name: string, description: string | undefined, schema: JsonObject): JsonObject => ({
  toolSpec: { name, ...(description?.trim() && { description }), inputSchema: { json: schema } },
})

/** Auto is what happens without a choice, and not every model takes one. */
function writeChoice(choice: ToolChoice | undefined, names: ToolNames): JsonObject | undefined {
  if (choice?.kind === "required") return { any: {} }
  return choice?.kind === "tool" ? { tool: { name: names.written(choice.name) } } : undefined
}

const calledNames = ({ turns }: Prompt): string[] => [
  ...new Set(
    turns.flatMap((turn) =>
      turn.role === "assistant" ? turn.parts.flatMap((part) => (part.type === "tool-call" ? [part.name] : [])) : [],
    ),
  ),
]
