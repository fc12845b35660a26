import { expect, test } from "bun:test"
import { isLoopbackNetwork, networkOf } from "../../src/accounts/rate-limits.ts"

test.each([
  ["192.0.2.1", "192.0.2.1"],
  ["::ffff:192.0.2.1", "192.0.2.1"],
  ["::FFFF:c000:201", "192.0.2.1"],
  ["2001:db8:0:1::1", "2001:db8:0:1::/64"],
  ["2001:DB8:0:01:ffff:ffff:ffff:ffff", "2001:db8:0:1::/64"],
  ["2001:db8::", "2001:db8:0:0::/64"],
  ["2001::3:4:5:6:7", "2001:0:0:3::/64"],
  ["fe80::1%eth0", "fe80:0:0:0::/64"],
  ["::1", "0:0:0:0::/64"],
  ["", ""],
  ["no address", "no address"],
])("the network of %p is %p", (address, network) => {
  expect(networkOf(address)).toBe(network)
})

test("loopback is this machine's own, and nothing else is", () => {
  for (const address of ["127.0.0.1", "127.255.0.3", "::1", "::ffff:127.0.0.1"])
    expect([address, isLoopbackNetwork(networkOf(address))]).toEqual([address, true])
  for (const address of ["128.0.0.1", "10.0.0.1", "192.168.1.1", "", "127.example", "2001:db8::1"])
    expect([address, isLoopbackNetwork(networkOf(address))]).toEqual([address, false])
})
