/** `loket backup` and `loket restore`: everything that is needed to begin again. */
import { type Static, Type } from "@sinclair/typebox"
import { Value } from "@sinclair/typebox/value"
import { createReadStream, existsSync, statfsSync } from "node:fs"
import { cp, mkdir, readdir, readFile, rename, rm, stat, writeFile } from "node:fs/promises"
import { dirname, join, resolve } from "node:path"
import manifest from "../../package.json"
import type { Config } from "../config.ts"
import { reconcileBooks } from "../reconcile.ts"
import { counted } from "../reconciliation/reconcile.ts"
import { BESIDE_DATABASE, copyFiles } from "../store/archives.ts"
import { copyDatabase } from "../store/embedded/open.ts"
import { lockDataDirectory, makeDirectory, mustNotBeAnothers, sync, syncAll } from "../store/embedded/database-files.ts"
import { hostsOf, withoutPassword } from "../store/hosts.ts"
import { mustExist, openPlace } from "../store/open.ts"
import { Servers } from "../store/servers.ts"
import { command, CommandFailure, configuration, progress } from "./command.ts"

/** Also while gateways run. */
export const backupCommand = () =>
  command("backup", {
    summary: "Back the database up into a new directory, also while gateways run",
    details:
      "The embedded database: its files, DATA_DIR/withdrawals and DATA_DIR/archives. A server: a dump by pg_dump. Either with a manifest that has the checksum of every file. It names every customer: keep it as you keep the database.",
    examples: [["backup /var/backups/loket-monday", "makes the directory once all of it is on the disk"]],
  })
    .argument("<directory>", "where it is to be; must not be there")
    .action(async (directory) => {
      const config = configuration()
      mustExist(config)
      const url = await serverOf(config)
      const began = performance.now()
      let pausedMs = 0
      const made =
        url === undefined
          ? await makeBackup(directory, "files", async (into) => {
              let bytes = 0
              const dataDir = resolve(config.DATA_DIR)
              // A call that is taken back meanwhile is so in the copy, or kept beside it; in both, it is taken back once.
              await copyFiles(join(dataDir, "withdrawals"), join(into, "withdrawals"))
              const copying = copyDatabase(dataDir, join(into, "pg"), (copied) => void (bytes = copied))
              pausedMs = (await progress("copying the database", copying, () => mib(bytes))).pausedMs
              for (const name of BESIDE_DATABASE) await copyFiles(join(dataDir, name), join(into, name))
            })
          : await makeBackup(directory, "dump", async (into) => {
              const file = join(into, "database.dump")
              let bytes = 0
              const look = setInterval(() => (bytes = Bun.file(file).size), 250)
              try {
                await progress("dumping the database", dumpTo(url, file), () => mib(bytes))
              } finally {
                clearInterval(look)
              }
            })
      const took = `${((performance.now() - began) / 1_000).toFixed(1)} s`
      const paused = pausedMs === 0 ? "" : `; calls waited for ${(pausedMs / 1_000).toFixed(2)} s`
      console.log(`${resolve(directory)}: ${mib(bytesOf(made))} in ${took}${paused}`)
      const { bavail, bsize } = statfsSync(dirname(resolve(directory)))
      if (bavail * bsize < bytesOf(made))
        console.error(`there is no room there for another one: ${mib(bavail * bsize)} are free`)
    })

/**
 * A backup is a directory: what was copied, and `manifest.json`, which says of every file how long it is and what its SHA-256
 * is. It has its name once it is whole and on the disk.
 */
const Manifest = Type.Object({
  format: Type.Literal(1),
  /** `files`: those of an embedded database, below `pg`. `dump`: of a server, by `pg_dump`, in `database.dump`. */
  kind: Type.Union([Type.Literal("files"), Type.Literal("dump")]),
  /** Of the program that made it. */
  version: Type.String(),
  taken_at: Type.String(),
  /** Also the empty ones, which not every archive keeps and PostgreSQL needs. */
  directories: Type.Array(Type.String()),
  files: Type.Record(Type.String(), Type.Object({ bytes: Type.Integer(), sha256: Type.String() })),
})
type Manifest = Static<typeof Manifest>

const NAME = "manifest.json"

