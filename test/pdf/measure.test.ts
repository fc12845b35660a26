import { describe, expect, test } from "bun:test"
import { deflateSync } from "node:zlib"
import { measurePdf } from "../../src/pdf/measure.ts"
import { deflated, onePage, pagesOf, pdf, stream, treeOf } from "./files.ts"

const kid = "<</Type/Page/Parent 2 0 R>>"
const naming = (count: number) => treeOf(`<</Type/Pages/Count 1/Kids[${"3 0 R ".repeat(count)}]>>`, kid)

describe("pages", () => {
  test.each([1, 3, 600])("are counted, and their words: %p", async (count) => {
    const words = Array.from({ length: count }, () => "twelve bytes")
    expect(await measurePdf(pagesOf(words))).toEqual({ pages: count, textBytes: count * 12 })
  })

  test("of a scan have no words, however large it is", async () => {
    expect(await measurePdf(pagesOf(Array(5).fill(""), 2_000_000))).toEqual({ pages: 5, textBytes: 0 })
  })

  const trees: [string, Buffer, number][] = [
    ["more than the tree claims", treeOf("<</Type/Pages/Count 1/Kids[3 0 R 4 0 R 5 0 R]>>", kid, kid, kid), 3],
    ["one page named many times", treeOf(`<</Type/Pages/Count 1/Kids[${"3 0 R ".repeat(400)}]>>`, kid), 400],
    ["fewer than the tree claims", treeOf("<</Type/Pages/Count 400/Kids[3 0 R]>>", kid), 400],
    ["a tree within a tree", treeOf("<</Type/Pages/Count 1/Kids[3 0 R]>>", "<</Kids[4 0 R 5 0 R]>>", kid, kid), 2],
    ["pages that no tree names", treeOf("<</Type/Pages/Count 1/Kids[3 0 R]>>", kid, kid, kid), 3],
    ["pages within a compressed object", objectStream(), 2],
  ]
  test.each(trees)("of a file that lies are the most that can be read: %s", async (_, file, pages) => {
    expect((await measurePdf(file))?.pages).toBe(pages)
  })

  test("are found in a file whose end is cut off, and in one that begins with something else", async () => {
    const file = pagesOf(["a", "b"])
    expect((await measurePdf(file.subarray(0, -150)))?.pages).toBe(2)
    expect((await measurePdf(Buffer.concat([Buffer.from("GIF89a\n"), file])))?.pages).toBe(2)
  })

  test("of a tree without end are not counted for ever, and its words are unknown", async () => {
    const doubling = Array.from({ length: 40 }, (_, level) => `<</Kids[${level + 4} 0 R ${level + 4} 0 R]>>`)
    const bomb = treeOf("<</Type/Pages/Count 1/Kids[3 0 R 3 0 R]>>", ...doubling, kid)
    expect((await measurePdf(bomb))?.textBytes).toBeUndefined()
    expect((await measurePdf(treeOf("<</Type/Pages/Count 1/Kids[2 0 R 2 0 R]>>")))?.textBytes).toBeUndefined()
  })

  test("are counted in trees of less than 20,000 nodes; the words of a larger one are unknown", async () => {
    // The tree is a node too.
    expect(await measurePdf(naming(19_998))).toEqual({ pages: 19_998, textBytes: 0 })
    expect(await measurePdf(naming(20_000))).toEqual({ pages: 19_999, textBytes: undefined })
  })

  test("of a tree that names itself a thousand times take little memory", async () => {
    const bomb = treeOf(`<</Type/Pages/Count 1/Kids[${"2 0 R ".repeat(1_000)}]>>`)
    const before = process.memoryUsage.rss()
    expect(await measurePdf(bomb)).toEqual({ pages: 1, textBytes: undefined })
    // What waited to be looked at took over 900 MB.
    expect(process.memoryUsage.rss() - before).toBeLessThan(300_000_000)
  })

  test.each([
    ["nothing", ""],
    ["its mark alone", "%PDF-1.7"],
    ["a page that is no object", "%PDF-1.7\n/Type /Page"],
    ["a text", "hello"],
  ])("%s is no PDF", async (_, text) => expect(await measurePdf(Buffer.from(text))).toBeUndefined())
})

const textOf = async (file: Buffer) => (await measurePdf(file))?.textBytes
const form = (resources = "") => stream("(form) Tj", `/Type/XObject/Subtype/Form${resources}`)

const nestedForms = (count: number) => {
  const forms = Array.from({ length: count }, (_, at) =>
    at === count - 1 ? form() : form(`/Resources<</XObject<</A ${at + 5} 0 R>>>>`),
  )
  return onePage("/Resources<</XObject<</A 4 0 R>>>>", ...forms)
}
const drawn = (...sizes: readonly number[]) => {
  const parts = sizes.map((_, at) => `${at + 4} 0 R`)
  return onePage(`/Contents[${parts.join(" ")}]`, ...sizes.map((size) => deflated(Buffer.alloc(size, " "))))
}
const lettered = (bytes: number) =>
  onePage(
    "/Contents 5 0 R/Resources<</Font<</F<</ToUnicode 4 0 R>>>>>>",
    deflated(`1 beginbfchar <01> <${"00".repeat(bytes)}> endbfchar`),
    stream("(a) Tj"),
  )

