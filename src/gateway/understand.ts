/**
 * What is asked for: the body's shape, its model, and whether that model can do it here (decisions §4.6–10).
 */
import type { Soon } from "../../actors/kernel/actor.ts"
import type { KeyBinding } from "../../actors/key-record.ts"
import { there } from "../../actors/unreachable.ts"
import type { Offer } from "../catalogue/live.ts"
import type { Model } from "../catalogue/model.ts"
import type { JsonObject } from "../language/json.ts"
import type { Endpoint, ModelRequest, Target } from "../language/request.ts"
import { decode, type DecodeTerms } from "../bodies/desk.ts"
import { Failure } from "../failure/failure.ts"
import { extentOf, LARGE_BODY_BYTES, MANY_VALUES, parseBody, readModel } from "../wire/body.ts"
import { conversationKey, nameInHeaders } from "../wire/conversation.ts"
import { isTaken } from "../wire/bedrock/invoke.ts"
import { type BackendModel, type Exchange, exchange, speaksMessages } from "../wire/exchange.ts"
import type { ClientSide } from "../wire/format.ts"
import { askedBetas } from "../wire/shared/betas.ts"
import { modelRefused } from "./binding.ts"
import { lacking } from "./features.ts"
import type { GatewayPorts } from "./ports.ts"

export interface Understood {
  readonly request: ModelRequest
  readonly offer: Offer
  /** How a backend of a model is asked; a Failure says what its format cannot say. The model has what the request uses. */
  readonly exchange: (model: Model, backend: BackendModel) => Soon<Exchange | Failure>
  /** Whose place among the members of a pool is the same in each turn and in each process; from 0 to 2³² − 1. */
  readonly conversation: number
  /** So large that it is judged against the window before it is translated (decisions §13.10). */
  readonly large: boolean
  /** The size of the client's body. */
  readonly requestBytes: number
  /** To be called when the call has ended. */
  readonly release: () => void
}

/** Who sends a request, and what it says beside its body. */
export interface Sender {
  readonly accountId: string
  readonly keyId: string
  readonly binding: KeyBinding | undefined
  readonly headers: Headers
  /** Told of the model that the body names. */
  readonly asked?: (model: string) => void
}

type Ports = Pick<GatewayPorts, "catalogue" | "clock" | "search" | "endUserSecret" | "largeBodies" | "threadTime">

/** What is understood is to be let go of when its call has ended. */
export async function understand(
  bytes: Uint8Array<ArrayBuffer>,
  format: ClientSide,
  { headers, accountId, keyId, binding, asked }: Sender,
  ports: Ports,
): Promise<Understood | Failure> {
  const { catalogue, clock, search, endUserSecret: secret } = ports
  const requestBytes = bytes.length
  const reading = readRequest(bytes, format.endpoint, ports, accountId)
  const read = reading instanceof Promise ? await reading : reading
  if (read instanceof Failure) return read
  asked?.(read.model)
  let isUnderstood = false
  try {
    const offer = catalogue.find(read.model, clock.now())
    if (offer === undefined) return new Failure("model.unknown")
    if (!offer.model.endpoints.has(format.endpoint)) {
      const served = [...offer.model.endpoints].join(", ")
      return new Failure("request.invalid", { message: `The model is not served on this endpoint, but on: ${served}.` })
    }
    const refused = modelRefused(binding, read.model, offer)
    if (refused !== undefined) return refused
    const { pass, upstreams } = offer.model
    const header = format.endpoint === "messages" ? headers.get("anthropic-beta") : null
    // Any member of the pool may be asked, so what travels is what all of them take.
    const inEnvelope = upstreams.some((upstream) => upstream.format === "bedrock" && speaksMessages(upstream))
    const betas = inEnvelope ? askedBetas(header, isTaken) : askedBetas(header)
    const decoding = read.decode({
      allowance: { pass, betas: betas.listed },
      call: {
        secret,
        accountId,
        backends: upstreams.map(({ format, model }) => ({ format, model })),
        dropped: betas.others.map((beta) => `anthropic-beta.${beta}`),
        conversationName: nameInHeaders(headers),
      },
    })
    const request = decoding instanceof Promise ? await decoding : decoding
    if (request instanceof Failure) return request
    const missing = lacking(offer.model, request, search !== undefined)
    if (missing) return missing
    isUnderstood = true
    return {
      request,
      offer,
      exchange: ({ strip, pass }, backend) => read.exchange(request, backend, { strip, pass }),
      conversation: conversationKey(secret, { accountId, keyId, model: offer.model.id }, there(request.conversation)),
      large: requestBytes > LARGE_BODY_BYTES,
      requestBytes,
      release: () => read.release(),
    }
  } finally {
    if (!isUnderstood) read.release()
  }
}

