import { expect, spyOn, test } from "bun:test"
import { passwordCost, Passwords } from "../../src/accounts/fields.ts"
import { Failure } from "../../src/failure/failure.ts"
import { cheap } from "../http/dashboard/world.ts"

const HERE = "192.0.2.1"
const hashed = async (passwords: Passwords, password: string) => (await passwords.hash(password, HERE)) as string

test("a hash is argon2id at the recommended cost, and verifies its own password only", async () => {
  const passwords = new Passwords()
  const hash = await hashed(passwords, "correct horse")
  expect(hash).toStartWith(`$argon2id$v=19$m=${passwordCost.memoryKiB},t=${passwordCost.passes},`)
  expect(await passwords.verify("correct horse", hash, HERE)).toBe(true)
  expect(await passwords.verify("correct horsf", hash, HERE)).toBe(false)
})

test("without an account even the decoy's own password is wrong", async () => {
  const passwords = new Passwords(cheap)
  expect(await passwords.verify("a decoy that nobody signs in with", undefined, HERE)).toBe(false)
})

test("no password at all is wrong, and no error", async () => {
  const passwords = new Passwords(cheap)
  expect(await passwords.verify("", await hashed(passwords, "correct horse"), HERE)).toBe(false)
})

test("more than can wait of one network are refused as capacity, and the rest are served", async () => {
  const passwords = new Passwords(cheap)
  const outcomes = await Promise.all(Array.from({ length: 100 }, (_, n) => passwords.hash(`password ${n}`, HERE)))
  const refused = outcomes.filter((outcome) => outcome instanceof Failure)
  expect(refused).toHaveLength(100 - 34)
  expect(refused[0]).toMatchObject({ code: "gateway.capacity", detail: { retryAfterS: 1 } })
  expect(await hashed(passwords, "afterwards")).toStartWith("$argon2id$")
})

/** Passwords in the order in which their turns came; which of them ends first is the threads' affair. */
function turnsOf(hash: { readonly mock: { readonly calls: readonly (readonly unknown[])[] } }): unknown[] {
  return hash.mock.calls.map(([password]) => password)
}

test("networks take turns: whoever comes to a full queue of another waits for two", async () => {
  using hash = spyOn(Bun.password, "hash")
  const passwords = new Passwords(cheap)
  const crowd = Array.from({ length: 100 }, (_, n) => passwords.hash(`crowd ${n}`, "192.0.2.66"))
  await Promise.all([...crowd, passwords.hash("owner", HERE)])
  expect(turnsOf(hash)).toHaveLength(35)
  expect(turnsOf(hash).indexOf("owner")).toBeWithin(0, 6)
})

test("of all networks together only so many wait", async () => {
  const passwords = new Passwords(cheap)
  const outcomes = await Promise.all(Array.from({ length: 600 }, (_, n) => passwords.hash("password", `network ${n}`)))
  expect(outcomes.filter((outcome) => outcome instanceof Failure)).toHaveLength(600 - 514)
  // Whoever waits gives way to nobody who would then have as many.
  expect(outcomes.slice(0, 514).filter((outcome) => outcome instanceof Failure)).toEqual([])
})

const isRefused = async (each: Promise<unknown>) => (await each) instanceof Failure

test("in a full queue a network takes a place of one that has more even without it, and of no other", async () => {
  const passwords = new Passwords(cheap)
  const ask = (network: string) => passwords.hash("password", network)
  const pairs = Array.from({ length: 2 + 2 * 255 }, (_, n) => ask(`pair ${n >> 1}`))
  const singles = [ask("one"), ask("another")]
  const second = ask("one")
  const newcomer = ask("newcomer")
  expect(await Promise.all([...singles, second, newcomer].map(isRefused))).toEqual([false, false, true, false])
  expect((await Promise.all(pairs.map(isRefused))).filter(Boolean)).toHaveLength(1)
})

test("it is the most crowded site that gives way, not the network that has most", async () => {
  const passwords = new Passwords(cheap)
  const here = Array.from({ length: 4 }, () => passwords.hash("password", HERE))
  const crowd = Array.from({ length: 508 }, (_, n) => passwords.hash("password", `2001:db8:7:${n.toString(16)}::/64`))
  const there = Array.from({ length: 2 }, () => passwords.hash("password", "192.0.2.2"))
  const newcomer = passwords.hash("password", "2001:db8:8:0::/64")
  for (const outcome of await Promise.all([...here, ...there, newcomer])) expect(outcome).not.toBeInstanceOf(Failure)
  expect((await Promise.all(crowd)).filter((outcome) => outcome instanceof Failure)).toHaveLength(1)
})

test("networks that have all places wait for themselves, and whoever comes from another one is served among the next", async () => {
  using hash = spyOn(Bun.password, "hash")
  const passwords = new Passwords(cheap)
  const crowd = Array.from({ length: 17 * 32 }, (_, n) => passwords.hash(`crowd ${n}`, `192.0.2.${100 + (n % 17)}`))
  const owner = ["owner", "owner again"].map((name) => passwords.hash(name, HERE))
  const refused = (await Promise.all([...crowd, ...owner])).filter((outcome) => outcome instanceof Failure)
  expect(turnsOf(hash)).toHaveLength(514)
  expect(refused).toHaveLength(17 * 32 + 2 - 514)
  expect(turnsOf(hash).indexOf("owner")).toBeWithin(0, 25)
  expect(turnsOf(hash).indexOf("owner again")).toBeWithin(0, 50)
})

test("all networks of one IPv6 site are one crowd", async () => {
  const passwords = new Passwords(cheap)
  const crowd = Array.from({ length: 600 }, (_, n) => passwords.hash("password", `2001:db8:7:${n.toString(16)}::/64`))
  const others = [HERE, "2001:db8:8:0::/64"].map((network) => passwords.hash("password", network))
  expect((await Promise.all(others)).some((outcome) => outcome instanceof Failure)).toBe(false)
  const served = (await Promise.all(crowd)).filter((outcome) => !(outcome instanceof Failure))
  expect(served).toHaveLength(512)
})

test("a hash that cannot be read is a bug, and gives its place back", async () => {
  const passwords = new Passwords(cheap)
  const outcomes = await Promise.allSettled(
    Array.from({ length: 5 }, () => passwords.verify("password", "no hash", HERE)),
  )
  expect(outcomes.map(({ status }) => status)).toEqual(Array.from({ length: 5 }, () => "rejected"))
  expect(await hashed(passwords, "afterwards")).toStartWith("$argon2id$")
})
