/**
 * Networks, as what people and machines share with nobody else: an IPv4 address, and the /64 of an IPv6 address, of which
 * one customer has all. Not a /24, because its addresses belong to many, and whoever attacks hires single ones.
 */
import { isIP, isIPv4 } from "node:net"

/** The network that an address is in; what is no address stands for itself. */
export function networkOf(address: string): string {
  if (isIP(address) !== 6) return address
  const groups = groupsOf(address)
  const [high = 0, low = 0] = groups.slice(6)
  // An IPv4 client of a socket that listens on both.
  if (groups.slice(0, 5).every((group) => group === 0) && groups[5] === 0xffff) {
    return [high >> 8, high & 255, low >> 8, low & 255].join(".")
  }
  return `${groups
    .slice(0, 4)
    .map((group) => group.toString(16))
    .join(":")}::/64`
}

/** This machine's own: nobody else can call from there. */
export const isLoopbackNetwork = (network: string): boolean =>
  network === "0:0:0:0::/64" || (isIPv4(network) && network.startsWith("127."))

const numbers = (text: string) => (text === "" ? [] : text.split(":").map((group) => Number.parseInt(group, 16)))

/** The eight groups of an IPv6 address, in whatever of its spellings. */
function groupsOf(address: string): number[] {
  const plain = new URL(`http://[${address.replace(/%.*$/, "")}]`).hostname.slice(1, -1)
  const [head = "", tail] = plain.split("::")
  const [left, right] = [numbers(head), numbers(tail ?? "")]
  return [...left, ...Array.from({ length: 8 - left.length - right.length }, () => 0), ...right]
}
