/**
 * Opens the embedded Postgres of a data directory, for as long as this process lives or until closed. It listens on a unix
 * socket in a fresh directory that only this user can enter, so no password is needed. An acknowledged row survives the
 * death of the process; it is the operating system that writes it to disk, so a power cut may cost the last moments.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join, resolve } from "node:path"
import { lockDataDirectory } from "./lock.ts"
import type { FromWorker, ToWorker } from "./worker.ts"

export interface Embedded {
  /** For `openDatabase`. */
  readonly url: string
  close(): Promise<void>
}

export interface EmbeddedOptions {
  /** Made if need be, and locked: a second process gets `DataDirectoryInUse`. "memory" keeps nothing. */
  readonly dataDir: string
  /** The database is gone and does not come back: the process should end, and be started anew. */
  readonly onExit?: (error: Error) => void
}

export async function openEmbedded({ dataDir, onExit }: EmbeddedOptions): Promise<Embedded> {
  using taken = new DisposableStack()
  if (dataDir !== "memory") taken.use(lockDataDirectory(resolve(dataDir)))
  const socketDir = mkdtempSync(join(tmpdir(), "loket-"))
  taken.defer(() => rmSync(socketDir, { recursive: true, force: true }))
  const worker = new PostgresWorker(onExit)
  taken.defer(() => worker.terminate())

  const files = dataDir === "memory" ? dataDir : join(resolve(dataDir), "pg")
  await worker.ask({ start: { dataDir: files, socketPath: join(socketDir, ".s.PGSQL.5432") } })

  const url = `postgres://postgres@localhost/postgres?host=${encodeURIComponent(socketDir)}`
  if (dataDir !== "memory") {
    writeFileSync(addressFile(dataDir), url, { mode: 0o600 })
    taken.defer(() => rmSync(addressFile(dataDir), { force: true }))
  }
  const held = taken.move()
  return {
    url,
    close: async () => {
      if (held.disposed) return
      using _held = held
      if (!worker.ended) await worker.ask({ stop: true })
    },
  }
}

/** Where a command finds the database of a directory that a running gateway has. It may be left from one that was killed. */
export function embeddedAddress(dataDir: string): string | undefined {
  try {
    return readFileSync(addressFile(dataDir), "utf8")
  } catch {
    return undefined
  }
}

const addressFile = (dataDir: string): string => join(resolve(dataDir), "address")

/**
 * A compiled binary keeps every module in one file at its root, and the worker, which is an entry point of its own, under
 * its path below src/: `bun build --compile src/main.ts src/store/embedded/worker.ts`.
 */
const compiled = import.meta.url.includes("/$bunfs/") || import.meta.url.includes("/~BUN/")
const workerUrl = new URL(compiled ? "./store/embedded/worker.js" : "./worker.ts", import.meta.url)

/** The worker, asked one thing at a time. */
class PostgresWorker {
  readonly #worker: Worker
  readonly #onExit: ((error: Error) => void) | undefined
  #asked: PromiseWithResolvers<void> | undefined
  #ended = false

  constructor(onExit: ((error: Error) => void) | undefined) {
    this.#onExit = onExit
    this.#worker = new Worker(workerUrl)
    this.#worker.addEventListener("message", (_answer: MessageEvent<FromWorker>) => this.#asked?.resolve())
    this.#worker.addEventListener("error", (event) => this.#exit(`The embedded database failed: ${event.message}`))
    this.#worker.addEventListener("close", () => this.#exit("The embedded database ended"))
  }

  get ended(): boolean {
    return this.#ended
  }

  async ask(message: ToWorker): Promise<void> {
    this.#asked = Promise.withResolvers()
    this.#worker.postMessage(message, [])
    await this.#asked.promise
    this.#asked = undefined
  }

  terminate(): void {
    this.#ended = true
    this.#worker.terminate()
  }

  #exit(why: string): void {
    if (this.#ended) return
    this.#ended = true
    this.#worker.terminate()
    const error = new Error(why)
    if (this.#asked) this.#asked.reject(error)
    else this.#onExit?.(error)
  }
}
