/**
 * How a client's format meets a backend's. The same on both sides takes the short way, with the bytes as they are;
 * different ones are translated through the neutral language (src/language). The gateway knows only this.
 */
import type { BackendFormat, Endpoint, ModelRequest, Target } from "../language/request.ts"
import type { JsonObject } from "../language/json.ts"
import type { Prompt } from "../language/prompt.ts"
import { Failure } from "../failure/failure.ts"
import { GatheredStream, RelayedStream, shapesFor, TranslatedStream } from "./backend-stream.ts"
import { converseFormat } from "./bedrock/format.ts"
import { refuseInvoke } from "./bedrock/invoke.ts"
import { bedrockFamily, type BedrockOperation, bedrockPath } from "./bedrock/model.ts"
import { chatFormat } from "./chat/format.ts"
import { completionsFormat } from "./completions.ts"
import { embeddingsFormat } from "./embeddings.ts"
import type { AnswerView, ClientFormat, EncodedPrompt, ClientSide, Format, Reply, StreamReader } from "./format.ts"
import { messagesFormat } from "./messages/format.ts"
import { continuedBody } from "./messages/server-tools.ts"
import { responsesFormat } from "./responses/format.ts"

/** How a backend is called: what travels with the body, and what it is wrapped in. */
export type Manner = Endpoint | "bedrock-invoke" | "bedrock-converse"

/** Where a model is: what its backend speaks, and what it is called there. */
export interface BackendModel {
  readonly format: BackendFormat
  readonly model: string
}

export interface Exchange {
  readonly backend: Manner
  /** Where it is called: with its `/v1`, where it has one. */
  readonly path: string
  /** The smallest answer limit that the backend takes, where the client cannot know of it. */
  readonly leastAnswerTokens: number
  /**
   * The body to forward, with this answer limit: to be written, or written already where it is large. `anthropicBeta` is
   * the client's header, which some bodies carry.
   */
  encodeRequest(maxOutputTokens: number, anthropicBeta: string | null): JsonObject | Promise<WrittenBody | Failure>
  /** The same call gone on with, after what the assistant said: for a backend of the client's own format. */
  continued(said: JsonObject): Exchange
  /** The same call asked for as a stream, whatever the client asked for: its answer is to be gathered. */
  asStream(): Exchange
  readReply(body: JsonObject, view: AnswerView): Reply | Failure
  streamReader(view: AnswerView): StreamReader
  /** Puts a stream together into a body for `readReply`, of at most so many UTF-16 units. */
  gather(mostLength: number): GatheredStream
}

/** A body in bytes, that somebody else wrote. */
export interface WrittenBody {
  readonly blob: Blob
  /** Of its bytes, in hexadecimal. */
  readonly sha256: string
}

/** An exchange whose request is at hand. */
export interface DirectExchange extends Exchange {
  /** What was translated; undefined where the format is the client's own. */
  readonly prompt: Prompt | undefined
  encodeRequest(maxOutputTokens: number): JsonObject
  continued(said: JsonObject): DirectExchange
  asStream(): DirectExchange
}

/** Those that clients speak. */
export const formats: Readonly<Record<Endpoint, ClientFormat>> = {
  chat: chatFormat,
  messages: messagesFormat,
  responses: responsesFormat,
  completions: completionsFormat,
  embeddings: embeddingsFormat,
}

/** How a model's backend is called, and what it speaks. */
interface Protocol {
  readonly manner: Manner
  readonly path: (stream: boolean) => string
  readonly format: Format
  /** What a client's body in this format, or one written in it, asks for that this backend cannot do all the same. */
  readonly refuse?: (body: JsonObject) => Failure | undefined
}

/**
 * How one request meets a model's backend, or what of it cannot be said there. Another format is translated here, once:
 * what comes of it is what is forwarded.
 */
