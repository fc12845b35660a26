/**
 * The shape of the seed files (decisions §9), and what is wrong with one. A schema's `description` is what is allowed there, in
 * words: it ends up in the operator's error message, so it is written for someone with the file open in an editor.
 */
import { type Static, type TSchema, Type } from "@sinclair/typebox"
import { Value, ValueErrorType } from "@sinclair/typebox/value"
import { roundings } from "../../actors/money/price.ts"
import { isObject, type JsonObject } from "../language/json.ts"
import { EFFORTS } from "../language/prompt.ts"
import { BACKEND_FORMATS, ENDPOINTS, NEEDS } from "../language/request.ts"

const text = Type.String({ minLength: 1, description: "a text that is not empty" })
const modelId = Type.String({
  pattern: "^[A-Za-z0-9][A-Za-z0-9._:@/-]{0,127}$",
  description: "a model id: letters, digits and . _ : @ / -, at most 128",
})
export const FIELD_NAME = "^[A-Za-z][A-Za-z0-9_]{0,63}$"
const fieldName = Type.String({
  pattern: FIELD_NAME,
  description: "a name of a request field: letters, digits and _, at most 64",
})
const flag = Type.Boolean({ description: "true or false" })
const rate = Type.Integer({
  minimum: 0,
  maximum: Number.MAX_SAFE_INTEGER,
  description: `a whole number of micro-rupiah for one token, 0 to ${Number.MAX_SAFE_INTEGER}`,
})
/** What an `integer` column of Postgres holds. */
const INTEGER_MAX = 2_147_483_647
const count = Type.Integer({
  minimum: 1,
  maximum: INTEGER_MAX,
  description: `a whole number from 1 to ${INTEGER_MAX}`,
})
const time = Type.String({
  pattern: String.raw`^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d{1,3})?)?(Z|[+-]\d\d:\d\d)$`,
  description: "an ISO 8601 time with its zone, such as 2027-01-31T00:00:00Z",
})

const oneOf = <const Names extends readonly string[]>(names: Names) =>
  Type.Unsafe<Names[number]>(
    Type.Union(
      names.map((name) => Type.Literal(name)),
      { description: `one of ${names.join(", ")}` },
    ),
  )
const list = <Item extends TSchema>(item: Item, minItems = 0) =>
  Type.Array(item, {
    minItems,
    uniqueItems: true,
    description: `a list without repeats${minItems > 0 ? ", not empty" : ""}; each entry ${item.description ?? "an object"}`,
  })
const object = <Fields extends Parameters<typeof Type.Object>[0]>(fields: Fields) =>
  Type.Object(fields, { additionalProperties: false, description: `an object with ${Object.keys(fields).join(", ")}` })

/** The wire formats of clients, as `endpoints` names them, and those of backends, as `upstream.format` does. */
const format = oneOf(ENDPOINTS)
const backendFormat = oneOf(BACKEND_FORMATS)

export const COST_AMOUNT = "a decimal of the currency from 0 to 1000000000, with at most nine decimals"
const amount = Type.Union([Type.String({ minLength: 1, maxLength: 30 }), Type.Number({ minimum: 0 })], {
  description: COST_AMOUNT,
})
/** Rates are for 1,000,000 tokens. */
const CostEntry = object({
  currency: Type.String({
    pattern: "^[A-Z]{3}$",
    description: "the ISO 4217 code of the currency that the backend bills in, such as USD",
  }),
  input: amount,
  output: amount,
  cache_read: amount,
  cache_write: amount,
  per_call: Type.Optional(amount),
  per_search: Type.Optional(amount),
  rounding: Type.Optional(oneOf(roundings)),
  step: Type.Optional(amount),
  effective_at: Type.Optional(time),
})

const weight = Type.Integer({ minimum: 0, maximum: 10_000, description: "a whole number from 0 to 10000" })
const limits = {
  max_concurrency: Type.Optional(count),
  requests_per_minute: Type.Optional(count),
  tokens_per_minute: Type.Optional(count),
}
const MAX_IN_A_POOL = 64
const poolText = `a list of 1 to ${MAX_IN_A_POOL} backends, each an object with provider, format, model`

