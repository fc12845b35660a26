/** What the set-up of a client is, and how it is filled in for a gateway, a key and a model. */
import type { CatalogueModel } from "../../api/queries.ts"

type Format = CatalogueModel["endpoints"][number]

export interface Snippet {
  /** What it is called above the code: a file's name or a language; undefined for a terminal. */
  readonly title?: string
  /** What the code is written in, as Markdown names it. */
  readonly language: "sh" | "ts" | "python" | "json" | "toml" | "yaml"
  /** With `<BASE>`, `<API_KEY>`, `<MODEL>`, `<CONTEXT>` and `<OUTPUT>` in the places of what is filled in. */
  readonly code: string
}

export interface Client {
  /** In the page's address: `?client=claude-code`. */
  readonly id: string
  readonly name: string
  /** The version that was seen to work, or the address of the client's own documentation, from which this was written. */
  readonly seen: { readonly tried: string } | { readonly page: string }
  readonly formats: readonly Format[]
  /** A model of the stock catalogue that suits it: the page takes it, or another of its family. */
  readonly example: string
  readonly snippets: readonly Snippet[]
  readonly notes?: { readonly id: readonly string[]; readonly en: readonly string[] }
}

const KEY_PLACE = "<API_KEY>"

interface Setting {
  /** `https://gateway.example`, without a path. */
  readonly base: string
  readonly key?: string | undefined
  readonly model: Pick<CatalogueModel, "model" | "context_window" | "max_output_tokens">
}

/** Used for a model whose window nobody knows; tokens. */
const SOME_CONTEXT = 128_000
const SOME_OUTPUT = 8_192

export const filledIn = (code: string, { base, key, model }: Setting): string =>
  code
    .replaceAll("<BASE>", base)
    .replaceAll(KEY_PLACE, key ?? KEY_PLACE)
    .replaceAll("<MODEL>", model.model)
    .replaceAll("<CONTEXT>", String(model.context_window ?? SOME_CONTEXT))
    .replaceAll("<OUTPUT>", String(model.max_output_tokens ?? SOME_OUTPUT))

/** The model to begin with: the client's example, or one of its family that can use tools, of a middle price. */
export function firstModel(models: readonly CatalogueModel[], example = ""): CatalogueModel | undefined {
  const exactly = models.find(({ model }) => model === example)
  if (exactly !== undefined) return exactly
  const [family = ""] = example.split("-")
  const liked = models.filter(({ model }) => model.startsWith(family))
  const able = models.filter((model) => model.supports_tools)
  const both = liked.filter((model) => able.includes(model))
  const best = [both, liked, able, models].find((some) => some.length > 0) ?? []
  const byPrice = best.toSorted((a, b) => a.output_micro - b.output_micro)
  return byPrice[Math.floor(byPrice.length / 2)]
}
