/**
 * A prompt as the body for a responses backend. Nothing is stored there (decisions §8), so thinking comes back only
 * where its encrypted form is asked for. What is left out, and why that does no harm, is in docs/formats.md.
 */
import type { JsonObject } from "../../language/json.ts"
import type { Effort, OutputFormat, Prompt, Reasoning } from "../../language/prompt.ts"
import { answerLimit, type ModelRequest, type Target } from "../../language/request.ts"
import { Failure } from "../../failure/failure.ts"
import type { EncodedPrompt } from "../codec.ts"
import { serviceTier } from "../service-tier.ts"
import { developerItem, encodeItems } from "./items-encode.ts"
import { encodeTools } from "./tools-encode.ts"

/**
 * The backend refuses a smaller limit, which clients write when they try out whether a model is there. It is raised, and
 * `WireCodec.leastAnswerTokens` tells admission to hold for it.
 */
export const LEAST_ANSWER_TOKENS = 16

const LONGEST_SCHEMA_NAME = 64
/** Budgets in tokens from which an effort is meant, largest first. */
const EFFORT_OF_BUDGET: readonly (readonly [leastTokens: number, effort: Effort])[] = [
  [16_384, "high"],
  [4_096, "medium"],
  [0, "low"],
]

export function encodePrompt(prompt: Prompt, request: ModelRequest, target: Target): EncodedPrompt | Failure {
  if (prompt.stopSequences.length > 0)
    return notExpressible(
      "Stop sequences are not served for this model.",
      "Leave them out, and cut the answer yourself.",
    )
  if (request.choices > 1)
    return notExpressible("This model gives one answer a call.", "Leave 'n' out, and make as many calls.")
  const tools = encodeTools(prompt)
  if (tools instanceof Failure) return tools
  const { temperature, topP } = prompt.sampling
  const body: JsonObject = {
    model: target.model,
    ...conversation(prompt),
    ...tools,
    ...(temperature === undefined ? {} : { temperature }),
    ...(topP === undefined ? {} : { top_p: topP }),
    ...(prompt.output ? { text: { format: encodeOutput(prompt.output) } } : {}),
    ...(prompt.reasoning ? encodeReasoning(prompt.reasoning) : {}),
    service_tier: serviceTier("responses", request.body),
    ...(request.endUser === undefined ? {} : { safety_identifier: request.endUser }),
  }
  for (const parameter of target.strip) delete body[parameter]
  return ({ maxOutputTokens, stream }) => ({
    ...body,
    max_output_tokens: Math.max(LEAST_ANSWER_TOKENS, answerLimit(request, { maxOutputTokens })),
    store: false,
    ...(stream && { stream: true }),
  })
}

const notExpressible = (message: string, hint: string): Failure =>
  new Failure("request.unsupported_feature", { message, hint })

/**
 * Instructions go into the input where that is needed: it may not be empty, and for an answer in any JSON the backend
 * looks for the word "JSON" in the input alone, while clients say it in their system prompt.
 */
function conversation({ instructions, turns, output }: Prompt): JsonObject {
  const input = encodeItems(turns)
  if (input.length === 0 || output?.kind === "json") return { input: [...developerItem(instructions), ...input] }
  const text = instructions.map(({ text }) => text).join("\n\n")
  return text === "" ? { input } : { instructions: text, input }
}

function encodeOutput(output: OutputFormat): JsonObject {
  if (output.kind === "json") return { type: "json_object" }
  const { name, description, schema, strict } = output
  return {
    type: "json_schema",
    name: schemaName(name),
    ...(description === undefined ? {} : { description }),
    schema,
    ...(strict === undefined ? {} : { strict }),
  }
}

/** Required here, and of few characters; it means nothing to the answer. */
const schemaName = (name = ""): string =>
  name.replaceAll(/[^A-Za-z0-9_-]/g, "_").slice(0, LONGEST_SCHEMA_NAME) || "answer"

function encodeReasoning({ enabled, effort, budgetTokens, visible }: Reasoning): JsonObject {
  if (!enabled) return { reasoning: { effort: "none" } }
  const meant = effort ?? effortOf(budgetTokens)
  return {
    reasoning: { ...(meant ? { effort: meant } : {}), ...(visible ? { summary: "auto" } : {}) },
    include: ["reasoning.encrypted_content"],
  }
}

const effortOf = (budgetTokens: number | undefined): Effort | undefined =>
  budgetTokens === undefined ? undefined : EFFORT_OF_BUDGET.find(([least]) => budgetTokens >= least)?.[1]
