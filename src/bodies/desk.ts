/**
 * Large bodies, as they are worked on where nobody waits for the thread: parsed and understood, translated once for each
 * backend that is tried, written as bytes. A body stays here under a number until it is let go; what is told of it is small,
 * whatever was sent.
 */
import { unreachable } from "../../actors/unreachable.ts"
import { Failure } from "../failure/failure.ts"
import type { JsonObject } from "../language/json.ts"
import type { Prompt } from "../language/prompt.ts"
import type { Endpoint, ModelRequest, Target } from "../language/request.ts"
import { invokeBody } from "../wire/bedrock/invoke.ts"
import { parseBody, readModel } from "../wire/body.ts"
import { conversationOf } from "../wire/conversation.ts"
import {
  type BackendModel,
  type DirectExchange,
  type EncodingTerms,
  exchange,
  formats,
  type WrittenBody,
} from "../wire/exchange.ts"
import { type Allowance, withNames } from "../wire/fields.ts"
import { endUser } from "../wire/owned.ts"
import { untold } from "../wire/untold.ts"
import { LONGEST_NAME, prunedPrompt, prunedRequest } from "./prune.ts"

export interface DecodeTerms {
  /** Fields that this use of the format does without, for its own checks. */
  readonly more?: JsonObject
  /** What of it may travel. */
  readonly allowance?: Allowance
  /** Left out where nothing is called. */
  readonly call?: {
    /** Whom backends are told of. */
    readonly secret: Uint8Array
    readonly accountId: string
    /** Those that may be asked. */
    readonly backends: readonly BackendModel[]
    /** What does not travel beside the body. */
    readonly dropped: readonly string[]
    /** Its conversation, as the headers name it. */
    readonly conversationName: string | undefined
  }
}

/** A body's shape, judged; what of it is not told to the backend, and whom it is told of. */
export function decode(
  endpoint: Endpoint,
  body: JsonObject,
  { more, allowance, call }: DecodeTerms,
): ModelRequest | Failure {
  const decoded = formats[endpoint].client.decodeRequest(more === undefined ? body : { ...body, ...more }, allowance)
  if (decoded instanceof Failure || call === undefined) return decoded
  const { secret, accountId, backends, dropped, conversationName } = call
  const unsaid = [...dropped]
  for (const backend of backends) {
    for (const name of untold(decoded, backend, allowance ?? NOTHING_MORE))
      if (!unsaid.includes(name)) unsaid.push(name)
  }
  return {
    ...decoded,
    dropped: withNames(decoded.dropped, unsaid),
    endUser: endUser(secret, accountId, decoded.ownEndUser),
    conversation: conversationOf(body, conversationName),
  }
}

const NOTHING_MORE: Allowance = { pass: [], betas: [] }

/** A failure as it travels between threads. */
type Refusal = Pick<Failure, "code" | "detail">

interface MeetTerms {
  readonly backend: BackendModel
  readonly takes: Omit<Target, "model">
}

/** `prompt` is undefined where nothing is translated. */
interface Met {
  readonly prompt: Prompt | undefined
}

type WriteTerms = MeetTerms & EncodingTerms

interface Body {
  readonly endpoint: Endpoint
  readonly body: JsonObject
  request?: ModelRequest
  readonly exchanges: Map<string, DirectExchange>
}

export class Desk {
  readonly #bodies = new Map<number, Body>()

  /** The model that it names, for that is judged first. */
  read(id: number, bytes: Uint8Array, endpoint: Endpoint): string | Failure {
    const body = parseBody(bytes, undefined, formats[endpoint].client.takesTokenIds)
    if (body instanceof Failure) return body
    const model = readModel(body)
    if (model instanceof Failure) return model
    if (model.length > LONGEST_NAME) return new Failure("model.unknown")
    this.#bodies.set(id, { endpoint, body, exchanges: new Map() })
    return model
  }

  decode(id: number, terms: DecodeTerms): ModelRequest | Failure {
    const known = this.#body(id)
    const request = decode(known.endpoint, known.body, terms)
    if (request instanceof Failure) return request
    known.request = request
    return prunedRequest(request)
  }

  meet(id: number, terms: MeetTerms): Met | Failure {
    const met = this.#exchange(id, terms)
    if (met instanceof Failure) return met
    const prompt = met.prompt && prunedPrompt(met.prompt)
    return prompt instanceof Failure ? prompt : { prompt }
  }

  write(id: number, terms: WriteTerms): WrittenBody | Failure {
    const met = this.#exchange(id, terms)
    if (met instanceof Failure) return met
    const { said, maxOutputTokens, anthropicBeta, stream } = terms
    const asked = stream ? met.asStream() : met
    const body = (said === undefined ? asked : asked.continued(said)).encodeRequest(maxOutputTokens)
    const text = JSON.stringify(met.backend === "bedrock-invoke" ? invokeBody(body, anthropicBeta) : body)
    const sha256 = met.backend.startsWith("bedrock") ? new Bun.CryptoHasher("sha256").update(text).digest("hex") : ""
    return { blob: new Blob([text]), sha256 }
  }

  free(id: number): void {
    this.#bodies.delete(id)
  }

  /** One translation is kept: that of the model that is asked now. */
  #exchange(id: number, { backend, takes }: MeetTerms): DirectExchange | Failure {
    const { request, exchanges } = this.#body(id)
    if (request === undefined) throw new Error("a body that nobody has understood")
    const key = JSON.stringify([backend, takes])
    const known = exchanges.get(key)
    if (known !== undefined) return known
    const met = exchange(request, backend, takes)
    if (met instanceof Failure) return met
    exchanges.clear()
    exchanges.set(key, met)
    return met
  }

  #body(id: number): Body {
    const body = this.#bodies.get(id)
    if (body === undefined) throw new Error("a body that is not here")
    return body
  }
}

/** By the number of the body. */
export type Question =
  | {
      readonly type: "read"
      readonly id: number
      readonly bytes: Uint8Array<ArrayBuffer>
      readonly endpoint: Endpoint
    }
  | { readonly type: "decode"; readonly id: number; readonly terms: DecodeTerms }
  | { readonly type: "meet"; readonly id: number; readonly terms: MeetTerms }
  | { readonly type: "write"; readonly id: number; readonly terms: WriteTerms }

export type Answer =
  | { readonly type: "read"; readonly model: string }
  | { readonly type: "decode"; readonly request: ModelRequest }
  | { readonly type: "meet"; readonly met: Met }
  | { readonly type: "write"; readonly written: WrittenBody }
  | { readonly type: "refused"; readonly refusal: Refusal }

/** What a desk is asked, wherever it stands. */
export function answer(desk: Desk, question: Question): Answer {
  const { type, id } = question
  switch (type) {
    case "read": {
      const model = desk.read(id, question.bytes, question.endpoint)
      return model instanceof Failure ? refused(model) : { type, model }
    }
    case "decode": {
      const request = desk.decode(id, question.terms)
      return request instanceof Failure ? refused(request) : { type, request }
    }
    case "meet": {
      const met = desk.meet(id, question.terms)
      return met instanceof Failure ? refused(met) : { type, met }
    }
    case "write": {
      const written = desk.write(id, question.terms)
      return written instanceof Failure ? refused(written) : { type, written }
    }
    default:
      return unreachable(type)
  }
}

const refused = ({ code, detail }: Failure): Answer => ({ type: "refused", refusal: { code, detail } })
