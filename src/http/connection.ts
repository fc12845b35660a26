/**
 * How long a connection may be idle. Bun closes one on which nothing was asked for that long, but counts the time of an
 * answer too, and of a stream as well, so it is told to wait for as long as a call is under way, and again not to right
 * before the answer ends: after the end it does not listen any more.
 */
import type { Server } from "bun"
import { isIP } from "node:net"
import { sleep, systemClock } from "../../actors/kernel/clock.ts"
import type { StreamEnd } from "../gateway/outbox.ts"

export class Connection {
  readonly #server: Pick<Server<undefined>, "timeout">
  readonly #request: Request
  readonly #idleS: number
  #ends = false

  constructor(server: Pick<Server<undefined>, "timeout">, request: Request, idleS: number) {
    this.#server = server
    this.#request = request
    this.#idleS = idleS
    server.timeout(request, 0)
  }

  /** For whoever answers with a stream, and says when it ends. */
  takeEnd(): StreamEnd {
    this.#ends = true
    return {
      ends: () => this.#server.timeout(this.#request, SLOW_READER_S),
      abandon: () => this.#server.timeout(this.#request, 1),
    }
  }

  /** The answer goes now, as far as it is there. A stream whose end nobody minds takes its connection along. */
  answered(response: Response): void {
    if (this.#ends) return
    if (isStream(response)) response.headers.set("Connection", "close")
    else this.#server.timeout(this.#request, this.#idleS)
  }
}

/** Bun does not count what a client takes, so this has to do for what is left to take when the answer ends. */
const SLOW_READER_S = 255

const STREAMS = /^text\/(?:event-stream|csv)\b/
const isStream = ({ headers }: Response): boolean => STREAMS.test(headers.get("content-type") ?? "")

/**
 * Whose a request is, as a network address: failed sign-ins are counted for it, and the audit log and people's sessions show
 * it. Behind a proxy every peer is the proxy, which names its client in a header. The last address there is the proxy's own
 * word; its client may have written those before. Where no header is named, or no address is in it, it is the peer's.
 */
export function clientAddress(headers: Headers, peer: string, header: string | undefined): string {
  const named = header === undefined ? undefined : headers.get(header)?.split(",").at(-1)?.trim()
  return named === undefined || isIP(named) === 0 ? peer : named
}

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

/**
 * An answer to a request whose body is not read to its end (decisions §13.9). A client that is still writing hears of
 * a closed connection before it reads what was answered, so what it still sends is read and thrown away while the
 * answer stays open; then the connection closes.
 */
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
