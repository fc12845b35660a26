/** Of each format a request that says all that travels, as agents and the vendors' packages write it. */
import type { Json, JsonObject } from "../../src/language/json.ts"
import { isObject } from "../../src/language/json.ts"
import type { Translated } from "../../src/language/request.ts"

const schema = { type: "object", properties: { a: { type: "string", "x-own": { deep: 1 } } }, required: ["a"] }
const mark = { type: "ephemeral", ttl: "5m" }
const breakpoint = { mode: "explicit", ttl: "30m" }
const image = { type: "base64", media_type: "image/png", data: "aGk=" }

const messages: JsonObject = {
  model: "m",
  max_tokens: 64,
  messages: [
    {
      role: "user",
      content: [
        { type: "text", text: "Hi", cache_control: mark },
        { type: "image", source: image, transformations: { oversized_image: "error" } },
        {
          type: "document",
          source: { type: "content", content: [{ type: "text", text: "d" }] },
          title: "t",
          context: "c",
          citations: { enabled: true },
        },
        {
          type: "search_result",
          source: "https://a.example",
          title: "t",
          content: [{ type: "text", text: "r" }],
          citations: { enabled: true },
        },
      ],
    },
    { role: "system", content: "Mind this.", clear_at: "never", output_config: { effort: "low" } },
    { role: "system", content: [{ type: "tool_removal", tool: { type: "tool_reference", name: "look" } }] },
    {
      role: "assistant",
      content: [
        { type: "thinking", thinking: "hm", signature: "c2ln", x_signed: 1 },
        { type: "redacted_thinking", data: "c2ln" },
        { type: "text", text: "I look", citations: [{ type: "char_location", cited_text: "d" }] },
        { type: "tool_use", id: "t1", name: "look", input: { anything: { goes: [1] } }, caller: { type: "direct" } },
        { type: "server_tool_use", id: "s1", name: "tool_search_tool_regex", input: { query: "q" } },
        {
          type: "tool_search_tool_result",
          tool_use_id: "s1",
          content: {
            type: "tool_search_tool_search_result",
            tool_references: [{ type: "tool_reference", tool_name: "look" }],
          },
        },
      ],
    },
    {
      role: "user",
      content: [
        {
          type: "tool_result",
          tool_use_id: "t1",
          is_error: false,
          content: [{ type: "image", source: image, cache_control: mark }],
          cache_control: mark,
        },
      ],
    },
  ],
  system: [{ type: "text", text: "Be brief.", cache_control: mark }],
  stream: false,
  stop_sequences: ["END"],
  temperature: 1,
  top_p: 0.9,
  top_k: 5,
  tools: [
    {
      name: "look",
      description: "Looks",
      input_schema: schema,
      strict: true,
      defer_loading: true,
      eager_input_streaming: true,
      input_examples: [{ a: "b" }],
      allowed_callers: ["direct"],
      cache_control: mark,
    },
    { type: "bash_20250124", name: "bash" },
    { type: "text_editor_20250728", name: "str_replace_based_edit_tool", max_characters: 100 },
    { type: "computer_20251124", name: "computer", display_width_px: 1, display_height_px: 1, enable_zoom: true },
    { type: "tool_search_tool_regex_20251119", name: "tool_search_tool_regex" },
  ],
  tool_choice: { type: "auto", disable_parallel_tool_use: true },
  thinking: { type: "adaptive", display: "omitted", block_binding: { prefix_mismatch_behavior: "error" } },
  metadata: { user_id: "u" },
  output_config: { effort: "low", task_budget: { type: "tokens", total: 9, remaining: 9 } },
  context_management: {
    edits: [
      { type: "clear_thinking_20251015", keep: { type: "thinking_turns", value: 1 } },
      {
        type: "clear_tool_uses_20250919",
        trigger: { type: "input_tokens", value: 9 },
        keep: { type: "tool_uses", value: 1 },
        clear_at_least: { type: "input_tokens", value: 9 },
        exclude_tools: ["look"],
        clear_tool_inputs: true,
      },
    ],
  },
  cache_control: mark,
}

