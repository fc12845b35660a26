/**
 * What of a request has no words in its backend's format, and is left out because an answer without it is still the answer
 * (docs/formats.md). Paths are dotted, without places in arrays. Cache marks are hints, and are not among them.
 */
import { isObject, type Json, type JsonObject, present } from "../language/json.ts"
import type { Endpoint, ModelRequest } from "../language/request.ts"
import { takenBetas, unknownOfTools } from "./bedrock/invoke.ts"
import { type BackendModel, backendSpeaks } from "./exchange.ts"
import type { Allowance } from "./fields.ts"

const UNTOLD: Readonly<Record<Endpoint, readonly string[]>> = {
  chat: paths(
    "seed logprobs top_logprobs logit_bias presence_penalty frequency_penalty metadata prediction verbosity " +
      "prompt_cache_key prompt_cache_retention prompt_cache_options messages.name",
  ),
  messages: paths(
    "context_management output_config.task_budget thinking.block_binding messages.output_config messages.clear_at " +
      "messages.content.citations messages.content.transformations tools.defer_loading tools.eager_input_streaming " +
      "tools.input_examples tools.allowed_callers tools.max_characters",
  ),
  responses: paths(
    "top_logprobs truncation prompt_cache_key prompt_cache_retention prompt_cache_options client_metadata " +
      "text.verbosity reasoning.context stream_options input.phase tools.defer_loading",
  ),
  completions: [],
  embeddings: [],
}

/** Of those, what InvokeModel leaves out of the vendor's own format. */
const UNTOLD_TO_INVOKE = paths(
  "output_config.task_budget messages.output_config messages.clear_at tools.allowed_callers",
)

/** What only the messages format says, whoever asks. */
const SAMPLING = paths("top_k")

/** Paths of what a request says and its model's backend is not told. */
export function untold(request: ModelRequest, backend: BackendModel, { pass, betas }: Allowance): string[] {
  const { endpoint, body } = request
  const spoken = backendSpeaks(backend)
  if (spoken === endpoint) {
    if (backend.format !== "bedrock") return []
    const ofTools = unknownOfTools(takenBetas(betas, body)).map((name) => `tools.${name}`)
    return found(body, [...UNTOLD_TO_INVOKE, ...ofTools])
  }
  const sampling = spoken === "chat" || spoken === "responses" ? SAMPLING : []
  // Of what was passed, these have a meaning in every format.
  const lost = pass.filter((name) => name !== "thinking" && name !== "top_k")
  return [...found(body, [...UNTOLD[endpoint], ...sampling]), ...lost.filter((name) => present(body[name]))]
}

function paths(names: string): readonly string[] {
  return names.split(" ")
}

const found = (body: JsonObject, all: readonly string[]): string[] => all.filter((path) => says(body, path.split(".")))

function says(value: Json | undefined, [name, ...rest]: readonly string[]): boolean {
  if (name === undefined) return present(value)
  if (Array.isArray(value)) return value.some((item) => says(item, [name, ...rest]))
  return isObject(value) && says(value[name], rest)
}
