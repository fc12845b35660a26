/**
 * Opens the embedded Postgres of a data directory, for as long as this process lives or until closed. It listens on a unix
 * socket in a fresh directory that only this user can enter, so no password is needed. An acknowledged row survives the
 * death of the process and a power cut.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join, resolve } from "node:path"
import { type CheckpointTerms, usualTerms } from "./checkpoints.ts"
import { closeToOthers, isDatabase, lockDataDirectory } from "./database-files.ts"
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
  readonly checkpoints?: CheckpointTerms
  /** Unless false, a commit is on the disk before it is acknowledged. Else a power cut takes all since the last checkpoint. */
  readonly syncsCommits?: boolean
  /** Others can read or rename what is at the path, and that could not be changed. */
  readonly onOpenToOthers?: (path: string) => void
  /** A checkpoint was refused; it is tried again. */
  readonly onNoCheckpoint?: (error: string) => void
}

export async function openEmbedded(options: EmbeddedOptions): Promise<Embedded> {
  const { dataDir } = options
  using taken = new DisposableStack()
  const directory = dataDir === "memory" ? undefined : join(resolve(dataDir), "pg")
  if (directory !== undefined) {
    taken.use(lockDataDirectory(resolve(dataDir)))
    // Before anything is changed.
    isDatabase(directory)
    for (const path of closeToOthers(resolve(dataDir))) options.onOpenToOthers?.(path)
  }
  const socketDir = mkdtempSync(join(tmpdir(), "loket-"))
  taken.defer(() => rmSync(socketDir, { recursive: true, force: true }))
  const worker = new PostgresWorker(options, directory)
  taken.defer(() => worker.terminate())
  const socketPath = join(socketDir, ".s.PGSQL.5432")
  const { checkpoints = usualTerms, syncsCommits = true } = options
  await worker.ask({ start: { directory, socketPath, checkpoints, syncsCommits } })

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
  readonly #options: EmbeddedOptions
  readonly #directory: string | undefined
  #asked: PromiseWithResolvers<void> | undefined
  #ready = false
  #ended = false

  constructor(options: EmbeddedOptions, directory: string | undefined) {
    this.#options = options
    this.#directory = directory
    this.#worker = new Worker(workerUrl)
    this.#worker.addEventListener("message", (event: MessageEvent<FromWorker>) => this.#hear(event.data))
    this.#worker.addEventListener("error", (event) => this.#exit(event.message))
    this.#worker.addEventListener("close", () => this.#exit("it ended"))
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

  #hear(message: FromWorker): void {
    if (typeof message === "string") {
      this.#ready = true
      this.#asked?.resolve()
    } else if ("failed" in message) this.#exit(message.failed)
    else this.#options.onNoCheckpoint?.(message.checkpointFailed)
  }

  #exit(why: string): void {
    if (this.#ended) return
    this.#ended = true
    this.#worker.terminate()
    const where = this.#directory === undefined ? "" : ` in ${this.#directory}`
    const error = this.#ready
      ? new Error(`The embedded database${where} failed: ${why}`)
      : new Error(`The embedded database${where} does not start: ${why}. ${START_ADVICE}`)
    if (this.#asked) this.#asked.reject(error)
    else this.#options.onExit?.(error)
  }
}

const START_ADVICE =
  "If it is damaged and not merely out of room or memory, restore a backup; to begin anew, start with another DATA_DIR"
