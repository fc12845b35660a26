/**
 * What HTTP needs of a connection. Its idle time-out first: Bun closes an idle connection, but counts the time of a response as idle
 * too, also of a stream. So the time-out is disabled while a call is in flight. It is set again right before the response ends,
 * because Bun ignores it afterwards. Then its client's address, a file whose reader may not read it any more, a body that is not read
 * to its end, and how many connections there may be.
 *
 * Beside it what a browser is told of calls that pages of other origins make (CORS, as the Fetch standard has it): nothing, but for
 * those that a key lists (docs/decisions/2026-11-23-pages-call-with-keys-that-list-them.md). Credentials of a browser are never asked
 * for.
 */
import type { Server } from "bun"
import { existsSync } from "node:fs"
import { readdir, readFile } from "node:fs/promises"
import { isIP } from "node:net"
import { sleep, systemClock } from "../../actors/kernel/clock.ts"
import type { StreamEnd } from "../gateway/outbox.ts"
import { ORIGINAL_REQUEST_ID } from "../gateway/replayable-call.ts"
import { DROPPED_FIELDS } from "../wire/fields.ts"

export class Connection {
  readonly #server: Pick<Server<undefined>, "timeout">
  readonly #request: Request
  readonly #idleS: number
  readonly #slowS: number
  #isStreaming = false

  /** `slowS`: for how long a client may take nothing of a stream. */
  constructor(
    server: Pick<Server<undefined>, "timeout">,
    request: Request,
    { idleS, slowS = SLOW_READER_S }: { readonly idleS: number; readonly slowS?: number },
  ) {
    this.#server = server
    this.#request = request
    this.#idleS = idleS
    this.#slowS = slowS
    server.timeout(request, 0)
  }

  /** Called by a response that streams and signals its own end. */
  takeEnd(): StreamEnd {
    this.#isStreaming = true
    return {
      ends: () => this.#server.timeout(this.#request, this.#slowS),
      abandon: () => this.#server.timeout(this.#request, 1),
    }
  }

