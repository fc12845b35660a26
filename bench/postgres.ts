/**
 * A PostgreSQL of the bench's own, from the binaries of Debian's package: autovacuum is off, so statistics are never
 * gathered unless the bench does it. It has the load's core.
 */
import { chmodSync, chownSync, mkdtempSync, readdirSync, readFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import postgres from "postgres"
import { LOAD_CORE, pinned, usageOf } from "./child.ts"

export interface Postgres extends ReturnType<typeof usageOf> {
  /** The address of a new, empty database. */
  create(): Promise<string>
  /** Runs statements one after the other on a connection of their own. */
  execute(url: string, statements: readonly string[]): Promise<void>
  /** All that the server has logged so far. */
  log(): Promise<string>
  stop(): Promise<void>
}

/** Once a day the books are held against all records; of a new database a minute after its first process has started. */
export const RECONCILED = `
  insert into reconciliations (day, ended_at, claims, differences, not_compared)
  select current_date + n, now(), '[]', 0, 0 from generate_series(-1, 1) n on conflict (day) do nothing`

const BINARIES = "/usr/lib/postgresql"

/** Its input ends when the bench does, however that ends: the server is no child of it, and would be left running. */
const STOP_AT_THE_END = `trap "" INT TERM HUP; cat > /dev/null; "$@"; rm -rf "$0"`

/** `undefined` where there are no binaries. `settings` are as in its file: `log_lock_waits=on`. */
export async function startPostgres(settings: readonly string[] = []): Promise<Postgres | undefined> {
  const version = versions().at(-1)
  if (version === undefined) return undefined
  const binaries = join(BINARIES, version, "bin")
  const directory = mkdtempSync(join(tmpdir(), "loket-bench-postgres-"))
  const data = join(directory, "data")
  // The server refuses to run as root.
  const user = process.getuid?.() === 0 ? ["runuser", "-u", "postgres", "--"] : []
  if (user.length > 0) own(directory)
  const port = freePort()
  await command([...user, join(binaries, "initdb"), "-D", data, "--auth=trust", "--username=bench", "--no-sync"])
  const all = ["listen_addresses=127.0.0.1", "unix_socket_directories=", "autovacuum=off", ...settings]
  const options = [`-p ${port}`, ...all.map((setting) => `-c ${setting}`)].join(" ")
  const control = [...user, join(binaries, "pg_ctl"), "-D", data]
  await command(pinned(LOAD_CORE, [...control, "-w", "-l", join(directory, "log"), "-o", options, "start"]))
  const keeper = Bun.spawn(["sh", "-c", STOP_AT_THE_END, directory, ...control, "-m", "immediate", "stop"], {
    stdin: "pipe",
    stdout: "ignore",
    stderr: "ignore",
    cwd: tmpdir(),
    // A signal to the bench's process group is not for it.
    detached: true,
  })
  keeper.unref()
  const pid = Number(readFileSync(join(data, "postmaster.pid"), "utf8").split("\n")[0])
  const address = (database: string) => `postgres://bench@127.0.0.1:${port}/${database}`
  let databases = 0
  return {
    ...usageOf(pid),
    execute,
    log: () => Bun.file(join(directory, "log")).text(),
    async create() {
      const name = `bench_${++databases}`
      await execute(address("postgres"), [`create database ${name}`])
      return address(name)
    },
    async stop() {
      await keeper.stdin.end()
      await keeper.exited
    },
  }
}

async function execute(url: string, statements: readonly string[]): Promise<void> {
  const sql = postgres(url, { max: 1, onnotice() {} })
  for (const statement of statements) await sql.unsafe(statement)
  await sql.end()
}

function versions(): string[] {
  try {
    return readdirSync(BINARIES).toSorted((a, b) => Number(a) - Number(b))
  } catch {
    return []
  }
}

function own(directory: string): void {
  const [user = 0, group = 0] = ["-u", "-g"].map((flag) => Number(Bun.spawnSync(["id", flag, "postgres"]).stdout))
  chmodSync(directory, 0o700)
  chownSync(directory, user, group)
}

export function freePort(): number {
  const server = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data() {} } })
  const { port } = server
  server.stop(true)
  return port
}

async function command(words: readonly string[]): Promise<void> {
  const child = Bun.spawn([...words], { stdout: "ignore", stderr: "pipe", cwd: tmpdir() })
  if ((await child.exited) !== 0) throw new Error(`${words.join(" ")}: ${await new Response(child.stderr).text()}`)
}
