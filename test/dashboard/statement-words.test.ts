/** A statement says the same on the page and on paper, which are two programs: each has its own words. */
import { expect, test } from "bun:test"

/** The words of each kind of entry in a source: Indonesian, then English. */
async function kindsIn(path: string) {
  const source = await Bun.file(path).text()
  return [...source.matchAll(/\bkinds: \{\n([^}]+)\}/g)].map(([, block = ""]) =>
    Object.fromEntries([...block.matchAll(/(\w+): "([^"]+)",\n/g)].map(([, kind = "", words]) => [kind, words])),
  )
}

test("the kinds of a statement's entries have the same words on the page and in the PDF, in both languages", async () => {
  const page = await kindsIn("src/dashboard/pages/wallet/text.ts")
  expect(page.map((words) => Object.keys(words).length)).toEqual([10, 10])
  expect(await kindsIn("src/http/dashboard/document-paper.ts")).toEqual(page)
})
