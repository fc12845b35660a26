/**
 * Copies the files of an embedded database, also while a gateway runs on it. Most of it is copied beside the gateway's
 * statements; what they changed meanwhile is copied again while this is the only client of the database's one session, and
 * nothing can write. The copy is what a SIGKILL at that moment would leave, which a start reads again from the log: a commit
 * is in its files before it is acknowledged. Times in milliseconds.
 */
import { type BigIntStats, constants } from "node:fs"
import { copyFile, lstat, mkdir, readdir, rm } from "node:fs/promises"
import { dirname, join, resolve } from "node:path"
import { Connection, within } from "../connection.ts"
import { DataDirectoryInUse, isDatabase, lockDataDirectory, syncAll } from "./database-files.ts"
import { embeddedAddress } from "./open.ts"

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
