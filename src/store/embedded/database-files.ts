/**
 * The files of an embedded database on the disk: whether they are a database at all, whether other users can open them,
 * and whether they have reached the disk.
 */
import {
  chmodSync,
  closeSync,
  existsSync,
  fsyncSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readSync,
  statSync,
} from "node:fs"
import { open } from "node:fs/promises"
import { join } from "node:path"
import { Database, SQLiteError } from "bun:sqlite"

/** What is in the directory cannot be started, and is left as it is. */
class DatabaseDamaged extends Error {
  override readonly name = "DatabaseDamaged"
  constructor(directory: string, what: string) {
    super(
      `The embedded database in ${directory} is damaged: ${what}. Nothing in it was changed. Put back what is missing or restore a backup; to begin anew, start with another DATA_DIR`,
    )
  }
}

/** PostgreSQL's `PG_CONTROL_FILE_SIZE`: it reads no shorter file. */
const CONTROL_BYTES = 8192

/**
 * Whether a database is there; false when nothing is. Throws `DatabaseDamaged` where something is there that PGlite would
 * take for an empty directory: it asks for PG_VERSION alone, and makes a new database over whatever else it finds.
 */
export function isDatabase(directory: string): boolean {
  if (lstatSync(directory, { throwIfNoEntry: false }) === undefined) return false
  if (statSync(directory, { throwIfNoEntry: false })?.isDirectory() !== true) {
    throw new DatabaseDamaged(directory, "it is no directory")
  }
  if (readdirSync(directory).length === 0) {
    throw new DatabaseDamaged(directory, "the directory is empty (if nothing was ever in it, remove it)")
  }
  const version = contentOf(join(directory, "PG_VERSION"))
  if (version === undefined) throw new DatabaseDamaged(directory, "the file PG_VERSION is missing")
  if (!/^\d+\s*$/.test(version.toString("latin1"))) {
    throw new DatabaseDamaged(directory, "the file PG_VERSION holds no version")
  }
  const control = contentOf(join(directory, "global/pg_control"))
  if (control === undefined) throw new DatabaseDamaged(directory, "the file global/pg_control is missing")
  if (control.length < CONTROL_BYTES || control.every((byte) => byte === 0)) {
    throw new DatabaseDamaged(directory, "the file global/pg_control is empty or cut short")
  }
  return true
}

/** PostgreSQL's `DBState`, and where the control file has it. */
const STATE_AT = 16
const SHUT_DOWN = 1

/** Whether the database was stopped in order, and so has nothing that is not on the disk. */
export function wasStopped(directory: string): boolean {
  return contentOf(join(directory, "global/pg_control"))?.readUInt32LE(STATE_AT) === SHUT_DOWN
}

/** The first bytes of a file; undefined when there is none. */
function contentOf(path: string): Buffer | undefined {
  if (statSync(path, { throwIfNoEntry: false })?.isFile() !== true) return undefined
  const file = openSync(path, "r")
  try {
    const bytes = Buffer.alloc(CONTROL_BYTES)
    return bytes.subarray(0, readSync(file, bytes))
  } finally {
    closeSync(file)
  }
}

/** What Loket puts into a data directory. */
const OURS = [
  "pg",
  "pg.unfinished",
  "withdrawals",
  "archives",
  "neighbours",
  "timelines",
  "lock",
  "lock-journal",
  "address",
  "demo.json",
]
/** What a file system may have put there. */
const NOBODYS = ["lost+found"]

/**
 * Takes from everybody else what they may do with the files of a data directory, made by whatever version. The directory
 * itself is closed too, unless it belongs to another user or holds things that are not ours, as `/tmp` would. Returns what
 * could not be closed.
 */
export function closeToOthers(dataDir: string): string[] {
  const names = readdirSync(dataDir)
  const all = names.filter((name) => OURS.includes(name)).flatMap((name) => closeAll(join(dataDir, name)))
  const isOurs = names.every((name) => OURS.includes(name) || NOBODYS.includes(name))
  if (isOurs ? !close(dataDir) : isOpenToWriters(dataDir)) all.unshift(dataDir)
  return all
}

/** The same for one directory and all that is in it. */
function closeAll(path: string): string[] {
  const left: string[] = []
  forEach(path, (each) => {
    if (!close(each)) left.push(each)
  })
  return left
}

/** Whether it is closed now. */
function close(path: string): boolean {
  const { mode } = statSync(path)
  if ((mode & OTHERS) === 0) return true
  try {
    chmodSync(path, mode & ~OTHERS & 0o7777)
    return (statSync(path).mode & OTHERS) === 0
  } catch {
    return false
  }
}

const OTHERS = 0o077
const OTHERS_WRITE = 0o022
const STICKY = 0o1000

