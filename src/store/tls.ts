/**
 * TLS to the server, as libpq's users write it in `DATABASE_URL`: `sslmode`, `sslrootcert`, `sslcert` and `sslkey`. Files are read
 * anew for each connection, so that a renewed certificate needs no restart.
 */
import { readFileSync } from "node:fs"
import { checkServerIdentity, type PeerCertificate } from "node:tls"

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
export function tlsProblem(parameters: URLSearchParams): string | undefined {
  const mode = parameters.get("sslmode")
  if (mode !== null && !isMode(mode)) return `sslmode is ${mode}; it is one of ${MODES.join(", ")}`
  const encrypts = mode === "require" || mode === "verify-ca" || mode === "verify-full"
  for (const name of Object.keys(FILES))
    if (parameters.has(name) && !encrypts) return `${name} is for sslmode=require, verify-ca or verify-full`
  if (parameters.get("sslrootcert") === "system" && mode !== "verify-full")
    return "sslrootcert=system is for sslmode=verify-full alone"
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
