/**
 * A completions request, the older sibling of chat: checked, counted, and written anew for its backend. Answers are made for
 * each prompt, and of `best_of` only the best `n` are told, but all are paid for.
 */
import { Failure } from "../../failure/failure.ts"
import { isObject, type JsonObject } from "../../language/json.ts"
import {
  answerLimit,
  type Forwarded,
  forwardedBody,
  type Forwarding,
  type ModelRequest,
  own,
} from "../../language/request.ts"
import { misshapen, readCount, readFlag, readObject, shown } from "../../language/shape.ts"
import { readModel } from "../body.ts"
import { type Allowance, fields, knownFields, NO_ALLOWANCE } from "../fields.ts"
import { readEndUser } from "../owned.ts"
import { readTexts } from "../shared/texts.ts"

/** Of one call, all prompts together. */
const MOST_CHOICES = 128
/** What the format has where a client sets no limit: a model that only goes on would go on for long. */
const USUAL_LIMIT = 16

const COMPLETIONS_FIELDS = fields(
  "model stream max_tokens n best_of echo logprobs temperature top_p frequency_penalty presence_penalty stop seed suffix user",
  { prompt: "anything", logit_bias: "anything", stream_options: fields("include_usage include_obfuscation") },
)

export function decodeRequest(body: JsonObject, allowance: Allowance = NO_ALLOWANCE): ModelRequest | Failure {
  const model = readModel(body)
  if (model instanceof Failure) return model
  const stream = readFlag(body, "stream")
  if (stream instanceof Failure) return stream
  const echo = readFlag(body, "echo")
  if (echo instanceof Failure) return echo
  const limit = readCount(body, "max_tokens")
  if (limit instanceof Failure) return limit
  const told = readCount(body, "n", MOST_CHOICES)
  if (told instanceof Failure) return told
  const made = readCount(body, "best_of", MOST_CHOICES)
  if (made instanceof Failure) return made
  const { suffix } = body
  if (typeof suffix !== "string" && suffix !== undefined && suffix !== null)
    return misshapen(`'suffix' is ${shown(suffix)}; it must be a string.`)
  const streamOptions = readObject(body["stream_options"], "stream_options")
  if (streamOptions instanceof Failure) return streamOptions
  const includeUsage = readFlag(streamOptions ?? {}, "include_usage")
  if (includeUsage instanceof Failure) return includeUsage
  const prompts = readTexts(body["prompt"], { field: "prompt", most: MOST_CHOICES, mayBeEmpty: true })
  if (prompts instanceof Failure) return prompts
  const ending = readTexts(suffix ?? "", { field: "suffix", most: 1, mayBeEmpty: true })
  if (ending instanceof Failure) return ending
  const choices = prompts.count * Math.max(told ?? 1, made ?? 1)
  // Each answer would repeat the prompt, which is paid for once.
  if (echo && choices > prompts.count) return misshapen(`'echo' is true; it is served with one answer to each prompt.`)
  if (choices > MOST_CHOICES)
    return misshapen(
      `${prompts.count} prompts with ${choices / prompts.count} answers each are ${choices}; at most ${MOST_CHOICES} are made in one call.`,
    )
  return {
    endpoint: "completions",
    ...knownFields(body, COMPLETIONS_FIELDS, allowance),
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

export function encodeRequest(request: ModelRequest, forwarding: Forwarding): JsonObject {
  const { stream_options: options } = request.body
  const body = forwardedBody(request, forwarding, FORWARDED)
  own(body, forwarding, "user", request.endUser)
  body["max_tokens"] = answerLimit(request, forwarding)
  if (forwarding.stream) body["stream_options"] = { ...(isObject(options) ? options : {}), include_usage: true }
  return body
}
