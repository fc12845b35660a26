/**
 * What is looked at before a catalogue file is applied. First what a schema cannot say of it: ids that must be unique, exist,
 * and share an endpoint. Two models may name each other: a call follows only the chain of the model that it asked for.
 *
 * Then what an operator has set, which wins over the file until that is applied with `--overwrite`: `bun run seed` must not undo
 * in silence what somebody did on purpose. What the file would have changed is told, line by line.
 */
import type { Rates } from "../../actors/money/price.ts"
import { type BackendFormat, passRule, TRANSLATED } from "../language/request.ts"
import { costProblems } from "./exchange.ts"
import {
  type AliasSeed,
  type CatalogueFile,
  type CatalogueProblem,
  FIELD_NAME,
  type ModelSeed,
  shown,
  type UpstreamSeed,
} from "./schema.ts"
import { setProblem } from "./set-fields.ts"

export function referenceProblems(file: string, catalogue: CatalogueFile): CatalogueProblem[] {
  const models = new Map(catalogue.models.map((model) => [model.model, model]))
  return [
    ...repeated(catalogue.models.map((model) => model.model)).map((id) => ({
      file,
      entry: `model ${shown(id)}`,
      field: "model",
      found: "this id more than once",
      allowed: "an id that no other model has",
    })),
    ...repeated(catalogue.aliases.map((alias) => alias.model)).map((id) => ({
      file,
      entry: `alias ${shown(id)}`,
      field: "model",
      found: "this id more than once",
      allowed: "an id that no other alias has",
    })),
    ...catalogue.models.flatMap((model) => modelProblems(file, model, models)),
    ...catalogue.aliases.flatMap((alias) => aliasProblems(file, alias, models)),
  ]
}

type Models = ReadonlyMap<string, ModelSeed>

function modelProblems(file: string, model: ModelSeed, models: Models): CatalogueProblem[] {
  const entry = `model ${shown(model.model)}`
  const problems: CatalogueProblem[] = []
  for (const [index, id] of model.fallback.entries()) {
    const target = models.get(id)
    const allowed =
      target === undefined
        ? "the id of a model in this file"
        : target === model
          ? "the id of another model"
          : target.endpoints.some((endpoint) => model.endpoints.includes(endpoint))
            ? undefined
            : `a model that is served on ${model.endpoints.join(" or ")}`
    if (allowed !== undefined) problems.push({ file, entry, field: `fallback[${index}]`, found: shown(id), allowed })
  }
  for (const [index, name] of model.pass.entries()) {
    const allowed = passRule(name)
    if (allowed !== undefined) problems.push({ file, entry, field: `pass[${index}]`, found: shown(name), allowed })
  }
  const ofPool = [
    ...poolProblems(model),
    ...formatProblems(model),
    ...costProblemsOf(model),
    ...featureProblems(model),
    ...adaptationProblems(model),
  ]
  problems.push(...ofPool.map((problem) => ({ file, entry, ...problem })))
  if (model.effective_at !== undefined) problems.push(...timeProblems(file, entry, "effective_at", model.effective_at))
  return problems
}

/** Where in the file a backend of a model stands. */
export const upstreamField = ({ upstream }: ModelSeed, index: number): string =>
  upstream === undefined ? `upstreams[${index}]` : "upstream"

function poolProblems(model: ModelSeed): Found[] {
  const { upstreams } = model
  if (upstreams.length === 0)
    return [{ field: "upstream", found: "nothing", allowed: "a backend, or a list of them in upstreams" }]
  const names = upstreams.map(({ provider, format, model: id }: UpstreamSeed) => JSON.stringify([provider, format, id]))
  const problems = names.flatMap((one, index) =>
    names.indexOf(one) === index
      ? []
      : {
          field: upstreamField(model, index),
          found: `the same backend as upstreams[${names.indexOf(one)}]`,
          allowed: "a backend that no other entry is",
        },
  )
  if (upstreams.every(({ weight }) => weight === 0)) {
    const field = upstreams.length === 1 ? `${upstreamField(model, 0)}.weight` : "upstreams"
    return [...problems, { field, found: "no weight but 0", allowed: "a backend with a weight of 1 or more" }]
  }
  return problems
}

type Found = Pick<CatalogueProblem, "field" | "found" | "allowed">
const isUntranslated = (format: BackendFormat): boolean =>
  format !== "bedrock" && !TRANSLATED.some((one) => one === format)

