/** Adds to a backend's refusal what the client can act on: the field of its own request, or the numbers of a context overflow. */
import type { Offer } from "../catalogue/live.ts"
import { Failure } from "../failure/failure.ts"
import type { Json, JsonObject } from "../language/json.ts"
import type { ModelRequest } from "../language/request.ts"
import type { Fault } from "../upstream/client.ts"
import { tooLong } from "../wire/error-facts.ts"

interface RequestTurn {
  readonly request: ModelRequest
  readonly offer: Offer
}

/** The fault with a message as exact as the gateway knows it, and without the backend's own words. */
export function withClientDetail(fault: Fault, turn: RequestTurn): Fault {
  const { code, detail } = fault.failure
  if (code === "upstream.context_length_exceeded") return withNumbers(fault, turn)
  if (code !== "upstream.invalid_request" && code !== "upstream.unsupported_feature") return fault
  const field = clientField(fault.field ?? "", turn.request.body)
  if (field === "") return fault
  const words = code === "upstream.invalid_request" ? "rejected" : "does not support"
  const failure = new Failure(code, { ...detail, message: `The model's backend ${words} '${field}' of the request.` })
  return { ...fault, failure }
}

/** As many steps of a field's path as lead somewhere in the client's own body, its lists by number. */
function clientField(path: string, body: JsonObject): string {
  const known: string[] = []
  let here: Json | undefined = body
  for (const step of path.split(/[.[\]]+/, MOST_STEPS)) {
    if (!NAMEABLE.test(step) || typeof here !== "object" || here === null || !Object.hasOwn(here, step)) break
    known.push(step)
    here = (here as JsonObject)[step]
  }
  return known.join(".")
}

const MOST_STEPS = 10
const NAMEABLE = /^\w{1,64}$/

/**
 * Coding agents compact their history by the numbers in a context overflow (decisions §7). Where the backend gave none,
 * they are ours; an estimate that says the prompt fits is wrong by at least one token.
 */
function withNumbers(fault: Fault, { offer: { model }, request }: RequestTurn): Fault {
  const { code, detail } = fault.failure
  if (code !== "upstream.context_length_exceeded" || detail.message !== undefined) return fault
  if (model.contextWindow === null) return fault
  const count = Math.max(request.inputTokens, model.contextWindow + 1)
  const message = tooLong({ count, limit: model.contextWindow })
  return { ...fault, failure: new Failure(code, { ...detail, message }) }
}