/** A body that names a model; its shape is judged after the model. */
export interface ReadRequest {
  readonly model: string
  decode(terms: DecodeTerms): Soon<ModelRequest | Failure>
  exchange(request: ModelRequest, backend: BackendModel, takes: Omit<Target, "model">): Soon<Exchange | Failure>
  release(): void
}

/** What smaller ones cost is not counted, for that is no more than any request. */
const COUNTED_BODY_BYTES = 16_384
/** Smaller ones are always worked on here: handing one of 32 KB to another thread and back costs this one more than the work. */
const SMALL_BODY_BYTES = 65_536
/** A twentieth of the thread for as long as it is remembered (src/bodies/recent-use.ts). */
const MUCH_TIME_MS = 700

/** Whether an account has used so much of the thread lately that others would notice. */
export const usesMuchTime = ({ threadTime }: Pick<GatewayPorts, "threadTime">, accountId: string): boolean =>
  threadTime.by(accountId) > MUCH_TIME_MS

/**
 * Here, or where nobody waits for the thread, as the body's size asks for, or the account that has used much of the thread
 * lately: 16 connections with bodies of 250 KB, for which nobody asks for money, took most of it.
 */
export function readRequest(
  bytes: Uint8Array<ArrayBuffer>,
  endpoint: Endpoint,
  ports: Pick<GatewayPorts, "largeBodies" | "threadTime" | "clock">,
  accountId: string,
): Soon<ReadRequest | Failure> {
  const { largeBodies, threadTime, clock } = ports
  const isCounted = bytes.length > COUNTED_BODY_BYTES
  const goesAway = bytes.length > SMALL_BODY_BYTES && usesMuchTime(ports, accountId)
  const extent = goesAway || bytes.length > LARGE_BODY_BYTES ? undefined : extentOf(bytes)
  if (extent === undefined || extent.values > MANY_VALUES) return readElsewhere(largeBodies, bytes, accountId, endpoint)
  const begunAt = isCounted ? clock.monotonic() : 0
  const body = parseBody(bytes, extent)
  if (isCounted) threadTime.add(accountId, clock.monotonic() - begunAt)
  if (body instanceof Failure) return body
  const model = readModel(body)
  return model instanceof Failure
    ? model
    : new ReadHere(model, endpoint, body, isCounted ? { ports, accountId } : undefined)
}

async function readElsewhere(
  largeBodies: GatewayPorts["largeBodies"],
  bytes: Uint8Array<ArrayBuffer>,
  accountId: string,
  endpoint: Endpoint,
): Promise<ReadRequest | Failure> {
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
interface Timed {
  readonly ports: Pick<GatewayPorts, "threadTime" | "clock">
  readonly accountId: string
}

class ReadHere implements ReadRequest {
  readonly model: string
  readonly #endpoint: Endpoint
  readonly #body: JsonObject
  readonly #timed: Timed | undefined

  constructor(model: string, endpoint: Endpoint, body: JsonObject, timed: Timed | undefined) {
    this.model = model
    this.#endpoint = endpoint
    this.#body = body
    this.#timed = timed
  }

  decode(terms: DecodeTerms): ModelRequest | Failure {
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