const UpstreamEntry = object({
  provider: text,
  format: backendFormat,
  model: text,
  priority: Type.Optional(Type.Integer({ minimum: 0, maximum: 100, description: "a whole number from 0 to 100" })),
  weight: Type.Optional(weight),
  ...limits,
  set: Type.Optional(
    Type.Unsafe<JsonObject>(
      Type.Record(Type.String(), Type.Unknown(), { description: "an object of request fields by their names" }),
    ),
  ),
  efforts: Type.Optional(list(oneOf(EFFORTS), 1)),
  needs: Type.Optional(list(oneOf(NEEDS))),
  cost: Type.Optional(CostEntry),
})

const ModelEntry = object({
  model: modelId,
  display_name: text,
  tier: text,
  provider: text,
  modality: text,
  supports_vision: flag,
  supports_tools: flag,
  input_micro: rate,
  output_micro: rate,
  cache_read_micro: rate,
  cache_write_micro: rate,
  context_window: Type.Union([count, Type.Null()], { description: `null, or ${count.description}` }),
  max_output_tokens: count,
  endpoints: list(format, 1),
  upstream: Type.Optional(UpstreamEntry),
  upstreams: Type.Optional(Type.Array(UpstreamEntry, { minItems: 1, maxItems: MAX_IN_A_POOL, description: poolText })),
  max_concurrency: count,
  fallback: Type.Optional(list(modelId)),
  strip: Type.Optional(list(text)),
  pass: Type.Optional(list(fieldName)),
  unsupported: Type.Optional(list(text)),
  features: Type.Optional(list(oneOf(["structured_outputs", "web_search", "reasoning"]))),
  gather: Type.Optional(flag),
  effective_at: Type.Optional(time),
})

const AliasEntry = object({ model: modelId, target: modelId, until: time })

export const CatalogueSchema = object({
  models: Type.Array(ModelEntry, { description: "a list of models" }),
  aliases: Type.Optional(Type.Array(AliasEntry, { description: "a list of retired ids" })),
})

const variable = Type.String({
  pattern: "^[A-Za-z_][A-Za-z0-9_]*$",
  description: "the name of an environment variable",
})

const secretFile = Type.String({ pattern: "^/[^\\0]*$", description: "the absolute path of a file" })
const signature = {
  secret_key_env: Type.Optional(variable),
  session_token_env: Type.Optional(variable),
}

const KeyEntry = object({
  name: Type.String({
    pattern: "^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$",
    description: "a name of letters, digits, _ and -, at most 64",
  }),
  env: Type.Optional(variable),
  file: Type.Optional(secretFile),
  ...signature,
  secret_key_file: Type.Optional(secretFile),
  session_token_file: Type.Optional(secretFile),
  weight: Type.Optional(weight),
  ...limits,
})

const ProviderEntry = object({
  id: text,
  label: text,
  base_url: Type.String({
    pattern: String.raw`^https?://[^/?#\s]+(/[^?#\s]*)?$`,
    description: "an http or https address without query, and without /v1 at its end",
  }),
  api_key_env: Type.Optional(variable),
  keys: Type.Optional(
    Type.Array(KeyEntry, {
      minItems: 1,
      maxItems: MAX_IN_A_POOL,
      description: `a list of 1 to ${MAX_IN_A_POOL} credentials, each an object with a name, and env or file`,
    }),
  ),
  auth: Type.Optional(oneOf(["bearer", "sigv4"])),
  region: Type.Optional(
    Type.String({ pattern: "^[a-z]{2}(-[a-z]+)+-[0-9]+$", description: "a region, such as ap-southeast-3" }),
  ),
  ...signature,
  headers: Type.Optional(
    Type.Record(Type.String(), Type.String({ description: "a text" }), { description: "an object of texts" }),
  ),
  trace_context: Type.Optional(flag),
})

export const ProvidersSchema = object({
  providers: Type.Array(ProviderEntry, { description: "a list of providers" }),
})