export function exchange(
  request: ModelRequest,
  backend: BackendModel,
  takes: Omit<Target, "model"> = { strip: [] },
): DirectExchange | Failure {
  const protocol = protocolOf(backend)
  const { client } = formats[request.endpoint]
  const target = { model: backend.model, ...takes }
  if (speaks(protocol, client)) {
    const refusal = protocol.refuse?.(request.body)
    return refusal ?? new SameFormat(protocol, client, target, request, { stream: request.stream, said: undefined })
  }
  const prompt = client.decodePrompt(request)
  if (prompt instanceof Failure) return prompt
  const encode = protocol.format.backend.encodePrompt(prompt, request, target)
  if (encode instanceof Failure) return encode
  const refusal = protocol.refuse?.(encode({ maxOutputTokens: request.maxOutputTokens ?? 1, stream: request.stream }))
  return refusal ?? new Translated(protocol, client, prompt, encode, request.stream)
}

/** The smallest answer limit that each of these backends takes of a request in this format. */
export function leastAnswerTokens(endpoint: Endpoint, backends: readonly BackendModel[]): number {
  const least = backends.map((backend) => {
    const protocol = protocolOf(backend)
    return speaks(protocol, formats[endpoint].client) ? 1 : (protocol.format.backend.leastAnswerTokens ?? 1)
  })
  return Math.max(1, ...least)
}

/**
 * The main thread's half of an exchange whose request is worked on elsewhere: `request` and `prompt` are what is left of
 * them there, enough to read answers with.
 */
export function distantExchange(
  request: ModelRequest,
  backend: BackendModel,
  prompt: Prompt | undefined,
  encode: (terms: EncodingTerms) => Promise<WrittenBody | Failure>,
): Exchange {
  const protocol = protocolOf(backend)
  const { client } = formats[request.endpoint]
  if (prompt === undefined && !speaks(protocol, client)) throw new Error("a backend of another format needs a prompt")
  return new Distant(protocol, client, prompt, encode, { stream: request.stream, said: undefined })
}

/** What a body that is worked on elsewhere is written with. */
export interface EncodingTerms {
  readonly maxOutputTokens: number
  readonly anthropicBeta: string | null
  readonly stream: boolean
  /** What the assistant said since. */
  readonly said: JsonObject | undefined
}

/** Whether a model's backend takes the vendor family's own format, in whatever envelope. */
export const speaksMessages = ({ format, model }: BackendModel): boolean =>
  format === "messages" || (format === "bedrock" && bedrockFamily(model) === "claude")

/** The clients' format that a backend speaks, in whatever envelope; undefined for one that no client speaks. */
export function backendSpeaks(backend: BackendModel): Endpoint | undefined {
  if (speaksMessages(backend)) return "messages"
  return backend.format === "bedrock" ? undefined : backend.format
}

function protocolOf(backend: BackendModel): Protocol {
  if (backend.format !== "bedrock") return plain[backend.format]
  const path = (operation: BedrockOperation) => (stream: boolean) => bedrockPath(backend.model, operation, stream)
  return speaksMessages(backend)
    ? { manner: "bedrock-invoke", path: path("invoke"), format: messagesFormat, refuse: refuseInvoke }
    : { manner: "bedrock-converse", path: path("converse"), format: converseFormat }
}

const plainProtocol = (format: ClientFormat): Protocol => ({
  manner: format.client.endpoint,
  path: () => format.client.path,
  format,
})

const plain: Readonly<Record<Endpoint, Protocol>> = {
  chat: plainProtocol(chatFormat),
  messages: plainProtocol(messagesFormat),
  responses: plainProtocol(responsesFormat),
  completions: plainProtocol(completionsFormat),
  embeddings: plainProtocol(embeddingsFormat),
}

const speaks = ({ format }: Protocol, { endpoint }: ClientSide): boolean => format.client?.endpoint === endpoint

/**
 * Where a backend is, and how its answers are read: all of an exchange that does not need the whole request. With a prompt,
 * which is what was translated, the answer is too. The backend's side comes first all the same: it knows what was used, what
 * failed and where the end is. What it lets through is said again in the client's format.
 */
abstract class Reading {
  readonly backend: Manner
  readonly path: string
  readonly leastAnswerTokens: number
  readonly prompt: Prompt | undefined
  protected readonly protocol: Protocol
  protected readonly client: ClientSide

  constructor(protocol: Protocol, client: ClientSide, prompt: Prompt | undefined, stream: boolean) {
    this.backend = protocol.manner
    this.path = protocol.path(stream)
    this.leastAnswerTokens = prompt === undefined ? 1 : (protocol.format.backend.leastAnswerTokens ?? 1)
    this.prompt = prompt
    this.protocol = protocol
    this.client = client
  }

