/** The data directory, the room on its disk, and where the embedded database has its socket. */
import { accessSync, constants, existsSync, mkdtempSync, rmSync, statfsSync, statSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join, resolve } from "node:path"
import type { Config } from "../../config.ts"
import { isDatabase } from "../../store/embedded/database-files.ts"
import { codeOf, type Finding, look, messageOf, ok, wrong } from "./finding.ts"

export function files({ DATA_DIR, DATABASE_URL }: Config): readonly Finding[] {
  const directory = resolve(DATA_DIR)
  const found: Finding[] = []
  if (existsSync(directory) && !statSync(directory).isDirectory())
    return [wrong(`DATA_DIR ${directory} is no directory`, "set DATA_DIR to a directory, or to one to be made")]
  const nearest = existing(directory)
  if (!isWritable(nearest))
    return [
      wrong(
        `this user cannot write to ${nearest}, where DATA_DIR is${nearest === directory ? "" : " to be made"}`,
        `\`chown ${process.getuid?.() ?? "the-user"} ${nearest}\`, or set DATA_DIR elsewhere; withdrawn calls are kept there too`,
      ),
    ]
  if (DATABASE_URL === undefined) found.push(...embedded(directory))
  found.push(room(nearest))
  return found
}

/** The path itself, or the part of it that is there. */
const existing = (path: string): string => (existsSync(path) ? path : existing(dirname(path)))

function isWritable(path: string): boolean {
  try {
    accessSync(path, constants.W_OK | constants.X_OK)
    return true
  } catch {
    return false
  }
}

/** `struct sockaddr_un` has room for so many bytes of a path, with its zero. */
const SOCKET_PATH_BYTES = 108
const SOCKET_NAME = "loket-XXXXXX/.s.PGSQL.5432"
const NFS = 0x6969

function embedded(directory: string): Finding[] {
  const found: Finding[] = []
  try {
    const there = isDatabase(join(directory, "pg"))
    found.push(ok(there ? `${directory} has a database` : `${directory} has no database yet; a start makes one`))
  } catch (error) {
    found.push(wrong(messageOf(error), "put back what is missing, or `loket restore` a backup into another DATA_DIR"))
  }
  const nearest = existing(directory)
  if (statfsSync(nearest).type === NFS)
    found.push(
      wrong(`${nearest} is on NFS, whose locks and syncs are not to be relied on`, "keep DATA_DIR on a local disk"),
    )
  if (Buffer.byteLength(join(tmpdir(), SOCKET_NAME)) >= SOCKET_PATH_BYTES)
    found.push(
      wrong(`TMPDIR ${tmpdir()} is too long for the path of a socket`, "set TMPDIR to a shorter path, such as /tmp"),
    )
  else {
    try {
      rmSync(mkdtempSync(join(tmpdir(), "loket-")), { recursive: true })
    } catch (error) {
      found.push(
        wrong(
          `nothing can be made in TMPDIR ${tmpdir()} (${codeOf(error) ?? messageOf(error)}), where the database has its socket`,
          "set TMPDIR to a directory that this user can write to",
        ),
      )
    }
  }
  return found
}

const GIB = 2 ** 30
const ROOM_LOOK_BYTES = 2 * GIB
const ROOM_WRONG_BYTES = GIB / 4

function room(path: string): Finding {
  const { bavail, bsize, files: inodes, ffree } = statfsSync(path)
  const bytes = bavail * bsize
  const what = `${(bytes / GIB).toFixed(1)} GiB are free on the disk of ${path}`
  if (inodes > 0 && ffree < 2_000)
    return wrong(`the disk of ${path} has ${ffree} inodes left`, "remove files, or make a larger file system")
  if (bytes >= ROOM_LOOK_BYTES) return ok(what)
  const remedy = "free some, or move DATA_DIR: a database that cannot write its log stops"
  return bytes < ROOM_WRONG_BYTES ? wrong(what, remedy) : look(what, remedy)
}
