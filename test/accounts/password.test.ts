import { expect, test } from "bun:test"
import { passwordCost, Passwords } from "../../src/accounts/password.ts"
import { Failure } from "../../src/failure/failure.ts"
import { cheap } from "../http/dashboard/world.ts"

const hashed = async (passwords: Passwords, password: string) => (await passwords.hash(password)) as string

test("a hash is argon2id at the recommended cost, and verifies its own password only", async () => {
  const passwords = new Passwords()
  const hash = await hashed(passwords, "correct horse")
  expect(hash).toStartWith(`$argon2id$v=19$m=${passwordCost.memoryKiB},t=${passwordCost.passes},`)
  expect(await passwords.verify("correct horse", hash)).toBe(true)
  expect(await passwords.verify("correct horsf", hash)).toBe(false)
})

test("without an account even the decoy's own password is wrong", async () => {
  const passwords = new Passwords(cheap)
  expect(await passwords.verify("a decoy that nobody signs in with", undefined)).toBe(false)
})

test("no password at all is wrong, and no error", async () => {
  const passwords = new Passwords(cheap)
  expect(await passwords.verify("", await hashed(passwords, "correct horse"))).toBe(false)
})

test("more than can wait are refused as capacity, and the rest are served", async () => {
  const passwords = new Passwords(cheap)
  const outcomes = await Promise.all(Array.from({ length: 100 }, (_, n) => passwords.hash(`password ${n}`)))
  const refused = outcomes.filter((outcome) => outcome instanceof Failure)
  expect(refused).toHaveLength(100 - 66)
  expect(refused[0]).toMatchObject({ code: "gateway.capacity", detail: { retryAfterS: 1 } })
  expect(await hashed(passwords, "afterwards")).toStartWith("$argon2id$")
})

test("a hash that cannot be read is a bug, and gives its place back", async () => {
  const passwords = new Passwords(cheap)
  const outcomes = await Promise.allSettled(Array.from({ length: 5 }, () => passwords.verify("password", "no hash")))
  expect(outcomes.map(({ status }) => status)).toEqual(Array.from({ length: 5 }, () => "rejected"))
  expect(await hashed(passwords, "afterwards")).toStartWith("$argon2id$")
})
