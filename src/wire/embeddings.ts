/**
 * Embeddings, whose request is a text or many, and whose answer is vectors and a count of what was read. Nothing is translated.
 * What is asked for with texts alone, as completions are too, is read here.
 */
import type { Tokens } from "../../actors/money/price.ts"
import { Failure } from "../failure/failure.ts"
import {
  isObject,
  type Json,
  type JsonObject,
  misshapen,
  notServed,
  present,
  readCount,
  shown,
} from "../language/json.ts"
import { type Forwarded, forwardedBody, type Forwarding, type ModelRequest, own } from "../language/request.ts"
import { classifyErrorObject } from "./backend-error.ts"
import { readEndUser, readModel } from "./body.ts"
import { type Allowance, fields, filterFields, NO_ALLOWANCE } from "./fields.ts"
import type { AnswerView, BackendSide, ClientFormat, ClientSide, ClientView, Reply } from "./format.ts"
import { plausibleTokens, textTokens, tokensFromInclusive } from "./tokens.ts"

// What embeddings and completions are asked with: a text, a list of texts, the token ids of one, or a list of such lists.
// Token ids are checked and counted here, for they are no values as others are (src/wire/body.ts).

interface Texts {
  readonly count: number
  /** Estimated, of all of them; token ids are counted. */
  readonly tokens: number
}

/** What tokenizers put around a text. */
const TEXT_FRAME = 2
/** More than any vocabulary has. */
const LARGEST_ID = 2 ** 31 - 1

interface TextInputRules {
  readonly field: string
  readonly most: number
  /** A text may say nothing. */
  readonly mayBeEmpty: boolean
}

export function readTexts(value: Json | undefined, terms: TextInputRules): Texts | Failure {
  const { field, most } = terms
  if (!Array.isArray(value)) return one(value, field, terms)
  if (value.length > 0 && typeof value[0] === "number") return one(value, field, terms)
  if (value.length === 0) return misshapen(`'${field}' is an empty array; it must hold a text.`)
  if (value.length > most)
    return misshapen(`'${field}' has ${value.length} texts; at most ${most} are taken in one call.`)
  let tokens = 0
  for (let index = 0; index < value.length; index++) {
    const text = one(value[index], `${field}[${index}]`, terms)
    if (text instanceof Failure) return text
    tokens += text.tokens
  }
  return { count: value.length, tokens }
}

function one(value: Json | undefined, field: string, { mayBeEmpty }: TextInputRules): Texts | Failure {
  if (typeof value === "string") {
    if (value === "" && !mayBeEmpty) return misshapen(`'${field}' is empty; it must be a text.`)
    return { count: 1, tokens: textTokens(value) + TEXT_FRAME }
  }
  if (!Array.isArray(value) || value.length === 0)
    return misshapen(`'${field}' is ${shown(value)}; it must be a text, or a list of texts or of token ids.`)
  const other = value.findIndex((id) => !isId(id))
  if (other >= 0) return misshapen(`'${field}[${other}]' is ${shown(value[other])}; it must be a token's id.`)
  return { count: 1, tokens: value.length + TEXT_FRAME }
}

const isId = (id: Json): boolean => typeof id === "number" && Number.isSafeInteger(id) && id >= 0 && id <= LARGEST_ID

const refused = () => notServed("This model's backend does not speak the format of this endpoint.")
const never = (): never => {
  throw new Error("there is nothing to translate in this format")
}

/**
 * The half of a format that the neutral language has no words for: a client of it is served by backends that speak
 * it, and by no others. The catalogue sees to that (src/catalogue/references.ts).
 */
export const untranslatedClient: Pick<ClientSide, "decodePrompt" | "eventEncoder" | "encodeReply"> = {
  decodePrompt: refused,
  eventEncoder: never,
  encodeReply: never,
}

export const untranslatedBackend: Pick<BackendSide, "encodePrompt" | "decodeReply"> = {
  encodePrompt: refused,
  decodeReply: never,
}

/** Of a format that has no streams. */
const unstreamed: Pick<ClientSide, "streamFailure"> & Pick<BackendSide, "stream" | "gatherer"> = {
  streamFailure: never,
  stream: never,
  gatherer: never,
}

