import { expect, test } from "bun:test"
import { hostName, hostsOf, withoutPassword, WrongHosts } from "../../src/store/hosts.ts"

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
  [
    "a user and a password among the parameters, which go before those of the host,",
    "postgres://u:old@a,b/x?password=n%40w%2F+1&sslmode=require&user=o",
    ["postgres://o:n%40w%2F%2B1@a/x?sslmode=require", "postgres://o:n%40w%2F%2B1@b/x?sslmode=require"],
  ],
  ["a password without a host", "postgres:///x?password=p&user=u", ["postgres://u:p@localhost/x"]],
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
  ["a password parameter with a % of its own", "postgres://u@a/x?password=100%secret", /write % as %25/],
  [
    "a password of a key's file",
    "postgres://u@a/x?sslmode=require&sslcert=/c&sslkey=/k&sslpassword=secret",
    /sslpassword is not known/,
  ],
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

const secrets: readonly (readonly [url: string, address: string, password: string | undefined])[] = [
  ["postgres://u:p%40w@a:1,b/x?sslmode=require", "postgres://u@a:1,b/x?sslmode=require", "p@w"],
  ["postgres://u:p@w@a/x", "postgres://u@a/x", "p@w"],
  ["postgres://u:a@b/x?sslmode=require&p%61ssword=p+w%2F", "postgres://u@b/x?sslmode=require", "p+w/"],
  ["postgres:///x?password=one&host=/run/a&password=two", "postgres:///x?host=/run/a", "two"],
  ["postgres://a/x?application_name=a@b", "postgres://a/x?application_name=a@b", undefined],
  ["postgres://u:@a", "postgres://u@a", ""],
]
for (const [url, address, password] of secrets)
  test(`the password of ${url} is kept from another program's command line`, () => {
    expect(withoutPassword(url)).toEqual({ address, password })
  })