export type CostSeed = Static<typeof CostEntry>
type ModelRow = Static<typeof ModelEntry>
export type UpstreamSeed = Static<typeof UpstreamEntry>
export type ProviderSeed = Static<typeof ProviderEntry>
export type KeySeed = Static<typeof KeyEntry>
type Defaulted = "fallback" | "strip" | "pass" | "unsupported" | "features" | "gather"

/**
 * A model as the file has it, with the lists that it leaves out empty and `gather` true where it does not say. Its backends are
 * in `upstreams`; an `upstream` beside them says that the file names one alone.
 */
export type ModelSeed = Omit<ModelRow, Defaulted | "upstreams"> &
  Required<Pick<ModelRow, Defaulted>> & { readonly upstreams: readonly UpstreamSeed[] }
export type AliasSeed = Static<typeof AliasEntry>

/** A catalogue file whose shape and references have been checked. */
export interface CatalogueFile {
  readonly models: readonly ModelSeed[]
  readonly aliases: readonly AliasSeed[]
}

/**
 * What is wrong with a seed file, so that an operator finds the place: file, entry, field, what was found and what is allowed. All
 * problems of a file are told at once, because a start that fails five times for five typos is rude.
 */
export interface CatalogueProblem {
  readonly file: string
  /** The entry, such as `model "claude-opus-5"`; absent when it is the file as a whole. */
  readonly entry?: string
  /** The field's path inside the entry; absent when it is the entry as a whole. */
  readonly field?: string
  /** What was found, as a phrase that follows "found". */
  readonly found: string
  /** What would have been right, as a phrase that follows "allowed". */
  readonly allowed: string
  /** A field that this version does not know. It is passed over, so that a file may serve two versions at once. */
  readonly unknown?: true
}

export const describeProblem = ({ file, entry, field, found, allowed }: CatalogueProblem): string =>
  `${[file, entry, field].filter((part) => part !== undefined).join(": ")}: found ${found}; allowed: ${allowed}`

/** A value as it is shown in a message: JSON, cut where it is long. */
export function shown(value: unknown): string {
  if (value === undefined) return "nothing"
  const json = JSON.stringify(value)
  return json.length > 60 ? `${json.slice(0, 57)}…` : json
}

/** Everything in which `value` departs from the schema; one problem a field. */
export function shapeProblems(file: string, schema: TSchema, value: unknown): CatalogueProblem[] {
  const problems = new Map<string, CatalogueProblem>()
  for (const error of Value.Errors(schema, value)) {
    if (problems.has(error.path)) continue
    const unknownField = error.type === ValueErrorType.ObjectAdditionalProperties
    problems.set(error.path, {
      file,
      ...place(value, error.path),
      found: unknownField ? `a field that is not known, ${shown(error.value)}` : shown(error.value),
      allowed: error.schema.description ?? error.message,
      ...(unknownField ? { unknown: true } : {}),
    })
  }
  return [...problems.values()]
}

/** From a JSON pointer such as `/models/3/upstream/format` to the entry's own name and the path inside it. */
function place(root: unknown, pointer: string): Pick<CatalogueProblem, "entry" | "field"> {
  const [collection, index, ...inside] = pointer
    .split("/")
    .slice(1)
    .map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"))
  if (collection === undefined) return {}
  if (index === undefined) return { field: collection }
  const entries = isObject(root) ? root[collection] : undefined
  const entry: unknown = Array.isArray(entries) ? entries[Number(index)] : undefined
  const field = inside.reduce(
    (path, part) => (/^\d+$/.test(part) ? `${path}[${part}]` : path === "" ? part : `${path}.${part}`),
    "",
  )
  return { entry: entryName(collection, index, entry), ...(field === "" ? {} : { field }) }
}

function entryName(collection: string, index: string, entry: unknown): string {
  const id = isObject(entry) ? (entry["model"] ?? entry["id"]) : undefined
  if (typeof id !== "string" || id === "") return `${collection}[${index}]`
  return `${nouns[collection] ?? collection} ${shown(id)}`
}
const nouns: Readonly<Record<string, string>> = { models: "model", aliases: "alias", providers: "provider" }
