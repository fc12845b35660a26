/**
 * A disk that remembers. It records what the embedded database does to its files, in order, so that what a disk has after a power
 * cut at any moment can be made again, and many times differently:
 *
 * - What was written to a file and then synced is there. Of what was written later any blocks may be there, in any mixture.
 * - Names are made, moved and removed in order, as by ext4's journal. Those before a sync are there, unless it is of contents
 *   alone (fdatasync), which brings no more names than its own file's. Of the later ones a beginning is.
 */
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { dirname, join, relative } from "node:path"
import { type Module, type OpenFile, SyncedFiles } from "../../../src/store/embedded/checkpoints.ts"
import type { Random } from "../../../actors/kernel/clock.ts"

/** A file is named as it was at first: by its path if it was there before the recording. Paths are within the directory. */
type Change =
  | { readonly type: "written"; readonly file: string; readonly at: number; readonly bytes: Buffer }
  | { readonly type: "cut"; readonly file: string; readonly length: number }
  | { readonly type: "synced"; readonly file: string | undefined; readonly isWhole: boolean }
  | { readonly type: "made"; readonly path: string; readonly file: string | undefined }
  | { readonly type: "renamed"; readonly from: string; readonly to: string }
  | { readonly type: "removed"; readonly path: string }
type Naming = Extract<Change, { type: "made" | "renamed" | "removed" }>

const BLOCK_BYTES = 4096

interface Node {
  readonly mode: number
}
type Attributes = { readonly size?: number | null }

/** What is wrapped of Emscripten's file system of real files. */
interface RealFiles {
  readonly realPath: (node: Node) => string
  readonly stream_ops: {
    write: (stream: OpenFile, from: Uint8Array, offset: number, length: number, at: number) => number
    setattr: (stream: OpenFile, attributes: Attributes) => void
  }
  readonly node_ops: {
    mknod: (parent: Node, name: string, mode: number, device: number) => Node
    setattr: (node: Node, attributes: Attributes) => void
    rename: (node: Node, parent: Node, name: string) => void
    unlink: (parent: Node, name: string) => void
    rmdir: (parent: Node, name: string) => void
  }
}

const isDirectory = ({ mode }: Node): boolean => (mode & 0o170000) === 0o040000

export class RecordedFiles extends SyncedFiles {
  readonly #changes: Change[] = []
  /** Which file a path is now; a path that is not here is itself. */
  readonly #now = new Map<string, string>()
  #realPath: (node: Node) => string = () => ""

  /** How much was done so far. */
  get moment(): number {
    return this.#changes.length
  }

  protected override teach(module: Module): void {
    super.teach(module)
    const files: RealFiles = module.NODEFS
    const { stream_ops: streams, node_ops: nodes } = files
    this.#realPath = files.realPath
    const pathIn = (parent: Node, name: string) => join(this.#pathOf(parent), name)

    const { write, setattr: setStreamAttr } = streams
    streams.write = (stream, from, offset, length, at) => {
      const written = write(stream, from, offset, length, at)
      const bytes = Buffer.from(from.subarray(offset, offset + written))
      this.#changes.push({ type: "written", file: this.#fileOf(stream.node), at, bytes })
      return written
    }
    streams.setattr = (stream, attributes) => {
      setStreamAttr(stream, attributes)
      this.#cut(stream.node, attributes)
    }
    const { mknod, setattr, rename, unlink, rmdir } = nodes
    nodes.setattr = (node, attributes) => {
      setattr(node, attributes)
      this.#cut(node, attributes)
    }
    nodes.mknod = (parent, name, mode, device) => {
      const node = mknod(parent, name, mode, device)
      const path = pathIn(parent, name)
      const file = isDirectory(node) ? undefined : `#${this.#changes.length}`
      if (file !== undefined) this.#now.set(path, file)
      this.#changes.push({ type: "made", path, file })
      return node
    }
    nodes.rename = (node, parent, name) => {
      const [from, to] = [this.#pathOf(node), pathIn(parent, name)]
      rename(node, parent, name)
      this.#now.set(to, this.#now.get(from) ?? from)
      this.#now.delete(from)
      this.#changes.push({ type: "renamed", from, to })
    }
    const removing = (remove: (parent: Node, name: string) => void) => (parent: Node, name: string) => {
      const path = pathIn(parent, name)
      remove(parent, name)
      this.#now.delete(path)
      this.#changes.push({ type: "removed", path })
    }
    nodes.unlink = removing(unlink)
    nodes.rmdir = removing(rmdir)
  }

  protected override sync(stream: OpenFile, contentsAlone: boolean): void {
    super.sync(stream, contentsAlone)
    const file = isDirectory(stream.node) ? undefined : this.#fileOf(stream.node)
    this.#changes.push({ type: "synced", file, isWhole: !contentsAlone })
  }

  #cut(node: Node, { size }: Attributes): void {
    if (typeof size === "number") this.#changes.push({ type: "cut", file: this.#fileOf(node), length: size })
  }

  #pathOf(node: Node): string {
    return relative(this.directory, this.#realPath(node))
  }

  #fileOf(node: Node): string {
    const path = this.#pathOf(node)
    return this.#now.get(path) ?? path
  }

