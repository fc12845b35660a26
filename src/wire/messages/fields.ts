/**
 * The fields of a messages request that travel: those of the vendor's package (@anthropic-ai/sdk) but for what is kept
 * there, what is answered by another model, and what is counted outside of `usage`. Fields of a beta travel with the
 * beta alone. `system` and thinking are bound to signatures, so of `system` only the life of a cache mark is ever changed.
 */
import type { Json, JsonObject } from "../../language/json.ts"
import { beginsWith } from "../../language/shape.ts"
import { CACHE_MARK, fields, type Fields, SIGNED } from "../fields.ts"
import { BETA } from "../shared/betas.ts"

const AMOUNT = fields("type value")
const SCHEMA = fields("type", { schema: "anything" })

const THINKING: readonly Json[] = ["thinking", "redacted_thinking"]
const TOOL_CHANGES: readonly Json[] = ["tool_addition", "tool_removal"]

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
    travels: ({ type }, betas) => !TOOL_CHANGES.includes(type ?? null) || betas.has(BETA.toolChanges),
    otherwise: ({ type }) => (THINKING.includes(type ?? null) ? SIGNED : undefined),
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

export const MESSAGES_FIELDS = fields("model max_tokens stream stop_sequences temperature top_p top_k service_tier", {
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
        { travels: isEdit },
      ),
    }),
  },
  cache_control: CACHE_MARK,
})
