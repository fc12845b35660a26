/**
 * The messages format, assembled; and its requests, checked, understood, and written anew for a backend of the same format.
 * Thinking blocks are never touched on the way, and of `system` only the life of cache marks: the vendor's signatures are bound
 * to them.
 */
import { Failure } from "../../failure/failure.ts"
import {
  beginsWith,
  isObject,
  type Json,
  type JsonObject,
  misshapen,
  notServed,
  present,
  readCount,
  readFlag,
  readObject,
  shown,
} from "../../language/json.ts"
import {
  answerLimit,
  type Feature,
  type Forwarded,
  forwardedBody,
  type Forwarding,
  holdsImage,
  type ModelRequest,
  own,
  type WebSearchOptions,
} from "../../language/request.ts"
import { checkServiceTier, readEndUser, readModel, serviceTier } from "../body.ts"
import { estimateInput, type InputEstimate } from "../estimate.ts"
import { type Allowance, CACHE_MARK, fields, type Fields, filterFields, NO_ALLOWANCE, SIGNED } from "../fields.ts"
import type { ClientFormat } from "../format.ts"
import { BETA, isToolChange, withoutSystemTurns } from "../shared/betas.ts"
import { readMessages, readSystem, withWrittenIds } from "./content.ts"
import { backendStream } from "./events-in.ts"
import { eventEncoder, streamFailure } from "./events-out.ts"
import { decodePrompt } from "./prompt-in.ts"
import { encodePrompt, GOING_ON } from "./prompt-out.ts"
import { decodeReply, encodeReply, gatherer, readReply } from "./reply.ts"
import { readWebSearch, withPlainSearch } from "./server-tools.ts"
import { adaptThinking, isVendors, lowerThinking, modelTraits, type ModelTraits, withoutUnsigned } from "./thinking.ts"
import { checkTools } from "./tools.ts"

// The fields that travel: those of the vendor's package (@anthropic-ai/sdk) but for what is kept there, what is answered by
// another model, and what is counted outside of `usage`. Fields of a beta travel with the beta alone. `system` and thinking are
// bound to signatures, so of `system` only the life of a cache mark is ever changed.

const AMOUNT = fields("type value")
const SCHEMA = fields("type", { schema: "anything" })

const THINKING: readonly Json[] = ["thinking", "redacted_thinking"]

const BLOCK: Fields = fields(
  "type text title context id name tool_use_id tool_name toolset_name is_error encrypted_content signature url page_age " +
    "retrieved_at error_code error_message stdout stderr return_code",
  {
    content: () => BLOCK,
    source: fields("type media_type data url", { content: () => BLOCK }),
    input: "anything",
    caller: fields("type tool_id"),
    citations: "anything",
    tool_references: () => BLOCK,
    // By its name alone: a definition in mid-conversation could be of any tool that the vendor runs.
    tool: fields("type name"),
    tool_changes: () => BLOCK,
    tabs: "anything",
    state_changes: "anything",
    transformations: fields("oversized_image"),
    cache_control: CACHE_MARK,
  },
  {
    isForwarded: (block, betas) => !isToolChange(block) || betas.has(BETA.toolChanges),
    variantOf: ({ type }) => (THINKING.includes(type ?? null) ? SIGNED : undefined),
  },
)

const MESSAGE = fields("role", {
  content: BLOCK,
  clear_at: { betas: [BETA.clearAt], shape: fields("") },
  output_config: { betas: [BETA.perTurn, BETA.midOutput], shape: fields("effort") },
})

const TOOL = fields(
  "type name description strict defer_loading eager_input_streaming allowed_callers display_width_px display_height_px " +
    "display_number enable_zoom max_characters max_uses allowed_domains blocked_domains response_inclusion",
  {
    input_schema: "anything",
    input_examples: "anything",
    configs: "anything",
    user_location: fields("type city region country timezone"),
    cache_control: CACHE_MARK,
  },
)

/** Edits of the prompt. Compaction is none of these: what it costs is not in the counts that a call is charged by. */
const EDITS = ["clear_tool_uses_", "clear_thinking_"]
const isEdit = ({ type }: JsonObject): boolean => EDITS.some((edit) => beginsWith(type, edit))

