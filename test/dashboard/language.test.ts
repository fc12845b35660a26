import { expect, test } from "bun:test"
import { formatIn, preferredLanguage, texts } from "../../src/dashboard/i18n/language.tsx"

test.each([
  [null, ["id-ID", "en"], "id"],
  [null, ["en-GB", "id"], "en"],
  [null, ["jv"], "id"],
  [null, ["de-DE"], "en"],
  [null, [], "id"],
  ["en", ["id-ID"], "en"],
  ["nonsense", ["id-ID"], "id"],
] as const)("chosen %p, browser %p: %s", (stored, asked, language) => {
  expect(preferredLanguage(stored, asked)).toBe(language)
})

test("times are told in the account's zone and not in the browser's", () => {
  const at = "2026-11-20T18:30:00Z"
  expect(formatIn("id", "Asia/Jakarta").dateTime(at)).toBe("21 Nov 2026, 01.30")
  expect(formatIn("en", "Asia/Jayapura").dateTime(at)).toBe("21 Nov 2026, 03:30")
})

test("a duration has the unit that suits it", () => {
  const format = formatIn("id", "Asia/Jakarta")
  expect([850, 2_440, 90_000].map(format.duration)).toEqual(["850 ms", "2,4 dtk", "1,5 mnt"])
})

test("how long ago is told in the largest unit that fits", () => {
  const format = formatIn("en", "Asia/Jakarta")
  const now = Date.parse("2026-11-21T00:00:00Z")
  expect(format.ago(now - 3 * 60_000, now)).toBe("3 minutes ago")
  expect(format.ago(now - 26 * 3_600_000, now)).toBe("yesterday")
})

test("a text that one language lacks, or that takes other words, is an error of the type checker", () => {
  // @ts-expect-error -- "b" is missing in English.
  texts({ id: { a: "satu", b: "dua" }, en: { a: "one" } })
  // @ts-expect-error -- "c" is in English alone.
  texts({ id: { a: "satu" }, en: { a: "one", c: "three" } })
  // @ts-expect-error -- English would be given a number, and Indonesian text.
  texts({ id: { a: (count: string) => `${count} kali` }, en: { a: (count: number) => `${count} times` } })
})