  readReply(body: JsonObject, view: AnswerView): Reply | Failure {
    const { backend } = this.protocol.format
    const reply = backend.readReply(body, view)
    if (reply instanceof Failure || this.prompt === undefined) return reply
    const answer = backend.decodeReply(reply, this.prompt)
    return answer instanceof Failure ? answer : { ...reply, body: this.client.encodeReply(answer, view) }
  }

  streamReader(view: AnswerView): StreamReader {
    const { backend } = this.protocol.format
    if (this.prompt === undefined) return new RelayedStream(backend.stream(view), shapesFor(this.client.endpoint, view))
    const stream = backend.stream({ ...view, includeUsage: true }, this.prompt)
    return new TranslatedStream(stream, this.client.eventEncoder(view))
  }

  gather(mostLength: number): GatheredStream {
    const { backend } = this.protocol.format
    return new GatheredStream(backend.stream({ model: "", includeUsage: true }), backend.gatherer(), mostLength)
  }
}

/** How the same call is asked: as a stream or not, and after what the assistant said since. */
type Asked = Pick<EncodingTerms, "stream" | "said">

/** The backend speaks what the client does. */
class SameFormat extends Reading implements DirectExchange {
  readonly #target: Target
  readonly #request: ModelRequest
  readonly #asked: Asked

  constructor(protocol: Protocol, client: ClientSide, target: Target, request: ModelRequest, asked: Asked) {
    super(protocol, client, undefined, asked.stream)
    this.#target = target
    this.#request = request
    this.#asked = asked
  }

  encodeRequest(maxOutputTokens: number): JsonObject {
    const { stream, said } = this.#asked
    const request =
      said === undefined ? this.#request : { ...this.#request, body: continuedBody(this.#request.body, said) }
    return this.client.encodeRequest(request, { ...this.#target, maxOutputTokens, stream })
  }
  continued(said: JsonObject): DirectExchange {
    return this.#with({ ...this.#asked, said })
  }
  asStream(): DirectExchange {
    return this.#with({ ...this.#asked, stream: true })
  }

  #with(asked: Asked): SameFormat {
    return new SameFormat(this.protocol, this.client, this.#target, this.#request, asked)
  }
}

class Translated extends Reading implements DirectExchange {
  override readonly prompt: Prompt
  readonly #encode: EncodedPrompt
  readonly #stream: boolean

  constructor(protocol: Protocol, client: ClientSide, prompt: Prompt, encode: EncodedPrompt, stream: boolean) {
    super(protocol, client, prompt, stream)
    this.prompt = prompt
    this.#encode = encode
    this.#stream = stream
  }

  encodeRequest(maxOutputTokens: number): JsonObject {
    return this.#encode({ maxOutputTokens, stream: this.#stream })
  }
  continued(): never {
    throw notContinued()
  }
  asStream(): DirectExchange {
    return new Translated(this.protocol, this.client, this.prompt, this.#encode, true)
  }
}

/** The body is written by somebody else. */
class Distant extends Reading implements Exchange {
  readonly #encode: (terms: EncodingTerms) => Promise<WrittenBody | Failure>
  readonly #asked: Asked

  constructor(
    protocol: Protocol,
    client: ClientSide,
    prompt: Prompt | undefined,
    encode: (terms: EncodingTerms) => Promise<WrittenBody | Failure>,
    asked: Asked,
  ) {
    super(protocol, client, prompt, asked.stream)
    this.#encode = encode
    this.#asked = asked
  }

  encodeRequest(maxOutputTokens: number, anthropicBeta: string | null): Promise<WrittenBody | Failure> {
    return this.#encode({ maxOutputTokens, anthropicBeta, ...this.#asked })
  }
  continued(said: JsonObject): Exchange {
    if (this.prompt !== undefined) throw notContinued()
    return new Distant(this.protocol, this.client, undefined, this.#encode, { ...this.#asked, said })
  }
  asStream(): Exchange {
    return new Distant(this.protocol, this.client, this.prompt, this.#encode, { ...this.#asked, stream: true })
  }
}

const notContinued = () => new Error("only a call in its own format is gone on with")
