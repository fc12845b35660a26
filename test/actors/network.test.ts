import { BlockList, isIP } from "node:net"
import { expect, test } from "bun:test"
import { array, assert, constantFrom, integer, ipV4, ipV6, oneof, property, string, tuple } from "fast-check"
import {
  isLoopbackNetwork,
  isPartOf,
  isWithin,
  networkOf,
  readNetwork,
  siteOf,
  writeNetwork,
} from "../../actors/network.ts"

const written = (text: string) => {
  const network = readNetwork(text)
  return network && writeNetwork(network)
}

test.each([
  ["203.0.113.0/24", "203.0.113.0/24"],
  ["203.0.113.7", "203.0.113.7/32"],
  ["0.0.0.0/0", "0.0.0.0/0"],
  ["255.255.255.255/32", "255.255.255.255/32"],
  ["2001:DB8:0:0::/32", "2001:db8::/32"],
  ["2001:db8::1", "2001:db8::1/128"],
  ["::/0", "::/0"],
  ["::1", "::1/128"],
  ["1::", "1::/128"],
  ["1:0:0:2:0:0:0:3", "1:0:0:2::3/128"],
  ["1:0:0:2:0:0:3:4", "1::2:0:0:3:4/128"],
  ["::ffff:203.0.113.7", "203.0.113.7/32"],
  ["::ffff:203.0.113.0/120", "203.0.113.0/24"],
  ["::ffff:0:0/96", "0.0.0.0/0"],
  ["64:ff9b::192.0.2.33", "64:ff9b::c000:221/128"],
])("%s is a network, written %s", (text, network) => {
  expect(written(text)).toBe(network)
})

test.each([
  "",
  "/",
  "/24",
  "203.0.113.0/",
  "203.0.113.0/33",
  "203.0.113.0/-1",
  "203.0.113.0/024",
  "203.0.113.0/2 4",
  "203.0.113.0/24/24",
  "203.0.113.7/24",
  "203.0.113",
  "203.0.113.0.0",
  "203.0.113.256",
  "203.0.113.01",
  "0x7f.0.0.1",
  " 203.0.113.7",
  "2001:db8::/129",
  "2001:db8::1/32",
  "2001:db8:::",
  "1::2::3",
  "1:2:3:4:5:6:7",
  "1:2:3:4:5:6:7:8:9",
  "1:2:3:4:5:6:7:8::",
  "12345::",
  "fe80::1%eth0",
  "::ffff:203.0.113.0/24",
  "::ffff:1.2.3.4/0",
  "::ffff:0.0.0.0/64",
  "1.2.3.4::",
  "1:2:3:4:5:6:7:8::g",
  "localhost",
])("%j is none", (text) => {
  expect(readNetwork(text)).toBeUndefined()
})

test.each([
  ["203.0.113.0/24", "203.0.113.0", true],
  ["203.0.113.0/24", "203.0.113.255", true],
  ["203.0.113.0/24", "203.0.112.255", false],
  ["203.0.113.0/24", "203.0.114.0", false],
  ["203.0.113.0/24", "::ffff:203.0.113.9", true],
  ["203.0.113.0/24", "::ffff:cb00:7109", true],
  ["203.0.113.0/24", "::203.0.113.9", false],
  ["::ffff:203.0.113.0/120", "203.0.113.9", true],
  ["0.0.0.0/0", "255.1.2.3", true],
  ["0.0.0.0/0", "2001:db8::1", false],
  ["::/0", "2001:db8::1", true],
  // Every IPv4 address would be within, and whoever writes it thinks of IPv6.
  ["::/0", "::ffff:203.0.113.9", false],
  ["2001:db8::/33", "2001:db8:7fff:ffff:ffff:ffff:ffff:ffff", true],
  ["2001:db8::/33", "2001:db8:8000::", false],
  ["fe80::/10", "fe80::1%eth0", true],
  ["0.0.0.0/0", "", false],
  ["0.0.0.0/0", "unknown", false],
  ["0.0.0.0/0", "1.2.3.4, 5.6.7.8", false],
])("of %s: %s is within: %p", (network, address, within) => {
  expect(isWithin([readNetwork(network)!], address)).toBe(within)
})

