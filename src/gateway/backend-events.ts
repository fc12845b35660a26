/** Reads a backend's stream of events to its end. It is read as fast as the backend sends. */
import type { Clock } from "../../actors/kernel/clock.ts"
import type { AnswerBounds } from "../upstream/answer-bounds.ts"
import { connectionFault, type Fault, overlongFault } from "../upstream/client.ts"
import { SseParser, type WaitingEvents } from "../wire/sse.ts"

/** How long a backend may take to close a stream after its last event, for the connection to be used again. */
const CLOSE_MS = 1_000

/**
 * `read` takes the events that came together; it is undefined where more have to come. A stream that ends before it has come
 * to an end is a broken connection. What it throws is a bug of ours.
 */
export async function readEvents<End>(
  body: ReadableStream<Uint8Array>,
  bounds: AnswerBounds,
  clock: Clock,
  read: (events: WaitingEvents) => End | Fault | undefined,
): Promise<End | Fault> {
  const reader = body.getReader()
  const parser = new SseParser({ maxEventSize: bounds.eventLength })
  let size = 0
  try {
    for (;;) {
      let piece: Awaited<ReturnType<typeof reader.read>>
      try {
        piece = await reader.read()
      } catch {
        return connectionFault(true)
      }
      const { done, value } = piece
      size += value?.length ?? 0
      if (size > bounds.streamBytes) return overlongFault
      if (done) parser.end()
      else parser.feed(value)
      const end = read(parser)
      if (end !== undefined) return end
      if (done) return connectionFault(true)
    }
  } finally {
    void finish(reader, clock)
  }
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
