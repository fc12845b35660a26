/**
 * One request between a client's format and a backend's. Equal formats are passed through with the bytes as they are. Different
 * formats are translated through the neutral language (src/language). The gateway knows only this interface.
 */
import type { Adaptation, Endpoint, ModelRequest, Target } from "../language/request.ts"
import type { JsonObject } from "../language/json.ts"
import type { Prompt } from "../language/prompt.ts"
import { Failure } from "../failure/failure.ts"
import { GatheredStream, RelayedStream, shapesFor, TranslatedStream } from "./backend-stream.ts"
import type { AnswerView, ClientSide, EncodedPrompt, Reply, StreamReader } from "./format.ts"
import { withEfforts } from "./body.ts"
import { adaptMessages } from "./chat/messages-in.ts"
import { sayingRefusal, withRefusal, withResults } from "./conversation.ts"
import { continuedBody } from "./messages/server-tools.ts"
import {
  type BackendModel,
  type BackendProtocol,
  formats,
  isClientFormat,
  protocolOf,
  type ProtocolBinding,
} from "./protocol.ts"

export interface Exchange {
  readonly backend: BackendProtocol
  /** The backend's path, including its `/v1` where it has one. */
  readonly path: string
  /** The smallest answer limit that the backend accepts, where the client cannot know it. */
  readonly minAnswerTokens: number
  /**
   * The body to forward, with this answer limit: an object, or encoded bytes where it is large. `anthropicBeta` is the client's
   * header, which some bodies carry.
   */
  encodeRequest(maxOutputTokens: number, anthropicBeta: string | null): JsonObject | Promise<EncodedBody | Failure>
  /** The same call continued after the assistant's turn. Only for a backend of the client's own format. */
  continued(said: JsonObject): Exchange
  /** The same call as a stream, whatever the client asked for. The answer is gathered. */
  asStream(): Exchange
  readReply(body: JsonObject, view: AnswerView): Reply | Failure
  streamReader(view: AnswerView): StreamReader
  /** Assembles a stream into a body for `readReply`, of at most `mostLength` UTF-16 units. */
  gather(mostLength: number): GatheredStream
}

/** A body that another thread has encoded. */
export interface EncodedBody {
  readonly blob: Blob
  /** SHA-256 of the bytes, in hexadecimal. */
  readonly sha256: string
}

/** An exchange that has the whole request. */
export interface DirectExchange extends Exchange {
  /** The translated prompt. Undefined where the backend has the client's format. */
  readonly prompt: Prompt | undefined
  encodeRequest(maxOutputTokens: number): JsonObject
  continued(said: JsonObject): DirectExchange
  asStream(): DirectExchange
}

/**
 * The exchange of one request with a model's backend, or a refusal of what cannot be expressed there. A request in another format is
 * translated here, once.
 */
export function exchange(
  request: ModelRequest,
  backend: BackendModel,
  takes: Omit<Target, "model"> = { strip: [] },
): DirectExchange | Failure {
  const protocol = protocolOf(backend)
  const { client } = formats[request.endpoint]
  const target = { ...backend, ...takes }
  if (isClientFormat(protocol, client)) {
    const refusal = protocol.refuse?.(request.body)
    return (
      refusal ??
      new SameFormatExchange(protocol, client, target, request, { stream: request.stream, assistantTurn: undefined })
    )
  }
  const prompt = client.decodePrompt(request)
  if (prompt instanceof Failure) return prompt
  const whole = { ...prompt, turns: withResults(prompt.turns) }
  const encode = protocol.format.backend.encodePrompt(whole, request, target)
  if (encode instanceof Failure) return encode
  const refusal = protocol.refuse?.(encode({ maxOutputTokens: request.maxOutputTokens ?? 1, stream: request.stream }))
  return (
    refusal ??
    new TranslatedExchange(protocol, client, prompt, (terms) => adapted(encode(terms), backend), request.stream)
  )
}

