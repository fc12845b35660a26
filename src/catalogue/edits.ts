/**
 * What an operator has set wins over the catalogue file, until the file is applied with `--overwrite`: `bun run seed` must not
 * undo in silence what somebody did on purpose. What the file would have changed is told, line by line.
 */
import type { Rates } from "../../actors/money/price.ts"
import { type CatalogueFile, type ModelSeed, shown } from "./schema.ts"

/** A model of which an operator has set something, as it is now. */
export interface Edited {
  readonly model: string
  /** Names of fields of the file's entry; `price` and `retired` too. */
  readonly fields: readonly string[]
  readonly now: Readonly<Record<string, unknown>>
  /** In force; undefined for a model that has no price yet. */
  readonly rates: Rates | undefined
  readonly isRetired: boolean
}

export interface Kept {
  /** The file with what operators set in it. */
  readonly file: CatalogueFile
  /** What of the file is not applied, a sentence each. */
  readonly passedOver: readonly string[]
}

export function keepEdits(file: CatalogueFile, edits: readonly Edited[]): Kept {
  const passedOver: string[] = []
  const byModel = new Map(edits.map((edit) => [edit.model, edit]))
  const retirement = (model: string) => {
    const edit = byModel.get(model)
    return edit?.fields.includes("retired") ? edit : undefined
  }
  const models = file.models.flatMap((seed) => {
    if (retirement(seed.model)?.isRetired) {
      passedOver.push(`${seed.model}: retired by an operator, on sale in the file`)
      return []
    }
    const edit = byModel.get(seed.model)
    return edit === undefined ? [seed] : [merged(seed, edit, passedOver)]
  })
  const aliases = file.aliases.filter(({ model }) => {
    const edit = retirement(model)
    if (edit === undefined) return true
    if (!edit.isRetired) passedOver.push(`${model}: restored by an operator, retired in the file`)
    return false
  })
  return { file: { models, aliases }, passedOver }
}

function merged(seed: ModelSeed, { fields, now, rates }: Edited, passedOver: string[]): ModelSeed {
  const keep: Record<string, unknown> = {}
  for (const [name, value] of Object.entries(seed)) {
    if (!fields.includes(name)) continue
    keep[name] = now[name]
    if (shown(value) !== shown(now[name]))
      passedOver.push(`${seed.model}: ${name} is ${shown(now[name])} by an operator, ${shown(value)} in the file`)
  }
  if (rates === undefined || !fields.includes("price")) return { ...seed, ...keep }
  const kept = {
    input_micro: Number(rates.input),
    output_micro: Number(rates.output),
    cache_read_micro: Number(rates.cacheRead),
    cache_write_micro: Number(rates.cacheWrite),
  }
  for (const name of ["input_micro", "output_micro", "cache_read_micro", "cache_write_micro"] as const)
    if (kept[name] !== seed[name])
      passedOver.push(`${seed.model}: ${name} is ${kept[name]} by an operator, ${seed[name]} in the file`)
  const { effective_at: _, ...rest } = seed
  return { ...rest, ...keep, ...kept }
}
