/** The providers file beyond its shape: each provider's credentials, of which the file names one by a variable, or several. */
import type { BackendLimits, Credential, Provider, SecretSource } from "./model.ts"
import { soleCredential } from "./model.ts"
import { type CatalogueProblem, shown } from "./problem.ts"
import { type KeySeed, ProvidersSchema, type ProviderSeed } from "./schema.ts"

/** The providers, or everything that is wrong with them. */
export function providersOf(file: string, entries: readonly ProviderSeed[]): readonly Provider[] | CatalogueProblem[] {
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