describe("words", () => {
  test("are what strings hold: brackets nest, a stroke hides one, and hexadecimal takes two digits", async () => {
    expect(await textOf(onePage("/Contents 4 0 R", stream("[(ab(c)d) -3 (\\)e)] TJ <41 42> Tj <</A 1>> BDC")))).toBe(
      6 + 2 + 3,
    )
  })

  test("count in each part, in forms within forms, by resources from above, and in notes", async () => {
    expect(await textOf(onePage("/Contents[4 0 R 5 0 R]", stream("(a) Tj"), deflated("(bc) Tj")))).toBe(3)
    const nested = onePage("/Resources<</XObject<</A 4 0 R>>>>", form("/Resources<</XObject<</B 5 0 R>>>>"), form())
    expect(await textOf(nested)).toBe(8)
    const above = treeOf("<</Kids[3 0 R]/Resources<</XObject<</A 4 0 R>>>>>>", "<</Type/Page>>", form())
    expect(await textOf(above)).toBe(4)
    expect(await textOf(onePage("/Annots[<</AP<</N 4 0 R>>>>]", form()))).toBe(4)
  })

  const unknown: [string, Buffer][] = [
    [
      "encrypted",
      pdf(["<</Type/Catalog/Pages 2 0 R>>", "<</Kids[3 0 R]>>", "<</Type/Page>>"], "/Encrypt<</Filter/X>>"),
    ],
    ["coded in another way", onePage("/Contents 4 0 R", stream("abc", "/Filter/LZWDecode"))],
    ["coded twice", onePage("/Contents 4 0 R", stream("abc", "/Filter[/ASCIIHexDecode/FlateDecode]"))],
    ["not what their coding says", onePage("/Contents 4 0 R", stream("abc", "/Filter/FlateDecode"))],
    ["a bomb", onePage("/Contents 4 0 R", deflated(Buffer.alloc(17 * 1024 * 1024)))],
    [
      "forms that hold each other",
      onePage("/Resources<</XObject<</A 4 0 R>>>>", stream("", "/Subtype/Form/Resources<</XObject<</A 4 0 R>>>>")),
    ],
    [
      "letters that mean whole pages",
      onePage(
        "/Resources<</Font<</F<</ToUnicode 4 0 R>>>>>>",
        deflated(`1 beginbfchar <01> <${"0041".repeat(500)}> endbfchar`),
      ),
    ],
  ]
  test.each(unknown)("that are %s may be any number", async (_, file) => {
    expect(await measurePdf(file)).toEqual({ pages: 1, textBytes: undefined })
  })

  const MIB = 1024 * 1024
  const edges: [string, Buffer, number, Buffer][] = [
    ["8 forms within each other", nestedForms(8), 8 * 4, nestedForms(9)],
    ["16 MiB of instructions", drawn(16 * MIB), 0, drawn(16 * MIB + 1)],
    ["16 MiB of instructions in two parts", drawn(8 * MIB, 8 * MIB), 0, drawn(8 * MIB, 8 * MIB + 1)],
    [
      "20,000 parts",
      onePage(`/Contents[${"4 0 R ".repeat(20_000)}]`, stream("(a)")),
      20_000,
      onePage(`/Contents[${"4 0 R ".repeat(20_001)}]`, stream("(a)")),
    ],
    ["letters that mean 16 bytes", lettered(16), 1, lettered(17)],
  ]
  test.each(edges)("are counted in %s, and in more may be any number", async (_, within, text, beyond) => {
    expect(await measurePdf(within)).toEqual({ pages: 1, textBytes: text })
    expect(await measurePdf(beyond)).toEqual({ pages: 1, textBytes: undefined })
  })

  test("with ligatures are counted", async () => {
    const font = deflated("1 beginbfchar <01> <006600660069> endbfchar")
    expect(
      await textOf(onePage("/Contents 5 0 R/Resources<</Font<</F<</ToUnicode 4 0 R>>>>>>", font, stream("(a) Tj"))),
    ).toBe(1)
  })
})

/** Catalog, tree and pages in one compressed stream of objects, as newer files have them. */
function objectStream(): Buffer {
  const objects = [
    "<</Type/Catalog/Pages 2 0 R>>",
    "<</Type/Pages/Count 2/Kids[3 0 R 4 0 R]>>",
    "<</Type/Page>>",
    "<</Type/Page>>",
  ]
  let at = 0
  const table = objects.map((object, index) => {
    const entry = `${index + 1} ${at}`
    at += object.length + 1
    return entry
  })
  const head = `${table.join(" ")} `
  const packed = deflateSync(head + objects.join(" "))
  const dict = `/Type/ObjStm/N ${objects.length}/First ${head.length}/Filter/FlateDecode`
  return Buffer.concat([
    Buffer.from("%PDF-1.7\n9 0 obj\n"),
    stream(packed, dict),
    Buffer.from("\nendobj\ntrailer\n<</Size 10/Root 1 0 R>>\n%%EOF\n"),
  ])
}
