/**
 * Answers that a process hands to another one of the same machine, where a repeat has come: the very bytes and headers, as they
 * come or as they were. Who hands over counts a reader like any other; who is handed it keeps for its client what that has not taken.
 */
import { type Static, Type } from "@sinclair/typebox"
import { Value } from "@sinclair/typebox/value"
import type { Clock, Timer } from "../../actors/kernel/clock.ts"
import { Failure } from "../failure/failure.ts"
import { failureCodes } from "../failure/table.ts"
import { type Answer, Outbox, type OutboxOptions, PIECE_BYTES } from "./outbox.ts"

/** Names a call that carries a key. In hex. */
export interface HandedCall {
  /** SHA-256 of API key and header. */
  readonly keyHash: string
  /** Of endpoint and body. */
  readonly fingerprint: string
}

/** The gateway's other processes on this machine. */
export interface Neighbours {
  /** What a process says of a call, in frames; undefined where it is not on this machine, or says nothing. */
  ask(processId: string, call: HandedCall, signal: AbortSignal): Promise<ReadableStream<Uint8Array> | undefined>
}

/** Until its end something is said so often, or oftener. Bun closes a unix socket on which nothing is said for ten seconds. */
const ALIVE_MS = 2_000
/** For so long nothing may come: a process that stands still is as good as none. */
const FIRST_MS = 2_000
const SILENT_MS = 10_000

/** What is handed over: of a call that is known, what comes of it. */
export function handOver(answering: Promise<Answer | Failure> | undefined, clock: Clock): ReadableStream<Uint8Array> {
  let beating: Timer | undefined
  let body: ReadableStreamDefaultReader<Uint8Array> | undefined
  const end = (controller: ReadableStreamDefaultController<Uint8Array>) => {
    beating?.cancel()
    controller.enqueue(frame(FRAME.end))
    controller.close()
  }
  return new ReadableStream<Uint8Array>(
    {
      start(controller) {
        if (answering === undefined) return
        const beat = () => {
          controller.enqueue(frame(FRAME.alive))
          beating = clock.wait(ALIVE_MS, beat)
        }
        beat()
      },
      async pull(controller) {
        if (body !== undefined) {
          const { value } = await body.read()
          return value === undefined ? end(controller) : controller.enqueue(frame(FRAME.bytes, value))
        }
        const answer = await answering
        if (answer === undefined) controller.enqueue(headFrame({ none: true }))
        else if (answer instanceof Failure)
          controller.enqueue(headFrame({ failure: { code: answer.code, detail: answer.detail } }))
        else if (answer.body instanceof ReadableStream) {
          body = answer.body.getReader()
          return controller.enqueue(headFrame({ headers: answer.headers, whole: false }))
        } else {
          controller.enqueue(headFrame({ headers: answer.headers, whole: true }))
          const bytes = typeof answer.body === "string" ? new TextEncoder().encode(answer.body) : answer.body
          controller.enqueue(frame(FRAME.bytes, bytes))
        }
        end(controller)
      },
      async cancel() {
        beating?.cancel()
        await body?.cancel()
      },
    },
    { highWaterMark: 0 },
  )
}

export interface Receiving extends Pick<OutboxOptions, "clock" | "heartbeatMs" | "stallMs" | "unread" | "connection"> {
  /** The client's. */
  readonly signal: AbortSignal
}

/** What a neighbour hands over of a call; undefined where it has nothing of it, or says nothing in time. */
export async function received(
  neighbours: Neighbours,
  processId: string,
  call: HandedCall,
  receiving: Receiving,
): Promise<Answer | Failure | undefined> {
  const gone = new AbortController()
  const signal = AbortSignal.any([gone.signal, receiving.signal])
  /** The connection is broken where it takes longer. */
  const within = async <T>(limitMs: number, work: Promise<T>): Promise<T> => {
    const timer = receiving.clock.after(limitMs, () => gone.abort())
    const done = await work
    timer.cancel()
    return done
  }
  const stream = await within(FIRST_MS, neighbours.ask(processId, call, signal))
  const frames = stream && new FrameReader(stream)
  const first = await within(FIRST_MS, frames?.next() ?? nothing)
  const next: NextFrame = async () => {
    for (;;) {
      const found = await within(SILENT_MS, frames?.next() ?? nothing)
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
  receiving: Receiving,
  gone: AbortController,
): Promise<Answer | Failure | undefined> {
  const head = readHead(first)
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
  return isWhole && one.bytes.length <= PIECE_BYTES ? new Uint8Array(one.bytes) : undefined
}

/** As it comes. What breaks off breaks off for the client too, who then asks again. */
function streamed(next: NextFrame, receiving: Receiving, gone: AbortController): ReadableStream<Uint8Array> {
  const { clock, heartbeatMs, stallMs, unread, connection, signal } = receiving
  const onLeave = () => gone.abort()
  const outbox = new Outbox({ clock, heartbeatMs, stallMs, unread, connection, onSilence: () => {}, onLeave })
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
 * An answer on its way from the process that makes the call to another one of the same machine, in frames: one byte
 * of kind, four of length (big-endian), and so many bytes. Its end is a frame, so that a connection which breaks is
 * never taken for it. Nothing but a sign of life, what there is to say before the bytes, bytes of the answer, and its
 * end.
 */
export const FRAME = { alive: 0, head: 1, bytes: 2, end: 3 } as const
type Kind = (typeof FRAME)[keyof typeof FRAME]

interface Frame {
  readonly kind: Kind
  readonly bytes: Uint8Array
}

/** `none`: no such call is known there. `whole`: the answer is one piece. */
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
export type Head = Static<typeof Head>

const PREFIX_BYTES = 5
/** More than is ever handed over at once. */
const MOST_BYTES = 65_536
const NONE = new Uint8Array()

export function frame(kind: Kind, bytes: Uint8Array = NONE): Uint8Array {
  const framed = new Uint8Array(PREFIX_BYTES + bytes.length)
  framed[0] = kind
  new DataView(framed.buffer).setUint32(1, bytes.length)
  framed.set(bytes, PREFIX_BYTES)
  return framed
}

export const headFrame = (head: Head): Uint8Array => frame(FRAME.head, new TextEncoder().encode(JSON.stringify(head)))

/** Undefined where it is none, as of a process of another version. */
function readHead({ kind, bytes }: Frame): Head | undefined {
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

  /** Undefined where the stream ends or breaks before the next frame is whole, or has what is none. */
  async next(): Promise<Frame | undefined> {
    const prefix = await this.#take(PREFIX_BYTES)
    if (prefix === undefined) return undefined
    const kind = kindOf(prefix[0])
    const length = new DataView(prefix.buffer, prefix.byteOffset).getUint32(1)
    if (kind === undefined || length > MOST_BYTES) return undefined
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
