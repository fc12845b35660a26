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

const SCAN = [0xff, 0xda, ...be(12, 2)]
/** The size of a file's header that is read. */
const HEADER_BYTES = (128 * 1024 * 3) / 4
const junk = (bytes: number) => Array<number>(bytes).fill(1)
/** Chunks of a PNG and of a WebP, without a checksum that is right. */
const pngChunk = (name: string, data: number[]) => [...be(data.length, 4), ...latin(name), ...data, ...be(0, 4)]
const ihdr = (width: number, height: number) => pngChunk("IHDR", [...be(width, 4), ...be(height, 4), 8, 6, 0, 0, 0])
const pngOf = (...chunks: number[][]) => base64([0x89, ...latin("PNG\r\n\x1a\n"), ...chunks.flat()])
const riff = (name: string, data: number[]) => [
  ...latin(name),
  ...le(data.length, 4),
  ...data,
  ...junk(data.length % 2),
]
const webpOf = (...chunks: number[][]) => base64([...latin("RIFF"), ...le(99, 4), ...latin("WEBP"), ...chunks.flat()])
const vp8x = (width: number, height: number) => riff("VP8X", [...le(2, 4), ...le(width - 1, 3), ...le(height - 1, 3)])
const vp8 = (width: number, height: number) => riff("VP8 ", [0, 0, 0, 0x9d, 1, 0x2a, ...le(width, 2), ...le(height, 2)])
const vp8l = (width: number, height: number) =>
  riff("VP8L", [0x2f, ...le((width - 1) | ((height - 1) << 14), 4), ...junk(9)])
const gifOf = (...blocks: number[][]) =>
  base64([...latin("GIF89a"), ...le(1, 2), ...le(1, 2), 0, 0, 0, ...blocks.flat()])
const gifFrame = (left: number, top: number, width: number, height: number) => [
  0x2c,
  ...[left, top, width, height].flatMap((number) => le(number, 2)),
  0,
  2,
  1,
  0,
  0,
]

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
    const small = base64([...latin("RIFF"), 0, 0, 0, 0, ...latin("WEBPVP8X")])
    expect(imageTokens(`data:image/webp;base64,${small}`)).toBe(1)
    for (const scheme of ["https", " HTTPS"]) expect(imageTokens(`${scheme}://x${small}`)).toBe(LARGEST_IMAGE_TOKENS)
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
    const read = Array.from({ length: 16 }, (_, at) => 0xc0 + at).filter((marker) => {
      const file = [0xff, 0xd8, ...jpegSegment(marker, 280, 280), ...jpegSegment(0xc0, 28, 28)]
      const tokens = imageTokens(base64(file))
      expect([1, 100]).toContain(tokens)
      return tokens === 100
    })
    expect(read).toEqual([0xc0, 0xc1, 0xc2, 0xc3, 0xc5, 0xc6, 0xc7, 0xc9, 0xca, 0xcb, 0xcd, 0xce, 0xcf])
  })
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

const jpegOf = (...segments: number[][]) => base64([0xff, 0xd8, ...segments.flat()])
const small = jpegSegment(0xc0, 28, 28)
const comment = (text: number[]) => [0xff, 0xfe, ...be(text.length + 2, 2), ...text]

const annotated = (bytes: number) => pngOf(ihdr(28, 28), pngChunk("teXt", junk(bytes)), pngChunk("IDAT", junk(99)))

