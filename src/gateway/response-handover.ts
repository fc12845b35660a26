/**
 * Handover of responses between processes of one machine, for a duplicate that reached another process than its original. The
 * bytes and headers are those of the original. The sender counts one more reader; the receiver buffers for its client.
 */
import { type Static, Type } from "@sinclair/typebox"
import { Value } from "@sinclair/typebox/value"
import type { Clock, Timer } from "../../actors/kernel/clock.ts"
import { Failure } from "../failure/failure.ts"
import { failureCodes } from "../failure/table.ts"
import { type Answer, Outbox, type OutboxPorts, CHUNK_BYTES, type StreamConnection } from "./outbox.ts"

/** Identifies a call with an `Idempotency-Key`. Hashes in hex. */
export interface HandoverRequest {
  /** SHA-256 of API key and header. */
  readonly keyHash: string
  /** Hash of endpoint and body. */
  readonly fingerprint: string
}

/** The gateway's other processes on this machine. */
export interface Neighbours {
  /** The frames of a call from a process; undefined if that is not on this machine or does not answer. */
  ask(processId: string, call: HandoverRequest, signal: AbortSignal): Promise<ReadableStream<Uint8Array> | undefined>
}

/** At least one frame is sent in this time. Bun closes a unix socket that is idle for ten seconds. */
const KEEPALIVE_MS = 2_000
/** How long the receiver waits for a frame. A process that hangs counts as gone. */
const FIRST_FRAME_MS = 2_000
const MAX_SILENCE_MS = 10_000

/** The sender's side: the answer in frames, or the head `none` for an unknown call. */
export function serveHandover(
  answering: Promise<Answer | Failure> | undefined,
  clock: Clock,
): ReadableStream<Uint8Array> {
  let beating: Timer | undefined
  let body: ReadableStreamDefaultReader<Uint8Array> | undefined
  const end = (controller: ReadableStreamDefaultController<Uint8Array>) => {
    beating?.cancel()
    controller.enqueue(encodeFrame(FRAME.end))
    controller.close()
  }
  const next = async (controller: ReadableStreamDefaultController<Uint8Array>) => {
    if (body !== undefined) {
      const { value } = await body.read()
      return value === undefined ? end(controller) : controller.enqueue(encodeFrame(FRAME.bytes, value))
    }
    const answer = await answering
    if (answer === undefined) controller.enqueue(encodeHead({ none: true }))
    else if (answer instanceof Failure)
      controller.enqueue(encodeHead({ failure: { code: answer.code, detail: answer.detail } }))
    else if (answer.body instanceof ReadableStream) {
      body = answer.body.getReader()
      return controller.enqueue(encodeHead({ headers: answer.headers, whole: false }))
    } else {
      controller.enqueue(encodeHead({ headers: answer.headers, whole: true }))
      const bytes = typeof answer.body === "string" ? new TextEncoder().encode(answer.body) : answer.body
      controller.enqueue(encodeFrame(FRAME.bytes, bytes))
    }
    end(controller)
  }
  /** A stream that errors is not cancelled, and a keepalive on it would throw in its timer. */
  const broken = (error: unknown) => {
    beating?.cancel()
    throw error
  }
  return new ReadableStream<Uint8Array>(
    {
      start(controller) {
        if (answering === undefined) return
        const beat = () => {
          controller.enqueue(encodeFrame(FRAME.alive))
          beating = clock.wait(KEEPALIVE_MS, beat)
        }
        beat()
      },
      pull: (controller) => next(controller).catch(broken),
      async cancel() {
        beating?.cancel()
        await body?.cancel()
      },
    },
    { highWaterMark: 0 },
  )
}

export interface HandoverReceiver extends OutboxPorts {
  readonly connection: StreamConnection | undefined
  /** The client's. */
  readonly signal: AbortSignal
}

/** The receiver's side. Undefined if the neighbour does not know the call or does not answer in time. */
export async function requestHandover(
  neighbours: Neighbours,
  processId: string,
  call: HandoverRequest,
  receiving: HandoverReceiver,
): Promise<Answer | Failure | undefined> {
  const gone = new AbortController()
  const signal = AbortSignal.any([gone.signal, receiving.signal])
  /** Aborts the connection when the time is over. */
  const within = async <T>(limitMs: number, work: Promise<T>): Promise<T> => {
    const timer = receiving.clock.after(limitMs, () => gone.abort())
    const done = await work
    timer.cancel()
    return done
  }
  const stream = await within(FIRST_FRAME_MS, neighbours.ask(processId, call, signal))
  const frames = stream && new FrameReader(stream)
  const first = await within(FIRST_FRAME_MS, frames?.next() ?? nothing)
  const next: NextFrame = async () => {
    for (;;) {
      const found = await within(MAX_SILENCE_MS, frames?.next() ?? nothing)
      if (found?.kind !== FRAME.alive) return found
    }
  }
  const head = first?.kind === FRAME.alive ? await next() : first
  const answer = head && (await answerOf(head, next, receiving, gone))
  if (answer === undefined) gone.abort()
  return answer
}

const nothing = Promise.resolve(undefined)

type NextFrame = () => Promise<Frame | undefined>