const MESSAGES_FIELDS = fields("model max_tokens stream stop_sequences temperature top_p top_k service_tier", {
  messages: MESSAGE,
  system: SIGNED,
  tools: TOOL,
  tool_choice: fields("type name disable_parallel_tool_use"),
  thinking: fields("type budget_tokens display", {
    block_binding: { betas: [BETA.binding], shape: fields("prefix_mismatch_behavior") },
  }),
  metadata: fields("user_id"),
  output_config: fields("effort", {
    format: SCHEMA,
    task_budget: { betas: [BETA.taskBudget], shape: fields("type total remaining") },
  }),
  output_format: SCHEMA,
  context_management: {
    betas: [BETA.contextManagement],
    shape: fields("", {
      edits: fields(
        "type clear_tool_inputs exclude_tools",
        { keep: AMOUNT, trigger: AMOUNT, clear_at_least: AMOUNT },
        { isForwarded: isEdit },
      ),
    }),
  },
  cache_control: CACHE_MARK,
})

export function decodeRequest(
  body: JsonObject,
  allowance: Allowance = NO_ALLOWANCE,
  accountId?: string,
): ModelRequest | Failure {
  const model = readModel(body)
  if (model instanceof Failure) return model
  const prompt = checkPrompt(body)
  if (prompt instanceof Failure) return prompt
  const limit = readCount(body, "max_tokens")
  if (limit instanceof Failure) return limit
  if (limit === undefined) return misshapen("'max_tokens' is missing; it is required, an integer of at least 1.")
  const stream = readFlag(body, "stream")
  if (stream instanceof Failure) return stream
  const thinking = readObject(body["thinking"], "thinking")
  if (thinking instanceof Failure) return thinking
  const refusal = prompt.refusal
  if (refusal) return refusal
  const known = filterFields(body, MESSAGES_FIELDS, allowance)
  const { metadata } = body
  return {
    endpoint: "messages",
    ...known,
    ownEndUser: readEndUser(isObject(metadata) ? metadata["user_id"] : undefined),
    model,
    stream,
    ...estimatePrompt(known.body, accountId),
    maxOutputTokens: limit,
    choices: 1,
    features: prompt.features,
    includeUsage: false,
    ...(prompt.webSearch && { webSearch: prompt.webSearch }),
  }
}

/** What `POST /v1/messages/count_tokens` answers: the same prompt, which there needs no `max_tokens`. */
export function countInputTokens(body: JsonObject): number | Failure {
  const prompt = checkPrompt(body)
  if (prompt instanceof Failure) return prompt
  return prompt.refusal ?? estimatePrompt(body).inputTokens
}

const FORWARDED: Forwarded = { known: MESSAGES_FIELDS.fields, rewritten: new Set(["service_tier", "metadata"]) }

export function encodeRequest(request: ModelRequest, forwarding: Forwarding): JsonObject {
  const limit = answerLimit(request, forwarding)
  const { endUser } = request
  const forwarded = forwardedBody(request, forwarding, FORWARDED)
  own(forwarded, forwarding, "service_tier", serviceTier("messages", request.body))
  own(forwarded, forwarding, "metadata", endUser === undefined ? undefined : { user_id: endUser })
  const asked = request.maxOutputTokens ?? limit
  const body = withPlainSearch(forwarded)
  const traits = modelTraits(forwarding.model)
  const { messages } = body
  if (!traits.systemTurns && Array.isArray(messages)) body["messages"] = [...withoutSystemTurns(messages)]
  const { writtenFor } = forwarding
  if (writtenFor !== undefined && modelTraits(writtenFor) !== traits) adapt(body, traits, asked)
  lowerThinking(body, asked, limit)
  withoutUnsigned(body, forwarding.model)
  if (isVendors(forwarding.model)) withWrittenIds(body)
  body["max_tokens"] = limit
  return body
}

/** A request that was written for another model: what this one refuses is written as for clients of other formats, and all else stays. */
function adapt(body: JsonObject, traits: ModelTraits, asked: number): void {
  adaptThinking(body, traits, asked)
  const { tool_choice: choice, messages } = body
  if (!traits.forcesTools && isObject(choice) && (choice["type"] === "any" || choice["type"] === "tool")) {
    const { name: _, ...others } = choice
    body["tool_choice"] = { ...others, type: "auto" }
  }
  if (traits.prefill || !Array.isArray(messages)) return
  const last = messages.at(-1)
  if (isObject(last) && last["role"] === "assistant") body["messages"] = [...messages, GOING_ON]
}

