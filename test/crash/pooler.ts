/** A PgBouncer of the tests' own before a server, with its defaults but for the mode. Undefined where it is not installed. */
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { connect } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { freePort } from "../free-port.ts"

const program = existsSync("/usr/sbin/pgbouncer") ? "/usr/sbin/pgbouncer" : Bun.which("pgbouncer")
/** Undefined where there is one; else why a test is left out. */
export const noPooler = program === null ? "no PgBouncer" : undefined

export type PoolMode = "session" | "transaction" | "statement"

interface PoolerOptions {
  readonly mode: PoolMode
  /** Further settings. */
  readonly settings?: Readonly<Record<string, string>>
  /** Where it listens; loopback unless told otherwise. */
  readonly host?: string
}

export class Pooler implements AsyncDisposable {
  /** The server behind, by way of the pooler. */
  readonly url: string
  readonly #command: readonly string[]
  readonly #root: string
  #child: Bun.Subprocess | undefined

  private constructor(program: string, root: string, url: string) {
    const asUser = process.getuid?.() === 0 ? ["runuser", "-u", "postgres", "--"] : []
    this.#command = [...asUser, program, "-q", join(root, "pgbouncer.ini")]
    this.#root = root
    this.url = url
  }

  static async build(
    target: string,
    { mode, settings: further, host = "127.0.0.1" }: PoolerOptions,
  ): Promise<Pooler | undefined> {
    if (program === null) return undefined
    const root = mkdtempSync(join(tmpdir(), "loket-pooler-"))
    chmodSync(root, 0o755)
    const server = new URL(target)
    const port = freePort()
    const settings = {
      listen_addr: host,
      listen_port: port,
      unix_socket_dir: "",
      auth_type: "trust",
      auth_file: join(root, "users"),
      pool_mode: mode,
      ...further,
    }
    const ini = Object.entries(settings).map(([name, value]) => `${name} = ${value}\n`)
    const databases = `[databases]\n* = host=${server.hostname} port=${server.port}\n`
    writeFileSync(join(root, "pgbouncer.ini"), `${databases}[pgbouncer]\n${ini.join("")}`, { mode: 0o644 })
    writeFileSync(join(root, "users"), `"${server.username}" ""\n`, { mode: 0o644 })
    const url = new URL(target)
    url.host = `${host}:${port}`
    const pooler = new Pooler(program, root, url.href)
    await pooler.start()
    return pooler
  }

  /** Until it takes connections. */
  async start(): Promise<void> {
    this.#child = Bun.spawn([...this.#command], { stdin: "ignore", stdout: "ignore", stderr: "ignore" })
    while (!(await this.#isOpen())) {
      if (this.#child.exitCode !== null) throw new Error(`pgbouncer ended with ${this.#child.exitCode}`)
      await Bun.sleep(20)
    }
  }

  /** Starts it anew, from now on in this mode. */
  async begin(mode: PoolMode): Promise<void> {
    await this.kill()
    const file = join(this.#root, "pgbouncer.ini")
    writeFileSync(file, readFileSync(file, "utf8").replace(/^pool_mode = .*$/m, `pool_mode = ${mode}`))
    await this.start()
  }

  /** At once, with everybody's connections. */
  async kill(): Promise<void> {
    // Of a command that is run as another user, the process is a child of the one that was started.
    const { pid, exited } = this.#child ?? {}
    if (pid !== undefined) Bun.spawnSync(["pkill", "-KILL", "-P", String(pid)])
    this.#child?.kill("SIGKILL")
    await exited
    // That child may have its port for a moment longer, and whoever starts then would end for want of it.
    while (await this.#isOpen()) await Bun.sleep(10)
  }

  #isOpen(): Promise<boolean> {
    const { hostname, port } = new URL(this.url)
    return isOpen(hostname, Number(port))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill()
    rmSync(this.#root, { recursive: true, force: true })
  }
}

const isOpen = (host: string, port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect(port, host)
    socket.on("connect", () => {
      socket.destroy()
      resolve(true)
    })
    socket.on("error", () => resolve(false))
  })
