/**
 * A PostgreSQL server of the tests' own, from the binaries on this machine, that can be stopped, frozen, crashed and run
 * out of disk. As root it runs as the user `postgres`, because a server refuses to run as root.
 */
import { appendFileSync, chmodSync, mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Glob } from "bun"
import { freePort } from "../../free-port.ts"
import { directConnection } from "../../store/harness.ts"
import type { Sql } from "../../../src/store/database.ts"
import { type Disk, mountDisk } from "./disk.ts"

/** Enough for the server and some minutes of calls; little enough to be filled in a moment. */
const DISK_MB = 512
const START_LIMIT_MS = 30_000

/** Undefined where there are the programs of a server; else why a test is left out. */
export const noServer = binaries() === undefined ? "no programs of a PostgreSQL server" : undefined

const isRoot = process.getuid?.() === 0

export class PostgresServer implements AsyncDisposable {
  readonly url: string
  /** Undefined where nothing can be mounted. */
  readonly disk: Disk | undefined
  readonly #bin: string
  readonly #data: string
  readonly #root: string
  readonly #options: string

  private constructor(bin: string, root: string, disk: Disk | undefined, port: number, addresses: readonly string[]) {
    this.#bin = bin
    this.#root = root
    this.#data = join(disk?.path ?? root, "data")
    this.disk = disk
    // Small files of the log, so that a full disk is met soon.
    const settings = ["max_connections=200", "max_wal_size=32MB", "min_wal_size=4MB", "wal_recycle=off"]
    this.#options = `-p ${port} -h ${["127.0.0.1", ...addresses].join(",")} -k ${root} ${settings.map((setting) => `-c ${setting}`).join(" ")}`
    this.url = `postgres://postgres@127.0.0.1:${port}/postgres`
  }