/** As this backend wants it, and with what the operator sets of it. */
function adapted(body: JsonObject, { set, efforts, needs }: Adaptation): JsonObject {
  const fitting = efforts === undefined ? body : withEfforts(body, efforts)
  if (set === undefined && needs === undefined) return fitting
  return { ...fitting, ...(needs && { messages: adaptMessages(body["messages"], needs) }), ...set }
}

/** Whether a backend gets the request as it is in the client's own format, and can refuse nothing of it: there is nothing to translate. */
export function isPassedThrough(endpoint: Endpoint, backend: BackendModel): boolean {
  const protocol = protocolOf(backend)
  return isClientFormat(protocol, formats[endpoint].client) && protocol.refuse === undefined
}

/** The smallest answer limit that all of these backends accept of a request in this format. */
export function minAnswerTokens(endpoint: Endpoint, backends: readonly BackendModel[]): number {
  const least = backends.map((backend) => {
    const protocol = protocolOf(backend)
    return isClientFormat(protocol, formats[endpoint].client) ? 1 : (protocol.format.backend.minAnswerTokens ?? 1)
  })
  return Math.max(1, ...least)
}

/**
 * The main thread's half of an exchange whose request is processed on another thread. `request` and `prompt` are pruned; they are
 * enough to read responses.
 */
export function remoteExchange(
  request: ModelRequest,
  backend: BackendModel,
  prompt: Prompt | undefined,
  encode: (terms: EncodingOptions) => Promise<EncodedBody | Failure>,
): Exchange {
  const protocol = protocolOf(backend)
  const { client } = formats[request.endpoint]
  if (prompt === undefined && !isClientFormat(protocol, client))
    throw new Error("a backend of another format needs a prompt")
  return new RemoteExchange(protocol, client, prompt, encode, { stream: request.stream, assistantTurn: undefined })
}

/** Parameters of encoding a body on another thread. */
export interface EncodingOptions {
  readonly maxOutputTokens: number
  readonly anthropicBeta: string | null
  readonly stream: boolean
  /** The assistant's turn that the call continues after. */
  readonly assistantTurn: JsonObject | undefined
}

/**
 * A backend's address and the reading of its responses: the part of an exchange that does not need the whole request. If there is a
 * prompt, the request was translated, and the response is translated back. The backend's side reads first, because it knows the
 * usage, the failures and the end. Its events are then written in the client's format.
 */
abstract class ExchangeReader {
  readonly backend: BackendProtocol
  readonly path: string
  readonly minAnswerTokens: number
  readonly prompt: Prompt | undefined
  protected readonly protocol: ProtocolBinding
  protected readonly client: ClientSide

  constructor(protocol: ProtocolBinding, client: ClientSide, prompt: Prompt | undefined, stream: boolean) {
    this.backend = protocol.protocol
    this.path = protocol.path(stream)
    this.minAnswerTokens = prompt === undefined ? 1 : (protocol.format.backend.minAnswerTokens ?? 1)
    this.prompt = prompt
    this.protocol = protocol
    this.client = client
  }

