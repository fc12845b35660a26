/**
 * Responses that are large but cheap: embedding vectors, and prompts that are echoed with log probabilities. Their memory is
 * reserved beside the account's request bodies (read-body.ts), from before the call is forwarded until the client has the whole
 * response, so that nobody fills the memory with responses that they do not read. Sizes in bytes.
 */
import { present } from "../language/json.ts"
import type { ModelRequest } from "../language/request.ts"
import { type Answer, Outbox, type StreamConnection, UnreadBytes } from "./outbox.ts"
import type { GatewayPorts } from "./ports.ts"
import type { BodyMemory, BodyReservation } from "./read-body.ts"

/** One vector of 3,072 dimensions, which few models exceed, in base64 and in digits. */
const VECTOR = { base64: 16_384, numbers: 49_152 }
/** One echoed token: its text, or a few candidates with their log probabilities. */
const ECHOED_TOKEN = { text: 8, likely: 512 }

/** How many vectors the request asks for. */
export const vectorsOf = ({ endpoint, prompts = 1 }: ModelRequest): number => (endpoint === "embeddings" ? prompts : 0)

/** How many tokens of the prompt are echoed. */
export const echoedTokens = ({ body, inputTokens }: ModelRequest): number => (body["echo"] === true ? inputTokens : 0)

export const isLargeForPrice = (request: ModelRequest): boolean => vectorsOf(request) > 0 || echoedTokens(request) > 0

/** The largest reservation; a larger one would never find room. */
const MAX_RESERVED_BYTES = 33_554_432

/** An upper estimate of a response in one piece. 0 for responses whose tokens are paid for, which are small. */
export function answerBytesOf(request: ModelRequest, { total }: BodyMemory): number {
  const { body, stream } = request
  if (stream) return 0
  const vector = body["encoding_format"] === "base64" ? VECTOR.base64 : VECTOR.numbers
  const echoed = present(body["logprobs"]) ? ECHOED_TOKEN.likely : ECHOED_TOKEN.text
  return Math.min(
    vectorsOf(request) * vector + echoedTokens(request) * echoed,
    MAX_RESERVED_BYTES,
    Math.floor(total / 4),
  )
}

/** A larger body is streamed. */
const SINGLE_WRITE_BYTES = 262_144

export interface BodyDelivery {
  readonly ports: Pick<GatewayPorts, "clock" | "limits">
  readonly connection: StreamConnection | undefined
  readonly request: Pick<Request, "signal">
  /** Freed when the client has the response or has left. */
  reservation?: BodyReservation
}

/** The body as it is sent; its reservation ends when the client has read it. */
export function deliverBody(
  body: Answer["body"],
  { ports, connection, request, reservation }: BodyDelivery,
): Answer["body"] {
  if (reservation === undefined) return body
  const free = () => reservation[Symbol.dispose]()
  if (typeof body !== "string" || body.length <= SINGLE_WRITE_BYTES || request.signal.aborted) {
    free()
    return body
  }
  // The body is in memory already, so a refusal changes nothing.
  reservation.reserve(Buffer.byteLength(body))
  const { heartbeatMs, readerStallMs: stallMs } = ports.limits
  const outbox = new Outbox({
    clock: ports.clock,
    heartbeatMs,
    stallMs,
    // The account's reservation bounds this response, so it is not counted among the unread bytes.
    unread: new UnreadBytes(Infinity),
    connection,
    onIdle: () => {},
    onLeave: free,
    onDelivered: free,
  })
  outbox.write(body)
  outbox.end()
  request.signal.addEventListener("abort", () => outbox.leave())
  return outbox.stream()
}
