/** Catalogue and providers files as they should be, to be spoilt by tests. */
import { parseCatalogue } from "../../src/catalogue/seed-files.ts"
import { type CatalogueFile, describeProblem } from "../../src/catalogue/schema.ts"
import { plainSeed, SMALL } from "../model-seed.ts"

export type Fields = Record<string, unknown>

/** As a file may say it: of one upstream by that name. */
export const model = (id: string, fields: Fields = {}): Fields => {
  const { upstreams, ...seed } = plainSeed(id, {
    ...SMALL,
    context_window: 1000,
    upstreams: [{ provider: "first", format: "chat", model: `vendor.${id}` }],
  })
  return { ...seed, upstream: upstreams[0], ...fields }
}
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