  /** The response as it is to be sent. A stream that does not signal its end is watched, and closes its connection. */
  answered(response: Response): Response {
    if (this.#isStreaming) return response
    const { status, headers } = response
    // Its body last: a look at that makes a stream of it, which costs every call, and loses the type of a text.
    if (!isStream(headers) || response.body === null) {
      this.#server.timeout(this.#request, this.#idleS)
      return response
    }
    headers.set("Connection", "close")
    return new Response(this.#watched(response.body), { status, headers })
  }

  /** Each part is asked for when the client has taken those before it. It has time for that, and the next part as long as it takes. */
  #watched(body: ReadableStream<Uint8Array>): ReadableStream<Uint8Array> {
    const reader = body.getReader()
    const within = (seconds: number) => this.#server.timeout(this.#request, seconds)
    within(this.#slowS)
    return new ReadableStream<Uint8Array>(
      {
        pull: async (controller) => {
          within(0)
          const { done, value } = await reader.read()
          within(this.#slowS)
          if (done) controller.close()
          else controller.enqueue(value)
        },
        cancel: (reason) => reader.cancel(reason),
      },
      { highWaterMark: 0 },
    )
  }
}

/** Bun does not track what a client reads, so this is the time for the bytes that are unread when the response ends. */
const SLOW_READER_S = 255

const STREAMS = /^text\/(?:event-stream|csv)\b/

/** Files that are made while they are sent are text or JSON. */
export function isStream(headers: Headers): boolean {
  const type = headers.get("content-type") ?? ""
  return STREAMS.test(type) || (type === "application/json" && headers.has("content-disposition"))
}

const ALLOWED_FOR_MS = 1_000

/** A file takes as long as its reader does: sessions, memberships and roles may end meanwhile, and the file then with them. */
export function whileAllowed(file: Response, isAllowed: () => Promise<boolean>): Response {
  const reader = file.body?.getReader()
  if (reader === undefined) return file
  let askedAt = performance.now()
  const body = new ReadableStream<Uint8Array>(
    {
      // It may break off while nobody reads it.
      start: (controller) => void reader.closed.catch((error: unknown) => controller.error(error)),
      async pull(controller) {
        const { done, value } = await reader.read()
        if (performance.now() - askedAt > ALLOWED_FOR_MS) {
          if (!(await isAllowed())) {
            await reader.cancel()
            throw new Error("whoever reads the file may not read it any more")
          }
          askedAt = performance.now()
        }
        if (done) controller.close()
        else controller.enqueue(value)
      },
      cancel: () => reader.cancel(),
    },
    { highWaterMark: 0 },
  )
  return new Response(body, file)
}

/**
 * The client's network address. Failed sign-ins are counted by it, and the audit log and people's sessions show it. Behind a proxy
 * every peer is the proxy, which names its client in a header. Only the last address in it is the proxy's own; the client may have
 * written those before. Some proxies write a port beside it (`203.0.113.7:51432`, `[2001:db8::7]:51432`). Without a configured header, or
 * without an address in it, the peer's address is used.
 */
export function clientAddress(headers: Headers, peer: string, header: string | undefined): string {
  const last = header === undefined ? undefined : headers.get(header)?.split(",").at(-1)?.trim()
  const named = last?.replace(/^(?:\[([^[\]]+)\](?::\d{1,5})?|([^:]+):\d{1,5})$/, "$1$2")
  return named === undefined || isIP(named) === 0 ? peer : named
}

const MAX_MS = 5_000
const MAX_BYTES = 64 * 1024 * 1024
/** A small body that is sent with its head is here within this time, and its connection can be kept. */
const SOON_MS = 50

/**
 * The budget of discarded bytes, shared by all connections: a burst, and then a rate that costs the process little. Reading 32 MiB
 * takes 30 ms of its thread. A client that sends more is slowed down by back-pressure.
 */
const FREE_MS = 1_000
const BYTES_PER_MS = 65_536
/** When the whole burst is available again (the generic cell rate algorithm). */
let freeAt = 0

/** How long the next chunk has to wait. */
function thrownAway(bytes: number): number {
  const now = systemClock.monotonic()
  freeAt = Math.max(freeAt, now) + bytes / BYTES_PER_MS
  return freeAt - now - FREE_MS
}

/**
 * A response to a request whose body is not read to its end (decisions §13.9). A client that is still writing would see a closed
 * connection before it reads the response. So the rest of the body is read and discarded while the response stays open; then the
 * connection closes. It stays open only after a small body that is here already, because a client that is refused often calls
 * again.
 */
export async function discardingBody(request: Request, response: Response, size: "small" | "large"): Promise<Response> {
  const { body } = request
  // A reader that gave up may never release its lock; then nobody else can read on.
  if (body === null || body.locked) return response
  const discarded = discard(body)
  if (size === "small" && (await isSoon(discarded))) return response
  const { status, headers } = response
  const answer = await response.bytes()
  headers.set("Connection", "close")
  const stream = new ReadableStream<Uint8Array>({
    async start(controller) {
      controller.enqueue(answer)
      await discarded
      controller.close()
    },
  })
  return new Response(stream, { status, headers })
}

/** Whether this resolves in a moment. */
function isSoon(done: Promise<void>): Promise<boolean> {
  return new Promise((resolve) => {
    const timer = systemClock.after(SOON_MS, () => resolve(false))
    const end = () => {
      timer.cancel()
      resolve(true)
    }
    done.then(end, end)
  })
}

/** Resolves when the body has ended, broken off, or taken too long. */
async function discard(body: ReadableStream<Uint8Array>): Promise<void> {
  const reader = body.getReader()
  // Releasing the lock ends a pending read. A promise that each read is raced with would keep every chunk in memory until the end.
  const timer = systemClock.after(MAX_MS, () => reader.releaseLock())
  using _ = { [Symbol.dispose]: () => timer.cancel() }
  try {
    for (let size = 0; size < MAX_BYTES;) {
      const piece = await reader.read()
      if (piece.done) return
      size += piece.value.length
      const waitMs = thrownAway(piece.value.length)
      if (waitMs > 0) await sleep(systemClock, waitMs)
    }
  } catch {
    // The body broke off or took too long.
  }
}

// The file descriptors of this process. Every connection takes one, and at the limit the listener accepts no connection. So close to
// the limit, connections are not kept alive.

/** A part of the limit. */
const CROWDED = 0.8

export class Descriptors {
  readonly #directory: string
  #crowded = false

  /** `directory`: the system's directory of open descriptors. */
  constructor(directory = "/proc/self") {
    this.#directory = directory
  }

  get crowded(): boolean {
    return this.#crowded
  }

  /** The open descriptors and their limit. Undefined on a system that does not report them. Throws where Linux refuses to. */
  async look(): Promise<{ readonly open: number; readonly limit: number } | undefined> {
    if (!existsSync(this.#directory)) return undefined
    const looking = Promise.all([readdir(`${this.#directory}/fd`), readFile(`${this.#directory}/limits`, "utf8")])
    const [open, limits] = await looking.catch((error: NodeJS.ErrnoException) => {
      // To look takes a descriptor, so this is how it is seen that none is left.
      if (error.code === "EMFILE") this.#crowded = true
      throw error
    })
    const limit = Number(/^Max open files\s+(\d+)/m.exec(limits)?.[1] ?? Infinity)
    this.#crowded = open.length > limit * CROWDED
    return { open: open.length, limit }
  }
}

/** A browser asks again after so many seconds. Calls are judged by their key, however old the pre-flight. */
const MAX_AGE_S = 600
/** Of names of headers, as a browser lists them. */
const HEADER_NAMES = /^[a-z0-9-]+(?:, ?[a-z0-9-]+){0,63}$/i
const LONGEST_NAMES = 2_048

/** What clients read beside the body. */
const EXPOSED = [
  "X-Request-Id",
  "request-id",
  "X-Cost-Rp",
  "X-Error-Code",
  "x-should-retry",
  "Retry-After",
  "X-Model",
  "X-Rerouted-From",
  DROPPED_FIELDS,
  "Idempotency-Replayed",
  ORIGINAL_REQUEST_ID,
  ...["Limit", "Remaining", "Reset"].flatMap((what) => [`X-RateLimit-${what}`, `X-RateLimit-${what}-Tokens`]),
  ...["Limit-Micro", "Usage-Micro", "Remaining-Micro", "Limit-Period"].map((what) => `X-Key-${what}`),
  ...["Limit", "Usage", "Remaining"].map((what) => `X-Run-${what}-Micro`),
].join(", ")

/** Undefined for what is no pre-flight of a page that a key lists. `methods`: of the path, for calls with a key. */
export function preflight(
  headers: Headers,
  methods: readonly string[] | undefined,
  pages: { has(origin: string): boolean },
): Response | undefined {
  const origin = headers.get("origin")
  if (origin === null || methods === undefined) return undefined
  if (!headers.has("access-control-request-method") || !pages.has(origin)) return undefined
  const asked = headers.get("access-control-request-headers") ?? ""
  const isPlain = asked.length <= LONGEST_NAMES && HEADER_NAMES.test(asked)
  return new Response(null, {
    status: 204,
    headers: {
      "Access-Control-Allow-Origin": origin,
      "Access-Control-Allow-Methods": methods.join(", "),
      ...(isPlain && { "Access-Control-Allow-Headers": asked }),
      "Access-Control-Max-Age": String(MAX_AGE_S),
      Vary: "Origin, Access-Control-Request-Headers",
    },
  })
}

/** Lets a page read an answer, and what it says beside its body. */
export function readableBy(origin: string, { headers }: Response): void {
  headers.set("Access-Control-Allow-Origin", origin)
  headers.set("Access-Control-Expose-Headers", EXPOSED)
  headers.append("Vary", "Origin")
}