interface Prompt {
  readonly webSearch: WebSearchOptions | undefined
  readonly features: ReadonlySet<Feature>
  /** Told only when the shape of the whole request is right (decisions §4: shape, then features). */
  readonly refusal: Failure | undefined
}

function checkPrompt(body: JsonObject): Prompt | Failure {
  const blocks = readMessages(body["messages"])
  if (blocks instanceof Failure) return blocks
  const system = readSystem(body["system"])
  if (system instanceof Failure) return system
  const tools = checkTools(body["tools"])
  if (tools instanceof Failure) return tools
  const webSearch = readWebSearch(body, blocks)
  if (webSearch instanceof Failure) return webSearch
  const format = readFormat(body)
  if (format instanceof Failure) return format
  const features = new Set<Feature>(tools.features)
  if (blocks.some(holdsImage)) features.add("vision")
  if (format?.["type"] === "json_schema") features.add("structured_outputs")
  return { webSearch, features, refusal: refuseNotServed(body, blocks) ?? tools.refusal }
}

/** The answer's schema: `output_config.format`, or `output_format` as it was called while it was new. */
function readFormat(body: JsonObject): JsonObject | undefined | Failure {
  const config = readObject(body["output_config"], "output_config")
  if (config instanceof Failure) return config
  const format = readObject(config?.["format"], "output_config.format")
  return format ?? readObject(body["output_format"], "output_format")
}

const estimatePrompt = (body: JsonObject, accountId?: string): InputEstimate =>
  estimateInput({
    messages: body["messages"],
    instructions: body["system"],
    tools: [body["tools"]],
    schemas: [isObject(body["output_config"]) ? body["output_config"]["format"] : undefined, body["output_format"]],
    accountId,
  })

// What a messages request may not ask for, because the operator's one account at the backend stands behind every
// customer (decisions §8): state that is kept there would leak from one customer to another, another model or speed
// there would cost what the catalogue's rates do not cover.

const STATE = ["container", "thread", "mcp_servers", "user_profile_id", "workspace_id"]
const REROUTES = ["fallbacks", "fallback_credit_token", "billing_policy"]

function refuseNotServed(body: JsonObject, blocks: readonly JsonObject[]): Failure | undefined {
  const state = STATE.find((field) => asksFor(body[field]))
  if (state === "thread") return threads
  if (state !== undefined) return notServed(`'${state}' names state or servers at the backend; leave it out.`)
  const reroute = REROUTES.find((field) => asksFor(body[field]))
  if (reroute !== undefined) return notServed(`'${reroute}' changes what the call costs at the backend; leave it out.`)
  const { speed } = body
  if (present(speed) && speed !== "standard")
    return notServed(`'speed' is ${shown(speed)}; only the standard speed is served.`)
  if (blocks.some(namesFile)) return notServed("File ids name state kept at the backend; send the data itself instead.")
  return checkServiceTier(body)
}

/** The vendor's SDK asks for one by default wherever it runs tools, and its users have never heard of it. */
const threads = new Failure("request.unsupported_feature", {
  message: "'thread' would keep the conversation at the backend, which is not served; send all of it with each call.",
  hint: "With the vendor's SDK, pass `thread: false` to its tool runner.",
})

/** Absent, null, false and an empty list ask for nothing. */
const asksFor = (value: Json | undefined): boolean =>
  present(value) && value !== false && !(Array.isArray(value) && value.length === 0)

function namesFile(block: JsonObject): boolean {
  const { type, source } = block
  return type === "container_upload" || (isObject(source) && (source["type"] === "file" || present(source["file_id"])))
}

export const messagesFormat: ClientFormat = {
  client: {
    endpoint: "messages",
    operation: "chat",
    path: "/v1/messages",
    // A request needs an answer limit, and the count does not.
    counting: { path: "/v1/messages/count_tokens", defaults: { max_tokens: 1 }, answer: {} },
    decodeRequest,
    encodeRequest,
    decodePrompt,
    refusesByReason: true,
    eventEncoder,
    encodeReply,
    streamFailure,
  },
  backend: { encodePrompt, readReply, decodeReply, stream: backendStream, gatherer },
}
