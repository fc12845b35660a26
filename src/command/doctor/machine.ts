/** The machine: ports, file descriptors, memory, the kernel, who runs the process, and the files that it needs. */
import { accessSync, constants, existsSync, mkdtempSync, readFileSync, rmSync, statfsSync, statSync } from "node:fs"
import { tmpdir, totalmem } from "node:os"
import { dirname, join, resolve } from "node:path"
import { type Config, workersOf } from "../../config.ts"
import { Descriptors } from "../../http/connection.ts"
import { isDatabase } from "../../store/embedded/database-files.ts"
import { codeOf, type Finding, look, messageOf, ok, wrong } from "../command.ts"

export async function ports(config: Config): Promise<readonly Finding[]> {
  const { HOST, PORT, METRICS_PORT } = config
  const asked = [portFinding({ name: "PORT", host: HOST, port: PORT })]
  if (METRICS_PORT !== undefined && METRICS_PORT !== PORT)
    asked.push(portFinding({ name: "METRICS_PORT", host: HOST, port: METRICS_PORT }))
  return await Promise.all(asked)
}

interface Port {
  readonly name: string
  readonly host: string
  readonly port: number
}

/** Whoever listens there is asked first: beside gateways that share the port, a listener of ours would take their calls. */
async function portFinding({ name, host, port }: Port): Promise<Finding> {
  const place = `${host}:${port}`
  const found = port === 0 ? "nobody" : await listener(host, port)
  if (found === "a gateway") return ok(`${name}: a gateway listens on ${place}`)
  const taken = wrong(
    `${name}: something else listens on ${place}`,
    `\`ss -ltnp 'sport = :${port}'\` says what; stop it, or set ${name} to another port`,
  )
  if (found === "something else") return taken
  try {
    await Bun.serve({ hostname: host, port, fetch: () => new Response(null, { status: 503 }) }).stop(true)
    return ok(`${name}: ${place} can be listened on`)
  } catch (error) {
    if (codeOf(error) === "EADDRINUSE") return taken
    if (codeOf(error) === "EACCES")
      return wrong(
        `${name}: this user may not listen on ${place}`,
        "take a port from 1024 on behind a proxy, or give the unit AmbientCapabilities=CAP_NET_BIND_SERVICE",
      )
    return wrong(
      `${name}: ${place} cannot be listened on: ${messageOf(error)}`,
      "HOST must be an address of this machine, such as 127.0.0.1 or 0.0.0.0 (`ip addr` lists them)",
    )
  }
}

const LISTENER_MS = 2_000

async function listener(host: string, port: number): Promise<"nobody" | "a gateway" | "something else"> {
  const reached = host === "0.0.0.0" || host === "::" ? "127.0.0.1" : host.includes(":") ? `[${host}]` : host
  try {
    const answer = await fetch(`http://${reached}:${port}/healthz`, { signal: AbortSignal.timeout(LISTENER_MS) })
    const said = await answer.text()
    // The listener for metrics may know no other path.
    const isOurs = answer.headers.get("x-request-id") !== null || said.includes("loket_")
    return isOurs || (await servesMetrics(`http://${reached}:${port}`)) ? "a gateway" : "something else"
  } catch {
    // Refused, or no HTTP: trying to listen says which.
    return "nobody"
  }
}

async function servesMetrics(base: string): Promise<boolean> {
  try {
    const answer = await fetch(`${base}/metrics`, { signal: AbortSignal.timeout(LISTENER_MS) })
    return (await answer.text()).includes("loket_")
  } catch {
    return false
  }
}

/** A connection of a client takes one, the call on it another, and what else is open a few hundred. */
const OTHER_DESCRIPTORS = 200
const MEMORY_BYTES = 512 * 1024 * 1024

export async function machine(config: Config): Promise<readonly Finding[]> {
  const found: Finding[] = []
  const { MAX_CONCURRENCY, REUSE_PORT } = config
  const descriptors = await new Descriptors().look()
  const needed = 2 * MAX_CONCURRENCY + OTHER_DESCRIPTORS
  if (descriptors !== undefined && descriptors.limit < needed)
    found.push(
      wrong(
        `the process may open ${descriptors.limit} files; MAX_CONCURRENCY=${MAX_CONCURRENCY} needs ${needed}`,
        "set LimitNOFILE=65536 in the unit (or `ulimit -n 65536`), or lower MAX_CONCURRENCY",
      ),
    )
  else if (descriptors !== undefined) found.push(ok(`the process may open ${descriptors.limit} files`))
  const requests = process.env["BUN_CONFIG_MAX_HTTP_REQUESTS"]
  if (requests !== undefined && Number(requests) < 1_024)
    found.push(wrong(`BUN_CONFIG_MAX_HTTP_REQUESTS is ${requests}`, "unset it, or set it to at least 1024"))
  const constrained = process.constrainedMemory()
  const memory = constrained > 0 ? Math.min(constrained, totalmem()) : totalmem()
  if (memory < MEMORY_BYTES)
    found.push(
      look(
        `there are ${Math.floor(memory / 2 ** 20)} MiB of memory`,
        "give the process at least 512 MiB, or lower BODY_MEMORY_BYTES",
      ),
    )
  if (process.getuid?.() === 0)
    found.push(
      look(
        "this runs as root",
        "run the gateway as a user of its own, as the unit in docs/operating/processes.md does",
      ),
    )
  if ((REUSE_PORT || workersOf(config) > 1) && kernelSays("net/ipv4/tcp_migrate_req") === "0")
    found.push(
      look(
        "net.ipv4.tcp_migrate_req is 0: a rolling deploy resets some connections",
        "`sysctl -w net.ipv4.tcp_migrate_req=1`, and a file in /etc/sysctl.d for good",
      ),
    )
  return found
}

function kernelSays(name: string): string | undefined {
  try {
    return readFileSync(`/proc/sys/${name}`, "utf8").trim()
  } catch {
    return undefined
  }
}

/** The data directory, the room on its disk, and where the embedded database has its socket. */
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
