import { expect, test } from "bun:test"
import { assert, constantFrom, nat, property } from "fast-check"
import { apiKeyHints, checkApiKey, createApiKey, hashApiKey } from "../../src/accounts/bearer-tokens.ts"

test("a new key has the form that is published, and is its own", () => {
  const keys = Array.from({ length: 1_000 }, createApiKey)
  for (const key of keys) {
    expect(key).toMatch(/^sk-loket-[0-9A-Za-z]{46}$/)
    expect(checkApiKey(key)).toBe(true)
  }
  expect(new Set(keys).size).toBe(1_000)
})

test("the checksum of a known key is the base62 of the CRC-32 of what precedes it", () => {
  const body = `sk-loket-${"0".repeat(40)}`
  let value = BigInt(Bun.hash.crc32(body))
  const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
  let digits = ""
  for (; value > 0n; value /= 62n) digits = alphabet[Number(value % 62n)] + digits
  expect(checkApiKey(body + digits.padStart(6, "0"))).toBe(true)
})

test("one wrong character is noticed, wherever it is", () => {
  assert(
    property(nat(54), constantFrom("0", "a", "Z", "_", "-", " ", "é"), (at, other) => {
      const key = createApiKey()
      const wrong = key.slice(0, at) + other + key.slice(at + 1)
      return checkApiKey(wrong) === (wrong === key)
    }),
  )
})

test.each([
  "",
  "sk-loket-",
  createApiKey().slice(1),
  `${createApiKey()}0`,
  ` ${createApiKey()}`,
  `${createApiKey()}\n`,
])("%j is no key", (text) => expect(checkApiKey(text)).toBe(false))

test("the characters of the secret are equally likely", () => {
  const counts = new Map<string, number>()
  for (let n = 0; n < 2_000; n++) {
    for (const character of createApiKey().slice(9, 49)) counts.set(character, (counts.get(character) ?? 0) + 1)
  }
  const expected = (2_000 * 40) / 62
  const chiSquare = [...counts.values()].reduce((sum, count) => sum + (count - expected) ** 2 / expected, 0)
  expect(counts.size).toBe(62)
  // 61 degrees of freedom: a fair source passes 150 less than once in a hundred million runs.
  expect(chiSquare).toBeLessThan(150)
})

test("the hash is SHA-256, and the hints give nothing of the secret's middle", () => {
  const key = createApiKey()
  expect(Buffer.from(hashApiKey(key)).toString("hex")).toBe(new Bun.CryptoHasher("sha256").update(key).digest("hex"))
  expect(apiKeyHints(key)).toEqual({ prefix: key.slice(0, 13), last4: key.slice(-4) })
})
