/**
 * One process per data directory. The lock is SQLite's on an empty file: the kernel drops it with the process, however
 * that dies, so there is no stale lock to clear and no process id to mistake for another's.
 */
import { Database, SQLiteError } from "bun:sqlite"
import { mkdirSync } from "node:fs"
import { join } from "node:path"

/** Another process uses the directory, or this one does already. */
export class DataDirectoryInUse extends Error {
  override readonly name = "DataDirectoryInUse"
}

/** Kept here, because a database that nobody refers to any more is closed by the garbage collector, and its lock is gone. */
const held = new Set<Database>()

/** Takes the directory (made if need be) until disposed of, or until this process ends. */
export function lockDataDirectory(dataDir: string): Disposable {
  mkdirSync(dataDir, { recursive: true, mode: 0o700 })
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