test("one of several networks is enough, and none lets nobody in", () => {
  const networks = ["192.0.2.0/24", "2001:db8::/32"].map((text) => readNetwork(text)!)
  expect(["192.0.2.1", "2001:db8::1", "192.0.3.1"].map((address) => isWithin(networks, address))).toEqual([
    true,
    true,
    false,
  ])
  expect(isWithin([], "192.0.2.1")).toBe(false)
})

test.each([
  ["203.0.113.0/24", ["203.0.113.0/24"], true],
  ["203.0.113.0/24", ["203.0.0.0/16"], true],
  ["203.0.113.7", ["203.0.113.0/24"], true],
  ["203.0.113.0/24", ["0.0.0.0/0"], true],
  ["203.0.113.0/24", ["203.0.113.0/25"], false],
  ["203.0.113.0/24", ["203.0.113.7"], false],
  ["203.0.113.0/24", ["203.0.112.0/24"], false],
  ["0.0.0.0/0", ["203.0.113.0/24"], false],
  ["2001:db8:1::/48", ["2001:db8::/32"], true],
  ["2001:db9::/48", ["2001:db8::/32"], false],
  // The same bits, of other addresses.
  ["0.0.0.0/0", ["::/0"], false],
  ["::/0", ["0.0.0.0/0"], false],
  ["2001::/16", ["32.1.0.0/16"], false],
  ["::ffff:203.0.113.0/120", ["203.0.113.0/24"], true],
  ["203.0.113.0/24", ["192.0.2.0/24", "203.0.0.0/16", "2001:db8::/32"], true],
  // Two halves of it are not looked at together.
  ["203.0.113.0/24", ["203.0.113.0/25", "203.0.113.128/25"], false],
  ["203.0.113.0/24", [], false],
])("%s is part of %j: %p", (text, networks, isPart) => {
  const all = networks.map((each) => readNetwork(each)!)
  expect(isPartOf(readNetwork(text)!, all)).toBe(isPart)
})

const family = (text: string) => (isIP(text) === 4 ? "ipv4" : "ipv6")
const address = oneof(ipV4(), ipV6())

test("what is read is an address as the platform knows it, and is written so that it is read as the same", () => {
  assert(
    property(oneof(address, string({ unit: constantFrom(...Array.from("0123456789abcdefg:./%")) })), (text) => {
      if (text.includes("/")) return
      const known = isIP(text) !== 0 && !text.includes("%")
      const network = readNetwork(text)
      expect([text, network !== undefined]).toEqual([text, known])
      if (network !== undefined) expect(readNetwork(writeNetwork(network))).toEqual(network)
    }),
    { numRuns: 2_000 },
  )
})

test("who is within a network is within the platform's subnet", () => {
  assert(
    property(tuple(address, integer({ min: 0, max: 128 }), address), ([base, length, other]) => {
      const isMapped = (text: string) => family(text) === "ipv6" && readNetwork(text)?.bits === 32
      if (isMapped(base) || isMapped(other)) return
      const bits = family(base) === "ipv4" ? 32 : 128
      const prefix = Math.min(length, bits)
      const whole = readNetwork(base)!
      const shift = BigInt(bits - prefix)
      const network = { bits: whole.bits, start: whole.start >> shift, prefix }
      const list = new BlockList()
      list.addSubnet(base, prefix, family(base))
      for (const asked of [base, other]) {
        const expected = family(asked) === family(base) && list.check(asked, family(asked))
        expect([base, prefix, asked, isWithin([network], asked)]).toEqual([base, prefix, asked, expected])
      }
    }),
    { numRuns: 2_000 },
  )
})