/** A text's vector is found by its place, so one that is missing would give other texts the wrong ones. */
function readReply(body: JsonObject, { model, request }: ClientView & Partial<AnswerView>): Reply | Failure {
  if (present(body["error"])) return classifyErrorObject(body)
  const { data } = body
  const isWhole = Array.isArray(data) && data.length > 0 && data.length === (request?.prompts ?? data.length)
  if (!isWhole) return new Failure("dependency.upstream_unavailable")
  const answer = request?.body["encoding_format"] === "base64" ? { ...body, data: data.map(inBase64) } : body
  return { body: { ...answer, model }, tokens: plausibleTokens(readTokens(body["usage"]), true), searches: 0 }
}

/**
 * Some backends write numbers whatever they are asked for. The vendor's SDKs ask for base64 unasked, and the one for JavaScript decodes numbers too,
 * without an error, into a vector of a quarter of the length that is nearly all zeros.
 */
function inBase64(item: Json): Json {
  const vector = isObject(item) ? item["embedding"] : undefined
  if (!Array.isArray(vector) || !isObject(item)) return item
  const numbers = vector.filter((value) => typeof value === "number")
  if (numbers.length < vector.length) return item
  return { ...item, embedding: Buffer.from(Float32Array.from(numbers).buffer).toString("base64") }
}

/** Whatever a backend calls output is none. */
function readTokens(usage: Json | undefined): Tokens | undefined {
  if (!isObject(usage)) return undefined
  const { prompt_tokens: prompt, total_tokens: total } = usage
  return tokensFromInclusive({ prompt: present(prompt) ? prompt : total, cacheRead: 0, cacheWrite: 0, output: 0 })
}

export const embeddingsFormat: ClientFormat = {
  client: {
    endpoint: "embeddings",
    operation: "embeddings",
    path: "/v1/embeddings",
    isOptional: true,
    takesTokenIds: true,
    decodeRequest,
    encodeRequest,
    ...untranslatedClient,
    streamFailure: unstreamed.streamFailure,
  },
  backend: { ...untranslatedBackend, readReply, stream: unstreamed.stream, gatherer: unstreamed.gatherer },
}

/**
 * Texts of one call, as the format's own home has it. Vectors that come as numbers are a thousand values each, which cost the
 * thread that everybody shares; in base64 each is one.
 */
const MAX_TEXTS = 2_048
const MAX_AS_NUMBERS = 100

const EMBEDDINGS_FIELDS = fields("model encoding_format dimensions user", { input: "anything" })

/**
 * An embeddings request: checked, counted, and written anew for its backend. It has no answer in tokens, so the limit
 * of one is 0, and what it costs is its input.
 */
function decodeRequest(body: JsonObject, allowance: Allowance = NO_ALLOWANCE): ModelRequest | Failure {
  const model = readModel(body)
  if (model instanceof Failure) return model
  const { encoding_format: encoding } = body
  if (present(encoding) && encoding !== "float" && encoding !== "base64")
    return misshapen(`'encoding_format' is ${shown(encoding)}; it must be float or base64.`)
  const dimensions = readCount(body, "dimensions")
  if (dimensions instanceof Failure) return dimensions
  const texts = readTexts(body["input"], { field: "input", most: MAX_TEXTS, mayBeEmpty: false })
  if (texts instanceof Failure) return texts
  if (encoding !== "base64" && texts.count > MAX_AS_NUMBERS)
    return misshapen(
      `'input' has ${texts.count} texts; of more than ${MAX_AS_NUMBERS} the vectors are served with encoding_format base64 alone.`,
    )
  return {
    endpoint: "embeddings",
    ...filterFields(body, EMBEDDINGS_FIELDS, allowance),
    ownEndUser: readEndUser(body["user"]),
    model,
    stream: false,
    inputTokens: Math.ceil(texts.tokens),
    prompts: texts.count,
    maxOutputTokens: 0,
    choices: 1,
    features: new Set(),
    includeUsage: false,
  }
}

const FORWARDED: Forwarded = { known: EMBEDDINGS_FIELDS.fields, rewritten: new Set(["user"]) }

function encodeRequest(request: ModelRequest, forwarding: Forwarding): JsonObject {
  const body = forwardedBody(request, forwarding, FORWARDED)
  own(body, forwarding, "user", request.endUser)
  return body
}