/** 280 by 280 pixels are 100 patches; what shows as 28 by 28 or less would be 1. */
describe("an image that decoders see larger than its first bytes say", () => {
  const animated = riff("ANMF", [...le(0, 6), ...le(27, 3), ...le(27, 3), ...le(0, 4), ...vp8(280, 280)])
  test.each<[string, string, number]>([
    ["a JPEG with two frames", jpegOf(small, jpegSegment(0xc2, 280, 280), SCAN), 100],
    ["a JPEG with a frame in a comment", jpegOf(comment(small), jpegSegment(0xc0, 280, 280), SCAN), 100],
    [
      "a JPEG with a restart, whose next two bytes are no length of it",
      jpegOf(
        [0xff, 0xd0],
        comment(junk(60_000)),
        comment([...junk(0xfffe - 60_004 - 4), ...small, ...SCAN]),
        jpegSegment(0xc0, 280, 280),
        SCAN,
      ),
      LARGEST_IMAGE_TOKENS,
    ],
    ["a JPEG with junk between its segments", jpegOf([0], small, SCAN), LARGEST_IMAGE_TOKENS],
    ["a JPEG that begins twice", jpegOf([0xff, 0xd8], small, SCAN), LARGEST_IMAGE_TOKENS],
    ["a JPEG with a number of lines for later", jpegOf([0xff, 0xdc, 0, 4, 0, 1], small, SCAN), LARGEST_IMAGE_TOKENS],
    [
      "a JPEG whose frames may go on after what is read",
      jpegOf(small, comment(junk(60_000)), comment(junk(60_000))),
      LARGEST_IMAGE_TOKENS,
    ],
    ["a GIF whose frame is wider than its screen", gifOf(gifFrame(0, 0, 280, 280)), 100],
    ["a GIF whose frame lies beside its screen", gifOf(gifFrame(252, 252, 28, 28)), 100],
    ["a GIF with a larger second frame", gifOf(gifFrame(0, 0, 1, 1), gifFrame(0, 0, 280, 280)), 100],
    ["a GIF with a frame after an extension", gifOf([0x21, 0xf9, 1, 7, 0], gifFrame(0, 0, 280, 280)), 100],
    ["a GIF with a frame after what is no block", gifOf([0, 9, 0x3b], gifFrame(0, 0, 280, 280)), 100],
    ["a GIF whose extension has an empty block", gifOf([0x21, 0xf9, 0], gifFrame(0, 0, 1, 1)), LARGEST_IMAGE_TOKENS],
    [
      "a GIF whose first frame comes after what is read",
      gifOf(...Array.from({ length: 500 }, () => [0x21, 0xfe, 255, ...junk(255), 0])),
      LARGEST_IMAGE_TOKENS,
    ],
    [
      "a PNG whose header comes second",
      pngOf(pngChunk("teXt", [...be(1, 4), ...be(1, 4), ...junk(5)]), ihdr(280, 280)),
      100,
    ],
    ["a PNG with two headers", pngOf(ihdr(1, 1), ihdr(280, 280), pngChunk("IDAT", [])), 100],
    [
      "a PNG whose second header may come after what is read",
      pngOf(ihdr(1, 1), pngChunk("teXt", [...latin("IDAT"), ...junk(HEADER_BYTES)])),
      LARGEST_IMAGE_TOKENS,
    ],
    ["a WebP whose frame is larger than its canvas", webpOf(vp8x(1, 1), vp8(280, 280)), 100],
    [
      "a WebP whose lossless frame is larger than its canvas",
      webpOf(vp8x(1, 1), riff("ICCP", junk(9)), vp8l(280, 280)),
      100,
    ],
    ["an animated WebP whose frame is larger than its canvas", webpOf(vp8x(1, 1), animated), 100],
    [
      "a WebP whose frame comes after what is read",
      webpOf(vp8x(1, 1), riff("ICCP", junk(HEADER_BYTES))),
      LARGEST_IMAGE_TOKENS,
    ],
    [
      "a JPEG that says WebP where a WebP does",
      jpegOf(
        comment([...latin("xxWEBPVP8X"), ...junk(8), ...Array<number>(6).fill(0)]),
        jpegSegment(0xc0, 280, 280),
        SCAN,
      ),
      100,
    ],
    [
      "a file that is a PNG for four bytes",
      base64([0x89, ...latin("PNG"), ...junk(12), ...be(1, 4), ...be(1, 4)]),
      LARGEST_IMAGE_TOKENS,
    ],
  ])("%s", (_, data, tokens) => {
    expect(imageTokens(data)).toBe(tokens)
    expect(imageTokens(`data:image/png;base64,${data}`)).toBe(tokens)
  })

  const png = pngOf(ihdr(28, 28), pngChunk("IDAT", []))
  test("or in what some of them leave out of base64, or cut it at", () => {
    expect(imageTokens(png)).toBe(1)
    expect(imageTokens(` ${png.slice(0, 40)}\n${png.slice(40)}\n`)).toBe(1)
    for (const odd of ["-", "_", "=", ",", "=,"])
      expect([odd, imageTokens(`${png.slice(0, 22)}${odd}${png.slice(22)}`)]).toEqual([odd, LARGEST_IMAGE_TOKENS])
    const large = pngOf(ihdr(280, 280))
    expect(imageTokens(`data:image/png;x=,${png}${"A".repeat(2 * HEADER_BYTES)};base64,${large}`)).toBe(
      LARGEST_IMAGE_TOKENS,
    )
  })

  test("whose metadata fill what is read is the largest, and one that ends before it is as large as it says", () => {
    // The mark, the header, a chunk's frame, and the beginning of IDAT with what a chunk is at least.
    const most = HEADER_BYTES - 8 - 25 - 12 - 16
    expect([most, most + 1].map((bytes) => imageTokens(annotated(bytes)))).toEqual([1, LARGEST_IMAGE_TOKENS])
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
    expect(estimated({ type: "text", text: "Hi" }).media).toBeUndefined()
    const most = LARGEST_IMAGE_TOKENS
    const lowest = { likely: 361, whole: most, most }
    expect(estimated(image).media).toEqual({ images: { likely: 60, whole: 60, most }, documents: [] })
    expect(estimated(low, low, image).media).toEqual({
      images: { likely: 2 * 361 + 60, whole: 2 * most + 60, most: 3 * most },
      documents: [],
    })
    expect(estimated(file).media).toEqual({ images: { likely: 0, whole: 0, most: 0 }, documents: known })
    expect(estimated(low, file).media).toEqual({ images: lowest, documents: known })
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

describe("what a backend reads is counted, whatever stands beside it:", () => {
  const tiny = base64(headers["PNG"]?.(1, 1) ?? [])
  const url = "https://example.com/a"
  const source = { type: "base64", media_type: "image/png", data: tiny }
  const data = `data:image/png;base64,${tiny}`
  test.each<[string, JsonObject]>([
    ["a chat image with a file", { type: "image_url", image_url: { url }, file: { file_data: data } }],
    ["a chat image with a source", { type: "image_url", image_url: url, source }],
    ["a responses image with a file's data", { type: "input_image", image_url: url, file_data: data }],
    ["a responses image with a source", { type: "input_image", image_url: url, source }],
    ["a screenshot with a source", { type: "computer_screenshot", image_url: url, source }],
    ["a messages image by address, with data", { type: "image", source: { type: "url", url, data: tiny } }],
    ["a messages image by data, with an address", { type: "image", source: { ...source, url } }],
    ["a messages image with an image of chat", { type: "image", source, image_url: { url } }],
    ["a messages image of no known source", { type: "image", source: { type: "text", data: "hi" }, image_url: data }],
    ["an image that has only a file", { type: "input_image", file: { file_data: data } }],
    ["a text with an image", { type: "text", text: "hi", image_url: { url } }],
    [
      "an image of low detail that says so in another type's place",
      { type: "image_url", image_url: url, detail: "low" },
    ],
  ])("%s is the largest image", (_, part) => {
    const [images, tokens] = [estimated(part).media?.images, count([part]) - count([])]
    expect(images).toEqual({ likely: LARGEST_IMAGE_TOKENS, whole: LARGEST_IMAGE_TOKENS, most: LARGEST_IMAGE_TOKENS })
    expect(tokens).toBeGreaterThanOrEqual(LARGEST_IMAGE_TOKENS)
  })

  const pdf = "https://example.com/a.pdf"
  test.each<[string, JsonObject]>([
    ["a responses file with an image", { type: "input_file", file_url: pdf, image_url: "aGk=" }],
    ["a responses file with data", { type: "input_file", file_data: "aGk=", file_url: pdf }],
    ["a responses file with a source", { type: "input_file", file_url: pdf, source }],
    [
      "a messages document with a file",
      { type: "document", source: { type: "url", url: pdf }, file: { file_data: "aGk=" } },
    ],
    ["a messages document with data", { type: "document", source: { type: "base64", data: "aGk=", url: pdf } }],
  ])("%s is behind its address", (_, part) => {
    const { documents = [] } = estimated(part).media ?? {}
    expect(documents.filter(({ remote }) => remote)).toEqual([{ ...bySize(4), remote: true }])
    expect(count([part])).toBeGreaterThanOrEqual(12_000)
  })

  test("data of a file that decoders cut at different places is no text and no PDF", () => {
    const words = Buffer.from("Hi").toString("base64")
    for (const odd of [
      `${words}${base64(latin("%PDF-1.7"))}`,
      `aGk-${words}`,
      `data:text/plain,${words};base64,${words}`,
    ])
      expect([odd, sentDocument(odd)]).toEqual([odd, bySize(1)])
  })
})
