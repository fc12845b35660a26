/**
 * The servers that `DATABASE_URL` names, as libpq writes them: `postgres://user@one:5432,two:5432/db`, or hosts and ports in
 * lists, `postgres:///db?host=one,two&port=5432,5433`. A host that begins with a slash is the directory of a unix socket.
 *
 * Then the highest timeline that was seen of each of them: in memory and as empty files in a directory, so that an old
 * primary that comes back is known by a process that has only begun. Processes that share the directory share what they saw:
 * a file is only ever added, and the highest counts.
 */
import { readFileSync } from "node:fs"
import { mkdir, open, readdir } from "node:fs/promises"
import { join } from "node:path"
import { checkServerIdentity, type PeerCertificate } from "node:tls"

/** A list of hosts that cannot be read. Never holds the password. */
export class WrongHosts extends Error {
  override readonly name = "WrongHosts"
}

const parts = /^(postgres(?:ql)?:\/\/)([^/?#]*@)?([^/?#]*)([^?#]*)(\?[^#]*)?$/

const ESCAPES = "in a user or password write % as %25, / as %2F, ? as %3F, # as %23 and @ as %40"
const UNESCAPED = `DATABASE_URL has a % in its user or password without two digits: ${ESCAPES}`

function isEscaped(text: string): boolean {
  try {
    decodeURIComponent(text)
    return true
  } catch {
    return false
  }
}

/** The address without its password, for another program's command line, and the password for its environment. Throws `WrongHosts`. */
export function withoutPassword(url: string): { readonly address: string; readonly password: string | undefined } {
  // What cannot be read may have its password anywhere.
  hostsOf(url)
  const [, scheme = "", before = "", authority = "", path = "", query = ""] = parts.exec(url) ?? []
  const [, user = "", written] = /^([^:]*)(?::(.*))?@$/.exec(before) ?? []
  const kept = parametersOf(query).filter((text) => nameOf(text) !== "password")
  const password = parameterOf(query, "password") ?? (written && decodeURIComponent(written))
  return {
    address: `${scheme}${before && `${user}@`}${authority}${path}${kept.length > 0 ? `?${kept.join("&")}` : ""}`,
    password,
  }
}

/** Who connects, as it stands before a host. What libpq's parameters say goes before what stands there. */
function credentials(before: string, query: string): string {
  const [named, secret] = [parameterOf(query, "user"), parameterOf(query, "password")]
  if (named === undefined && secret === undefined) return before
  const [, user = "", password] = /^([^:]*)(?::(.*))?@$/.exec(before) ?? []
  const known = secret === undefined ? password : encodeURIComponent(secret)
  return `${named === undefined ? user : encodeURIComponent(named)}${known === undefined ? "" : `:${known}`}@`
}

const parametersOf = (query: string): string[] => query.slice(1).split("&").filter(Boolean)
const nameOf = (parameter: string): string | undefined => [...new URLSearchParams(parameter).keys()][0]

/** As libpq reads it: a + is no space, and the last of several counts. Throws `WrongHosts`. */
function parameterOf(query: string, name: string): string | undefined {
  const written = parametersOf(query)
    .findLast((text) => nameOf(text) === name)
    ?.replace(/^[^=]*=?/, "")
  if (written !== undefined && !isEscaped(written)) throw new WrongHosts(UNESCAPED)
  return written && decodeURIComponent(written)
}

/** One address for each server, in the order of the list. Throws `WrongHosts`. */
export function hostsOf(url: string): string[] {
  const [, scheme, before = "", authority = "", path = "", query = ""] = parts.exec(url) ?? []
  if (scheme === undefined)
    throw new WrongHosts(
      /^postgres(?:ql)?:\/\//.test(url)
        ? `DATABASE_URL has a # in it: ${ESCAPES}`
        : "DATABASE_URL does not begin with postgres://",
    )
  if (!isEscaped(before)) throw new WrongHosts(UNESCAPED)
  const user = credentials(before, query)
  const parameters = new URLSearchParams(query)
  for (const name of ["user", "password"]) parameters.delete(name)
  onlyPrimaries(parameters)
  const problem = tlsProblem(parameters)
  if (problem !== undefined) throw new WrongHosts(`DATABASE_URL: ${problem}`)
  const listed = parameters.get("host")
  const ports = parameters.get("port")?.split(",") ?? []
  parameters.delete("host")
  parameters.delete("port")
  const hosts = (listed ?? authority).split(",")
  return hosts.map((text, at) => {
    const port = listed === null ? undefined : ports[ports.length === 1 ? 0 : at]
    const own = new URLSearchParams(parameters)
    let host = text
    if (text.startsWith("/")) {
      host = "localhost"
      own.set("host", text)
      if (port) own.set("port", port)
    } else if (port) host = `${text}:${port}`
    // Without a host an address has no place for a user.
    else if (text === "" && before === "" && user !== "" && hosts.length === 1) host = "localhost"
    const rest = own.size > 0 ? `?${own.toString()}` : ""
    const address = `${scheme}${user}${host}${path}${rest}`
    const isWrong = (text === "" && hosts.length > 1) || !URL.canParse(address)
    // A password ended the host's part early, and what would be named as the host is its beginning.
    if (isWrong && before === "" && `${path}${query}`.includes("@"))
      throw new WrongHosts(`DATABASE_URL has a / or ? before its host: ${ESCAPES}`)
    if (isWrong) throw new WrongHosts(`DATABASE_URL names the host ${JSON.stringify(host)}, which is no host and port`)
    return address
  })
}

/** As people know a server, without user and password. */
export function hostName(address: string): string {
  const url = new URL(address)
  const directory = url.searchParams.get("host")
  const port = url.searchParams.get("port") ?? (url.port || "5432")
  return directory === null ? `${url.hostname}:${port}` : `${directory}:${port}`
}

/** What libpq's users write to reach the server that takes writes; that is what is looked for in any case. */
function onlyPrimaries(parameters: URLSearchParams): void {
  const attributes = parameters.get("target_session_attrs") ?? "any"
  if (!["any", "primary", "read-write"].includes(attributes))
    throw new WrongHosts(`target_session_attrs is ${attributes}; a gateway writes, so leave it out`)
  parameters.delete("target_session_attrs")
}

/**
 * TLS to the server, as libpq's users write it in `DATABASE_URL`: `sslmode`, `sslrootcert`, `sslcert` and `sslkey`. Files are read
 * anew for each connection, so that a renewed certificate needs no restart.
 */
const MODES = ["disable", "allow", "prefer", "require", "verify-ca", "verify-full"] as const
type Mode = (typeof MODES)[number]

/** Each names a file; `sslrootcert` may also be `system`, which is what the machine trusts. */
const FILES = { sslrootcert: "ca", sslcert: "cert", sslkey: "key" } as const

/** For postgres.js. `prefer` goes on without where the server has no TLS, and checks nothing. */
export type Tls = false | "prefer" | TlsTerms

interface TlsTerms {
  readonly rejectUnauthorized: boolean
  readonly checkServerIdentity?: (host: string, certificate: PeerCertificate) => Error | undefined
  readonly ca?: Buffer
  readonly cert?: Buffer
  readonly key?: Buffer
}

/** What is wrong with these parameters, in a sentence; undefined when nothing is. */
function tlsProblem(parameters: URLSearchParams): string | undefined {
  const mode = parameters.get("sslmode")
  if (mode !== null && !isMode(mode)) return `sslmode is ${mode}; it is one of ${MODES.join(", ")}`
  const encrypts = mode === "require" || mode === "verify-ca" || mode === "verify-full"
  for (const name of Object.keys(FILES))
    if (parameters.has(name) && !encrypts) return `${name} is for sslmode=require, verify-ca or verify-full`
  if (parameters.get("sslrootcert") === "system" && mode !== "verify-full")
    return "sslrootcert=system is for sslmode=verify-full alone"
  if (parameters.has("sslpassword"))
    return "sslpassword is not known: keep sslkey without a password, for its user alone"
  if (parameters.has("sslcert") !== parameters.has("sslkey")) return "sslcert and sslkey are for each other"
  return undefined
}

/** Takes the parameters out of an address of one server. Throws where a file cannot be read. */
export function takeTls(url: URL): Tls {
  const { searchParams: parameters, hostname } = url
  const mode = parameters.get("sslmode") ?? "disable"
  const files = Object.entries(FILES).flatMap(([name, option]) => {
    const path = parameters.get(name)
    return path === null || path === "system" ? [] : [[option, read(name, path)] as const]
  })
  for (const name of ["sslmode", ...Object.keys(FILES)]) parameters.delete(name)
  if (mode === "disable") return false
  if (mode === "allow" || mode === "prefer") return "prefer"
  const terms = Object.fromEntries(files)
  // As libpq has it: where it is said whom to trust, nobody else is.
  if (mode === "require" && !("ca" in terms)) return { ...terms, rejectUnauthorized: false }
  const host = hostname.replace(/^\[|\]$/g, "")
  return {
    ...terms,
    rejectUnauthorized: true,
    checkServerIdentity: (_, certificate) =>
      mode === "verify-full" ? checkServerIdentity(host, certificate) : undefined,
  }
}

const isMode = (text: string): text is Mode => (MODES as readonly string[]).includes(text)

function read(name: string, path: string): Buffer {
  try {
    return readFileSync(path)
  } catch (error) {
    // Without the code of the error: no other connection would find the file either.
    const why = error instanceof Error ? error.message : String(error)
    throw new Error(`${name} in DATABASE_URL: ${why}`, { cause: error })
  }
}

export class Timelines {
  readonly #directory: string | undefined
  readonly #notKept: (error: unknown) => void
  readonly #seen = new Map<string, number>()

  /** Without a directory it lasts as long as the process. `notKept` is told when the disk takes nothing. */
  constructor(directory?: string, notKept: (error: unknown) => void = () => {}) {
    this.#directory = directory
    this.#notKept = notKept
  }

  /** 0 when none was seen. */
  async highest(system: string): Promise<number> {
    for (const name of await this.#names()) {
      const [, of, timeline] = /^(\d+)-(\d+)$/.exec(name) ?? []
      if (of === system) this.#remember(system, Number(timeline))
    }
    return this.#seen.get(system) ?? 0
  }

  async saw(system: string, timeline: number): Promise<void> {
    if (timeline <= (await this.highest(system))) return
    this.#remember(system, timeline)
    if (this.#directory === undefined) return
    try {
      await mkdir(this.#directory, { recursive: true, mode: 0o700 })
      await synced(join(this.#directory, `${system}-${timeline}`), "a")
      await synced(this.#directory, "r")
    } catch (error) {
      this.#notKept(error)
    }
  }

  #remember(system: string, timeline: number): void {
    this.#seen.set(system, Math.max(timeline, this.#seen.get(system) ?? 0))
  }

  async #names(): Promise<string[]> {
    if (this.#directory === undefined) return []
    // Where nothing can be read, what this process saw itself counts.
    return await readdir(this.#directory).catch(() => [])
  }
}

async function synced(path: string, flags: string): Promise<void> {
  const handle = await open(path, flags, 0o600)
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}
