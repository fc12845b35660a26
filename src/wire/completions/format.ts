/** Completions, assembled, and their answers: whole, as a stream, and put together from one. */
import { Failure } from "../../failure/failure.ts"
import { isObject, type Json, type JsonObject, present } from "../../language/json.ts"
import { classifyErrorObject } from "../backend-error.ts"
import type { ClientFormat, ClientView, Gatherer, Reply } from "../format.ts"
import { ChunkStream, streamFailure, usageTokens } from "../shared/chunks.ts"
import { filled, readText } from "../shared/text.ts"
import { untranslatedBackend, untranslatedClient } from "../shared/untranslated.ts"
import type { SseEvent } from "../sse.ts"
import { ofAnswer } from "../tokens.ts"
import { decodeRequest, encodeRequest } from "./request.ts"

const saysSomething = ({ choices }: JsonObject): boolean =>
  Array.isArray(choices) && choices.some((choice) => isObject(choice) && filled(choice["text"]))

const readReply = (body: JsonObject, view: ClientView): Reply | Failure => {
  if (present(body["error"])) return classifyErrorObject(body)
  if (!Array.isArray(body["choices"]) || !filled(body["choices"])) return new Failure("dependency.upstream_unavailable")
  const tokens = ofAnswer(usageTokens(body["usage"]), saysSomething(body))
  return { body: { ...body, model: view.model }, tokens, searches: 0 }
}

class CompletionStream extends ChunkStream {
  readonly open = {
    texts: new Set(["choices.text", "obfuscation"]),
    ofStream: new Set(["id", "created", "system_fingerprint"]),
  }

  hasContent(chunk: JsonObject): boolean {
    return saysSomething(chunk)
  }

  /** No other format is written from it. */
  events(): readonly [] {
    return []
  }
}

/** A text goes on where it came in pieces, and so do the lists of its likelihoods; of anything else the last value is the whole. */
class CompletionGatherer implements Gatherer {
  #fields: JsonObject = {}
  readonly #choices = new Map<number, JsonObject>()

  take(_: SseEvent, chunk: JsonObject | undefined): void {
    if (chunk === undefined) return
    const { choices, obfuscation: _padding, ...fields } = chunk
    this.#fields = { ...this.#fields, ...said(fields) }
    for (const choice of Array.isArray(choices) ? choices : []) if (isObject(choice)) this.#take(choice)
  }

  reply(): JsonObject {
    const choices = [...this.#choices].sort(([one], [other]) => one - other).map(([, choice]) => choice)
    return { ...this.#fields, choices }
  }

  #take({ index, text, logprobs, ...fields }: JsonObject): void {
    const place = typeof index === "number" ? index : 0
    const known = this.#choices.get(place) ?? { text: "", index: place, logprobs: null, finish_reason: null }
    this.#choices.set(place, known)
    if (typeof text === "string") known["text"] = `${readText(known["text"])}${text}`
    if (isObject(logprobs)) known["logprobs"] = longer(known["logprobs"], logprobs)
    Object.assign(known, said(fields))
  }
}

const said = (fields: JsonObject): JsonObject =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => present(value)))

function longer(before: Json | undefined, now: JsonObject): JsonObject {
  if (!isObject(before)) return now
  for (const [name, value] of Object.entries(now)) {
    const list = before[name]
    if (Array.isArray(list) && Array.isArray(value)) for (const item of value) list.push(item)
    else if (present(value) && name !== "__proto__") before[name] = value
  }
  return before
}

export const completionsFormat: ClientFormat = {
  client: {
    endpoint: "completions",
    operation: "text_completion",
    path: "/v1/completions",
    isOptional: true,
    takesTokenIds: true,
    decodeRequest,
    encodeRequest,
    ...untranslatedClient,
    streamFailure,
  },
  backend: {
    ...untranslatedBackend,
    readReply,
    stream: (view) => new CompletionStream(view),
    gatherer: () => new CompletionGatherer(),
  },
}
