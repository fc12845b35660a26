/** Embeddings: the request, and its answer: vectors, and a count of what was read. Nothing is translated. */
import type { Tokens } from "../../actors/money/tokens.ts"
import { Failure } from "../failure/failure.ts"
import { isObject, type Json, type JsonObject, present } from "../language/json.ts"
import { type Forwarded, forwardedBody, type Forwarding, type ModelRequest, own } from "../language/request.ts"
import { misshapen, readCount, shown } from "../language/shape.ts"
import { classifyErrorObject } from "./backend-error.ts"
import { readModel } from "./body.ts"
import { type Allowance, fields, knownFields, NO_ALLOWANCE } from "./fields.ts"
import type { ClientFormat, ClientView, Reply } from "./format.ts"
import { readEndUser } from "./owned.ts"
import { filled } from "./shared/text.ts"
import { readTexts, unstreamed, untranslatedBackend, untranslatedClient } from "./shared/texts.ts"
import { inclusiveTokens, ofAnswer } from "./tokens.ts"

const readReply = (body: JsonObject, view: ClientView): Reply | Failure => {
  if (present(body["error"])) return classifyErrorObject(body)
  if (!filled(body["data"])) return new Failure("dependency.upstream_unavailable")
  return { body: { ...body, model: view.model }, tokens: ofAnswer(readTokens(body["usage"]), true), searches: 0 }
}

/** Whatever a backend calls output is none. */
function readTokens(usage: Json | undefined): Tokens | undefined {
  if (!isObject(usage)) return undefined
  const { prompt_tokens: prompt, total_tokens: total } = usage
  return inclusiveTokens({ prompt: present(prompt) ? prompt : total, cacheRead: 0, cacheWrite: 0, output: 0 })
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
const MOST_TEXTS = 2_048
const MOST_AS_NUMBERS = 100

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

function encodeRequest(request: ModelRequest, forwarding: Forwarding): JsonObject {
  const body = forwardedBody(request, forwarding, FORWARDED)
  own(body, forwarding, "user", request.endUser)
  return body
}
