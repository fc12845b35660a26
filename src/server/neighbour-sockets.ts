/**
 * The gateway's processes of one machine, each on a unix socket in `DATA_DIR/neighbours`, by its id: what a repeat asks for is handed
 * over there (src/gateway/handed-answers.ts). Whoever can enter the directory is trusted, which is this user alone; there is no
 * network port. A process that was killed leaves its socket, at which nobody answers.
 */
import { chmodSync, lstatSync, mkdirSync, readdirSync, rmSync } from "node:fs"
import { join, resolve } from "node:path"
import { Type } from "@sinclair/typebox"
import { Value } from "@sinclair/typebox/value"
import type { HandedCall, Neighbours } from "../gateway/handed-answers.ts"
import type { Log } from "../log.ts"

/** In hex. */
const Hash = Type.String({ pattern: "^[0-9a-f]{64}$" })
const Asked = Type.Object({ keyHash: Hash, fingerprint: Hash })
const MOST_ASKED_BYTES = 1_024
/** At one time. */
const MOST_ASKING = 256
/** What a unix socket's address has room for, on Linux and with its end. */
const LONGEST_PATH = 107
const PROCESS_ID = /^prc_[A-Za-z0-9_-]{1,40}$/
/** A younger one may be about to listen. */
const STALE_MS = 60_000
const CONNECT_MS = 1_000

export interface NeighbourParts {
  readonly dataDir: string
  readonly processId: string
  readonly log: Log
  readonly handOver: (call: HandedCall, signal: AbortSignal) => ReadableStream<Uint8Array>
}

export class NeighbourSockets implements Neighbours {
  readonly #directory: string
  readonly #stop: () => Promise<void>

  private constructor(directory: string, stop: () => Promise<void>) {
    this.#directory = directory
    this.#stop = stop
  }

  /** Undefined where there can be none, which the log says: then repeats that come to another process are refused. */
  static open(parts: NeighbourParts): NeighbourSockets | undefined {
    const directory = join(resolve(parts.dataDir), "neighbours")
    try {
      ownDirectory(directory)
      const stop = listen(directory, parts)
      void removeStale(directory, parts.processId)
      return new NeighbourSockets(directory, stop)
    } catch (error) {
      parts.log.warn("no socket for neighbours", { directory, error: String(error) })
      return undefined
    }
  }

  async ask(processId: string, call: HandedCall, signal: AbortSignal): Promise<ReadableStream<Uint8Array> | undefined> {
    if (!PROCESS_ID.test(processId)) return undefined
    try {
      const init = { method: "POST", body: JSON.stringify(call), signal, unix: join(this.#directory, processId) }
      const response = await fetch("http://neighbour/", init)
      return response.status === 200 ? (response.body ?? undefined) : undefined
    } catch {
      // It is on another machine, or dead.
      return undefined
    }
  }

  /** Those who are being handed something lose their connection. */
  stop(): Promise<void> {
    return this.#stop()
  }
}

/** Throws where others can enter it. */
function ownDirectory(directory: string): void {
  mkdirSync(directory, { recursive: true, mode: 0o700 })
  const found = lstatSync(directory)
  if (!found.isDirectory()) throw new Error("it is no directory")
  if (found.uid !== process.getuid?.()) throw new Error("it belongs to another user")
  chmodSync(directory, 0o700)
}

function listen(directory: string, { processId, handOver }: NeighbourParts): () => Promise<void> {
  const unix = join(directory, processId)
  const { length } = Buffer.from(unix)
  if (length > LONGEST_PATH) throw new Error(`${length} bytes of path are more than the ${LONGEST_PATH} of a socket's`)
  const server = Bun.serve({
    unix,

    maxRequestBodySize: MOST_ASKED_BYTES,
    async fetch(request) {
      if (server.pendingRequests > MOST_ASKING) return new Response(null, { status: 503 })
      const asked: unknown = await request.json().catch(() => undefined)
      if (!Value.Check(Asked, asked)) return new Response(null, { status: 400 })
      return new Response(handOver(asked, request.signal))
    },
  })
  chmodSync(unix, 0o600)
  return async () => {
    rmSync(unix, { force: true })
    await server.stop(true)
  }
}

/** What processes have left that were killed. */
async function removeStale(directory: string, own: string): Promise<void> {
  for (const name of readdirSync(directory)) {
    const path = join(directory, name)
    const isOld = (lstatSync(path, { throwIfNoEntry: false })?.mtimeMs ?? Infinity) < Date.now() - STALE_MS
    if (name === own || !PROCESS_ID.test(name) || !isOld) continue
    const signal = AbortSignal.timeout(CONNECT_MS)
    const refused = await fetch("http://neighbour/", { unix: path, signal }).then(
      () => false,
      (error: unknown) => error instanceof Error && "code" in error && error.code === "ECONNREFUSED",
    )
    if (refused) rmSync(path, { force: true })
  }
}