  /** Makes in `target` what a disk may have when the power is cut at a moment. `before` has the files as they were at first. */
  cutAt(moment: number, random: Random, before: string, target: string): void {
    const changes = this.#changes.slice(0, moment)
    const names = namesAfter(changes, random, before)
    const isLikely = [0, 0.5, 1, random()][Math.floor(4 * random())] ?? 0
    const contents = new Contents(changes, before, () => random() < isLikely)
    cpSync(before, target, { recursive: true })
    for (const path of filesIn(before)) if (names.get(path) !== path) rmSync(join(target, path))
    for (const [path, file] of names) {
      if (file === path && !contents.isChanged(file)) continue
      mkdirSync(dirname(join(target, path)), { recursive: true })
      if (file === undefined) mkdirSync(join(target, path), { recursive: true })
      else writeFileSync(join(target, path), contents.of(file))
    }
  }
}

/** Which file is at which path; no file is at a directory's. */
function namesAfter(changes: readonly Change[], random: Random, before: string): Map<string, string | undefined> {
  const namings: Naming[] = []
  let certain = 0
  for (const change of changes) {
    if (change.type === "synced") {
      const own = namings.findIndex((naming) => naming.type === "made" && naming.file === change.file)
      certain = change.isWhole ? namings.length : Math.max(certain, own + 1)
    } else if (change.type === "made" || change.type === "renamed" || change.type === "removed") namings.push(change)
  }
  const names = new Map<string, string | undefined>(filesIn(before).map((path) => [path, path]))
  const beginning = certain + Math.floor(random() * (namings.length - certain + 1))
  for (const naming of namings.slice(0, beginning)) {
    if (naming.type === "made") names.set(naming.path, naming.file)
    else if (naming.type === "removed") names.delete(naming.path)
    else {
      names.set(naming.to, names.get(naming.from))
      names.delete(naming.from)
    }
  }
  return names
}

class Contents {
  readonly #before: string
  readonly #isThere: () => boolean
  readonly #changes = new Map<string, Change[]>()

  constructor(changes: readonly Change[], before: string, isThere: () => boolean) {
    this.#before = before
    this.#isThere = isThere
    for (const change of changes) {
      if (!("file" in change) || change.file === undefined || change.type === "made") continue
      const known = this.#changes.get(change.file)
      if (known === undefined) this.#changes.set(change.file, [change])
      else known.push(change)
    }
  }

  isChanged(file: string): boolean {
    return this.#changes.has(file)
  }

  of(file: string): Buffer {
    const before = file.startsWith("#") ? Buffer.alloc(0) : readFileSync(join(this.#before, file))
    const changes = this.#changes.get(file) ?? []
    const ends = changes.map((change) => (change.type === "written" ? change.at + change.bytes.length : 0))
    const bytes = Buffer.alloc(Math.max(before.length, ...ends))
    before.copy(bytes)
    let { length } = before
    const synced = changes.findLastIndex((change) => change.type === "synced")
    for (const [index, change] of changes.entries()) {
      const isThere = () => index < synced || this.#isThere()
      if (change.type === "cut" && isThere()) {
        // What is cut off is not there again when the file grows.
        bytes.fill(0, change.length)
        length = change.length
      }
      if (change.type !== "written") continue
      for (let from = 0; from < change.bytes.length;) {
        const at = change.at + from
        const to = Math.min(change.bytes.length, from + BLOCK_BYTES - (at % BLOCK_BYTES))
        if (isThere()) {
          change.bytes.copy(bytes, at, from, to)
          length = Math.max(length, change.at + to)
        }
        from = to
      }
    }
    return bytes.subarray(0, length)
  }
}

const filesIn = (directory: string): string[] =>
  readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(directory, join(entry.parentPath, entry.name)))