/** Makes a backup of what `fill` puts into a directory; nothing is left when it throws. */
async function makeBackup(
  target: string,
  kind: Manifest["kind"],
  fill: (directory: string) => Promise<void>,
): Promise<Manifest> {
  const place = resolve(target)
  if (existsSync(place)) throw new CommandFailure(`${place} is there already: name a directory that is to be made`)
  const unfinished = `${place}.unfinished`
  makeDirectory(dirname(place))
  try {
    await mkdir(unfinished, { mode: 0o700 })
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "EEXIST")
      throw new CommandFailure(`${unfinished} is left from a backup that did not end, or one is being made: remove it`)
    throw error
  }
  try {
    const takenAt = new Date().toISOString()
    await fill(unfinished)
    const { files, directories } = await contentsOf(unfinished)
    const made: Manifest = { format: 1, kind, version: manifest.version, taken_at: takenAt, directories, files }
    await writeFile(join(unfinished, NAME), `${JSON.stringify(made, null, 2)}\n`, { mode: 0o600 })
    await syncAll(unfinished)
    await rename(unfinished, place)
    sync(dirname(place))
    return made
  } catch (error) {
    await rm(unfinished, { recursive: true, force: true })
    throw error
  }
}

/** What a backup says of itself, when every file is what it was. Throws `CommandFailure` with what is not. */
async function readBackup(directory: string, checked: (bytes: number) => void = () => {}): Promise<Manifest> {
  const place = resolve(directory)
  const text = await readFile(join(place, NAME), "utf8").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT" || error.code === "ENOTDIR") return undefined
    throw new CommandFailure(`${join(place, NAME)} cannot be read (${error.code}): run this as the user who made it`)
  })
  if (text === undefined) throw new CommandFailure(`${place} is no backup: it has no ${NAME}`)
  let said: unknown
  try {
    said = JSON.parse(text)
  } catch {
    said = undefined
  }
  if (!Value.Check(Manifest, said))
    throw new CommandFailure(`${join(place, NAME)} cannot be read: it is damaged, or of a newer version`)
  const { files: found } = await contentsOf(place, checked)
  const wrong = Object.entries(said.files).flatMap(([path, { bytes, sha256 }]) => {
    const file = found[path]
    if (file === undefined) return [`${path} is missing`]
    if (file.bytes !== bytes) return [`${path} has ${file.bytes} bytes, and had ${bytes}`]
    return file.sha256 === sha256 ? [] : [`${path} is not what it was`]
  })
  const more = Object.keys(found).filter((path) => said.files[path] === undefined)
  wrong.push(...more.map((path) => `${path} was not in it`))
  if (wrong.length > 0)
    throw new CommandFailure(
      `the backup in ${place} is damaged, and nothing was restored:\n${wrong.slice(0, 10).join("\n")}${wrong.length > 10 ? `\nand ${wrong.length - 10} more` : ""}`,
    )
  return said
}

async function contentsOf(
  place: string,
  read: (bytes: number) => void = () => {},
): Promise<Pick<Manifest, "files" | "directories">> {
  const files: Manifest["files"] = {}
  const directories: string[] = []
  let total = 0
  for (const entry of await readdir(place, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name)
    const name = path.slice(place.length + 1)
    if (entry.isDirectory()) directories.push(name)
    if (!entry.isFile() || name === NAME) continue
    const hash = new Bun.CryptoHasher("sha256")
    for await (const chunk of createReadStream(path)) hash.update(chunk as Buffer)
    const { size } = await stat(path)
    files[name] = { bytes: size, sha256: hash.digest("hex") }
    read((total += size))
  }
  return { files, directories: directories.sort() }
}

const bytesOf = ({ files }: Manifest): number => Object.values(files).reduce((sum, { bytes }) => sum + bytes, 0)

const MIB = 2 ** 20
const mib = (bytes: number): string => `${(bytes / MIB).toFixed(1)} MiB`

/** PostgreSQL's own `pg_dump` and `pg_restore`, as they are installed. */
const dumpTo = (url: string, file: string): Promise<void> =>
  run("pg_dump", ["--format=custom", "--no-owner", "--no-privileges", `--file=${file}`], url)

/** All of it or nothing. */
const restoreFrom = (file: string, url: string): Promise<void> =>
  run("pg_restore", ["--no-owner", "--no-privileges", "--single-transaction", "--exit-on-error", file], url)

async function run(program: string, args: readonly string[], url: string): Promise<void> {
  const path = Bun.which(program)
  if (path === null)
    throw new CommandFailure(
      `${program} is not installed: install PostgreSQL's client (Debian: postgresql-client), not older than the server`,
    )
  const { address, password } = withoutPassword(url)
  const child = Bun.spawn([path, ...args, `--dbname=${address}`], {
    // A command's words can be read by everybody on the machine. A server that says nothing is waited for as by other commands.
    env: { PGCONNECT_TIMEOUT: "15", ...process.env, ...(password !== undefined && { PGPASSWORD: password }) },
    stdin: "ignore",
    stdout: "ignore",
    stderr: "pipe",
  })
  const [complaint, code] = await Promise.all([new Response(child.stderr).text(), child.exited])
  if (code !== 0) throw new CommandFailure(`${program} failed:\n${complaint.trim()}`)
}

