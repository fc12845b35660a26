/**
 * Reads the two seed files. What comes back has been checked whole, shape and references, so nothing behind this door
 * asks again. Without a path it is the file built into the binary: imported as JSON, because a compiled executable has
 * no `seeds/` beside it.
 */
import type { Static, TSchema } from "@sinclair/typebox"
import { Value } from "@sinclair/typebox/value"
import builtInCatalogue from "../../seeds/catalogue.json" with { type: "json" }
import builtInProviders from "../../seeds/providers.json" with { type: "json" }
import { type BackendLimits, type Credential, type Provider, type SecretSource, soleCredential } from "./model.ts"
import {
  type CatalogueFile,
  type CatalogueProblem,
  CatalogueSchema,
  type KeySeed,
  type ProviderSeed,
  ProvidersSchema,
  shapeProblems,
  shown,
} from "./schema.ts"
import { referenceProblems, upstreamField } from "./references.ts"

interface ProvidersFile {
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
  const known = filterFields(file, CatalogueSchema, json)
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
  const known = filterFields(file, ProvidersSchema, json)
  if (Array.isArray(known)) return known
  const providers = providersOf(file, known.value.providers)
  return isProblems(providers) ? providers : { providers, passedOver: known.passedOver }
}

const isProblems = (read: readonly Provider[] | CatalogueProblem[]): read is CatalogueProblem[] =>
  read.some((one) => "found" in one)

/** What the schema knows of a file, apart from what it does not know, or what is wrong with it. */
function filterFields<S extends TSchema>(
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
  try {
    return { value: JSON.parse(await Bun.file(path).text()) }
  } catch (error) {
    const found = whyUnread(error)
    if (found === undefined) throw error
    return { problem: { file: path, found, allowed: "a JSON file" } }
  }
}

function whyUnread(error: unknown): string | undefined {
  if (error instanceof SyntaxError) return `no JSON (${error.message})`
  if (!(error instanceof Error && "code" in error)) return undefined
  return error.code === "ENOENT" ? "no such file" : `what cannot be read (${String(error.code)})`
}

// The providers file beyond its shape: each provider's credentials, of which the file names one by a variable, or several.

/** The providers, or everything that is wrong with them. */
function providersOf(file: string, entries: readonly ProviderSeed[]): readonly Provider[] | CatalogueProblem[] {
  const providers = new Map<string, Provider>()
  const problems = entries.flatMap((entry) => {
    const { id, label, headers = {}, auth, region, trace_context: traceContext } = entry
    const at = { file, entry: `provider ${shown(id)}` }
    const baseUrl = entry.base_url.replace(/\/+$/, "")
    const credentials = credentialsOf(entry)
    const found = [
      ...(providers.has(id)
        ? [{ field: "id", found: "this id more than once", allowed: "an id that no other provider has" }]
        : []),
      ...addressProblems(entry.base_url, baseUrl),
      ...(auth === "sigv4" && region === undefined ? [unsigned("region")] : []),
      ...(Array.isArray(credentials) ? credentials : []),
    ]
    if (!Array.isArray(credentials)) {
      const signing = auth === "sigv4" && region !== undefined ? { region } : undefined
      providers.set(id, { id, label, baseUrl, credentials: credentials.all, signing, headers, traceContext })
    }
    return found.map((problem) => ({ ...at, ...problem }))
  })
  return problems.length > 0 ? problems : [...providers.values()]
}

type Found = Pick<CatalogueProblem, "field" | "found" | "allowed">

function addressProblems(written: string, baseUrl: string): Found[] {
  if (URL.canParse(baseUrl) && !baseUrl.endsWith("/v1")) return []
  const { description } = ProvidersSchema.properties.providers.items.properties.base_url
  return [{ field: "base_url", found: shown(written), allowed: description ?? "an address" }]
}

const unsigned = (field: string): Found => ({ field, found: "nothing", allowed: 'what "auth": "sigv4" signs with' })

