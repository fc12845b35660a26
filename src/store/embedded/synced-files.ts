/**
 * PGlite's directory of files, which other users cannot open whatever mode a file is made with, and with an `fsync` that
 * reaches the disk: PGlite has none, and runs with the server's setting `fsync` off. With it a commit is on the disk before it
 * is acknowledged, and a checkpoint when it is over. What a process before this one left unsynced is for whoever starts.
 */
import { fdatasyncSync, fsyncSync, readdirSync } from "node:fs"
import { join } from "node:path"
import { PGlite } from "@electric-sql/pglite"
import { NodeFS } from "@electric-sql/pglite/nodefs"
import { sync } from "./database-files.ts"

/** For PGlite: the server syncs, in the one way that passes through `SyncedFiles`, and keeps few files of its log. */
export const syncedStart: string[] = [
  ...PGlite.defaultStartParams.filter((parameter) => parameter !== "-F"),
  ...["wal_sync_method=fsync", "min_wal_size=32MB"].flatMap((setting) => ["-c", setting]),
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