const chat: JsonObject = {
  model: "m",
  messages: [
    { role: "system", content: "Be brief.", name: "s" },
    {
      role: "user",
      content: [
        { type: "text", text: "Hi", prompt_cache_breakpoint: breakpoint, cache_control: mark },
        { type: "image_url", image_url: { url: "data:image/png;base64,aGk=", detail: "low" } },
        { type: "file", file: { file_data: "data:application/pdf;base64,aGk=", filename: "a.pdf" } },
      ],
    },
    {
      role: "assistant",
      content: null,
      reasoning_content: "hm",
      reasoning_details: [{ type: "reasoning.text", text: "hm", own: { deep: 1 } }],
      tool_calls: [
        { id: "c1", type: "function", index: 0, function: { name: "look", arguments: "{}" } },
        { id: "c2", type: "custom", custom: { name: "run", input: "x" } },
      ],
    },
    { role: "tool", tool_call_id: "c1", content: [{ type: "text", text: "seen" }] },
    { role: "tool", tool_call_id: "c2", content: "ran" },
    { role: "assistant", content: [{ type: "refusal", refusal: "no" }], refusal: "no" },
    { role: "user", content: "Go on" },
  ],
  stream: false,
  n: 1,
  max_completion_tokens: 64,
  temperature: 1,
  top_p: 0.9,
  frequency_penalty: 0,
  presence_penalty: 0,
  logit_bias: { 50256: -100 },
  logprobs: true,
  top_logprobs: 2,
  stop: ["END"],
  seed: 7,
  response_format: { type: "json_object" },
  tools: [
    { type: "function", function: { name: "look", description: "Looks", parameters: schema, strict: true } },
    {
      type: "custom",
      custom: {
        name: "run",
        description: "Runs",
        format: { type: "grammar", grammar: { syntax: "lark", definition: "x" } },
      },
    },
  ],
  tool_choice: {
    type: "allowed_tools",
    allowed_tools: { mode: "auto", tools: [{ type: "function", function: { name: "look" } }] },
  },
  parallel_tool_calls: false,
  user: "u",
  safety_identifier: "s",
  metadata: { ticket: "7", own: "x" },
  store: false,
  prediction: { type: "content", content: [{ type: "text", text: "p" }] },
  modalities: ["text"],
  reasoning_effort: "low",
  verbosity: "low",
  prompt_cache_key: "k",
  prompt_cache_retention: "24h",
  prompt_cache_options: breakpoint,
}

