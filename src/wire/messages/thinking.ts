/**
 * Thinking as a messages backend is asked for it: a budget of tokens for the older models, an effort for the newer ones
 * (`modelTraits` says which). Budgets are at least 1,024 tokens, and at most four fifths of the answer limit, so that
 * room for the answer stays; where none fits, the answer comes without thinking.
 */
import { beginsWith, isObject, type Json, type JsonObject, present } from "../../language/json.ts"
import { type Effort, EFFORTS, nearestEffort, type Reasoning } from "../../language/prompt.ts"
import { lowerBudget, MIN_BUDGET } from "../../language/request.ts"
import { unseal } from "./content.ts"

export interface ModelTraits {
  /** `enabled` with a budget, or `adaptive` with an effort beside it. */
  readonly thinking: "budget" | "adaptive"
  /**
   * How no thinking is asked for: by leaving it out, by saying so, by the least that there is, or not at all, where a
   * low effort is as near as one comes.
   */
  readonly off: "omit" | "disabled" | "between_tools" | "never"
  /** The efforts that are taken, rising; none where the model has no efforts. */
  readonly efforts: readonly Effort[]
  /** Thinking is sealed but not shown unless asked for. */
  readonly hidesThinking: boolean
  /** A tool may be demanded (where thinking is not). */
  readonly forcesTools: boolean
  /** A last turn of the assistant is gone on with; others refuse it. */
  readonly prefill: boolean
  /** Which of temperature, top_p and top_k are taken while it does not think: all, all but top_p beside a temperature, or none. */
  readonly samplers: "all" | "one" | "none"
  /** Messages of the role `system` are taken; others refuse them wherever they stand. */
  readonly systemTurns: boolean
}

const FIRST: ModelTraits = {
  thinking: "budget",
  off: "disabled",
  efforts: [],
  hidesThinking: false,
  forcesTools: true,
  prefill: true,
  samplers: "all",
  systemTurns: false,
}
/** Of another vendor: whether it takes the role `system`, only it can say. What it says is told in words that clients know (backend-error.ts). */
const COMPATIBLE: ModelTraits = { ...FIRST, systemTurns: true }
const GENERATION_4_1: ModelTraits = { ...FIRST, samplers: "one" }
const GENERATION_4_6: ModelTraits = {
  ...GENERATION_4_1,
  thinking: "adaptive",
  off: "omit",
  efforts: ["low", "medium", "high", "max"],
  prefill: false,
}
const GENERATION_4_7: ModelTraits = {
  ...GENERATION_4_6,
  efforts: ["low", "medium", "high", "xhigh", "max"],
  hidesThinking: true,
  samplers: "none",
}
const GENERATION_4_8: ModelTraits = { ...GENERATION_4_7, systemTurns: true }
const GENERATION_5: ModelTraits = { ...GENERATION_4_8, off: "disabled" }
/** Always thinks, and so never obeys a demand for a tool. */
const ALWAYS_THINKS: ModelTraits = { ...GENERATION_4_8, off: "never", forcesTools: false }
const SONNET_5_5: ModelTraits = { ...ALWAYS_THINKS, off: "between_tools" }

/** Family and version, in either order; a date is no version. */
const NAMED = /claude-(?<family>[a-z]+)-(?<version>\d{1,2}(?:[-.]\d{1,2})?)(?!\d)/
const NAMED_OLD = /claude-(?:v?[123](?!\d)|instant)/

/**
 * What a messages backend's models take, by the backend's name of the model. The vendor's generations differ in what
 * they refuse with a 400: thinking budgets, efforts, forced tools, system messages (platform.claude.com, "Thinking",
 * "Effort", "Mid-conversation system messages" and the migration guides of 4.6 to 5.5). A name that is none of the vendor's is taken for a compatible backend, which knows
 * the format as it was first published; a vendor's model that is not known yet is taken for one of the newest.
 */
export function modelTraits(model: string): ModelTraits {
  const name = model.toLowerCase()
  if (!isVendors(name)) return COMPATIBLE
  if (NAMED_OLD.test(name)) return FIRST
  const { family, version } = NAMED.exec(name)?.groups ?? {}
  if (version === undefined) return ALWAYS_THINKS
  const [major = 0, minor = 0] = version.split(/[-.]/).map(Number)
  const release = major * 100 + minor
  if (release < 401) return FIRST
  if (release < 406) return GENERATION_4_1
  if (release < 407) return GENERATION_4_6
  if (release < 408) return GENERATION_4_7
  if (release < 500) return GENERATION_4_8
  if (family === "haiku" && release <= 505) return GENERATION_5
  if (release < 505 && (family === "opus" || family === "sonnet")) return GENERATION_5
  return family === "sonnet" && release === 505 ? SONNET_5_5 : ALWAYS_THINKS
}

