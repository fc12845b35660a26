/**
 * What a schema cannot say of a catalogue: ids that must be unique, exist, share an endpoint, and not go in circles.
 * A circle of fallbacks is refused although a call would stop at the end of its own chain: it says that each of two
 * models is the lesser one, and whoever wrote it meant something else.
 */
import { type CatalogueProblem, shown } from "./problem.ts"
import type { AliasSeed, CatalogueFile, ModelSeed } from "./schema.ts"

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
    ...circles(catalogue.models, models).map((circle) => ({
      file,
      entry: `model ${shown(circle[0])}`,
      field: "fallback",
      found: `a circle, ${circle.join(" → ")}`,
      allowed: "chains that never come back",
    })),
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
  if (model.effective_at !== undefined) problems.push(...timeProblems(file, entry, "effective_at", model.effective_at))
  return problems
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

/** Each circle once, from its first model in file order. A model that names itself has been told already. */
function circles(all: readonly ModelSeed[], models: Models): string[][] {
  const found: string[][] = []
  const done = new Set<string>()
  const walk = (id: string, path: readonly string[]): void => {
    const start = path.indexOf(id)
    if (start >= 0) found.push([...path.slice(start), id])
    if (start >= 0 || done.has(id)) return
    for (const next of models.get(id)?.fallback ?? []) if (next !== id) walk(next, [...path, id])
    done.add(id)
  }
  for (const model of all) walk(model.model, [])
  return found
}
