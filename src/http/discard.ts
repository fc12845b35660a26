/**
 * An answer to a request whose body is not read to its end (decisions §13.9). A client that is still writing hears of a
 * closed connection before it reads what was answered, so what it still sends is read and thrown away while the answer
 * stays open; then the connection closes.
 */
import { sleep, systemClock } from "../../actors/kernel/clock.ts"

const MOST_MS = 5_000
const MOST_BYTES = 64 * 1024 * 1024

/**
 * What all connections together have thrown away: so much at once, and then at a pace that the process hardly feels, for reading
 * 32 MiB costs its thread 30 ms. Who sends more is held back by its connection.
 */
const FREE_MS = 1_000
const BYTES_PER_MS = 65_536
/** When all that was thrown away would be free again (the generic cell rate algorithm). */
let freeAt = 0

/** How long the next piece has to wait. */
function thrownAway(bytes: number): number {
  const now = systemClock.monotonic()
  freeAt = Math.max(freeAt, now) + bytes / BYTES_PER_MS
  return freeAt - now - FREE_MS
}

export async function discardingBody(request: Request, response: Response): Promise<Response> {
  const { body } = request
  // A reader that never let go of it, such as one that gave up: nobody else can read on.
  if (body === null || body.locked) return response
  const { status, headers } = response
  const answer = await response.bytes()
  headers.set("Connection", "close")
  const stream = new ReadableStream<Uint8Array>({
    async start(controller) {
      controller.enqueue(answer)
      await discard(body)
      controller.close()
    },
  })
  return new Response(stream, { status, headers })
}

/** Resolves when it has come to its end, broken off, or gone on for too long. */
async function discard(body: ReadableStream<Uint8Array>): Promise<void> {
  const reader = body.getReader()
  // Ends the read under way. A promise of the end that each read is raced with would keep every piece until then.
  const timer = systemClock.after(MOST_MS, () => reader.releaseLock())
  using _ = { [Symbol.dispose]: () => timer.cancel() }
  try {
    for (let size = 0; size < MOST_BYTES;) {
      const piece = await reader.read()
      if (piece.done) return
      size += piece.value.length
      const waitMs = thrownAway(piece.value.length)
      if (waitMs > 0) await sleep(systemClock, waitMs)
    }
  } catch {
    // It broke off, or it went on for too long.
  }
}
