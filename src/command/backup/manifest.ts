/**
 * A backup is a directory: what was copied, and `manifest.json`, which says of every file how long it is and what its SHA-256
 * is. It has its name once it is whole and on the disk.
 */
import { createReadStream, existsSync } from "node:fs"
import { mkdir, readdir, readFile, rename, rm, stat, writeFile } from "node:fs/promises"
import { dirname, join, resolve } from "node:path"
import { type Static, Type } from "@sinclair/typebox"
import { Value } from "@sinclair/typebox/value"
import manifest from "../../../package.json" with { type: "json" }
import { sync, syncAll } from "../../store/embedded/database-files.ts"
import { CommandFailure } from "../command.ts"

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
export type Manifest = Static<typeof Manifest>

const NAME = "manifest.json"

/** Makes a backup of what `fill` puts into a directory; nothing is left when it throws. */
export async function makeBackup(
  target: string,
  kind: Manifest["kind"],
  fill: (directory: string) => Promise<void>,
): Promise<Manifest> {
  const place = resolve(target)
  if (existsSync(place)) throw new CommandFailure(`${place} is there already: name a directory that is to be made`)
  const unfinished = `${place}.unfinished`
  await mkdir(dirname(place), { recursive: true, mode: 0o700 })
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
export async function readBackup(directory: string, checked: (bytes: number) => void = () => {}): Promise<Manifest> {
  const place = resolve(directory)
  const text = await readFile(join(place, NAME), "utf8").catch(() => undefined)
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

export const bytesOf = ({ files }: Manifest): number => Object.values(files).reduce((sum, { bytes }) => sum + bytes, 0)

const MIB = 2 ** 20
export const mib = (bytes: number): string => `${(bytes / MIB).toFixed(1)} MiB`

/** PostgreSQL's own `pg_dump` and `pg_restore`, as they are installed. */
export const dumpTo = (url: string, file: string): Promise<void> =>
  run("pg_dump", ["--format=custom", "--no-owner", "--no-privileges", `--file=${file}`], url)

/** All of it or nothing. */
export const restoreFrom = (file: string, url: string): Promise<void> =>
  run("pg_restore", ["--no-owner", "--no-privileges", "--single-transaction", "--exit-on-error", file], url)

async function run(program: string, args: readonly string[], url: string): Promise<void> {
  const path = Bun.which(program)
  if (path === null)
    throw new CommandFailure(
      `${program} is not installed: install PostgreSQL's client (Debian: postgresql-client), not older than the server`,
    )
  const { address, password } = withoutPassword(url)
  const child = Bun.spawn([path, ...args, `--dbname=${address}`], {
    // A command's words can be read by everybody on the machine.
    env: { ...process.env, ...(password !== undefined && { PGPASSWORD: password }) },
    stdin: "ignore",
    stdout: "ignore",
    stderr: "pipe",
  })
  const [complaint, code] = await Promise.all([new Response(child.stderr).text(), child.exited])
  if (code !== 0) throw new CommandFailure(`${program} failed:\n${complaint.trim()}`)
}

function withoutPassword(url: string): { readonly address: string; readonly password: string | undefined } {
  const [, before = "", user = "", password, rest = ""] =
    /^(postgres(?:ql)?:\/\/)([^:@/?#]*)(?::([^@/?#]*))?(@.*)?$/.exec(url) ?? []
  if (before === "" || rest === "") return { address: url, password: undefined }
  return {
    address: `${before}${user}${rest}`,
    password: password === undefined ? undefined : decodeURIComponent(password),
  }
}
