/**
 * Whose a request is, as a network address: what failed sign-ins are counted for, and what the audit log and people's
 * sessions show. Behind a proxy every peer is the proxy, so all would wait for what one of them failed at.
 */
import { isIP } from "node:net"

/**
 * The last address that the named header has, because the proxy wrote that one and its client may have written those
 * before; the peer's own where nothing is named, or nothing is there that is an address.
 */
export function clientAddress(headers: Headers, peer: string, header: string | undefined): string {
  const told = header === undefined ? undefined : headers.get(header)?.split(",").at(-1)?.trim()
  return told === undefined || isIP(told) === 0 ? peer : told
}
