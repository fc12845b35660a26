import { expect, test } from "bun:test"
import { hostName, hostsOf, WrongHosts } from "../../src/store/hosts.ts"

const read: readonly (readonly [name: string, url: string, hosts: readonly string[]])[] = [
  ["one host", "postgres://u:p@db:5433/loket?sslmode=require", ["postgres://u:p@db:5433/loket?sslmode=require"]],
  [
    "two hosts, with and without a port",
    "postgresql://u:p%40w@one:5432,two/loket?sslmode=require",
    ["postgresql://u:p%40w@one:5432/loket?sslmode=require", "postgresql://u:p%40w@two/loket?sslmode=require"],
  ],
  ["an address of IPv6 among them", "postgres://[::1]:5432,b/x", ["postgres://[::1]:5432/x", "postgres://b/x"]],
  ["hosts and ports in lists", "postgres:///x?host=a,b&port=1,2", ["postgres://a:1/x", "postgres://b:2/x"]],
  ["one port for all", "postgres:///x?host=a,b&port=6432", ["postgres://a:6432/x", "postgres://b:6432/x"]],
  [
    "directories of unix sockets",
    "postgres://u@localhost/x?host=/run/a,/run/b&port=5433",
    ["postgres://u@localhost/x?host=%2Frun%2Fa&port=5433", "postgres://u@localhost/x?host=%2Frun%2Fb&port=5433"],
  ],
  [
    "what libpq's users write",
    "postgres://a,b/x?target_session_attrs=read-write",
    ["postgres://a/x", "postgres://b/x"],
  ],
]
for (const [name, url, hosts] of read)
  test(`${name} are read as libpq reads them`, () => {
    expect(hostsOf(url)).toEqual([...hosts])
  })

const wrong: readonly (readonly [name: string, url: string, says: RegExp])[] = [
  ["an empty host in a list", "postgres://u:secret@a,,b/x", /host ""/],
  ["a port that is none", "postgres://u:secret@a:x,b/x", /host "a:x"/],
  [
    "a mode of TLS that is none",
    "postgres://u:secret@a/x?sslmode=requier",
    /sslmode is requier; it is one of disable, /,
  ],
  ["a certificate that nothing is held against", "postgres://u:secret@a/x?sslrootcert=/ca", /is for sslmode=require/],
  ["what the machine trusts, without a name", "postgres://u:secret@a/x?sslmode=require&sslrootcert=system", /alone/],
  ["half of a certificate", "postgres://u:secret@a/x?sslmode=require&sslcert=/c", /sslcert and sslkey/],
  ["a password with a % of its own", "postgres://u:100%secret@a/x", /write % as %25/],
  ["a password with a slash", "postgres://u:secret/w@a/x", /has a \/ or \? before its host: .*write .*\/ as %2F/],
  ["a password with a question mark", "postgres://u:secret?w@a/x", /has a \/ or \? before its host/],
  ["a password with a number sign", "postgres://u:secret#w@a/x", /has a # in it: .*# as %23/],
  ["a wish for a standby", "postgres://u:secret@a,b/x?target_session_attrs=standby", /a gateway writes/],
]
for (const [name, url, says] of wrong)
  test(`${name} is refused, and the password is not told`, () => {
    expect(() => hostsOf(url)).toThrow(WrongHosts)
    expect(() => hostsOf(url)).toThrow(says)
    expect(() => hostsOf(url)).not.toThrow(/secret/)
  })

test("a server is named without its user and password", () => {
  expect(hostName("postgres://u:p@db/loket")).toBe("db:5432")
  expect(hostName("postgres://u@localhost/x?host=%2Frun%2Fa&port=5433")).toBe("/run/a:5433")
})
