/**
 * PGlite's directory of files, which other users cannot open whatever mode a file is made with, and with an `fsync` that reaches the disk: PGlite has none, and runs with the server's setting
 * `fsync` off. What this makes durable are checkpoints. A commit's log is left to the operating system, as ever; it is
 * synced when something is about to rely on it. What a process before this one left unsynced is for whoever starts.
 */
import { fsyncSync } from "node:fs"
import { PGlite } from "@electric-sql/pglite"
import { NodeFS } from "@electric-sql/pglite/nodefs"

/** For PGlite: the server syncs, in the one way that passes through `SyncedFiles`, and keeps few files of its log. */
export const syncedStart: string[] = [
  ...PGlite.defaultStartParams.filter((parameter) => parameter !== "-F"),
  ...["wal_sync_method=fsync", "min_wal_size=32MB"].flatMap((setting) => ["-c", setting]),
]

type Init = NodeFS["init"]
type Module = Parameters<NonNullable<Parameters<Init>[1]["preRun"]>[number]>[0]

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
interface OpenFile {
  readonly node: Node
  readonly nfd: number
  readonly path: string
}

const OTHERS = 0o077
const isDirectory = ({ mode }: Node): boolean => (mode & 0o170000) === 0o040000

export class SyncedFiles extends NodeFS {
  /** At a start, a checkpoint and a stop the log is synced too; between them only on its way to be read again. */
  logToo = true

  override async init(...[database, options]: Parameters<Init>): ReturnType<Init> {
    const { emscriptenOpts } = await super.init(database, options)
    const preRun = [...(emscriptenOpts.preRun ?? []), (module: Module) => this.#teach(module)]
    return { emscriptenOpts: { ...emscriptenOpts, preRun } }
  }

  #teach(module: Module): void {
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
    streams.fsync = ({ node, nfd, path }) => {
      if (!isDirectory(node) && !changed.has(node)) return 0
      if (!this.logToo && path.includes("/pg_wal/")) return 0
      files.tryFSOperation(() => fsyncSync(nfd))
      changed.delete(node)
      return 0
    }
  }
}