  /** Undefined where there are no binaries. It listens on loopback, and trusts the networks of further addresses. */
  static async build(addresses: readonly string[] = []): Promise<PostgresServer | undefined> {
    const server = await PostgresServer.#empty(addresses)
    if (server === undefined) return undefined
    await server.#run("initdb", "-D", server.#data, "--auth=trust", "--username=postgres", "--wal-segsize=1")
    const lines = addresses.map((address) => `host all all ${address}/30 trust\n`)
    appendFileSync(join(server.#data, "pg_hba.conf"), lines.join(""))
    await server.start()
    return server
  }

  /** A standby of another server, on an address of its own. */
  static async standbyOf(primary: PostgresServer, addresses: readonly string[] = []): Promise<PostgresServer> {
    const server = await PostgresServer.#empty(addresses)
    if (server === undefined) throw new Error("there are no programs of a server")
    await server.follow(primary)
    return server
  }

  static async #empty(addresses: readonly string[]): Promise<PostgresServer | undefined> {
    const bin = binaries()
    if (bin === undefined) return undefined
    const root = mkdtempSync(join(tmpdir(), "loket-server-"))
    chmodSync(root, 0o777)
    return new PostgresServer(bin, root, mountDisk(DISK_MB), freePort(), addresses)
  }

  /**
   * Becomes a standby with a fresh copy of the other server, which from then on acknowledges no commit that has not arrived
   * here. What was here before is gone.
   */
  async follow(primary: PostgresServer): Promise<void> {
    await this.stop("immediate")
    rmSync(this.#data, { recursive: true, force: true })
    await this.#run("pg_basebackup", "-D", this.#data, "-d", primary.url, "-R", "-X", "stream", "-c", "fast")
    await this.start()
    await primary.replicate(true)
    await primary.hasStandby()
  }

  /** Until commits do wait: the checkpointer is who makes it so, and the standby must have begun to receive. */
  async hasStandby(): Promise<void> {
    const until = performance.now() + START_LIMIT_MS
    await this.admin(async (sql) => {
      const receives = () => sql`
        select from pg_stat_replication
        where state = 'streaming' and sync_state in ('sync', 'quorum') and flush_lsn >= pg_current_wal_flush_lsn() - 1000000`
      while ((await receives()).length === 0) {
        if (performance.now() > until) throw new Error("the standby does not receive")
        await Bun.sleep(50)
      }
      await sql`checkpoint`
    })
  }

  /** Makes a standby the primary. It waits for no standby of its own. */
  async promote(): Promise<void> {
    await this.#run("pg_ctl", "-D", this.#data, "-w", "promote")
    await this.replicate(false)
  }

  /** Whether commits wait for a standby. */
  async replicate(toStandby: boolean): Promise<void> {
    await this.admin(async (sql) => {
      await sql.unsafe(`alter system set synchronous_standby_names = '${toStandby ? "*" : ""}'`)
      await sql`select pg_reload_conf()`
    })
  }

  /** The same of one that is stopped, so that it loses nothing that it has acknowledged before. */
  replicateNoMore(): void {
    appendFileSync(join(this.#data, "postgresql.auto.conf"), "synchronous_standby_names = ''\n")
  }

  /** Until it takes connections. A start that fails is tried again: a disk may have become free only now. */
  async start(): Promise<void> {
    const until = performance.now() + START_LIMIT_MS
    for (;;) {
      const log = join(this.#root, "log")
      const ended = await this.#try("pg_ctl", "-D", this.#data, "-w", "-l", log, "-o", this.#options, "start")
      if (ended === 0 || (await this.answers())) return
      if (performance.now() > until)
        throw new Error(`the server does not start: ${readFileSync(log, "utf8").slice(-2_000)}`)
      await Bun.sleep(100)
    }
  }

  async stop(mode: "fast" | "immediate"): Promise<void> {
    await this.#try("pg_ctl", "-D", this.#data, "-w", "-m", mode, "stop")
  }

  /** The server and its backends take no turn until `thaw`. */
  freeze(): void {
    for (const pid of this.#pids()) signal(pid, "SIGSTOP")
  }

  thaw(): void {
    for (const pid of this.#pids()) signal(pid, "SIGCONT")
  }

  /** SIGKILL to one backend of a gateway; the server then ends all of them and recovers as after a crash. */
  async killBackend(): Promise<void> {
    const [backend] = await this.admin(
      (sql) => sql<{ pid: number }[]>`
        select pid from pg_stat_activity where application_name = 'loket' and pid <> pg_backend_pid() limit 1`,
    )
    if (backend !== undefined) signal(backend.pid, "SIGKILL")
  }

  async terminateBackends(): Promise<void> {
    await this.admin(
      (sql) => sql`
        select pg_terminate_backend(pid) from pg_stat_activity
        where application_name = 'loket' and pid <> pg_backend_pid()`,
    )
  }

  /** The database is gone, and an empty one has its name. */
  async lose(): Promise<void> {
    const url = new URL(this.url)
    url.pathname = "/template1"
    const connection = directConnection(url.href)
    try {
      const aside = `lost_${crypto.randomUUID().replaceAll("-", "")}`
      await connection.sql`
        select pg_terminate_backend(pid) from pg_stat_activity where datname = 'postgres' and backend_type = 'client backend'`
      await connection.sql.unsafe(`alter database postgres rename to ${aside}`)
      await connection.sql.unsafe(`drop database ${aside} (force)`)
      await connection.sql.unsafe("create database postgres template template0")
    } finally {
      await connection.end()
    }
  }

  /** The same server by another of its addresses. */
  at(address: string): string {
    const url = new URL(this.url)
    url.hostname = address
    return url.href
  }

  /** On a connection of its own, past every proxy. */
  async admin<T>(work: (sql: Sql) => PromiseLike<T>): Promise<T> {
    const connection = directConnection(this.url)
    try {
      return await work(connection.sql)
    } finally {
      await connection.end()
    }
  }

  async answers(): Promise<boolean> {
    return await this.admin((sql) => sql`select 1`).then(
      () => true,
      () => false,
    )
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.thaw()
    this.disk?.free()
    await this.stop("immediate")
    this.disk?.[Symbol.dispose]()
    rmSync(this.#root, { recursive: true, force: true })
  }

  /** The postmaster and its children. */
  #pids(): number[] {
    try {
      const [first = ""] = readFileSync(join(this.#data, "postmaster.pid"), "utf8").split("\n")
      const children = readFileSync(`/proc/${first}/task/${first}/children`, "utf8")
      return [Number(first), ...children.split(" ").filter(Boolean).map(Number)]
    } catch {
      return []
    }
  }

  async #run(program: string, ...parameters: string[]): Promise<void> {
    const code = await this.#try(program, ...parameters)
    if (code !== 0) throw new Error(`${program} ended with ${code}`)
  }

  #try(program: string, ...parameters: string[]): Promise<number> {
    const command = [join(this.#bin, program), ...parameters]
    const asUser = isRoot ? ["runuser", "-u", "postgres", "--", ...command] : command
    return Bun.spawn(asUser, { cwd: this.#root, stdin: "ignore", stdout: "ignore", stderr: "ignore" }).exited
  }
}

/** Debian keeps each version's programs in a directory of its own; the newest is taken. */
function binaries(): string | undefined {
  const found = [...new Glob("/usr/lib/postgresql/*/bin/initdb").scanSync({ cwd: "/", absolute: true })]
  const newest = found.toSorted((a, b) => version(a) - version(b)).at(-1) ?? Bun.which("initdb")
  return newest?.slice(0, newest.lastIndexOf("/"))
}

const version = (path: string): number => Number(/postgresql\/(\d+)/.exec(path)?.[1] ?? 0)

function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name)
  } catch {
    // It has ended.
  }
}
