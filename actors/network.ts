/**
 * Networks as people write them (CIDR, RFC 4632 and RFC 4291): `203.0.113.0/24`, `2001:db8::/32`, or one address. An IPv6 address
 * that holds an IPv4 one (`::ffff:203.0.113.7`) is that IPv4 address, however the socket tells it. And the networks of clients,
 * which are counted by: their names are kept.
 */
export interface Network {
  readonly bits: 32 | 128
  /** The bits that an address of the network begins with, and how many they are. */
  readonly start: bigint
  readonly prefix: number
}

interface Address {
  readonly bits: 32 | 128
  readonly value: bigint
}

/** Undefined for what is none, and for one with bits beyond its prefix, of which nobody can say what was meant. */
export function readNetwork(text: string): Network | undefined {
  const [written = "", length, ...rest] = text.split("/")
  const address = readAddress(written)
  if (address === undefined || rest.length > 0) return undefined
  const width = written.includes(":") ? 128 : 32
  if (length !== undefined && !/^(?:0|[1-9]\d{0,2})$/.test(length)) return undefined
  const prefix = (length === undefined ? width : Number(length)) - (width - address.bits)
  if (prefix < 0 || prefix > address.bits) return undefined
  const start = hasPrefix(address, prefix)
  return start << BigInt(address.bits - prefix) === address.value ? { bits: address.bits, start, prefix } : undefined
}

/** As it is shown and compared: one text for each network. */
export function writeNetwork({ bits, start, prefix }: Network): string {
  const value = start << BigInt(bits - prefix)
  return `${bits === 32 ? writeV4(value) : writeV6(value)}/${prefix}`
}

/** False for what is no address, such as that of a connection that has gone. */
export function isWithin(networks: readonly Network[], text: string): boolean {
  const address = readAddress(withoutZone(text))
  if (address === undefined) return false
  return networks.some(({ bits, start, prefix }) => bits === address.bits && hasPrefix(address, prefix) === start)
}

/** Whether every address of a network is in one of these. */
export const isPartOf = (network: Network, networks: readonly Network[]): boolean =>
  networks.some(
    ({ bits, start, prefix }) =>
      bits === network.bits && prefix <= network.prefix && network.start >> BigInt(network.prefix - prefix) === start,
  )

/**
 * The network that a client is counted by: an IPv4 address, or the /64 of an IPv6 address, which belongs to one customer. A /24 would be
 * wrong, because its addresses belong to many, and attackers rent single ones. A text that is no address stands for itself.
 */
export function networkOf(text: string): string {
  const address = text.includes(":") ? readAddress(withoutZone(text)) : undefined
  if (address === undefined) return text
  return address.bits === 32 ? writeV4(address.value) : `${groupsOf(address.value).slice(0, 4).join(":")}::/64`
}

/** The /48 of an IPv6 network, of which whoever has one has 65,536; every other network is its own. */
export const siteOf = (network: string): string =>
  network.endsWith("::/64") ? `${network.split(":").slice(0, 3).join(":")}::/48` : network

/** The loopback network, from which only this machine can call. */
export const isLoopbackNetwork = (network: string): boolean =>
  network === "0:0:0:0::/64" || (network.startsWith("127.") && readV4(network) !== undefined)

/** A link's own address may have the name of its interface behind it. */
const withoutZone = (text: string): string => text.split("%", 1)[0] ?? ""

const hasPrefix = ({ bits, value }: Address, prefix: number): bigint => value >> BigInt(bits - prefix)

const MAPPED = 0xffffn

function readAddress(text: string): Address | undefined {
  const v4 = readV4(text)
  if (v4 !== undefined) return { bits: 32, value: v4 }
  const v6 = readV6(text)
  if (v6 === undefined) return undefined
  return v6 >> 32n === MAPPED ? { bits: 32, value: v6 & 0xffff_ffffn } : { bits: 128, value: v6 }
}

const BYTE = /^(?:0|[1-9]\d{0,2})$/

function readV4(text: string): bigint | undefined {
  const bytes = text.split(".")
  if (bytes.length !== 4 || !bytes.every((byte) => BYTE.test(byte) && Number(byte) <= 255)) return undefined
  return bytes.reduce((value, byte) => (value << 8n) | BigInt(byte), 0n)
}

function readV6(text: string): bigint | undefined {
  const halves = text.split("::")
  if (halves.length > 2) return undefined
  const [before, after] = halves.map((half, place) => readGroups(half, place === halves.length - 1))
  if (before === undefined || (halves.length === 2 && after === undefined)) return undefined
  const known = before.length + (after?.length ?? 0)
  // Two colons stand for at least one group.
  if (after === undefined ? known !== 8 : known > 7) return undefined
  const groups = [...before, ...Array<bigint>(8 - known).fill(0n), ...(after ?? [])]
  return groups.reduce((value, group) => (value << 16n) | group, 0n)
}

/** Groups of 16 bits; an address's last two may be written as an IPv4 address. */
function readGroups(text: string, isEnd: boolean): bigint[] | undefined {
  if (text === "") return []
  const words = text.split(":")
  const last = words.at(-1) ?? ""
  const v4 = isEnd ? readV4(last) : undefined
  if (v4 !== undefined) words.splice(-1, 1, (v4 >> 16n).toString(16), (v4 & 0xffffn).toString(16))
  return words.every((word) => /^[0-9a-f]{1,4}$/i.test(word)) ? words.map((word) => BigInt(`0x${word}`)) : undefined
}

const writeV4 = (value: bigint): string => [24n, 16n, 8n, 0n].map((shift) => (value >> shift) & 0xffn).join(".")

const groupsOf = (value: bigint): string[] =>
  Array.from({ length: 8 }, (_, place) => ((value >> BigInt(16 * (7 - place))) & 0xffffn).toString(16))

/** The longest run of two or more zero groups is left out, the first of equal ones (RFC 5952). */
function writeV6(value: bigint): string {
  const groups = groupsOf(value)
  const runs = [...groups.join(":").matchAll(/(?<![0-9a-f])0(?::0)+(?![0-9a-f])/g)].map(([run]) => run)
  const longest = runs.toSorted((a, b) => b.length - a.length)[0]
  if (longest === undefined) return groups.join(":")
  const whole = groups.join(":")
  const at = whole.search(new RegExp(`(?<![0-9a-f])${longest}(?![0-9a-f])`))
  return `${whole.slice(0, at).replace(/:$/, "")}::${whole.slice(at + longest.length).replace(/^:/, "")}`
}
