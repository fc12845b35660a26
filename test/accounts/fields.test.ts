/** What may be typed into an account's fields: each bound at what it still takes, and at what it does not. */
import { Value } from "@sinclair/typebox/value"
import { describe, expect, test } from "bun:test"
import {
  AgreedVersion,
  BuyerAddress,
  BuyerName,
  Email,
  newCodes,
  NewPassword,
  SomeEmail,
} from "../../src/accounts/fields.ts"

const nowhere = ["\u0000", "\u202e", "\u2066", "\ud800"]
const signs = ["(", ")", "[", "]", ",", ";", ":", '"', "\\", "<", ">", "@", " ", ...nowhere]

describe.each([
  [
    "an address",
    Email,
    ["a@b.c", `${"a".repeat(64)}@example.com`, `a@${"b".repeat(248)}.com`, "a@one.two.example.com"],
    [
      `${"a".repeat(65)}@example.com`,
      `a@${"b".repeat(249)}.com`,
      "@example.com",
      "a@.com",
      "a@example.",
      "a@example..com",
      ...[" ", "@", "<", ">", ...nowhere].map((sign) => `a${sign}b@example.com`),
      ...signs.flatMap((sign) => [`a@exam${sign}ple.com`, `a@example.c${sign}m`]),
    ],
  ],
  ["an address to look for", SomeEmail, ["", "no address", "a".repeat(254)], ["a".repeat(255), "a\u0000", "\nb"]],
  [
    "a new password",
    NewPassword,
    ["a".repeat(10), "🐴".repeat(256), "of two\nlines"],
    ["a".repeat(9), "🐴".repeat(9), "a".repeat(257)],
  ],
  [
    "a buyer's name",
    BuyerName,
    ["N", "7", "!", "+", "n".repeat(200)],
    ["", " ", "\u200b", "n".repeat(201), "two\nlines", ...["\u2028", ...nowhere].map((sign) => `a${sign}b`)],
  ],
  [
    "a buyer's address",
    BuyerAddress,
    ["N", "7", "!", "+", "a".repeat(500), "a\n".repeat(6)],
    ["", " \n ", "a".repeat(501), "a\n".repeat(7), "a\n\nb", ...["\u2028", ...nowhere].map((sign) => `a${sign}b`)],
  ],
  ["a version of the texts", AgreedVersion, ["", "a".repeat(64)], ["a".repeat(65)]],
])("%s", (_, schema, taken, refused) => {
  test("is taken to its bounds", () => {
    expect(taken.filter((text) => !Value.Check(schema, text))).toEqual([])
  })
  test("is refused beyond them", () => {
    expect(refused.filter((text) => Value.Check(schema, text))).toEqual([])
  })
})

test("recovery codes are ten, of 16 letters in fours, each of 32 that look like no other", () => {
  for (let time = 0; time < 100; time++) {
    const codes = newCodes()
    expect(codes).toHaveLength(10)
    for (const code of codes) expect(code).toMatch(/^[A-HJ-NP-Z2-9]{4}(?:-[A-HJ-NP-Z2-9]{4}){3}$/)
  }
  expect(new Set(Array.from({ length: 100 }, newCodes).flat().join("").replaceAll("-", "")).size).toBe(32)
})
