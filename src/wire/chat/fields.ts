/**
 * The fields of a chat completions request that travel: those of the format's own package (openai), what agents send back
 * of earlier answers of other vendors, and cache marks, which clients write here too. What routes, and what is priced by
 * the call and not by the token, is not among them.
 */
import { CACHE_MARK, fields, type Fields, oneOf, type Shape } from "../fields.ts"

const FUNCTION = fields("name description strict defer_loading", { parameters: "anything" })
const CUSTOM = fields("name description input", {
  format: fields("type", { grammar: fields("syntax definition") }),
})
/** A call, a choice, or a definition: one field holds the tool in all three. */
const CALLED: Readonly<Record<string, Shape>> = { function: fields("name arguments"), custom: fields("name input") }

const PART: Fields = fields("type text refusal detail signature", {
  image_url: fields("url detail"),
  file: fields("file_data filename"),
  thinking: () => PART,
  prompt_cache_breakpoint: fields("mode", { ttl: oneOf("30m", "5m") }),
  cache_control: CACHE_MARK,
})

const MESSAGE = fields("role name tool_call_id refusal reasoning reasoning_content prefix partial phase", {
  content: PART,
  tool_calls: fields("id type index", { ...CALLED, extra_content: "anything" }),
  function_call: fields("name arguments"),
  reasoning_details: "anything",
  annotations: "anything",
  cache_control: CACHE_MARK,
})

export const CHAT_FIELDS = fields(
  "model stream n max_tokens max_completion_tokens temperature top_p frequency_penalty presence_penalty logprobs " +
    "top_logprobs stop seed parallel_tool_calls user safety_identifier store modalities reasoning_effort verbosity " +
    "prompt_cache_key prompt_cache_retention service_tier",
  {
    messages: MESSAGE,
    stream_options: fields("include_usage include_obfuscation"),
    logit_bias: "anything",
    response_format: fields("type", {
      json_schema: fields("name description strict", { schema: "anything" }),
      schema: "anything",
    }),
    tools: fields("type", { function: FUNCTION, custom: CUSTOM, cache_control: CACHE_MARK }),
    tool_choice: fields("type mode", {
      ...CALLED,
      allowed_tools: fields("mode", { tools: fields("type", CALLED) }),
    }),
    functions: FUNCTION,
    function_call: fields("name"),
    metadata: "anything",
    prediction: fields("type", { content: PART }),
    prompt_cache_options: fields("mode", { ttl: oneOf("30m", "5m") }),
  },
)