function credentialsOf(entry: ProviderSeed): { readonly all: Provider["credentials"] } | Found[] {
  const { api_key_env: variable, keys } = entry
  if (variable !== undefined && keys !== undefined)
    return [{ field: "keys", found: "keys beside api_key_env", allowed: "either of them" }]
  if (keys !== undefined) return severalOf(keys, entry)
  if (variable === undefined)
    return [
      { field: "api_key_env", found: "nothing", allowed: "the name of an environment variable, or a list of keys" },
    ]
  const sole = soleCredential(variable)
  if (entry.auth !== "sigv4") return { all: [sole] }
  const secretKey = source(entry.secret_key_env, undefined)
  if (secretKey === undefined) return [unsigned("secret_key_env")]
  return { all: [{ ...sole, signing: { secretKey, sessionToken: source(entry.session_token_env, undefined) } }] }
}

function severalOf(
  keys: readonly KeySeed[],
  { auth, secret_key_env, session_token_env }: ProviderSeed,
): { readonly all: Provider["credentials"] } | Found[] {
  const problems: Found[] = []
  for (const [field, value] of Object.entries({ secret_key_env, session_token_env }))
    if (value !== undefined) problems.push({ field, found: "it beside keys", allowed: `${field} of each of the keys` })
  const credentials: Credential[] = []
  const sources = new Set<string>()
  for (const [index, seed] of keys.entries()) {
    const credential = credentialOf(seed, `keys[${index}]`, auth === "sigv4")
    if (Array.isArray(credential)) {
      problems.push(...credential)
      continue
    }
    if (credentials.some(({ name }) => name === credential.name))
      problems.push({ field: `keys[${index}].name`, found: shown(seed.name), allowed: "a name that no other key has" })
    const from = JSON.stringify(credential.key)
    if (sources.has(from))
      problems.push({
        field: `keys[${index}]`,
        found: `the same secret as another key, ${shown(seed.env ?? seed.file)}`,
        allowed: "a secret of its own",
      })
    sources.add(from)
    credentials.push(credential)
  }
  if (keys.every(({ weight }) => weight === 0))
    problems.push({ field: "keys", found: "no weight but 0", allowed: "a key with a weight of 1 or more" })
  const [first, ...others] = credentials
  return problems.length > 0 || first === undefined ? problems : { all: [first, ...others] }
}

function credentialOf(seed: KeySeed, field: string, signs: boolean): Credential | Found[] {
  const problems: Found[] = []
  const pair = (env: string | undefined, file: string | undefined, name: string, allowed?: string) => {
    if (env !== undefined && file !== undefined)
      problems.push({ field: `${field}.${name}file`, found: `it beside ${name}env`, allowed: "either of them" })
    else if (env === undefined && file === undefined && allowed !== undefined)
      problems.push({ field: `${field}.${name}env`, found: "nothing", allowed })
    return source(env, file)
  }
  const key = pair(seed.env, seed.file, "", "the name of an environment variable, or a file")
  const secretKey = signs
    ? pair(seed.secret_key_env, seed.secret_key_file, "secret_key_", 'what "auth": "sigv4" signs with')
    : undefined
  const sessionToken = signs ? pair(seed.session_token_env, seed.session_token_file, "session_token_") : undefined
  if (problems.length > 0 || key === undefined) return problems
  return {
    name: seed.name,
    key,
    weight: seed.weight ?? 1,
    ...limitsOf(seed),
    ...(secretKey !== undefined && { signing: { secretKey, sessionToken } }),
  }
}

const source = (env: string | undefined, file: string | undefined): SecretSource | undefined =>
  env !== undefined ? { env } : file === undefined ? undefined : { file }

interface LimitsSeed {
  readonly max_concurrency?: number
  readonly requests_per_minute?: number
  readonly tokens_per_minute?: number
}

export const limitsOf = (seed: LimitsSeed): BackendLimits => ({
  ...(seed.max_concurrency !== undefined && { maxConcurrency: seed.max_concurrency }),
  ...(seed.requests_per_minute !== undefined && { requestsPerMinute: seed.requests_per_minute }),
  ...(seed.tokens_per_minute !== undefined && { tokensPerMinute: seed.tokens_per_minute }),
})