  readReply(body: JsonObject, view: AnswerView): Reply | Failure {
    const { backend } = this.protocol.format
    if (this.prompt === undefined) return backend.readReply(body, view)
    // The client's format has its own way to say that nothing was counted, so the estimate does not go through the backend's.
    const { model, includeUsage } = view
    const reply = backend.readReply(body, { model, includeUsage })
    if (reply instanceof Failure) return reply
    const answer = backend.decodeReply(reply, this.prompt)
    if (answer instanceof Failure) return answer
    return { ...reply, body: this.client.encodeReply(this.#isTold ? answer : withRefusal(answer), view) }
  }

  streamReader(view: AnswerView): StreamReader {
    const { backend } = this.protocol.format
    if (this.prompt === undefined) return new RelayedStream(backend.stream(view), shapesFor(this.client.endpoint, view))
    const stream = backend.stream({ ...view, includeUsage: true }, this.prompt)
    const encoder = this.client.eventEncoder(view)
    return new TranslatedStream(stream, this.#isTold ? encoder : sayingRefusal(encoder))
  }

  /** Whether a client understands a refusal without words. */
  get #isTold(): boolean {
    return this.client.refusesByReason === true
  }

  gather(mostLength: number): GatheredStream {
    const { backend } = this.protocol.format
    return new GatheredStream(backend.stream({ model: "", includeUsage: true }), backend.gatherer(), mostLength)
  }
}

/** A variant of the same call: as a stream or not, and after which assistant turn. */
type RequestVariant = Pick<EncodingOptions, "stream" | "assistantTurn">

/** The backend has the client's format. */
class SameFormatExchange extends ExchangeReader implements DirectExchange {
  readonly #target: Target
  readonly #request: ModelRequest
  readonly #variant: RequestVariant

  constructor(
    protocol: ProtocolBinding,
    client: ClientSide,
    target: Target,
    request: ModelRequest,
    asked: RequestVariant,
  ) {
    super(protocol, client, undefined, asked.stream)
    this.#target = target
    this.#request = request
    this.#variant = asked
  }

  encodeRequest(maxOutputTokens: number): JsonObject {
    const { stream, assistantTurn } = this.#variant
    const request =
      assistantTurn === undefined
        ? this.#request
        : { ...this.#request, body: continuedBody(this.#request.body, assistantTurn) }
    return adapted(this.client.encodeRequest(request, { ...this.#target, maxOutputTokens, stream }), this.#target)
  }
  continued(assistantTurn: JsonObject): DirectExchange {
    return this.#with({ ...this.#variant, assistantTurn })
  }
  asStream(): DirectExchange {
    return this.#with({ ...this.#variant, stream: true })
  }

  #with(asked: RequestVariant): SameFormatExchange {
    return new SameFormatExchange(this.protocol, this.client, this.#target, this.#request, asked)
  }
}

class TranslatedExchange extends ExchangeReader implements DirectExchange {
  override readonly prompt: Prompt
  readonly #encode: EncodedPrompt
  readonly #stream: boolean

  constructor(protocol: ProtocolBinding, client: ClientSide, prompt: Prompt, encode: EncodedPrompt, stream: boolean) {
    super(protocol, client, prompt, stream)
    this.prompt = prompt
    this.#encode = encode
    this.#stream = stream
  }

  encodeRequest(maxOutputTokens: number): JsonObject {
    return this.#encode({ maxOutputTokens, stream: this.#stream })
  }
  continued(): never {
    throw cannotContinue()
  }
  asStream(): DirectExchange {
    return new TranslatedExchange(this.protocol, this.client, this.prompt, this.#encode, true)
  }
}

/** Another thread encodes the body. */
class RemoteExchange extends ExchangeReader implements Exchange {
  readonly #encode: (terms: EncodingOptions) => Promise<EncodedBody | Failure>
  readonly #variant: RequestVariant

  constructor(
    protocol: ProtocolBinding,
    client: ClientSide,
    prompt: Prompt | undefined,
    encode: (terms: EncodingOptions) => Promise<EncodedBody | Failure>,
    asked: RequestVariant,
  ) {
    super(protocol, client, prompt, asked.stream)
    this.#encode = encode
    this.#variant = asked
  }

  encodeRequest(maxOutputTokens: number, anthropicBeta: string | null): Promise<EncodedBody | Failure> {
    return this.#encode({ maxOutputTokens, anthropicBeta, ...this.#variant })
  }
  continued(assistantTurn: JsonObject): Exchange {
    if (this.prompt !== undefined) throw cannotContinue()
    // It goes to another thread, so numbers whose text was kept (json.ts) are numbers again. It calls nothing but searches.
    const cloned = JSON.parse(JSON.stringify(assistantTurn)) as JsonObject
    const variant = { ...this.#variant, assistantTurn: cloned }
    return new RemoteExchange(this.protocol, this.client, undefined, this.#encode, variant)
  }
  asStream(): Exchange {
    return new RemoteExchange(this.protocol, this.client, this.prompt, this.#encode, { ...this.#variant, stream: true })
  }
}

const cannotContinue = () => new Error("only a call in the client's own format can be continued")
