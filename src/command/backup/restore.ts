/** `loket restore`: a database that begins where a backup ended, checked before and after. */
import { existsSync, statfsSync } from "node:fs"
import { cp, mkdir, rename, rm } from "node:fs/promises"
import { dirname, join, resolve } from "node:path"
import type { Config } from "../../config.ts"
import { reconcileBooks } from "../../reconcile.ts"
import { BESIDE_DATABASE } from "../../store/archives.ts"
import { sync, syncAll } from "../../store/embedded/database-files.ts"
import { lockDataDirectory } from "../../store/embedded/lock.ts"
import { Servers } from "../../store/servers.ts"
import { command, CommandFailure, progress } from "../command.ts"
import { configuration } from "../settings.ts"
import { bytesOf, type Manifest, mib, readBackup, restoreFrom } from "./manifest.ts"

const ANSWER_MS = 10_000

export const restoreCommand = () =>
  command("restore", {
    summary: "Restore a backup into an empty place, and reconcile it",
    details:
      'Files of an embedded database go to DATA_DIR, which must have no database; a server\'s dump to DATABASE_URL, which must have no tables. Nothing that is there is overwritten. What was paid since the backup is not in it: see "Backups" in docs/operating.md.',
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

async function restoreDump(from: string, { DATABASE_URL: url }: Config): Promise<void> {
  if (url === undefined)
    throw new CommandFailure("this is a dump of a server's database: set DATABASE_URL to an empty one (`createdb`)")
  const servers = new Servers(url)
  try {
    const connection = await servers.connect({ timeoutMs: ANSWER_MS, statementTimeoutMs: ANSWER_MS })
    const rows = await connection.sql<{ tables: number }[]>`
      select count(*)::int as tables from pg_class where relnamespace = 'public'::regnamespace and relkind = 'r'`
    await connection.end()
    const tables = rows[0]?.tables ?? 0
    if (tables > 0)
      throw new CommandFailure(
        `the database has ${tables} tables already: make an empty one (\`createdb\`), and set DATABASE_URL to it`,
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
