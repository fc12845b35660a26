/**
 * Answers that are large for next to no money: vectors, and prompts that are repeated with the likelihoods of each token. What
 * one may take is held beside the account's request bodies (read-body.ts), from before it is forwarded until its client has all
 * of it, so that nobody fills the memory with answers that they do not read. Sizes in bytes.
 */
import { present } from "../language/json.ts"
import type { ModelRequest } from "../language/request.ts"
import { type Answer, Outbox, type StreamConnection, UnreadBytes } from "./outbox.ts"
import type { GatewayPorts } from "./ports.ts"
import type { BodyBytes, BodyShare } from "./read-body.ts"

/** Of 3,072 dimensions, which few models go beyond, in base64 and in digits. */
const VECTOR = { base64: 16_384, numbers: 49_152 }
/** Of a prompt that is repeated: its text, and a few candidates with their likelihoods. */
const ECHOED_TOKEN = { text: 8, likely: 512 }

/** How many vectors are asked for. */
export const vectorsOf = ({ endpoint, prompts = 1 }: ModelRequest): number => (endpoint === "embeddings" ? prompts : 0)

/** How many tokens of the prompt are repeated in the answer. */
export const echoedTokens = ({ body, inputTokens }: ModelRequest): number => (body["echo"] === true ? inputTokens : 0)

export const isLargeForItsPrice = (request: ModelRequest): boolean =>
  vectorsOf(request) > 0 || echoedTokens(request) > 0

/** More is not asked for, or a large call would never find room. */
const MOST = 33_554_432

/** What an answer in one piece likely takes at the most, of all there is; 0 of one whose tokens are paid for, which is small. */
export function answerRoomOf(request: ModelRequest, { total }: BodyBytes): number {
  const { body, stream } = request
  if (stream) return 0
  const vector = body["encoding_format"] === "base64" ? VECTOR.base64 : VECTOR.numbers
  const echoed = present(body["logprobs"]) ? ECHOED_TOKEN.likely : ECHOED_TOKEN.text
  return Math.min(vectorsOf(request) * vector + echoedTokens(request) * echoed, MOST, Math.floor(total / 4))
}

/** Larger ones are read by pieces. */
const ONE_PIECE = 262_144

export interface BodyDelivery {
  readonly ports: Pick<GatewayPorts, "clock" | "limits">
  readonly connection: StreamConnection | undefined
  readonly request: Pick<Request, "signal">
  /** What is held for the answer; it is let go of when the client has it, or is gone. */
  room?: BodyShare
}

/** An answer's body as its client takes it. */
export function deliverBody(body: Answer["body"], { ports, connection, request, room }: BodyDelivery): Answer["body"] {
  if (room === undefined) return body
  const free = () => room[Symbol.dispose]()
  if (typeof body !== "string" || body.length <= ONE_PIECE || request.signal.aborted) {
    free()
    return body
  }
  // It is there already, whether or not there is room.
  room.hold(Buffer.byteLength(body))
  const { heartbeatMs, readerStallMs: stallMs } = ports.limits
  const outbox = new Outbox({
    clock: ports.clock,
    heartbeatMs,
    stallMs,
    // Neither others nor this one is cut for what it takes, which its account's share bounds.
    unread: new UnreadBytes(Infinity),
    connection,
    onSilence: () => {},
    onLeave: free,
    onTaken: free,
  })
  outbox.write(body)
  outbox.end()
  request.signal.addEventListener("abort", () => outbox.leave())
  return outbox.stream()
}
