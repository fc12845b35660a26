/**
 * How the embedded Postgres reaches the disk. First PGlite's directory of files, which other users cannot open whatever mode a file is made with, and with an `fsync` that
 * reaches the disk: PGlite has none, and runs with the server's setting `fsync` off. With it a commit is on the disk before it
 * is acknowledged, and a checkpoint when it is over. What a process before this one left unsynced is for whoever starts.
 *
 * Then its checkpoints. It begins none by itself, having no process for it: its log would grow for ever, and a start would read all
 * of it again. Sizes in bytes of the log, times in milliseconds.
 */
import { fdatasyncSync, fsyncSync, readdirSync, statfsSync } from "node:fs"
import { join } from "node:path"
import { PGlite } from "@electric-sql/pglite"
import { NodeFS } from "@electric-sql/pglite/nodefs"
import type { Database } from "../database.ts"
import { sync } from "./database-files.ts"

/**
 * For PGlite: the server syncs, in the one way that passes through `SyncedFiles`, and keeps few files of its log. Its buffers are
 * written to whole at a start, so with the usual 128 MB this takes more than twice as long, and the memory stays taken. What is not in
 * them is read from the kernel's cache.
 */
export const syncedStart: string[] = [
  ...PGlite.defaultStartParams.filter((parameter) => parameter !== "-F"),
  ...["wal_sync_method=fsync", "min_wal_size=32MB", "shared_buffers=32MB"].flatMap((setting) => ["-c", setting]),
]

type Init = NodeFS["init"]
export type Module = Parameters<NonNullable<Parameters<Init>[1]["preRun"]>[number]>[0]

/** As much of Emscripten's file system of real files as is changed here; `fsync` is what it calls if it is there. */
interface RealFiles {
  readonly stream_ops: {
    fsync: (stream: OpenFile) => number
    write: (stream: OpenFile, ...what: unknown[]) => number
    setattr: (stream: OpenFile, attributes: object) => void
  }
  readonly node_ops: {
    mknod: (parent: Node, name: string, mode: number, device: number) => Node
    setattr: (node: Node, attributes: { mode?: number | null }) => void
  }
  readonly tryFSOperation: <T>(work: () => T) => T
}
interface Node {
  readonly mode: number
}
export interface OpenFile {
  readonly node: Node
  readonly nfd: number
  readonly path: string
}

const OTHERS = 0o077
const isDirectory = ({ mode }: Node): boolean => (mode & 0o170000) === 0o040000

const isOfTheLog = (path: string): boolean => path.includes("/pg_wal/")

export class SyncedFiles extends NodeFS {
  readonly directory: string
  readonly #syncsCommits: boolean
  #syncsLog = true

  /** Without `syncsCommits` the log is left to the operating system between a start, a checkpoint and a stop. */
  constructor(directory: string, syncsCommits: boolean) {
    super(directory)
    this.directory = directory
    this.#syncsCommits = syncsCommits
  }

  /** The database has started, or a checkpoint is over. */
  rest(): void {
    this.#syncsLog = this.#syncsCommits
  }

