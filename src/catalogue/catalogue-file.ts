/**
 * Reads the two seed files. What comes back has been checked whole, shape and references, so nothing behind this door
 * asks again. Without a path it is the file built into the binary: imported as JSON, because a compiled executable has
 * no `seeds/` beside it.
 */
import type { Static, TSchema } from "@sinclair/typebox"
import { Value } from "@sinclair/typebox/value"
import builtInCatalogue from "../../seeds/catalogue.json" with { type: "json" }
import builtInProviders from "../../seeds/providers.json" with { type: "json" }
import type { Provider } from "./model.ts"
import { type CatalogueProblem, shapeProblems, shown } from "./problem.ts"
import { providersOf } from "./providers-file.ts"
import { referenceProblems, upstreamField } from "./references.ts"
import { type CatalogueFile, CatalogueSchema, ProvidersSchema } from "./schema.ts"

export interface ProvidersFile {
  readonly providers: readonly Provider[]
}

/** A file that can be used, and what was in it that this version does not know. */
type Read<File> = File & { readonly passedOver: readonly CatalogueProblem[] }

export async function readCatalogueFile(path?: string): Promise<Read<CatalogueFile> | CatalogueProblem[]> {
  if (path === undefined) return parseCatalogue("seeds/catalogue.json", builtInCatalogue)
  const json = await readJson(path)
  return "problem" in json ? [json.problem] : parseCatalogue(path, json.value)
}

export async function readProvidersFile(path?: string): Promise<Read<ProvidersFile> | CatalogueProblem[]> {
  if (path === undefined) return parseProviders("seeds/providers.json", builtInProviders)
  const json = await readJson(path)
  return "problem" in json ? [json.problem] : parseProviders(path, json.value)
}

/** Backends whose provider the providers file does not have. Apart, because it takes both files to see. */
export function providerProblems(
  file: string,
  catalogue: CatalogueFile,
  { providers }: ProvidersFile,
): CatalogueProblem[] {
  const ids = providers.map((provider) => provider.id)
  return catalogue.models.flatMap((model) =>
    model.upstreams.flatMap(({ provider }, index) =>
      ids.includes(provider)
        ? []
        : {
            file,
            entry: `model ${shown(model.model)}`,
            field: `${upstreamField(model, index)}.provider`,
            found: shown(provider),
            allowed: `a provider of the providers file: ${ids.join(", ")}`,
          },
    ),
  )
}

/** The same for JSON that is at hand; `file` is the name that problems give. */
export function parseCatalogue(file: string, json: unknown): Read<CatalogueFile> | CatalogueProblem[] {
  const known = knownFields(file, CatalogueSchema, json)
  if (Array.isArray(known)) return known
  const catalogue: Read<CatalogueFile> = {
    models: known.value.models.map((model) => ({
      ...model,
      upstreams: model.upstreams ?? (model.upstream === undefined ? [] : [model.upstream]),
      fallback: model.fallback ?? [],
      strip: model.strip ?? [],
      pass: model.pass ?? [],
      unsupported: model.unsupported ?? [],
      features: model.features ?? [],
      gather: model.gather ?? true,
    })),
    aliases: known.value.aliases ?? [],
    passedOver: known.passedOver,
  }
  const problems = [...doublyWritten(file, known.value.models), ...referenceProblems(file, catalogue)]
  return problems.length > 0 ? problems : catalogue
}

/** Models that name both one backend and a list of them. Of those that name none, what is wrong is said of their pool. */
const doublyWritten = (file: string, models: Static<typeof CatalogueSchema>["models"]): CatalogueProblem[] =>
  models
    .filter(({ upstream, upstreams }) => upstream !== undefined && upstreams !== undefined)
    .map(({ model }) => ({
      file,
      entry: `model ${shown(model)}`,
      field: "upstreams",
      found: "upstreams beside upstream",
      allowed: "either of them",
    }))

export function parseProviders(file: string, json: unknown): Read<ProvidersFile> | CatalogueProblem[] {
  const known = knownFields(file, ProvidersSchema, json)
  if (Array.isArray(known)) return known
  const providers = providersOf(file, known.value.providers)
  return isProblems(providers) ? providers : { providers, passedOver: known.passedOver }
}

const isProblems = (read: readonly Provider[] | CatalogueProblem[]): read is CatalogueProblem[] =>
  read.some((one) => "found" in one)

/** What the schema knows of a file, apart from what it does not know, or what is wrong with it. */
function knownFields<S extends TSchema>(
  file: string,
  schema: S,
  json: unknown,
): { readonly value: Static<S>; readonly passedOver: readonly CatalogueProblem[] } | CatalogueProblem[] {
  const problems = shapeProblems(file, schema, json)
  const value = Value.Clean(schema, structuredClone(json))
  return Value.Check(schema, value)
    ? { value, passedOver: problems }
    : problems.filter(({ unknown }) => unknown !== true)
}

async function readJson(path: string): Promise<{ readonly value: unknown } | { readonly problem: CatalogueProblem }> {
  const file = Bun.file(path)
  if (!(await file.exists())) return { problem: { file: path, found: "no such file", allowed: "a JSON file" } }
  const content = await file.text()
  try {
    return { value: JSON.parse(content) }
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error
    return { problem: { file: path, found: `no JSON (${error.message})`, allowed: "a JSON file" } }
  }
}
