/** The formats of calls, by the names that their makers use, which are the same in every language. */
import type { CatalogueModel } from "./queries.ts"

export type CallFormat = CatalogueModel["endpoints"][number]

const NAMES: Readonly<Record<CallFormat, string>> = {
  chat: "Chat completions",
  messages: "Messages",
  responses: "Responses",
  completions: "Completions",
  embeddings: "Embeddings",
}
export const callFormats = Object.keys(NAMES) as CallFormat[]
export const callFormat = (name: string | null): CallFormat | undefined => callFormats.find((format) => format === name)
/** One that is not known here is named as it is. */
export function formatName(name: string): string {
  const format = callFormat(name)
  return format === undefined ? name : NAMES[format]
}
