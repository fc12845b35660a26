/**
 * Answers that a process hands to another one of the same machine, where a repeat has come: the very bytes and headers, as they
 * come or as they were. Who hands over counts a reader like any other; who is handed it keeps for its client what that has not taken.
 */
import type { Clock, Timer } from "../../actors/kernel/clock.ts"
import { Failure } from "../failure/failure.ts"
import { failureCodes } from "../failure/table.ts"
import { FRAME, type Frame, frame, FrameReader, headFrame, readHead } from "./handed-frames.ts"
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
