/** The machine: ports, file descriptors, memory, the kernel, and who runs the process. */
import { readFileSync } from "node:fs"
import { totalmem } from "node:os"
import { type Config, workersOf } from "../../config.ts"
import { Descriptors } from "../../http/descriptors.ts"
import { codeOf, type Finding, look, messageOf, ok, wrong } from "./finding.ts"

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
  const wanted = 2 * MAX_CONCURRENCY + OTHER_DESCRIPTORS
  if (descriptors !== undefined && descriptors.limit < wanted)
    found.push(
      wrong(
        `the process may open ${descriptors.limit} files; MAX_CONCURRENCY=${MAX_CONCURRENCY} needs ${wanted}`,
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