/** Compatible backends take more of what other models wrote. */
export const isVendors = (model: string): boolean => model.toLowerCase().includes("claude")

/** Tokens, for a client that named an effort where the model wants a budget. */
const BUDGETS: Readonly<Record<Exclude<Effort, "none">, number>> = {
  minimal: MIN_BUDGET,
  low: 2048,
  medium: 8192,
  high: 16_384,
  xhigh: 32_768,
  max: 65_536,
}

/** The fields of the body that ask for thinking; none where the client said nothing of it. */
export interface EncodedReasoning {
  readonly thinking?: JsonObject
  readonly effort?: Effort
}

/** Tokens: what the client allows for the answer, and what is left of that when the balance has been asked. */
interface AnswerLimits {
  readonly asked: number
  readonly limit: number
}

/** `messages` are those of the body, already encoded. */
export function encodeReasoning(
  reasoning: Reasoning | undefined,
  traits: ModelTraits,
  limits: AnswerLimits,
  messages: readonly JsonObject[],
): EncodedReasoning {
  if (reasoning === undefined) return {}
  if (!reasoning.enabled || reasoning.effort === "none") return off(traits)
  if (traits.thinking === "adaptive") return adaptive(reasoning, traits)
  return goesOnUnthinking(messages) ? {} : budget(reasoning, limits)
}

/** Whether the backend will think, so far as the request says. */
export const thinks = (thinking: Json | undefined): boolean => hasType(thinking, "enabled", "adaptive")

function off(traits: ModelTraits): EncodedReasoning {
  if (traits.off === "omit") return {}
  if (traits.off === "never") return { effort: "low" }
  return { thinking: { type: traits.off } }
}

function adaptive({ effort, visible }: Reasoning, traits: ModelTraits): EncodedReasoning {
  const display = traits.hidesThinking ? { display: visible ? "summarized" : "omitted" } : {}
  const nearest = effort === undefined ? undefined : nearestEffort(traits.efforts, effort)
  return { thinking: { type: "adaptive", ...display }, ...(nearest !== undefined && { effort: nearest }) }
}

function budget({ effort = "medium", budgetTokens }: Reasoning, { asked, limit }: AnswerLimits): EncodedReasoning {
  if (asked <= MIN_BUDGET) return {}
  const budgetAsked = budgetTokens ?? Math.min(BUDGETS[effort === "none" ? "minimal" : effort], Math.floor(asked * 0.8))
  const fitting = Math.min(Math.max(budgetAsked, MIN_BUDGET), asked - 1)
  const { thinking } = lowerThinking({ thinking: { type: "enabled", budget_tokens: fitting } }, asked, limit)
  return isObject(thinking) ? { thinking } : {}
}

/**
 * A model with a budget must have thought before the tool calls that it goes on from, and cannot think in the middle of
 * a turn. Clients of other formats may have no way to keep its thinking, so there it goes on without.
 */
function goesOnUnthinking(messages: readonly JsonObject[]): boolean {
  const assistant = messages.findLast(({ role }) => role === "assistant")
  if (assistant === undefined || !Array.isArray(assistant["content"])) return false
  if (messages.at(-1) === assistant) return true
  const [first] = assistant["content"]
  return assistant["content"].some((block) => hasType(block, "tool_use")) && !isThought(first)
}

export const isThought = (block: Json | undefined): boolean => hasType(block, "thinking", "redacted_thinking")

const hasType = (block: Json | undefined, ...types: readonly Json[]): boolean =>
  isObject(block) && types.includes(block["type"] ?? null)

/** Which of the samplers in a body a model does not take, whether it thinks or not. */
export function refusedSamplers(body: JsonObject, { samplers }: ModelTraits): string[] {
  if (samplers === "none") return SAMPLERS.filter((name) => present(body[name]))
  return samplers === "one" && present(body["temperature"]) && present(body["top_p"]) ? ["top_p"] : []
}

const SAMPLERS = ["temperature", "top_p", "top_k"]

/**
 * Thinking that was asked of another model of the format, as this one takes it. `asked` is the client's answer limit, in tokens. Changes
 * `body` as `lowerThinking` does.
 */
