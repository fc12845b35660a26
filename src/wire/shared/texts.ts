/**
 * What embeddings and completions are asked with: a text, a list of texts, the token ids of one, or a list of such lists.
 * Token ids are checked and counted here, for they are no values as others are (src/wire/body.ts).
 */
import { Failure } from "../../failure/failure.ts"
import type { Json } from "../../language/json.ts"
import { misshapen, notServed, shown } from "../../language/shape.ts"
import { textTokens } from "../estimate/text.ts"
import type { BackendSide, ClientSide } from "../format.ts"

export interface Texts {
  readonly count: number
  /** Estimated, of all of them; token ids are counted. */
  readonly tokens: number
}

/** What tokenizers put around a text. */
const TEXT_FRAME = 2
/** More than any vocabulary has. */
const LARGEST_ID = 2 ** 31 - 1

export interface TextTerms {
  readonly field: string
  readonly most: number
  /** A text may say nothing. */
  readonly mayBeEmpty: boolean
}

export function readTexts(value: Json | undefined, terms: TextTerms): Texts | Failure {
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

function one(value: Json | undefined, field: string, { mayBeEmpty }: TextTerms): Texts | Failure {
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
export const unstreamed: Pick<ClientSide, "streamFailure"> & Pick<BackendSide, "stream" | "gatherer"> = {
  streamFailure: never,
  stream: never,
  gatherer: never,
}