/** Nothing is translated into these formats or from them, and vectors of two models have nothing to do with each other. */
function formatProblems(model: ModelSeed): Found[] {
  const { endpoints, upstreams, fallback } = model
  const own = endpoints.find(isUntranslated)
  const problems = upstreams.flatMap(({ format }, index): Found[] => {
    const isOwn = own === undefined ? !isUntranslated(format) : format === own
    const allowed = own ?? `a format that is translated to ${endpoints.join(" and ")}`
    return isOwn ? [] : [{ field: `${upstreamField(model, index)}.format`, found: shown(format), allowed }]
  })
  if (own !== undefined && endpoints.length > 1)
    problems.push({
      field: "endpoints",
      found: shown(endpoints.join(", ")),
      allowed: `${own} alone, in an entry of its own`,
    })
  if (own === "embeddings" && fallback.length > 0)
    problems.push({
      field: "fallback",
      found: shown(fallback.join(", ")),
      allowed: "nothing: no other model has the same vectors",
    })
  return problems
}

const costProblemsOf = (model: ModelSeed) =>
  model.upstreams.flatMap(({ cost }, index) =>
    (cost === undefined ? [] : costProblems(cost)).map(({ field, ...problem }) => ({
      field: `${upstreamField(model, index)}.cost.${field}`,
      ...problem,
    })),
  )

/** The body that Bedrock's InvokeModel takes has a list of its own of what may be in it. */
const SETTABLE_ON_INVOKE = ["stop_sequences", "temperature", "top_p", "top_k", "thinking", "output_config"]

const adaptationProblems = (model: ModelSeed): Found[] =>
  model.upstreams.flatMap(({ set = {}, needs = [], format, model: id }, index): Found[] => {
    const at = upstreamField(model, index)
    const misnamed = Object.keys(set).find((name) => !new RegExp(FIELD_NAME).test(name))
    const problem =
      misnamed === undefined ? setProblem(set) : { path: "", allowed: "names of letters, digits and _, at most 64" }
    const invoked = format === "bedrock" && id.includes("anthropic.")
    const lost = invoked ? Object.keys(set).find((name) => !SETTABLE_ON_INVOKE.includes(name)) : undefined
    const found = shown(set)
    return [
      ...(problem === undefined
        ? []
        : [
            {
              field: [`${at}.set`, problem.path].filter((part) => part !== "").join("."),
              found,
              allowed: problem.allowed,
            },
          ]),
      ...(lost === undefined
        ? []
        : [{ field: `${at}.set.${lost}`, found, allowed: `for this backend one of ${SETTABLE_ON_INVOKE.join(", ")}` }]),
      ...(needs.length === 0 || format === "chat"
        ? []
        : [{ field: `${at}.needs`, found: shown(needs), allowed: "nothing for a backend that does not speak chat" }]),
    ]
  })

/** Any backend's answer is told in any client's format. A web search is made by backends of some alone. */
function featureProblems({ features, endpoints, upstreams }: ModelSeed): Found[] {
  const index = features.indexOf("web_search")
  const speaks = (...formats: readonly BackendFormat[]) => upstreams.some(({ format }) => formats.includes(format))
  const isServed =
    (endpoints.includes("responses") && speaks("responses")) ||
    (endpoints.includes("messages") && speaks("messages", "bedrock"))
  if (index < 0 || isServed) return []
  const allowed =
    "a feature that a backend of the model serves: this one needs responses on responses, or messages on messages"
  return [{ field: `features[${index}]`, found: shown("web_search"), allowed }]
}

function aliasProblems(file: string, alias: AliasSeed, models: Models): CatalogueProblem[] {
  const entry = `alias ${shown(alias.model)}`
  const problems = timeProblems(file, entry, "until", alias.until)
  if (models.has(alias.model)) {
    problems.push({
      file,
      entry,
      field: "model",
      found: "the id of a model in this file",
      allowed: "an id that is retired",
    })
  }
  if (!models.has(alias.target)) {
    problems.push({
      file,
      entry,
      field: "target",
      found: shown(alias.target),
      allowed: "the id of a model in this file",
    })
  }
  return problems
}

/** The schema saw the digits in their places; whether there is such a day, only a calendar knows. */
function timeProblems(file: string, entry: string, field: string, value: string): CatalogueProblem[] {
  if (!Number.isNaN(Date.parse(value))) return []
  return [{ file, entry, field, found: shown(value), allowed: "a time that exists" }]
}

const repeated = (ids: readonly string[]): string[] => [
  ...new Set(ids.filter((id, index) => ids.indexOf(id) !== index)),
]

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
  return { file: { models, aliases: followed(aliases, edits) }, passedOver }
}

/** Ids of the file whose target is retired too, by an operator, go on to what that one is sold as: one step is followed for a call. */
function followed(aliases: readonly AliasSeed[], edits: readonly Edited[]): AliasSeed[] {
  const targets = new Map(aliases.map(({ model, target }) => [model, target]))
  for (const { model, fields, now } of edits)
    if (fields.includes("retired") && typeof now["target"] === "string") targets.set(model, now["target"])
  return aliases.map((alias) => {
    const seen = new Set([alias.model])
    let { target } = alias
    for (let next = targets.get(target); next !== undefined && !seen.has(next); next = targets.get(target)) {
      seen.add(target)
      target = next
    }
    return { ...alias, target }
  })
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
