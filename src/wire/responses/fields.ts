/**
 * The fields of a responses request that travel: those of the format's own package (openai), and what Codex adds. Not
 * among them is what the backend keeps, what it would do at another price (`reasoning.mode`, a cache that is warmed without
 * an answer), and compaction.
 */
import type { Json, JsonObject } from "../../language/json.ts"
import { present } from "../../language/json.ts"
import { fields, type Fields, oneOf } from "../fields.ts"

const CALLER = fields("type caller_id")
const SHORT_LIFE = oneOf("30m", "5m")

const PART = fields("type text refusal image_url detail file_data file_url filename encrypted_content stdout stderr", {
  annotations: "anything",
  logprobs: "anything",
  outcome: "anything",
  prompt_cache_breakpoint: fields("mode", { ttl: SHORT_LIFE }),
})

const FORMAT = fields("type name description strict", { schema: "anything" })

const TOOL: Fields = fields(
  "type name description strict defer_loading allowed_callers async search_context_size external_web_access execution",
  {
    parameters: "anything",
    output_schema: "anything",
    format: fields("type syntax definition"),
    tools: () => TOOL,
    filters: fields("allowed_domains blocked_domains"),
    user_location: fields("type city region country timezone"),
    environment: fields("type", { skills: fields("name description path") }),
  },
)

/**
 * Items of a conversation. Others ask the backend for something (`compaction_trigger`), or are of tools that it would run
 * and that are not served.
 */
const ITEMS: ReadonlySet<Json> = new Set(
  (
    "message agent_message reasoning function_call function_call_output custom_tool_call custom_tool_call_output additional_tools " +
    "tool_search_call tool_search_output configuration_update web_search_call local_shell_call local_shell_call_output " +
    "shell_call shell_call_output apply_patch_call apply_patch_call_output computer_call computer_call_output " +
    "file_search_call image_generation_call compaction"
  ).split(" "),
)
export const isItem = ({ type }: JsonObject): boolean => !present(type) || ITEMS.has(type)

const ITEM = fields(
  "type id role author recipient status phase name namespace call_id input encrypted_content encrypted_function_args " +
    "execution async max_output_length code result revised_prompt size quality background output_format queries",
  {
    content: PART,
    output: PART,
    summary: PART,
    arguments: "anything",
    action: "anything",
    actions: "anything",
    operation: "anything",
    results: "anything",
    caller: CALLER,
    environment: fields("type", { skills: fields("name description path") }),
    tools: TOOL,
    reasoning: fields("effort"),
    text: fields("", { format: FORMAT }),
    acknowledged_safety_checks: "anything",
    pending_safety_checks: "anything",
  },
  { isForwarded: isItem },
)

export const RESPONSES_FIELDS = fields(
  "model instructions stream max_output_tokens parallel_tool_calls max_tool_calls include store prompt_cache_key " +
    "prompt_cache_retention safety_identifier user temperature top_p top_logprobs truncation service_tier",
  {
    input: ITEM,
    stream_options: fields("include_obfuscation"),
    tools: TOOL,
    tool_choice: fields("type mode name namespace", { tools: fields("type name namespace") }),
    reasoning: fields("effort summary generate_summary context"),
    text: fields("verbosity", { format: FORMAT }),
    metadata: "anything",
    client_metadata: "anything",
    prompt_cache_options: fields("mode", { ttl: SHORT_LIFE }),
  },
)
