/** Completions: the request, the answer whole and as a stream, and put together from one. Nothing is translated. */
import { Failure } from "../failure/failure.ts"
import {
  type Json,
  type JsonObject,
  filled,
  isObject,
  misshapen,
  present,
  readCount,
  readFlag,
  readObject,
  readText,
  shown,
} from "../language/json.ts"
import {
  answerLimit,
  type Forwarded,
  forwardedBody,
  type Forwarding,
  type ModelRequest,
  own,
} from "../language/request.ts"
import { readModel, readEndUser } from "./body.ts"
import { type Allowance, fields, filterFields, NO_ALLOWANCE } from "./fields.ts"
import type { ClientFormat, ClientView, Gatherer, Reply } from "./format.ts"
import { ChunkStream, failureIn, laterUsage, streamFailure, usageTokens } from "./shared/chunks.ts"
import { readTexts, untranslatedBackend, untranslatedClient } from "./embeddings.ts"
import type { SseEvent } from "./sse.ts"
import { plausibleTokens } from "./tokens.ts"

const saysSomething = ({ choices }: JsonObject): boolean =>
  Array.isArray(choices) && choices.some((choice) => isObject(choice) && filled(choice["text"]))

const readReply = (body: JsonObject, view: ClientView): Reply | Failure => {
  const failure = failureIn(body)
  if (failure !== undefined) return failure
  if (!Array.isArray(body["choices"]) || !filled(body["choices"])) return new Failure("dependency.upstream_unavailable")
  const tokens = plausibleTokens(usageTokens(body["usage"]), saysSomething(body))
  return { body: { ...body, model: view.model }, tokens, searches: 0 }
}

class CompletionStream extends ChunkStream {
  readonly openPlaces = {
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
    const { choices, obfuscation: _padding, ...others } = chunk
    const fields = { ...others, usage: laterUsage(this.#fields["usage"], others["usage"]) }
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

/** Of one call, all prompts together. */
const MAX_CHOICES = 128
/** What the format has where a client sets no limit: a model that only goes on would go on for long. */
const USUAL_LIMIT = 16

const COMPLETIONS_FIELDS = fields(
  "model stream max_tokens n best_of echo logprobs temperature top_p frequency_penalty presence_penalty stop seed suffix user",
  { prompt: "anything", logit_bias: "anything", stream_options: fields("include_usage include_obfuscation") },
)

/**
 * A completions request, the older sibling of chat: checked, counted, and written anew for its backend. Answers are
 * made for each prompt, and of `best_of` only the best `n` are told, but all are paid for.
 */
function decodeRequest(body: JsonObject, allowance: Allowance = NO_ALLOWANCE): ModelRequest | Failure {
  const model = readModel(body)
  if (model instanceof Failure) return model
  const stream = readFlag(body, "stream")
  if (stream instanceof Failure) return stream
  const echo = readFlag(body, "echo")
  if (echo instanceof Failure) return echo
  const limit = readCount(body, "max_tokens")
  if (limit instanceof Failure) return limit
  const n = readCount(body, "n", MAX_CHOICES)
  if (n instanceof Failure) return n
  const bestOf = readCount(body, "best_of", MAX_CHOICES)
  if (bestOf instanceof Failure) return bestOf
  const { suffix } = body
  if (typeof suffix !== "string" && suffix !== undefined && suffix !== null)
    return misshapen(`'suffix' is ${shown(suffix)}; it must be a string.`)
  const streamOptions = readObject(body["stream_options"], "stream_options")
  if (streamOptions instanceof Failure) return streamOptions
  const includeUsage = readFlag(streamOptions ?? {}, "include_usage")
  if (includeUsage instanceof Failure) return includeUsage
  const prompts = readTexts(body["prompt"], { field: "prompt", most: MAX_CHOICES, mayBeEmpty: true })
  if (prompts instanceof Failure) return prompts
  const ending = readTexts(suffix ?? "", { field: "suffix", most: 1, mayBeEmpty: true })
  if (ending instanceof Failure) return ending
  const choices = prompts.count * Math.max(n ?? 1, bestOf ?? 1)
  // Each answer would repeat the prompt, which is paid for once.
  if (echo && choices > prompts.count) return misshapen(`'echo' is true; it is served with one answer to each prompt.`)
  if (choices > MAX_CHOICES)
    return misshapen(
      `${prompts.count} prompts with ${choices / prompts.count} answers each are ${choices}; at most ${MAX_CHOICES} are made in one call.`,
    )
  return {
    endpoint: "completions",
    ...filterFields(body, COMPLETIONS_FIELDS, allowance),
    ownEndUser: readEndUser(body["user"]),
    model,
    stream,
    // Some backends read the prompt once more for each answer, but none counts it again. The suffix is read with each prompt.
    inputTokens: Math.ceil(prompts.tokens + ending.tokens * prompts.count),
    prompts: prompts.count,
    maxOutputTokens: limit ?? USUAL_LIMIT,
    choices,
    features: new Set(),
    includeUsage: stream && includeUsage,
  }
}

const FORWARDED: Forwarded = {
  known: COMPLETIONS_FIELDS.fields,
  rewritten: new Set(["user", "max_tokens", "stream_options"]),
}

function encodeRequest(request: ModelRequest, forwarding: Forwarding): JsonObject {
  const { stream_options: options } = request.body
  const body = forwardedBody(request, forwarding, FORWARDED)
  own(body, forwarding, "user", request.endUser)
  body["max_tokens"] = answerLimit(request, forwarding)
  if (forwarding.stream) body["stream_options"] = { ...(isObject(options) ? options : {}), include_usage: true }
  return body
}
