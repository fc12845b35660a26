/**
 * Parses a request: its body, its model, and whether that model supports what the request uses (decisions §4.6–10).
 */
import type { MaybePromise } from "../../actors/kernel/actor.ts"
import type { KeyBinding } from "../../actors/key-record.ts"
import { defined } from "../../actors/unreachable.ts"
import type { Model, Offer } from "../catalogue/model.ts"
import type { JsonObject } from "../language/json.ts"
import type { Endpoint, ModelRequest, Target } from "../language/request.ts"
import { decode, type DecodeOptions } from "../bodies/body-processor.ts"
import { Failure, invalid } from "../failure/failure.ts"
import { extentOf, LARGE_BODY_BYTES, MANY_VALUES, parseBody, readModel } from "../wire/body.ts"
import { conversationKey, nameInHeaders } from "../wire/conversation.ts"
import { isTaken } from "../wire/bedrock/invoke.ts"
import { type BackendModel, backendModel, takesMessagesFormat } from "../wire/protocol.ts"
import { type Exchange, exchange } from "../wire/exchange.ts"
import { DROPPED_FIELDS, droppedFieldsHeader } from "../wire/fields.ts"
import type { ClientSide } from "../wire/format.ts"
import { requestedBetas } from "../wire/shared/betas.ts"
import { missingFeature, modelRefused } from "./eligibility.ts"
import type { InputEstimate } from "./input-estimate.ts"
import type { Answer } from "./outbox.ts"
import type { GatewayPorts } from "./ports.ts"

export interface ParsedRequest {
  readonly request: ModelRequest
  readonly offer: Offer
  /** How a backend of a model is asked; a Failure says what its format cannot say. The model has what the request uses. */
  readonly exchange: (model: Model, backend: BackendModel) => MaybePromise<Exchange | Failure>
  /** Whose place among the members of a pool is the same in each turn and in each process; from 0 to 2³² − 1. */
  readonly conversation: number
  /** So large that it is compared with the context window before it is translated (decisions §13.10). */
  readonly large: boolean
  /** The size of the client's body. */
  readonly requestBytes: number
  /** To be called when the call has ended. */
  readonly release: () => void
}

/** Everything that is known of a call before its admission. `request.inputTokens` is the likely number. */
export interface CallPlan extends ParsedRequest {
  readonly inputEstimate: InputEstimate
}

/** Who sends a request, and what it says beside its body. */
export interface Sender {
  readonly accountId: string
  readonly keyId: string
  readonly binding: KeyBinding | undefined
  readonly headers: Headers
  /** Called with the model that the body names. */
  readonly onModel?: (model: string) => void
}

type Ports = Pick<GatewayPorts, "catalogue" | "clock" | "search" | "endUserSecret" | "largeBodies" | "threadTime">

/** The caller has to call `release` of the result when the call has ended. */
export async function parseRequest(
  bytes: Uint8Array<ArrayBuffer>,
  format: ClientSide,
  { headers, accountId, keyId, binding, onModel }: Sender,
  ports: Ports,
): Promise<ParsedRequest | Failure> {
  const { catalogue, clock, search, endUserSecret: secret } = ports
  const requestBytes = bytes.length
  const pendingBody = parseRequestBody(bytes, format.endpoint, ports, accountId)
  const body = pendingBody instanceof Promise ? await pendingBody : pendingBody
  if (body instanceof Failure) return body
  onModel?.(body.model)
  let isParsed = false
  try {
    const offer = catalogue.find(body.model, clock.now())
    if (offer === undefined) return new Failure("model.unknown")
    if (!offer.model.endpoints.has(format.endpoint)) {
      const served = [...offer.model.endpoints].join(", ")
      return invalid(`The model is not served on this endpoint, but on: ${served}.`)
    }
    const refused = modelRefused(binding, body.model, offer)
    if (refused !== undefined) return refused
    const { pass, strip, upstreams } = offer.model
    const header = format.endpoint === "messages" ? headers.get("anthropic-beta") : null
    // Any member of the pool may be asked, so what travels is what all of them take.
    const inEnvelope = upstreams.some((upstream) => upstream.format === "bedrock" && takesMessagesFormat(upstream))
    const betas = inEnvelope ? requestedBetas(header, isTaken) : requestedBetas(header)
    // Of a retired id its own name tells what was written for it, of any other model that of its backend.
    const isRetired = offer.model.id !== body.model
    const writtenFor = isRetired ? body.model : upstreams[0].model
    const pendingRequest = body.decode({
      allowance: { pass, betas: betas.listed },
      call: {
        ...(isRetired && { writtenFor }),
        secret,
        accountId,
        backends: upstreams.map(backendModel),
        strip,
        dropped: betas.others.map((beta) => `anthropic-beta.${beta}`),
        conversationName: nameInHeaders(headers),
      },
    })
    const request = pendingRequest instanceof Promise ? await pendingRequest : pendingRequest
    if (request instanceof Failure) return request
    const missing = missingFeature(offer.model, request, search !== undefined)
    if (missing) return withDroppedFields<never>(missing, request)
    isParsed = true
    return {
      request,
      offer,
      exchange: ({ id, strip, pass, maxOutputTokens: modelLimit }, backend) =>
        body.exchange(request, backend, { strip, pass, modelLimit, ...(id !== body.model && { writtenFor }) }),
      conversation: conversationKey(secret, { accountId, keyId, model: offer.model.id }, defined(request.conversation)),
      large: requestBytes > LARGE_BODY_BYTES,
      requestBytes,
      release: () => body.release(),
    }
  } finally {
    if (!isParsed) body.release()
  }
}