const responses: JsonObject = {
  model: "m",
  input: [
    {
      type: "additional_tools",
      id: "at",
      role: "developer",
      tools: [
        {
          type: "namespace",
          name: "n",
          description: "N",
          tools: [{ type: "function", name: "f", description: "F", strict: false, parameters: schema }],
        },
      ],
    },
    {
      type: "message",
      id: "msg_1",
      role: "user",
      content: [
        { type: "input_text", text: "Hi", prompt_cache_breakpoint: breakpoint },
        { type: "input_image", image_url: "data:image/png;base64,aGk=", detail: "low" },
        { type: "input_file", file_data: "data:application/pdf;base64,aGk=", filename: "a.pdf" },
      ],
    },
    {
      type: "reasoning",
      id: "rs_1",
      summary: [{ type: "summary_text", text: "hm" }],
      content: [{ type: "reasoning_text", text: "hm" }],
      encrypted_content: "gAA",
    },
    {
      type: "function_call",
      id: "fc",
      call_id: "c1",
      name: "look",
      namespace: "n",
      arguments: "{}",
      status: "completed",
    },
    { type: "function_call_output", id: "fo", call_id: "c1", output: [{ type: "input_text", text: "seen" }] },
    { type: "custom_tool_call", call_id: "c2", name: "run", input: "x" },
    { type: "custom_tool_call_output", call_id: "c2", output: "ran" },
    {
      type: "local_shell_call",
      id: "l",
      call_id: "c3",
      status: "completed",
      action: { type: "exec", command: ["ls"] },
    },
    { type: "local_shell_call_output", id: "lo", output: "a" },
    { type: "configuration_update", reasoning: { effort: "low" } },
    {
      role: "assistant",
      phase: "final_answer",
      content: [{ type: "output_text", text: "Done", annotations: [{ type: "url_citation", url: "u" }] }],
    },
    { role: "user", content: "Go on" },
  ],
  instructions: "Be brief.",
  stream: false,
  stream_options: { include_obfuscation: false },
  max_output_tokens: 64,
  tools: [
    {
      type: "function",
      name: "look",
      description: "Looks",
      parameters: schema,
      output_schema: schema,
      strict: true,
      defer_loading: true,
    },
    { type: "custom", name: "run", description: "Runs", format: { type: "grammar", syntax: "lark", definition: "x" } },
    {
      type: "web_search",
      external_web_access: true,
      search_context_size: "low",
      filters: { allowed_domains: ["a.example"] },
      user_location: { type: "approximate", city: "Jakarta" },
    },
    { type: "tool_search", execution: "client", description: "Finds", parameters: schema },
    { type: "shell", environment: { type: "local", skills: [{ name: "s", description: "S", path: "/s" }] } },
  ],
  tool_choice: { type: "allowed_tools", mode: "auto", tools: [{ type: "function", name: "look" }] },
  parallel_tool_calls: true,
  max_tool_calls: 3,
  reasoning: { effort: "low", summary: "auto", context: "all_turns" },
  text: {
    verbosity: "low",
    format: { type: "json_schema", name: "a", description: "A", schema, strict: true },
  },
  include: ["reasoning.encrypted_content"],
  store: false,
  metadata: { ticket: "7" },
  client_metadata: { session_id: "s", own: { deep: "x" } },
  prompt_cache_key: "k",
  prompt_cache_retention: "24h",
  prompt_cache_options: breakpoint,
  safety_identifier: "s",
  user: "u",
  temperature: 1,
  top_p: 0.9,
  top_logprobs: 2,
  truncation: "auto",
}

export const knownBodies: Readonly<Record<Translated, JsonObject>> = { chat, messages, responses }

/** The flags that the messages request above needs. */
export const neededBetas = [
  "context-management-2025-06-27",
  "mid-conversation-tool-changes-2026-07-01",
  "per-turn-control-2026-07-01",
  "mid-conversation-system-clear-at-2026-08-21",
  "thinking-binding-controls-2026-08-01",
  "task-budgets-2026-03-13",
]

/** Where a client writes what it likes, and nobody here looks. */
const FREE = [
  "parameters",
  "output_schema",
  "schema",
  "input_schema",
  "input_examples",
  "metadata",
  "client_metadata",
  "logit_bias",
  "citations",
  "annotations",
  "reasoning_details",
  "action",
  "system",
]
const SIGNED: readonly (Json | undefined)[] = ["thinking", "redacted_thinking"]

/** The objects of a request in which a field has to be known, each by a path of keys and places. */
export function knownPlaces(body: JsonObject): (readonly (string | number)[])[] {
  const found: (readonly (string | number)[])[] = []
  const look = (value: Json | undefined, path: readonly (string | number)[]): void => {
    if (Array.isArray(value)) for (const [place, item] of value.entries()) look(item, [...path, place])
    else if (isObject(value) && !(path.length > 1 && SIGNED.includes(value["type"]))) {
      found.push(path)
      for (const [name, inner] of Object.entries(value))
        if (!FREE.includes(name) && !(name === "input" && path.length > 0)) look(inner, [...path, name])
    }
  }
  look(body, [])
  return found
}

/** A copy with one field more in the object at a path. */
export function withField(body: JsonObject, path: readonly (string | number)[], name: string, value: Json): JsonObject {
  // Not structuredClone, which would keep one object that stands in two places one.
  const copy = JSON.parse(JSON.stringify(body)) as JsonObject
  let place: unknown = copy
  for (const step of path) place = (place as Record<string | number, unknown>)[step]
  Object.defineProperty(place, name, { value, enumerable: true, configurable: true, writable: true })
  return copy
}
