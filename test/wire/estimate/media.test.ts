import { describe, expect, test } from "bun:test"
import * as fc from "fast-check"
import type { Json, JsonObject } from "../../../src/language/json.ts"
import {
  estimateInput,
  estimateInputTokens,
  imageTokens,
  LARGEST_IMAGE_TOKENS,
  sentDocument,
} from "../../../src/wire/estimate.ts"
import { textTokens } from "../../../src/wire/tokens.ts"

const be = (value: number, bytes: number): number[] =>
  Array.from({ length: bytes }, (_, at) => (value >>> (8 * (bytes - 1 - at))) & 0xff)
const le = (value: number, bytes: number): number[] => be(value, bytes).reverse()
const latin = (text: string): number[] => [...Buffer.from(text, "latin1")]
const base64 = (bytes: number[]): string => Buffer.from([...bytes, ...Array(40).fill(0)]).toString("base64")

type Header = (width: number, height: number) => number[]
const headers: Readonly<Record<string, Header>> = {
  PNG: (w, h) => [...be(0x89504e47, 4), ...be(0x0d0a1a0a, 4), ...be(13, 4), ...latin("IHDR"), ...be(w, 4), ...be(h, 4)],
  GIF: (w, h) => [...latin("GIF89a"), ...le(w, 2), ...le(h, 2)],
  JPEG: (w, h) => [
    0xff,
    0xd8,
    0xff,
    0xe0,
    ...be(16, 2),
    ...Array(14).fill(0),
    0xff,
    0xff,
    0xc2,
    ...be(17, 2),
    8,
    ...be(h, 2),
    ...be(w, 2),
  ],
  "lossy WebP": (w, h) => [
    ...latin("RIFF"),
    ...le(99, 4),
    ...latin("WEBPVP8 "),
    ...le(9, 4),
    0,
    0,
    0,
    0x9d,
    1,
    0x2a,
    ...le(w, 2),
    ...le(h, 2),
  ],
  "lossless WebP": (w, h) => [
    ...latin("RIFF"),
    ...le(99, 4),
    ...latin("WEBPVP8L"),
    ...le(9, 4),
    0x2f,
    ...le((w - 1) | ((h - 1) << 14), 4),
  ],
  "extended WebP": (w, h) => [
    ...latin("RIFF"),
    ...le(99, 4),
    ...latin("WEBPVP8X"),
    ...le(10, 4),
    ...le(0, 4),
    ...le(w - 1, 3),
    ...le(h - 1, 3),
  ],
}

const jpegSegment = (marker: number, width: number, height: number) => [
  0xff,
  marker,
  ...be(17, 2),
  8,
  ...be(height, 2),
  ...be(width, 2),
  ...Array<number>(10).fill(0),
]

describe("an image", () => {
  for (const [kind, header] of Object.entries(headers)) {
    test(`in ${kind} counts its patches of 28 pixels`, () => {
      const data = base64(header(280, 141))
      expect(imageTokens(data)).toBe(10 * 6)
      expect(imageTokens(`data:image/any;base64,${data}`)).toBe(10 * 6)
      expect(imageTokens(base64(header(281, 140)))).toBe(11 * 5)
      expect(imageTokens(base64(header(1, 1)))).toBe(1)
    })
    test(`in ${kind} never counts more than the largest`, () =>
      expect(imageTokens(base64(header(8000, 8000)))).toBe(LARGEST_IMAGE_TOKENS))
  }
  test("behind an address counts as the largest", () =>
    expect(imageTokens("https://example.com/a.png")).toBe(LARGEST_IMAGE_TOKENS))
  test("behind an address is the largest, whatever the address would be as data", () => {
    const small = base64([0, 0, ...latin("WEBPVP8X")])
    expect(imageTokens(`data:image/webp;base64,xxxxxxxx${small}`)).toBe(1)
    for (const scheme of ["https", "HTTPS"]) expect(imageTokens(`${scheme}://x${small}`)).toBe(LARGEST_IMAGE_TOKENS)
  })
  test("that says to have no width or no height counts as the largest", () => {
    const png = headers["PNG"] ?? (() => [])
    for (const [width, height] of [
      [0, 280],
      [280, 0],
    ] as const)
      expect(imageTokens(base64(png(width, height)))).toBe(LARGEST_IMAGE_TOKENS)
  })
  test("in JPEG has the size of its frame, and not what stands in a table before it", () => {
    const read = Array.from({ length: 18 }, (_, at) => 0xbf + at).filter((marker) => {
      const file = [0xff, 0xd8, ...jpegSegment(marker, 28, 28), ...jpegSegment(0xc0, 280, 280)]
      const tokens = imageTokens(base64(file))
      expect([1, 100]).toContain(tokens)
      return tokens === 1
    })
    expect(read).toEqual([0xc0, 0xc1, 0xc2, 0xc3, 0xc5, 0xc6, 0xc7, 0xc9, 0xca, 0xcb, 0xcd, 0xce, 0xcf])
  })
  test("in low detail counts little", () => expect(imageTokens("https://example.com/a.png", "low")).toBe(361))
  test("that cannot be read counts as the largest, and never throws", () => {
    expect(imageTokens(undefined)).toBe(LARGEST_IMAGE_TOKENS)
    expect(imageTokens(base64([0xff, 0xd8, 0xff, 0xe0, 0xff, 0xff]))).toBe(LARGEST_IMAGE_TOKENS)
    const start = fc.constantFrom(...Object.values(headers).map((header) => header(10, 10).slice(0, 16)))
    fc.assert(
      fc.property(start, fc.array(fc.nat(255), { maxLength: 80 }), (head, tail) => {
        const tokens = imageTokens(Buffer.from([...head, ...tail]).toString("base64"))
        expect(tokens >= 1 && tokens <= LARGEST_IMAGE_TOKENS).toBe(true)
      }),
    )
  })
})

