/**
 * The servers that `DATABASE_URL` names, as libpq writes them: `postgres://user@one:5432,two:5432/db`, or hosts and ports in
 * lists, `postgres:///db?host=one,two&port=5432,5433`. A host that begins with a slash is the directory of a unix socket.
 */

import { tlsProblem } from "./tls.ts"

/** A list of hosts that cannot be read. Never holds the password. */
export class WrongHosts extends Error {
  override readonly name = "WrongHosts"
}

const parts = /^(postgres(?:ql)?:\/\/)([^/?#]*@)?([^/?#]*)([^?#]*)(\?[^#]*)?$/

/** One address for each server, in the order of the list. Throws `WrongHosts`. */
export function hostsOf(url: string): string[] {
  const [, scheme, user = "", authority = "", path = "", query = ""] = parts.exec(url) ?? []
  if (scheme === undefined) throw new WrongHosts("DATABASE_URL does not begin with postgres://")
  const parameters = new URLSearchParams(query)
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
    const rest = own.size > 0 ? `?${own.toString()}` : ""
    const address = `${scheme}${user}${host}${path}${rest}`
    if ((text === "" && hosts.length > 1) || !URL.canParse(address))
      throw new WrongHosts(`DATABASE_URL names the host ${JSON.stringify(host)}, which is no host and port`)
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
  const wanted = parameters.get("target_session_attrs") ?? "any"
  if (!["any", "primary", "read-write"].includes(wanted))
    throw new WrongHosts(`target_session_attrs is ${wanted}; a gateway writes, so leave it out`)
  parameters.delete("target_session_attrs")
}
