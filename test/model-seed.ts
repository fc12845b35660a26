import type { ModelSeed } from "../src/catalogue/schema.ts"

/** A plain model as a catalogue file has it; `fields` are laid over it. */
export const plainSeed = (
  model: string,
  fields: Partial<ModelSeed> & Pick<ModelSeed, "endpoints" | "upstreams">,
): ModelSeed => ({
  model,
  display_name: model,
  tier: "standard",
  provider: "Simulated",
  modality: "text",
  supports_vision: false,
  supports_tools: true,
  input_micro: 1_000,
  output_micro: 5_000,
  cache_read_micro: 100,
  cache_write_micro: 1_250,
  context_window: null,
  max_output_tokens: 8_192,
  max_concurrency: 64,
  fallback: [],
  strip: [],
  pass: [],
  unsupported: [],
  features: [],
  gather: true,
  ...fields,
})

/** Rates and limits of the catalogue's own tests, which count with them. */
export const SMALL = {
  provider: "First",
  input_micro: 100,
  output_micro: 400,
  cache_read_micro: 10,
  cache_write_micro: 125,
  max_output_tokens: 100,
  endpoints: ["chat", "messages"],
  max_concurrency: 4,
} as const satisfies Partial<ModelSeed>
