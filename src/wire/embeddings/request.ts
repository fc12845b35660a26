/**
 * An embeddings request: checked, counted, and written anew for its backend. It has no answer in tokens, so the limit of one
 * is 0, and what it costs is its input.
 */
import { Failure } from "../../failure/failure.ts"
import { type JsonObject, present } from "../../language/json.ts"
import { type Forwarded, forwardedBody, type Forwarding, type ModelRequest, own } from "../../language/request.ts"
import { misshapen, readCount, shown } from "../../language/shape.ts"
import { readModel } from "../body.ts"
import { type Allowance, fields, knownFields, NO_ALLOWANCE } from "../fields.ts"
import { readEndUser } from "../owned.ts"
import { readTexts } from "../shared/texts.ts"

/**
 * Texts of one call, as the format's own home has it. Vectors that come as numbers are a thousand values each, which cost the
 * thread that everybody shares; in base64 each is one.
 */
const MOST_TEXTS = 2_048
const MOST_AS_NUMBERS = 100

const EMBEDDINGS_FIELDS = fields("model encoding_format dimensions user", { input: "anything" })

export function decodeRequest(body: JsonObject, allowance: Allowance = NO_ALLOWANCE): ModelRequest | Failure {
  const model = readModel(body)
  if (model instanceof Failure) return model
  const { encoding_format: encoding } = body
  if (present(encoding) && encoding !== "float" && encoding !== "base64")
    return misshapen(`'encoding_format' is ${shown(encoding)}; it must be float or base64.`)
  const dimensions = readCount(body, "dimensions")
  if (dimensions instanceof Failure) return dimensions
  const texts = readTexts(body["input"], { field: "input", most: MOST_TEXTS, mayBeEmpty: false })
  if (texts instanceof Failure) return texts
  if (encoding !== "base64" && texts.count > MOST_AS_NUMBERS)
    return misshapen(
      `'input' has ${texts.count} texts; of more than ${MOST_AS_NUMBERS} the vectors are served with encoding_format base64 alone.`,
    )
  return {
    endpoint: "embeddings",
    ...knownFields(body, EMBEDDINGS_FIELDS, allowance),
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

export function encodeRequest(request: ModelRequest, forwarding: Forwarding): JsonObject {
  const body = forwardedBody(request, forwarding, FORWARDED)
  own(body, forwarding, "user", request.endUser)
  return body
}