/** A header names the client's fields that were not forwarded, however the call ends. */
export function withDroppedFields<T extends Pick<Answer, "headers">>(
  answer: T | Failure,
  { dropped }: Pick<ModelRequest, "dropped">,
): T | Failure {
  const names = droppedFieldsHeader(dropped)
  if (names === undefined) return answer
  const header = { [DROPPED_FIELDS]: names }
  if (answer instanceof Failure) return answer.withHeaders(header)
  return Object.assign({}, answer, { headers: { ...answer.headers, ...header } })
}

/** A body that names a model. `decode` checks the rest of it, once the model is known. */
export interface ParsedBody {
  readonly model: string
  decode(terms: DecodeOptions): MaybePromise<ModelRequest | Failure>
  exchange(request: ModelRequest, backend: BackendModel, takes: Omit<Target, "model">): MaybePromise<Exchange | Failure>
  release(): void
}

/** What smaller ones cost is not counted, for that is no more than any request. */
const COUNTED_BODY_BYTES = 16_384
/** Smaller ones are always worked on here: handing one of 32 KB to another thread and back costs this one more than the work. */
const SMALL_BODY_BYTES = 65_536
/** A twentieth of the thread for as long as it is remembered (src/bodies/bodies.ts). */
const MUCH_TIME_MS = 700

/** Whether an account has used so much of the thread lately that others would notice. */
export const usesMuchThreadTime = ({ threadTime }: Pick<GatewayPorts, "threadTime">, accountId: string): boolean =>
  threadTime.by(accountId) > MUCH_TIME_MS

/**
 * Here, or where nobody waits for the thread, as the body's size asks for, or the account that has used much of the thread
 * lately: 16 connections with bodies of 250 KB, for which nobody asks for money, took most of it.
 */
export function parseRequestBody(
  bytes: Uint8Array<ArrayBuffer>,
  endpoint: Endpoint,
  ports: Pick<GatewayPorts, "largeBodies" | "threadTime" | "clock">,
  accountId: string,
): MaybePromise<ParsedBody | Failure> {
  const { largeBodies, threadTime, clock } = ports
  const isCounted = bytes.length > COUNTED_BODY_BYTES
  const goesToWorker = bytes.length > SMALL_BODY_BYTES && usesMuchThreadTime(ports, accountId)
  const extent = goesToWorker || bytes.length > LARGE_BODY_BYTES ? undefined : extentOf(bytes)
  if (extent === undefined || extent.values + extent.room > MANY_VALUES)
    return parseInWorker(largeBodies, bytes, accountId, endpoint)
  const begunAt = isCounted ? clock.monotonic() : 0
  const body = parseBody(bytes, extent)
  if (isCounted) threadTime.add(accountId, clock.monotonic() - begunAt)
  if (body instanceof Failure) return body
  const model = readModel(body)
  return model instanceof Failure
    ? model
    : new LocalParsedBody(model, endpoint, body, isCounted ? { ports, accountId } : undefined)
}

async function parseInWorker(
  largeBodies: GatewayPorts["largeBodies"],
  bytes: Uint8Array<ArrayBuffer>,
  accountId: string,
  endpoint: Endpoint,
): Promise<ParsedBody | Failure> {
  const read = await largeBodies.read(bytes, accountId, endpoint)
  if (read instanceof Failure) return read
  return {
    model: read.model,
    decode: (terms) => read.decode(terms),
    exchange: (request, backend, takes) => read.exchange(request, backend, takes),
    release: () => read[Symbol.dispose](),
  }
}

/** Whose time on the thread is counted. */
interface TimedAccount {
  readonly ports: Pick<GatewayPorts, "threadTime" | "clock">
  readonly accountId: string
}

class LocalParsedBody implements ParsedBody {
  readonly model: string
  readonly #endpoint: Endpoint
  readonly #body: JsonObject
  readonly #timed: TimedAccount | undefined

  constructor(model: string, endpoint: Endpoint, body: JsonObject, timed: TimedAccount | undefined) {
    this.model = model
    this.#endpoint = endpoint
    this.#body = body
    this.#timed = timed
  }

  decode(terms: DecodeOptions): ModelRequest | Failure {
    if (this.#timed === undefined) return decode(this.#endpoint, this.#body, terms)
    const { ports, accountId } = this.#timed
    const begunAt = ports.clock.monotonic()
    const decoded = decode(this.#endpoint, this.#body, terms)
    ports.threadTime.add(accountId, ports.clock.monotonic() - begunAt)
    return decoded
  }

  exchange(request: ModelRequest, backend: BackendModel, takes: Omit<Target, "model">): Exchange | Failure {
    return exchange(request, backend, takes)
  }

  release(): void {}
}
