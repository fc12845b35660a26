/** The operator's texts: which are taken, which are not and why, and when they are another version. */
import { afterAll, expect, test } from "bun:test"
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { LONGEST_BYTES, type LegalTexts, readLegalTexts } from "../../src/legal/texts.ts"

const scratch = mkdtempSync(join(tmpdir(), "loket-legal-"))
afterAll(() => rmSync(scratch, { recursive: true, force: true }))

const names = ["terms", "privacy", "refunds"].flatMap((topic) => [`${topic}.id.md`, `${topic}.en.md`])
/** A directory with a text of each, but for those given; one that is undefined is not there. */
function directory(texts: Readonly<Record<string, string | Uint8Array | undefined>> = {}): string {
  const path = mkdtempSync(join(scratch, "texts-"))
  for (const name of names) {
    const text = name in texts ? texts[name] : `# ${name}\n\nOurs.\n`
    if (text !== undefined) writeFileSync(join(path, name), text)
  }
  return path
}
async function taken(path: string | undefined): Promise<LegalTexts> {
  const texts = await readLegalTexts(path)
  if (Array.isArray(texts)) throw new Error(texts.join("\n"))
  return texts
}

test("the examples have both languages of each text, and say that they have gaps", async () => {
  const { files, unfinished, version } = await taken(undefined)
  expect(Object.keys(files).toSorted()).toEqual(names.toSorted())
  for (const text of Object.values(files)) expect(text).toMatch(/^# \S/)
  expect(unfinished.toSorted()).toEqual(names.toSorted())
  expect(version).toMatch(/^[0-9a-f]{12}$/)
})

test("a directory's texts are taken whole, and only those with gaps are unfinished", async () => {
  const { files, unfinished } = await taken(directory({ "privacy.en.md": "Ask [FILL IN: who]\n" }))
  expect(files["terms.id.md"]).toBe("# terms.id.md\n\nOurs.\n")
  expect(unfinished).toEqual(["privacy.en.md"])
})

test("a text that says something else is another version; how an editor saved it is not", async () => {
  const { version } = await taken(directory())
  const versionOf = async (text: string) => (await taken(directory({ "terms.id.md": text }))).version
  expect(await versionOf("# terms.id.md\n\nOurs.\n")).toBe(version)
  expect(await versionOf("\ufeff# terms.id.md\r\n\r\nOurs.\r\n")).toBe(version)
  expect(await versionOf("# terms.id.md\n\nYours.\n")).not.toBe(version)
  // What goes from the end of one file to the beginning of the next is another text too.
  const moved = { "terms.id.md": "a", "terms.en.md": "bc" }
  const others = { "terms.id.md": "ab", "terms.en.md": "c" }
  expect((await taken(directory(moved))).version).not.toBe((await taken(directory(others))).version)
})

test("a text of the greatest size is taken, and one of a byte more is not", async () => {
  const { files } = await taken(directory({ "refunds.en.md": "x".repeat(LONGEST_BYTES) }))
  expect(files["refunds.en.md"]).toHaveLength(LONGEST_BYTES)
  const path = directory({ "refunds.en.md": "x".repeat(LONGEST_BYTES + 1) })
  expect(await readLegalTexts(path)).toEqual([`${path}/refunds.en.md is larger than 128 KiB`])
})

test("each file that is missing, empty, no text or no file is told", async () => {
  const path = directory({
    "terms.id.md": undefined,
    "terms.en.md": " \r\n",
    "privacy.id.md": new Uint8Array([0x61, 0xff, 0xfe]),
    "privacy.en.md": undefined,
  })
  mkdirSync(join(path, "privacy.en.md"))
  expect(await readLegalTexts(path)).toEqual([
    `${path}/terms.id.md cannot be read (ENOENT)`,
    `${path}/terms.en.md is empty`,
    `${path}/privacy.id.md is not UTF-8`,
    `${path}/privacy.en.md is no file`,
  ])
})