export function adaptThinking(body: JsonObject, traits: ModelTraits, asked: number): void {
  const { thinking, output_config: config, messages } = body
  const { effort: named, ...others } = isObject(config) ? config : {}
  const effort = EFFORTS.find((each) => each === named)
  let taken: Json | undefined = effort === undefined ? named : nearestEffort(traits.efforts, effort)
  const { type, budget_tokens: _, ...shown } = isObject(thinking) ? thinking : {}
  if (type === "disabled" || type === "between_tools") {
    const none = off(traits)
    body["thinking"] = none.thinking
    taken = none.effort ?? taken
  } else if (type === "enabled" && traits.thinking === "adaptive") {
    // It was shown where the client wrote nothing of that.
    body["thinking"] = { type: "adaptive", ...(traits.hidesThinking && { display: "summarized" }), ...shown }
  } else if (type === "adaptive" && traits.thinking === "budget") {
    const turns = Array.isArray(messages) ? messages.filter((message) => isObject(message)) : []
    const terms = { enabled: true, effort, budgetTokens: undefined, visible: true }
    const made = goesOnUnthinking(turns) ? {} : budget(terms, { asked, limit: asked })
    if (made.thinking === undefined) withoutThinking(body)
    else body["thinking"] = { ...shown, ...made.thinking }
  }
  const written = { ...others, ...(taken !== undefined && { effort: taken }) }
  if (isObject(config) || taken !== undefined) body["output_config"] = written
  for (const name of thinks(body["thinking"]) ? SAMPLERS : refusedSamplers(body, traits)) delete body[name]
  for (const name of ["thinking", "output_config"]) if (isNothing(body[name])) delete body[name]
}

const isNothing = (value: Json | undefined): boolean =>
  value === undefined || (isObject(value) && Object.keys(value).length === 0)

// A thinking budget beneath a lowered answer limit (decisions §3). The backend takes a budget only from 1,024 tokens up
// and only under the limit, so the budget shrinks with the limit, in proportion, that room for the answer stays; where
// no budget fits any more, the answer comes without thinking.

/** Changes `body`, which is the copy that is to be forwarded; what lies within it is replaced, never changed. */
export function lowerThinking(body: JsonObject, asked: number, limit: number): JsonObject {
  const { thinking } = body
  if (limit >= asked || !isObject(thinking) || thinking["type"] !== "enabled") return body
  const budget = thinking["budget_tokens"]
  if (typeof budget !== "number") return body
  const lowered = lowerBudget(budget, asked, limit)
  if (lowered === undefined) return withoutThinking(body)
  body["thinking"] = { ...thinking, budget_tokens: lowered }
  return body
}

/** An edit that clears earlier thinking is refused by the backend where thinking is off, so it goes too. */
function withoutThinking(body: JsonObject): JsonObject {
  body["thinking"] = { type: "disabled" }
  const management = body["context_management"]
  if (isObject(management) && Array.isArray(management["edits"])) {
    const edits = management["edits"].filter((edit) => !clearsThinking(edit))
    body["context_management"] = { ...management, edits }
  }
  return body
}

/**
 * Leaves out what the vendor's models refuse: thinking that they did not sign, which is another model's, told in this
 * conversation before it went on with this one. Other backends of the format get all of it, for some of them sign nothing.
 * Changes `body` as `lowerThinking` does.
 */
export function withoutUnsigned(body: JsonObject, model: string): JsonObject {
  const { messages } = body
  if (!Array.isArray(messages) || !messages.some(hasUnsigned)) return body
  const read = isVendors(model) ? () => [] : opened
  const signed = messages
    .map((message) => (hasUnsigned(message) ? withBlocks(message, read) : message))
    .filter(saysSomething)
  body["messages"] = signed
  const { thinking } = body
  const budgeted = isVendors(model) && isObject(thinking) && thinking["type"] === "enabled"
  return budgeted && goesOnUnthinking(signed.filter(isObject)) ? withoutThinking(body) : body
}

const isUnsigned = (block: Json): block is JsonObject =>
  isObject(block) &&
  block["type"] === "thinking" &&
  ((block["signature"] ?? "") === "" || unseal(block["signature"]) !== "")

const hasUnsigned = (message: Json): boolean =>
  isObject(message) && Array.isArray(message["content"]) && message["content"].some(isUnsigned)

const withBlocks = (message: Json, read: (unsigned: JsonObject) => Json[]): Json =>
  isObject(message) && Array.isArray(message["content"])
    ? { ...message, content: message["content"].flatMap((block) => (isUnsigned(block) ? read(block) : [block])) }
    : message

/** What a client carried without reading it stands there to be read. */
const opened = (block: JsonObject): Json[] => {
  const carried = unseal(block["signature"])
  return [carried === "" ? block : { ...block, thinking: carried, signature: "" }]
}

/** An empty message is refused; its neighbours may stand side by side. */
const saysSomething = (message: Json): boolean =>
  !isObject(message) || !Array.isArray(message["content"]) || message["content"].length > 0

const clearsThinking = (edit: Json): boolean => isObject(edit) && beginsWith(edit["type"], "clear_thinking")
