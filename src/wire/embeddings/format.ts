/** Embeddings, assembled, and their answer: vectors, and a count of what was read. */
import type { Tokens } from "../../../actors/money/tokens.ts"
import { Failure } from "../../failure/failure.ts"
import { isObject, type Json, type JsonObject, present } from "../../language/json.ts"
import { classifyErrorObject } from "../backend-error.ts"
import type { ClientFormat, ClientView, Reply } from "../format.ts"
import { filled } from "../shared/text.ts"
import { unstreamed, untranslatedBackend, untranslatedClient } from "../shared/untranslated.ts"
import { inclusiveTokens, ofAnswer } from "../tokens.ts"
import { decodeRequest, encodeRequest } from "./request.ts"

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
