/**
 * How a client's format meets a backend's. The same on both sides takes the short way, with the bytes as they are;
 * different ones are translated through the neutral language (src/chat). The gateway's story knows only this.
 */
import type { JsonObject } from "../chat/json.ts"
import type { Prompt } from "../chat/prompt.ts"
import type { ChatRequest, Endpoint, Forwarding } from "../chat/request.ts"
import { Failure } from "../failure/failure.ts"
import { chatCodec } from "./chat/codec.ts"
import { chatFormat } from "./chat/format.ts"
import type { AnswerView, WireCodec } from "./codec.ts"
import type { Reply, StreamReader, StreamStep, WireFormat } from "./format.ts"
import { messagesCodec } from "./messages/codec.ts"
import { messagesFormat } from "./messages/format.ts"
import { responsesCodec } from "./responses/codec.ts"
import { responsesFormat } from "./responses/format.ts"
import type { SseEvent } from "./sse.ts"

export interface Exchange {
  /** What the backend speaks. */
  readonly backend: Endpoint
  /** Where it is called, with its `/v1`. */
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

/** How one request meets a backend's format, or what of it cannot be said there. */
export function exchange(request: ChatRequest, backend: Endpoint): Exchange | Failure {
  const format = formats[backend]
  if (request.endpoint === backend) return native(request, format)
  const client = codecs[request.endpoint]
  const prompt = client.decodePrompt(request)
  return prompt instanceof Failure ? prompt : translated(request, prompt, client, codecs[backend], format)
}

const native = (request: ChatRequest, format: WireFormat): Exchange => ({
  backend: format.endpoint,
  path: format.path,
  leastAnswerTokens: 1,
  encodeRequest: (forwarding) => format.encodeRequest(request, forwarding),
  readReply: (body, view) => format.readReply(body, view),
  streamReader: (view) => format.streamReader(view),
})

/**
 * The backend format's own readers come first: they know what was used, what failed and where the end is. What they let
 * through is said again in the client's format.
 */
const translated = (
  request: ChatRequest,
  prompt: Prompt,
  client: WireCodec,
  backend: WireCodec,
  format: WireFormat,
): Exchange => ({
  backend: format.endpoint,
  path: format.path,
  leastAnswerTokens: backend.leastAnswerTokens ?? 1,
  encodeRequest: (forwarding) => backend.encodePrompt(prompt, request, forwarding),
  readReply(body, view) {
    const reply = format.readReply(body, view)
    if (reply instanceof Failure) return reply
    const answer = backend.decodeReply(reply, prompt)
    return answer instanceof Failure ? answer : { body: client.encodeReply(answer, view), tokens: reply.tokens }
  },
  streamReader(view) {
    const reader = format.streamReader({ ...view, includeUsage: true })
    const decoder = backend.eventDecoder(prompt)
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