/** For these programs, of several servers the one that takes writes: a standby lags, and a primary that was left has another past. */
async function serverOf(config: Config): Promise<string | undefined> {
  const { DATABASE_URL: url } = config
  if (url === undefined || hostsOf(url).length === 1) return url
  const place = await openPlace(config)
  try {
    return await place.servers.address(ANSWER_MS)
  } finally {
    await place.close()
  }
}

const ANSWER_MS = 10_000

/** A database that begins where a backup ended, checked before and after. */
export const restoreCommand = () =>
  command("restore", {
    summary: "Restore a backup into an empty place, and reconcile it",
    details:
      "Files of an embedded database go to DATA_DIR, which must have no database; a server's dump to DATABASE_URL, which must have no tables. Nothing that is there is overwritten. What was paid since the backup is not in it: see docs/operating/backup.md.",
    examples: [
      ["restore /var/backups/loket-monday", "into DATA_DIR or DATABASE_URL"],
      ["restore /var/backups/loket-monday --check", "only looks whether the backup is whole"],
    ],
  })
    .argument("<backup>", "the directory that `loket backup` made")
    .option("--check", "only look whether every file is what it was")
    .action(async (directory, { check }) => {
      let bytes = 0
      const reading = readBackup(directory, (read) => void (bytes = read))
      const manifest = await progress("checking the backup", reading, () => mib(bytes))
      const about = `${mib(bytesOf(manifest))} of ${manifest.taken_at}`
      if (check === true) return console.log(`whole: ${about}`)
      const config = configuration()
      if (manifest.kind === "files") await restoreFiles(resolve(directory), manifest, config)
      else await restoreDump(resolve(directory), config)
      console.log(`restored: ${about}`)
      await reconciled(config)
    })

async function restoreFiles(from: string, manifest: Manifest, { DATABASE_URL, DATA_DIR }: Config): Promise<void> {
  if (DATABASE_URL !== undefined)
    throw new CommandFailure(
      "this is a backup of an embedded database, and DATABASE_URL is set: unset it, restore into DATA_DIR, and then `loket move --to` the server",
    )
  const dataDir = resolve(DATA_DIR)
  mustNotBeAnothers(dataDir)
  using _lock = lockDataDirectory(dataDir)
  for (const name of ["pg", ...BESIDE_DATABASE])
    if (existsSync(join(dataDir, name)))
      throw new CommandFailure(
        `${join(dataDir, name)} is there already: set DATA_DIR to another directory, or move it away`,
      )
  const { bavail, bsize } = statfsSync(dataDir)
  if (bavail * bsize < bytesOf(manifest))
    throw new CommandFailure(
      `${dataDir} has room for ${mib(bavail * bsize)}, and the backup takes ${mib(bytesOf(manifest))}`,
    )
  // Under another name until all of it is on the disk, as a new database is.
  const unfinished = join(dataDir, "pg.unfinished")
  await rm(unfinished, { recursive: true, force: true })
  for (const name of manifest.directories)
    if (name.startsWith("pg/")) await mkdir(join(unfinished, name.slice(3)), { recursive: true, mode: 0o700 })
  await progress("restoring", copied(join(from, "pg"), unfinished))
  for (const name of BESIDE_DATABASE)
    if (existsSync(join(from, name))) await copied(join(from, name), join(dataDir, name))
  await rename(unfinished, join(dataDir, "pg"))
  sync(dataDir)
}

async function copied(from: string, to: string): Promise<void> {
  await mkdir(dirname(to), { recursive: true, mode: 0o700 })
  await cp(from, to, { recursive: true })
  await syncAll(to)
}

async function restoreDump(from: string, config: Config): Promise<void> {
  const url = await serverOf(config)
  if (url === undefined)
    throw new CommandFailure("this is a dump of a server's database: set DATABASE_URL to an empty one (`createdb`)")
  const servers = new Servers(url)
  try {
    const connection = await servers.connect({ timeoutMs: ANSWER_MS, statementTimeoutMs: ANSWER_MS })
    const [found] = await connection.sql<{ tables: number }[]>`
      select count(*)::int as tables from pg_class where relnamespace = 'public'::regnamespace and relkind = 'r'`
    await connection.end()
    if (found !== undefined && found.tables > 0)
      throw new CommandFailure(
        `the database has ${counted(found.tables, "table")} already: make an empty one (\`createdb\`), and set DATABASE_URL to it`,
      )
  } finally {
    await servers.close()
  }
  await progress("restoring", restoreFrom(join(from, "database.dump"), url))
}

/** Prints how the books stand; exits with 1 when they do not agree. */
async function reconciled(config: Config): Promise<void> {
  // The provider's word since then is for `loket reconcile`, when the gateway is to serve again.
  const books = reconcileBooks({ ...config, RECONCILE_TOP_UP_DAYS: 0 }, { json: false, full: true, print: console.log })
  process.exitCode = await progress("comparing the books", books)
}
