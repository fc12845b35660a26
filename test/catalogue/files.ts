/** Catalogue and providers files as they should be, to be spoilt by tests. */
import { parseCatalogue } from "../../src/catalogue/seed-files.ts"
import { type CatalogueFile, describeProblem } from "../../src/catalogue/schema.ts"

export type Fields = Record<string, unknown>

export const model = (id: string, fields: Fields = {}): Fields => ({
  model: id,
  display_name: id,
  tier: "standard",
  provider: "First",
  modality: "text",
  supports_vision: false,
  supports_tools: true,
  input_micro: 100,
  output_micro: 400,
  cache_read_micro: 10,
  cache_write_micro: 125,
  context_window: 1000,
  max_output_tokens: 100,
  endpoints: ["chat", "messages"],
  upstream: { provider: "first", format: "chat", model: `vendor.${id}` },
  max_concurrency: 4,
  fallback: [],
  strip: [],
  pass: [],
  unsupported: [],
  features: [],
  gather: true,
  ...fields,
})
export const without = (field: string): Fields => {
  const { [field]: _, ...rest } = model("a")
  return rest
}
export const provider = (fields: Fields = {}): Fields => ({
  id: "first",
  label: "First",
  base_url: "https://first.example",
  api_key_env: "FIRST_PROVIDER_API_KEY",
  headers: {},
  ...fields,
})

export const messages = (result: object): string[] => (Array.isArray(result) ? result.map(describeProblem) : [])
export const catalogue = (json: unknown): CatalogueFile => {
  const result = parseCatalogue("c.json", json)
  if (Array.isArray(result)) throw new Error(messages(result).join("\n"))
  return result
}

export const rates = "a whole number of micro-rupiah for one token, 0 to 9007199254740991"
export const counts = "a whole number from 1 to 2147483647"
export const times = "an ISO 8601 time with its zone, such as 2027-01-31T00:00:00Z"
