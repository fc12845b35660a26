/**
 * How a client's format meets a backend's. The same on both sides takes the short way, with the bytes as they are;
 * different ones are translated through the neutral language (src/chat). The gateway's story knows only this.
 */
import type { BackendFormat } from "../chat/backend-format.ts"
import type { JsonObject } from "../chat/json.ts"
import type { Prompt } from "../chat/prompt.ts"
import type { ChatRequest, Endpoint, Forwarding } from "../chat/request.ts"
import { Failure } from "../failure/failure.ts"
import { converseCodec, converseReader } from "./bedrock/codec.ts"
import { refuseInvoke } from "./bedrock/invoke.ts"
import { bedrockFamily, bedrockPath } from "./bedrock/model.ts"
import { chatCodec } from "./chat/codec.ts"
import { chatFormat } from "./chat/format.ts"
import type { AnswerView, BackendCodec, WireCodec } from "./codec.ts"
import type { BackendReader, Reply, StreamReader, StreamStep, WireFormat } from "./format.ts"
import { messagesCodec } from "./messages/codec.ts"
import { messagesFormat } from "./messages/format.ts"
import { responsesCodec } from "./responses/codec.ts"
import { responsesFormat } from "./responses/format.ts"
import type { SseEvent } from "./sse.ts"

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
  /** The body to forward, or why it cannot be said in the backend's format. */
  encodeRequest(forwarding: Forwarding): JsonObject | Failure
  readReply(body: JsonObject, view: AnswerView): Reply | Failure
  streamReader(view: AnswerView): StreamReader
}

const formats: Readonly<Record<Endpoint, WireFormat>> = {
  chat: chatFormat,
  messages: messagesFormat,
  responses: responsesFormat,
}
const codecs: Readonly<Record<Endpoint, WireCodec>> = {
  chat: chatCodec,
  messages: messagesCodec,
  responses: responsesCodec,
}

/** The backend's side of an exchange. */
interface Side {
  readonly manner: Manner
  readonly path: string
  /** The format that it speaks, where clients speak it too. */
  readonly native: WireFormat | undefined
  readonly reader: BackendReader
  readonly codec: BackendCodec
  /** What a body in this format asks for that this backend cannot do all the same. */
  readonly refuse?: (body: JsonObject) => Failure | undefined
}

/** How one request meets a model's backend, or what of it cannot be said there. */
export function exchange(request: ChatRequest, backend: BackendModel): Exchange | Failure {
  const side = sideOf(backend, request.stream)
  if (side.native?.endpoint === request.endpoint) return native(request, side, side.native)
  const client = codecs[request.endpoint]
  const prompt = client.decodePrompt(request)
  return prompt instanceof Failure ? prompt : translated(request, prompt, client, side)
}

/** Whether a model's backend takes the vendor family's own format, in whatever envelope. */
export const speaksMessages = ({ format, model }: BackendModel): boolean =>
  format === "messages" || (format === "bedrock" && bedrockFamily(model) === "claude")

function sideOf(backend: BackendModel, stream: boolean): Side {
  if (backend.format !== "bedrock") return sideOfFormat(backend.format)
  if (!speaksMessages(backend))
    return {
      manner: "bedrock-converse",
      path: bedrockPath(backend.model, "converse", stream),
      native: undefined,
      reader: converseReader,
      codec: converseCodec,
    }
  return {
    ...sideOfFormat("messages"),
    manner: "bedrock-invoke",
    path: bedrockPath(backend.model, "invoke", stream),
    refuse: refuseInvoke,
  }
}

const sideOfFormat = (endpoint: Endpoint): Side => {
  const format = formats[endpoint]
  return { manner: endpoint, path: format.path, native: format, reader: format, codec: codecs[endpoint] }
}

const unlessRefused = (body: JsonObject | Failure, { refuse }: Side): JsonObject | Failure =>
  body instanceof Failure ? body : (refuse?.(body) ?? body)

const native = (request: ChatRequest, side: Side, format: WireFormat): Exchange => ({
  backend: side.manner,
  path: side.path,
  leastAnswerTokens: 1,
  encodeRequest: (forwarding) => unlessRefused(format.encodeRequest(request, forwarding), side),
  readReply: (body, view) => format.readReply(body, view),
  streamReader: (view) => format.streamReader(view),
})

/**
 * The backend format's own readers come first: they know what was used, what failed and where the end is. What they let
 * through is said again in the client's format.
 */
const translated = (request: ChatRequest, prompt: Prompt, client: WireCodec, side: Side): Exchange => ({
  backend: side.manner,
  path: side.path,
  leastAnswerTokens: side.codec.leastAnswerTokens ?? 1,
  encodeRequest: (forwarding) => unlessRefused(side.codec.encodePrompt(prompt, request, forwarding), side),
  readReply(body, view) {
    const reply = side.reader.readReply(body, view)
    if (reply instanceof Failure) return reply
    const answer = side.codec.decodeReply(reply, prompt)
    return answer instanceof Failure ? answer : { body: client.encodeReply(answer, view), tokens: reply.tokens }
  },
  streamReader(view) {
    const reader = side.reader.streamReader({ ...view, includeUsage: true })
    const decoder = side.codec.eventDecoder(prompt)
    const encoder = client.eventEncoder(view)
    return {
      read(event: SseEvent) {
        const step = reader.read(event)
        if (step.kind === "failure") return step
        return joined(decoder.decode(event).flatMap((said) => encoder.encode(said)))
      },
      tokens: () => reader.tokens(),
      position: () => encoder.position?.(),
    }
  },
})

/** What one event of the backend came to, as one step: a terminal event takes what stands before it along. */
function joined(steps: readonly StreamStep[]): StreamStep {
  let bytes = ""
  let kind: Exclude<StreamStep["kind"], "failure"> = "preamble"
  for (const step of steps) {
    if (step.kind === "failure") return step
    bytes += step.bytes
    if (rank[step.kind] > rank[kind]) kind = step.kind
  }
  return { kind, bytes }
}

const rank = { preamble: 0, trailer: 1, content: 2, terminal: 3 } as const