  /**
   * Tables are about to be synced. The log comes first: what is in a table and not in the log would be there by half after a
   * power cut, because the log is read again only up to where it ends.
   */
  beforeTables(): void {
    if (this.#syncsLog) return
    const log = join(this.directory, "pg_wal")
    for (const name of readdirSync(log)) if (/^[0-9A-F]{24}$/.test(name)) sync(join(log, name))
    sync(log)
    this.#syncsLog = true
  }

  override async init(...[database, options]: Parameters<Init>): ReturnType<Init> {
    const { emscriptenOpts } = await super.init(database, options)
    const preRun = [...(emscriptenOpts.preRun ?? []), (module: Module) => this.teach(module)]
    return { emscriptenOpts: { ...emscriptenOpts, preRun } }
  }

  protected teach(module: Module): void {
    const files: RealFiles = module.NODEFS
    const { stream_ops: streams, node_ops: nodes } = files
    /** Changed since they were synced. After a crash the server asks for all of a thousand files, one by one. */
    const changed = new WeakSet<Node>()

    const { mknod, setattr } = nodes
    nodes.mknod = (parent, name, mode, device) => {
      const node = mknod(parent, name, mode & ~OTHERS, device)
      changed.add(node)
      return node
    }
    nodes.setattr = (node, { mode, ...others }) => {
      changed.add(node)
      setattr(node, typeof mode === "number" ? { ...others, mode: mode & ~OTHERS } : others)
    }
    const { write, setattr: setStreamAttr } = streams
    streams.write = (stream, ...what) => {
      changed.add(stream.node)
      return write(stream, ...what)
    }
    streams.setattr = (stream, attributes) => {
      changed.add(stream.node)
      setStreamAttr(stream, attributes)
    }
    streams.fsync = (stream) => {
      const { node, path } = stream
      if (!isDirectory(node) && !changed.has(node)) return 0
      if (!this.#syncsLog && isOfTheLog(path)) return 0
      // Of a file of the log its contents are enough, and less work: it has its length before it is written to.
      files.tryFSOperation(() => this.sync(stream, isOfTheLog(path) && !isDirectory(node)))
      changed.delete(node)
      return 0
    }
  }

  protected sync({ nfd }: OpenFile, contentsAlone: boolean): void {
    if (contentsAlone) fdatasyncSync(nfd)
    else fsyncSync(nfd)
  }
}

/** When one is made. */
export interface CheckpointTerms {
  /** How often it is looked whether one is due. */
  readonly lookMs: number
  /** What a start has to read again at most, but for what is written between two looks. */
  readonly logBytes: number
  /** However little was written since the last one. */
  readonly ageMs: number
}

/** The size is that of one file of the log. */
export const usualTerms: CheckpointTerms = { lookMs: 1_000, logBytes: 16 * 1024 * 1024, ageMs: 5 * 60_000 }

/** After one that failed, as on a full disk. */
const AGAIN_MS = 10_000
/** For its small files. Where Postgres cannot write these, it gives up for good. */
const ROOM_BYTES = 1024 * 1024

/** The log since the last checkpoint began. */
const REDO =
  "select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), redo_lsn)::float8 as bytes from pg_control_checkpoint()"

/** How much of its log a start would have to read again, in bytes. Throws `DatabaseUnavailable`. */
export async function redoBytes(database: Database): Promise<number> {
  const [row] = await database.run((sql) => sql.unsafe<{ bytes: number }[]>(REDO), {
    deadlineMs: 2_000,
    attemptMs: 2_000,
  })
  return row?.bytes ?? 0
}

export interface CheckpointOptions {
  readonly database: PGlite
  readonly files: SyncedFiles
  readonly terms: CheckpointTerms
  /** Where the database is. */
  readonly directory: string
  /** Does something while no client has the database. */
  readonly between: (work: () => Promise<void>) => Promise<void>
  /** The database refused one; it is tried again. */
  readonly onRefused: (error: Error) => void
  /** The database itself failed at one. */
  readonly onFailure: (error: unknown) => void
}

export class Checkpoints {
  readonly #options: CheckpointOptions
  readonly #timer: ReturnType<typeof setInterval>
  #looking: Promise<void> = Promise.resolve()
  #busy = false
  /** Since the last look, and since the last checkpoint. */
  #touched = false
  #written = false
  #last = performance.now()
  #notBefore = 0

  constructor(options: CheckpointOptions) {
    this.#options = options
    this.#timer = setInterval(() => this.#tick(), options.terms.lookMs)
  }

  /** A statement was carried out: something may have been written. */
  touch(): void {
    this.#touched = true
    this.#written = true
  }

  /** No more of them; resolves when none is under way. */
  async stop(): Promise<void> {
    clearInterval(this.#timer)
    await this.#looking
  }

  #tick(): void {
    const now = performance.now()
    const isDue = this.#touched || (this.#written && this.#isOld())
    if (this.#busy || !isDue || now < this.#notBefore) return
    this.#busy = true
    this.#touched = false
    const { between, onRefused, onFailure } = this.#options
    this.#looking = between(() => this.#look())
      .catch((error: unknown) => {
        if (!isRefusal(error)) return onFailure(error)
        this.#notBefore = now + AGAIN_MS
        this.#touched = true
        onRefused(error)
      })
      .finally(() => {
        this.#busy = false
      })
  }

  async #look(): Promise<void> {
    const { terms, directory } = this.#options
    if (!this.#isOld() && (await this.#logBytes()) < terms.logBytes) return
    if (roomIn(directory) < ROOM_BYTES) throw new NoRoom(`there is no room on the disk of ${directory}`)
    await this.#checkpoint()
    this.#last = performance.now()
    this.#written = false
  }

  #isOld(): boolean {
    return performance.now() - this.#last >= this.#options.terms.ageMs
  }

  /** Since the last checkpoint. */
  async #logBytes(): Promise<number> {
    const { rows } = await this.#options.database.query<{ bytes: number }>(REDO)
    return rows[0]?.bytes ?? 0
  }

  async #checkpoint(): Promise<void> {
    const { database, files } = this.#options
    files.beforeTables()
    try {
      await database.query("checkpoint")
    } finally {
      files.rest()
    }
  }
}

class NoRoom extends Error {
  override readonly name = "NoRoom"
}

function roomIn(directory: string): number {
  const { bavail, bsize } = statfsSync(directory)
  return bavail * bsize
}

/** An ERROR of the statement; a PANIC, or a file that cannot be synced, is of the database. */
const isRefusal = (error: unknown): error is Error =>
  error instanceof NoRoom || (error instanceof Error && "severity" in error && error.severity === "ERROR")
