/**
 * Reads a backend's stream of events to its end. It is read as fast as the backend sends. A life sign is a whole event: a
 * backend that trickles pieces of one is silent.
 */
import type { Clock } from "../../actors/kernel/clock.ts"
import { Failure } from "../failure/failure.ts"
import type { AnswerBounds } from "../upstream/answer-bounds.ts"
import { connectionFault, type Fault, overlongFault } from "../upstream/client.ts"
import { type SseEvent, SseParser } from "../wire/sse.ts"

/** How long a backend may take to close a stream after its last event, for the connection to be used again. */
const CLOSE_MS = 1_000

/** What reads a stream's events. */
export interface EventReader<End> {
  /** The backend sent an event. */
  heard(): void
  /** Those that came together; undefined where more have to come. */
  read(events: readonly SseEvent[]): End | Fault | undefined
}

/** A stream that ends before `read` has come to an end is a broken connection. What `read` throws is a bug of ours. */
export async function readEvents<End>(
  body: ReadableStream<Uint8Array>,
  bounds: AnswerBounds,
  clock: Clock,
  events: EventReader<End>,
): Promise<End | Fault> {
  const reader = body.getReader()
  const parser = new SseParser({ maxEventSize: bounds.eventLength })
  let size = 0
  try {
    for (;;) {
      const piece = await next(reader)
      if (piece === undefined) return connectionFault(true)
      const { done, value } = piece
      size += value?.length ?? 0
      if (size > bounds.streamBytes) return overlongFault
      const came = done ? tail(parser) : parser.push(value)
      if (came instanceof Failure) return overlongFault
      if (came.length > 0) events.heard()
      const end = events.read(came)
      if (end !== undefined) return end
      if (done) return connectionFault(true)
    }
  } finally {
    void finish(reader, clock)
  }
}

/** Undefined where the connection broke. */
async function next(reader: ReadableStreamDefaultReader<Uint8Array>) {
  try {
    return await reader.read()
  } catch {
    return undefined
  }
}

function tail(parser: SseParser): SseEvent[] | Failure {
  const last = parser.end()
  if (last instanceof Failure) return last
  return last === undefined ? [] : [last]
}

/**
 * Always read or cancel: a body that is left alone keeps its connection. Not a wait of the call's own, which may be at
 * its next backend by then.
 */
async function finish(reader: ReadableStreamDefaultReader<Uint8Array>, clock: Clock): Promise<void> {
  const timer = clock.after(CLOSE_MS, () => void reader.cancel().catch(() => {}))
  try {
    while (!(await reader.read()).done);
  } catch {
    // The connection broke; there is nothing left to give back.
  } finally {
    timer.cancel()
  }
}
