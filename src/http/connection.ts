/**
 * How long a connection may be idle. Bun closes one on which nothing was asked for that long, but counts the time of an
 * answer too, and of a stream as well, so it is told to wait for as long as a call is under way, and again not to right
 * before the answer ends: after the end it does not listen any more.
 */
import { isIP } from "node:net"
import type { Server } from "bun"
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