/** Others may rename what is in it, whatever the modes of that are. */
function isOpenToWriters(directory: string): boolean {
  const { mode } = statSync(directory)
  return (mode & OTHERS_WRITE) !== 0 && (mode & STICKY) === 0
}

/** At once, because what is asked for together the disk writes together: a quarter of the time of one after the other. */
const SYNCS_AT_ONCE = 16

/** Writes all files of a directory to the disk, and their names. */
export async function syncAll(directory: string): Promise<void> {
  const paths: string[] = []
  forEach(directory, (path) => void paths.push(path))
  const work = async () => {
    for (let path = paths.pop(); path !== undefined; path = paths.pop()) {
      const file = await open(path, "r")
      await file.sync()
      await file.close()
    }
  }
  await Promise.all(Array.from({ length: SYNCS_AT_ONCE }, work))
}

/** Writes one file to the disk, or the names in a directory. */
export function sync(path: string): void {
  const file = openSync(path, "r")
  try {
    fsyncSync(file)
  } finally {
    closeSync(file)
  }
}

/** A file or a directory, and all that is below it; what a link leads to only where it is the path itself. */
function forEach(path: string, work: (path: string) => void): void {
  if (statSync(path, { throwIfNoEntry: false })?.isDirectory() === true) {
    for (const entry of readdirSync(path, { recursive: true, withFileTypes: true })) {
      if (entry.isFile() || entry.isDirectory()) work(join(entry.parentPath, entry.name))
    }
  }
  work(path)
}

/** This is root, and what it writes into the directory its user could not open. */
export class OfAnotherUser extends Error {
  override readonly name = "OfAnotherUser"
}

/** Throws `OfAnotherUser`. */
export function mustNotBeAnothers(directory: string): void {
  const owner = existsSync(directory) ? statSync(directory).uid : 0
  if (owner !== 0 && process.getuid?.() === 0)
    throw new OfAnotherUser(
      `${directory} belongs to user ${owner}, who could not open what root writes there: run this as that user`,
    )
}

// One process per data directory. The lock is SQLite's on an empty file: the kernel drops it with the process, however
// that dies, so there is no stale lock to clear and no process id to mistake for another's.

/** Another process uses the directory, or this one does already. */
export class DataDirectoryInUse extends Error {
  override readonly name = "DataDirectoryInUse"
}

/** Kept here, because a database that nobody refers to any more is closed by the garbage collector, and its lock is gone. */
const held = new Set<Database>()

/** With those above it, for this user alone, where they are not there. Throws a sentence that says what is in the way. */
export function makeDirectory(path: string): void {
  try {
    mkdirSync(path, { recursive: true, mode: 0o700 })
  } catch (error) {
    const code = error instanceof Error && "code" in error ? String(error.code) : undefined
    const why = code !== undefined && Object.hasOwn(inTheWay, code) ? inTheWay[code] : String(error)
    throw new Error(`the directory ${path} cannot be made: ${why}`, { cause: error })
  }
}

const inTheWay: Readonly<Record<string, string>> = {
  EEXIST: "a file of that name is there",
  ENOTDIR: "what stands above it is a file",
  EACCES: "this user may not write where it is to be",
  EPERM: "this user may not write where it is to be",
  EROFS: "the disk can only be read",
  ENOSPC: "the disk is full",
}

/** Takes the directory (made if need be) until disposed of, or until this process ends. */
export function lockDataDirectory(dataDir: string): Disposable {
  makeDirectory(dataDir)
  const lock = taken(dataDir)
  held.add(lock)
  return {
    [Symbol.dispose]: () => {
      held.delete(lock)
      lock.close()
    },
  }
}

function taken(dataDir: string): Database {
  const file = join(dataDir, "lock")
  let lock: Database | undefined
  try {
    lock = new Database(file)
    lock.run("pragma locking_mode = exclusive")
    lock.run("begin exclusive")
    return lock
  } catch (error) {
    lock?.close()
    if (!(error instanceof SQLiteError)) throw error
    if (error.code === "SQLITE_BUSY") {
      throw new DataDirectoryInUse(`The data directory ${dataDir} is in use by another Loket process`)
    }
    const advice =
      error.code === "SQLITE_NOTADB" || error.code === "SQLITE_CORRUPT"
        ? `it is not a lock of Loket's; nothing is kept in it, so remove it if no Loket process uses ${dataDir}`
        : "this user must be able to read and write it"
    throw new Error(`The lock file ${file} cannot be used (${error.message}): ${advice}`, { cause: error })
  }
}

/** Of an error that says that a file is not there any more. Others are thrown. */
export function ifGone(error: unknown): undefined {
  if (error instanceof Error && "code" in error && error.code === "ENOENT") return undefined
  throw error
}
