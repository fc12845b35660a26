/**
 * Opens the embedded Postgres of a data directory, for as long as this process lives or until closed. It listens on a unix
 * socket in a fresh directory that only this user can enter, so no password is needed. An acknowledged row survives the
 * death of the process and a power cut.
 *
 * And copies the files of an embedded database, also while a gateway runs on it. Most of it is copied beside the gateway's
 * statements; what they changed meanwhile is copied again while this is the only client of the database's one session, and
 * nothing can write. The copy is what a SIGKILL at that moment would leave, which a start reads again from the log: a commit
 * is in its files before it is acknowledged. Times in milliseconds.
 */
import { type BigIntStats, constants, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { copyFile, lstat, mkdir, readdir, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { dirname, join, resolve } from "node:path"
import { Connection, within } from "../connection.ts"
import { type CheckpointTerms, usualTerms } from "./checkpoints.ts"
import {
  closeToOthers,
  DataDirectoryInUse,
  isDatabase,
  lockDataDirectory,
  mustNotBeAnothers,
  syncAll,
} from "./database-files.ts"
import { programs } from "./programs.ts"
import type { FromWorker, ToWorker } from "./worker.ts"

export interface Embedded {
  /** For `openDatabase`. */
  readonly url: string
  close(): Promise<void>
}

export interface EmbeddedOptions {
  /** Made if need be, and locked: a second process gets `DataDirectoryInUse`, and root in another user's `OfAnotherUser`. "memory" keeps nothing. */
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
    mustNotBeAnothers(directory)
    taken.use(lockDataDirectory(resolve(dataDir)))
    // Before anything is changed.
    isDatabase(directory)
    for (const path of closeToOthers(resolve(dataDir))) options.onOpenToOthers?.(path)
  }
  const socketDir = mkdtempSync(join(tmpdir(), "loket-"))
  taken.defer(() => rmSync(socketDir, { recursive: true, force: true }))
  const compiled = await programs()
  const worker = new PostgresWorker(options, directory)
  taken.defer(() => worker.terminate())
  const socketPath = join(socketDir, ".s.PGSQL.5432")
  const { checkpoints = usualTerms, syncsCommits = true } = options
  await worker.ask({ start: { programs: compiled, directory, socketPath, checkpoints, syncsCommits } })

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
const isBinary = import.meta.url.includes("/$bunfs/") || import.meta.url.includes("/~BUN/")
const workerUrl = new URL(isBinary ? "./store/embedded/worker.js" : "./worker.ts", import.meta.url)

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

export interface Copied {
  readonly bytes: number
  /** How long statements had to wait; 0 when no gateway ran. */
  readonly pausedMs: number
}

/** Copied beside the statements, until little is left to be copied while they wait. */
const ROUNDS = 3
const LITTLE_BYTES = 32 * 1024 * 1024
const ANSWER_MS = 10_000
/** A client that holds the session is hung up on after five seconds of silence. */
const WORD_MS = 1_000
/** A file's time is no finer than the kernel's clock, so one that was written just before is taken for changed. */
const SETTLED_MS = 2_000

/** `target` must not be there. Throws when there is no database, or when the gateway that has it does not answer. */
export async function copyDatabase(
  dataDir: string,
  target: string,
  copied: (bytes: number) => void = () => {},
): Promise<Copied> {
  const source = join(resolve(dataDir), "pg")
  if (!isDatabase(source)) throw new Error(`there is no database in ${dataDir}: set DATA_DIR to where it is`)
  const copy = new Copy(source, target, copied)
  const lock = lockOf(resolve(dataDir))
  if (lock !== undefined) {
    using _lock = lock
    await copy.round()
    await syncAll(target)
    return { bytes: copy.bytes, pausedMs: 0 }
  }
  const address = embeddedAddress(dataDir)
  if (address === undefined) throw new Error(`the process that has ${dataDir} is not ready yet: try again`)
  for (let round = 0; round < ROUNDS && (await copy.round()) > LITTLE_BYTES; round++);
  const pausedMs = await alone(address, () => copy.round())
  await syncAll(target)
  return { bytes: copy.bytes, pausedMs }
}

function lockOf(dataDir: string): Disposable | undefined {
  try {
    return lockDataDirectory(dataDir)
  } catch (error) {
    if (error instanceof DataDirectoryInUse) return undefined
    throw error
  }
}

/** Works while no other client can have anything carried out; how long that was. */
async function alone(address: string, work: () => Promise<unknown>): Promise<number> {
  const connection = new Connection({ url: address, connectTimeoutMs: ANSWER_MS, statementTimeoutMs: ANSWER_MS })
  const say = (statement: string) => within(ANSWER_MS, connection.sql.unsafe(statement).execute())
  try {
    await say("select 1")
    // The session is this client's from here to the end of the transaction.
    await say("begin")
    const began = performance.now()
    const words = setInterval(() => void say("select 1").catch(() => connection.discard()), WORD_MS)
    try {
      await work()
    } finally {
      clearInterval(words)
    }
    // Fails when the session was lost meanwhile, and with it the certainty that nobody wrote.
    await say("rollback")
    return performance.now() - began
  } finally {
    connection.discard()
  }
}

class Copy {
  readonly #source: string
  readonly #target: string
  readonly #copied: (bytes: number) => void
  /** What each file was like when it was copied, of those that had been left alone for a while. */
  readonly #known = new Map<string, BigIntStats>()
  #there = new Set<string>()
  bytes = 0

  constructor(source: string, target: string, copied: (bytes: number) => void) {
    this.#source = source
    this.#target = target
    this.#copied = copied
  }

  /** Copies what is new or has changed, removes what is gone, and returns how many bytes were copied. */
  async round(): Promise<number> {
    let bytes = 0
    const there = new Set<string>()
    await mkdir(this.#target, { recursive: true, mode: 0o700 })
    for (const entry of await readdir(this.#source, { recursive: true, withFileTypes: true })) {
      const path = join(entry.parentPath, entry.name).slice(this.#source.length + 1)
      const isCopied = await this.#one(path, entry.isDirectory()).catch(ifGone)
      if (isCopied === undefined) continue
      there.add(path)
      bytes += isCopied
      this.#copied((this.bytes += isCopied))
    }
    for (const path of this.#there)
      if (!there.has(path)) await rm(join(this.#target, path), { recursive: true, force: true })
    this.#there = there
    return bytes
  }

  async #one(path: string, isDirectory: boolean): Promise<number> {
    const to = join(this.#target, path)
    if (isDirectory) {
      await mkdir(to, { recursive: true, mode: 0o700 })
      return 0
    }
    const now = BigInt(Date.now() - SETTLED_MS) * 1_000_000n
    const stats = await lstat(join(this.#source, path), { bigint: true })
    const known = this.#known.get(path)
    if (known?.mtimeNs === stats.mtimeNs && known.ctimeNs === stats.ctimeNs && known.size === stats.size) return 0
    await mkdir(dirname(to), { recursive: true, mode: 0o700 })
    // By reference where the file system can do that.
    await copyFile(join(this.#source, path), to, constants.COPYFILE_FICLONE)
    if (stats.mtimeNs < now) this.#known.set(path, stats)
    else this.#known.delete(path)
    return Number(stats.size)
  }
}

/** A file that was there when the directory was read. In the last round nothing goes. */
function ifGone(error: unknown): undefined {
  if (error instanceof Error && "code" in error && error.code === "ENOENT") return undefined
  throw error
}