// The names are rows of the database, so that none may ever be another.
test.each([
  ["192.0.2.1", "192.0.2.1"],
  ["::ffff:192.0.2.1", "192.0.2.1"],
  ["::FFFF:c000:201", "192.0.2.1"],
  ["0:0:0:0:0:ffff:192.0.2.1%eth0", "192.0.2.1"],
  ["::192.0.2.1", "0:0:0:0::/64"],
  ["64:ff9b::192.0.2.1", "64:ff9b:0:0::/64"],
  ["2001:db8:0:1::1", "2001:db8:0:1::/64"],
  ["2001:DB8:0:01:ffff:ffff:ffff:ffff", "2001:db8:0:1::/64"],
  ["2001:db8::", "2001:db8:0:0::/64"],
  ["2001::3:4:5:6:7", "2001:0:0:3::/64"],
  ["fe80::1%eth0", "fe80:0:0:0::/64"],
  ["::1", "0:0:0:0::/64"],
  ["::", "0:0:0:0::/64"],
  ["", ""],
  ["no address", "no address"],
  ["::1/64", "::1/64"],
  ["[::1]", "[::1]"],
  ["192.0.2.1%eth0", "192.0.2.1%eth0"],
  ["192.0.2.01", "192.0.2.01"],
  ["192.0.2", "192.0.2"],
  ["1:2:3:4:5:6:7:8:9", "1:2:3:4:5:6:7:8:9"],
])("clients at %p are counted by %p", (text, network) => {
  expect(networkOf(text)).toBe(network)
})

test("a client is counted by the same network however its address is spelt", () => {
  const group = oneof(integer({ min: 0, max: 0xffff }), constantFrom(0, 1, 0xffff))
  const groups = array(group, { minLength: 8, maxLength: 8 })
  const start = oneof(
    groups,
    array(group, { minLength: 2, maxLength: 2 }).map((end) => [0, 0, 0, 0, 0, 0xffff, ...end]),
  )
  assert(
    property(start, (all) => {
      const hex = all.map((each) => each.toString(16))
      const [high = 0, low = 0] = all.slice(6)
      const v4 = [high >> 8, high & 255, low >> 8, low & 255].join(".")
      const isMapped = hex.slice(0, 6).join(":") === "0:0:0:0:0:ffff"
      const network = isMapped ? v4 : `${hex.slice(0, 4).join(":")}::/64`
      const zeros = hex.findIndex((each, place) => each === "0" && hex[place + 1] === "0")
      const spellings = [
        hex.join(":"),
        hex.map((each) => each.padStart(4, "0").toUpperCase()).join(":"),
        `${hex.slice(0, 6).join(":")}:${v4}`,
        ...(zeros < 0 ? [] : [`${hex.slice(0, zeros).join(":")}::${hex.slice(zeros + 2).join(":")}`]),
      ]
      for (const text of [...spellings, ...spellings.map((each) => `${each}%eth0`)])
        expect([text, networkOf(text)]).toEqual([text, network])
    }),
    { numRuns: 2_000 },
  )
})

test("the site of an IPv6 network is its /48, and of any other it is that", () => {
  const networks = ["2001:db8:0:1::/64", "0:0:0:0::/64", "192.0.2.1", "", "no address"]
  expect(networks.map(siteOf)).toEqual(["2001:db8:0::/48", "0:0:0::/48", "192.0.2.1", "", "no address"])
})

test("loopback is this machine's own, and nothing else is", () => {
  for (const text of ["127.0.0.1", "127.255.0.3", "::1", "::ffff:127.0.0.1"])
    expect([text, isLoopbackNetwork(networkOf(text))]).toEqual([text, true])
  for (const text of [
    "128.0.0.1",
    "10.0.0.1",
    "192.168.1.1",
    "",
    "127.example",
    "127.0.0.1.2",
    "127.0.0",
    "2001:db8::1",
  ])
    expect([text, isLoopbackNetwork(networkOf(text))]).toEqual([text, false])
})