const bySize = (pages: number) => ({ likely: pages * 3000, most: Infinity, known: false })

describe("a PDF", () => {
  test("counts by its size until it is read, whatever it says of its pages", () => {
    const lying = base64(latin("%PDF-1.7\n/Type /Page"))
    expect(sentDocument(lying)).toEqual({ ...bySize(1), pdf: lying })
    const large = base64([...latin("%PDF-1.7"), ...Array(120_000).fill(1)])
    expect(sentDocument(`data:application/pdf;base64,${large}`)).toEqual({ ...bySize(3), pdf: large })
  })
  test("is known by its mark among the first kilobyte, or by what the client says", () => {
    expect(sentDocument(base64([...latin(" ".repeat(1000)), ...latin("%PDF-1.7")])).pdf).toBeDefined()
    expect(sentDocument(base64([...latin(" ".repeat(1030)), ...latin("%PDF-1.7")])).pdf).toBeUndefined()
    expect(sentDocument(base64(latin("words")), "application/pdf").pdf).toBeDefined()
    expect(sentDocument(`data:application/pdf;base64,${base64(latin("words"))}`).pdf).toBeDefined()
  })
  test.each(["https://a.example/b.pdf", " HTTPS://a.example/b", "gs://bucket/b", "s3://bucket/b"])(
    "behind an address may be anything: %s",
    (address) => expect(sentDocument(address)).toEqual({ ...bySize(4), remote: true }),
  )
})

const count = (content: Json[]): number =>
  estimateInputTokens({ messages: [{ role: "user", content }], tools: [], schemas: [] })

describe("another file", () => {
  test("of text is a text", () => {
    const csv = "hari,jumlah\nSenin,12\n".repeat(200)
    const source = `data:text/csv;base64,${Buffer.from(csv).toString("base64")}`
    expect(sentDocument(source)).toEqual({ likely: textTokens(csv), most: textTokens(csv), known: true })
  })
  test("that is binary counts by its size", () =>
    expect(sentDocument(base64(latin("PK\u0003\u0004\u0000")))).toEqual({ likely: 3000, most: Infinity, known: false }))
})

const estimated = (...content: Json[]) =>
  estimateInput({ messages: [{ role: "user", content }], tools: [], schemas: [] })

describe("in a prompt, data is priced by size and not as text:", () => {
  const data = base64([...(headers["PNG"]?.(280, 141) ?? []), ...Array(50_000).fill(7)])
  const url = `data:image/png;base64,${data}`
  const image = { type: "image", source: { type: "base64", media_type: "image/png", data } }
  const pdf = { type: "base64", media_type: "application/pdf", data: base64(latin("%PDF-1.4 /Type /Page ")) }
  const parts: readonly (readonly [string, Json, number])[] = [
    ["a messages image", image, 60],
    ["a messages image in a tool's result", { type: "tool_result", content: [image] }, 60],
    ["a chat image", { type: "image_url", image_url: { url } }, 60],
    [
      "a chat image behind an address, in low detail",
      { type: "image_url", image_url: { url: "https://example.com/a", detail: "low" } },
      361,
    ],
    ["a responses image", { type: "input_image", image_url: url }, 60],
    ["a screenshot", { type: "function_call_output", output: [{ type: "input_image", image_url: url }] }, 60],
    ["a messages document", { type: "document", source: pdf }, 3000],
    [
      "a chat file",
      { type: "file", file: { filename: "a.pdf", file_data: `data:application/pdf;base64,${pdf.data}` } },
      3000,
    ],
    ["a responses file", { type: "input_file", filename: "a.pdf", file_data: pdf.data }, 3000],
  ]
  for (const [kind, part, tokens] of parts) test(kind, () => expect(count([part]) - count([])).toBe(tokens))
  test("what images and files may come to beyond that is told with them, and nothing is where there are none", () => {
    const low = { type: "image_url", image_url: { url: "https://example.com/a", detail: "low" } }
    const file = { type: "document", source: pdf }
    const known = [{ ...bySize(1), pdf: pdf.data }]
    const spare = LARGEST_IMAGE_TOKENS - 361
    expect(estimated({ type: "text", text: "Hi" }).media).toBeUndefined()
    expect(estimated(image).media).toEqual({ spareTokens: 0, documents: [] })
    expect(estimated(low, low).media).toEqual({ spareTokens: 2 * spare, documents: [] })
    expect(estimated(file).media).toEqual({ spareTokens: 0, documents: known })
    expect(estimated(low, file).media).toEqual({ spareTokens: spare, documents: known })
  })
  test("a document of plain text is text", () => {
    const document = {
      type: "document",
      source: { type: "text", media_type: "text/plain", data: "Halo dunia. ".repeat(50) },
    }
    expect(count([document]) - count([])).toBeGreaterThan(100)
    expect(count([document]) - count([])).toBeLessThan(300)
  })

  const long = "Halo dunia. ".repeat(500)
  const beside: readonly (readonly [string, JsonObject])[] = [
    ["a document's context", { type: "document", source: pdf, context: long }],
    ["a document's title", { type: "document", source: pdf, title: long }],
    ["a text beside an image", { ...image, text: long }],
    ["a text within an image", { type: "image_url", image_url: { url, alt: long } }],
    ["a file's name that is no name", { type: "file", file: { filename: long, file_data: pdf.data } }],
  ]
  for (const [kind, part] of beside)
    test(`${kind} is text`, () => {
      expect(count([part]) - count([])).toBeGreaterThan(textTokens(long))
    })
})