async function answerOf(
  first: Frame,
  next: NextFrame,
  receiving: HandoverReceiver,
  gone: AbortController,
): Promise<Answer | Failure | undefined> {
  const head = decodeHead(first)
  if (head === undefined || "none" in head) return undefined
  if ("failure" in head) {
    const { code, detail } = head.failure
    const known = failureCodes.find((each) => each === code)
    return known && new Failure(known, detail)
  }
  const { headers } = head
  if (!head.whole) return { body: streamed(next, receiving, gone), headers }
  const body = await wholeOf(next)
  if (body !== undefined) receiving.connection?.takeEnd().ends()
  return body && { body, headers }
}

/** Undefined where it breaks off. */
async function wholeOf(next: NextFrame): Promise<Uint8Array<ArrayBuffer> | undefined> {
  const one = await next()
  const two = await next()
  const isWhole = one?.kind === FRAME.bytes && two?.kind === FRAME.end
  return isWhole && one.bytes.length <= CHUNK_BYTES ? new Uint8Array(one.bytes) : undefined
}

/** As it comes. What breaks off breaks off for the client too, who then asks again. */
function streamed(next: NextFrame, receiving: HandoverReceiver, gone: AbortController): ReadableStream<Uint8Array> {
  const { connection, signal } = receiving
  const outbox = new Outbox(receiving, { onLeave: () => gone.abort() }, connection)
  const leave = () => outbox.leave()
  const pass = async () => {
    for (;;) {
      const frame = await next()
      if (frame?.kind === FRAME.bytes) outbox.catchUp([frame.bytes])
      else if (frame?.kind === FRAME.end) return outbox.end()
      else return outbox.leave()
    }
  }
  const stream = outbox.stream()
  if (signal.aborted) leave()
  signal.addEventListener("abort", leave)
  pass().catch(leave)
  return stream
}

/**
 * The frames of a handover: one byte of kind, four of length (big-endian), then that many bytes. The end is a frame of its own,
 * so that a broken connection is not taken for it. The kinds are a keepalive, the head, bytes of the body, and the end.
 */
export const FRAME = { alive: 0, head: 1, bytes: 2, end: 3 } as const
type Kind = (typeof FRAME)[keyof typeof FRAME]

interface Frame {
  readonly kind: Kind
  readonly bytes: Uint8Array
}

/** `none`: the sender does not know the call. `whole`: the body is one frame. */
const Head = Type.Union([
  Type.Object({ none: Type.Literal(true) }),
  Type.Object({
    failure: Type.Object({
      code: Type.String(),
      detail: Type.Object({
        message: Type.Optional(Type.String()),
        hint: Type.Optional(Type.String()),
        retryAfterS: Type.Optional(Type.Number()),
        headers: Type.Optional(Type.Record(Type.String(), Type.String())),
      }),
    }),
  }),
  Type.Object({ headers: Type.Record(Type.String(), Type.String()), whole: Type.Boolean() }),
])
export type HandoverHead = Static<typeof Head>

const PREFIX_BYTES = 5
/** Larger than any frame that is sent. */
const MAX_FRAME_BYTES = 65_536
const NONE = new Uint8Array()

export function encodeFrame(kind: Kind, bytes: Uint8Array = NONE): Uint8Array {
  const framed = new Uint8Array(PREFIX_BYTES + bytes.length)
  framed[0] = kind
  new DataView(framed.buffer).setUint32(1, bytes.length)
  framed.set(bytes, PREFIX_BYTES)
  return framed
}

export const encodeHead = (head: HandoverHead): Uint8Array =>
  encodeFrame(FRAME.head, new TextEncoder().encode(JSON.stringify(head)))

/** Undefined for anything else, such as the head of another version. */
function decodeHead({ kind, bytes }: Frame): HandoverHead | undefined {
  if (kind !== FRAME.head) return undefined
  try {
    const head: unknown = JSON.parse(new TextDecoder().decode(bytes))
    return Value.Check(Head, head) ? head : undefined
  } catch {
    return undefined
  }
}

/** The frames of a stream, one after the other. */
export class FrameReader {
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>
  #left: Uint8Array = NONE

  constructor(stream: ReadableStream<Uint8Array>) {
    this.#reader = stream.getReader()
  }

  /** Undefined if the stream ends or breaks before the frame is complete, or has no valid frame. */
  async next(): Promise<Frame | undefined> {
    const prefix = await this.#take(PREFIX_BYTES)
    if (prefix === undefined) return undefined
    const kind = kindOf(prefix[0])
    const length = new DataView(prefix.buffer, prefix.byteOffset).getUint32(1)
    if (kind === undefined || length > MAX_FRAME_BYTES) return undefined
    const bytes = await this.#take(length)
    return bytes && { kind, bytes }
  }

  async #take(length: number): Promise<Uint8Array | undefined> {
    while (this.#left.length < length) {
      const read = await this.#reader.read().catch(() => undefined)
      if (read?.value === undefined) return undefined
      this.#left = this.#left.length === 0 ? read.value : Buffer.concat([this.#left, read.value])
    }
    const taken = this.#left.subarray(0, length)
    this.#left = this.#left.subarray(length)
    return taken
  }
}

const kindOf = (byte: number | undefined): Kind | undefined => Object.values(FRAME).find((kind) => kind === byte)
