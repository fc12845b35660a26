/** What a call's input is estimated at: by what was learnt, by its documents, and within the window (decisions §13.4). */
import { describe, expect, test } from "bun:test"
import { VirtualClock } from "../kernel/virtual-time.ts"
import { micro } from "../../actors/money/micro.ts"
import type { QuoteInput, Rates } from "../../actors/money/price.ts"
import type { LiveCatalogue, Model, Offer } from "../../src/catalogue/model.ts"
import { quoteTerms } from "../../src/gateway/admit.ts"
import { Calibration, EstimateFactors, estimateInput, type InputEstimate } from "../../src/gateway/input-estimate.ts"
import type { BackendFormat, Feature, ModelRequest, SentDocument, SentImages } from "../../src/language/request.ts"
import type { PdfReader } from "../../src/pdf/reader.ts"
import { MAX_PAGES, PAGE_TOKENS } from "../../src/wire/estimate.ts"

interface Sent {
  readonly inputTokens?: number
  readonly documents?: readonly SentDocument[]
  readonly images?: SentImages
  readonly formats?: readonly BackendFormat[]
  readonly prompts?: number
  readonly contextWindow?: number | null
  readonly canAfford?: boolean
  readonly reading?: Awaited<ReturnType<PdfReader["read"]>>
}

const NONE: SentImages = { likely: 0, whole: 0, most: 0 }

/** Of a model that counts a fifth more than the estimator, for an account whose texts came to twice and whose documents to thrice as much. */
async function estimated(sent: Sent): Promise<InputEstimate & { readonly read: number; readonly asked: number[] }> {
  const {
    inputTokens = 1_000,
    images = NONE,
    prompts,
    contextWindow = null,
    canAfford = true,
    formats = ["chat"],
  } = sent
  const calibration = new Calibration()
  calibration.learn("a", "m", 1_000, 1_200)
  const factors = new EstimateFactors(new VirtualClock(), { read: async () => [], write: async () => {} })
  factors.learn("a", "m", "texts", 2)
  factors.learn("a", "m", "documents", 3)
  let read = 0
  const pdfs: PdfReader = {
    async read() {
      read++
      return sent.reading
    },
  }
  const asked: number[] = []
  const isPlain = sent.documents === undefined && images === NONE
  const media = isPlain ? undefined : { documents: sent.documents ?? [], images }
  const estimate = await estimateInput(
    {
      request: { inputTokens, media, prompts } as unknown as ModelRequest,
      model: { id: "m", contextWindow, upstreams: formats.map((format) => ({ format })) as unknown } as Model,
      accountId: "a",
      canAfford: async (tokens) => {
        asked.push(tokens)
        return canAfford
      },
    },
    { calibration, factors, pdfs },
  )
  return { ...estimate, read, asked }
}

test("a text is multiplied by what is known of its model and of its account", async () => {
  expect(await estimated({})).toMatchObject({ likely: 2_400, most: 2_400, least: 2_400, texts: 1_000, documents: 0 })
})

test("factors fill the window at the most, but an input that was counted over it stays over it", async () => {
  expect(await estimated({ contextWindow: 2_000 })).toMatchObject({ likely: 2_000, least: 2_000, most: 2_400 })
  expect(await estimated({ contextWindow: 1_000 })).toMatchObject({ likely: 1_000 })
  expect(await estimated({ contextWindow: 999 })).toMatchObject({ likely: 2_400 })
  expect(await estimated({ contextWindow: 500, prompts: 3 })).toMatchObject({ likely: 1_500 })
})

const counted: SentDocument = { likely: 100, most: 500, known: true }
const guessed: SentDocument = { likely: 50.5, most: 900, known: false }

test("documents are multiplied apart from texts, and only what was counted of them says that an input is too large", async () => {
  const sent = { inputTokens: 1_151, documents: [counted, guessed], images: { ...NONE, most: 7 } }
  const estimate = 2_400 + Math.ceil(150.5 * 3)
  expect(await estimated(sent)).toMatchObject({
    likely: estimate,
    least: estimate,
    most: 2_400 + 7 + 500 + 900,
    texts: 1_000,
    documents: 150.5,
    read: 0,
    asked: [],
  })
  expect(await estimated({ ...sent, contextWindow: 1_100 })).toMatchObject({ likely: 1_100 })
  expect(await estimated({ ...sent, contextWindow: 1_099 })).toMatchObject({ likely: estimate })
})

test("the most is no less than the likely number", async () => {
  const documents = [{ likely: 1_000, most: 1_000, known: true }]
  expect(await estimated({ inputTokens: 2_000, documents })).toMatchObject({ likely: 5_400, most: 5_400 })
})

test("images are multiplied as documents are, may be the largest, and are counted", async () => {
  const sent = { inputTokens: 1_060, images: { likely: 60, whole: 60, most: 4_784 } }
  const likely = 2_400 + 60 * 3
  const asHeld = { texts: 1_000, documents: 60, likely, least: likely, most: 2_400 + 4_784, asked: [] }
  expect(await estimated(sent)).toMatchObject(asHeld)
  expect(await estimated({ ...sent, contextWindow: 1_060 })).toMatchObject({ likely: 1_060 })
  expect(await estimated({ ...sent, contextWindow: 1_059 })).toMatchObject({ likely })
})

test.each<[BackendFormat[], number]>([
  [["chat"], 361],
  [["responses", "chat"], 361],
  [["messages"], 4_784],
  [["chat", "bedrock"], 4_784],
])("an image of low detail, for backends that speak %p, counts %p tokens", async (formats, tokens) => {
  const images = { likely: 361, whole: 4_784, most: 4_784 }
  const { documents, likely } = await estimated({ inputTokens: 1_361, images, formats })
  expect([documents, likely]).toEqual([tokens, 2_400 + 3 * tokens])
  const window = 1_000 + tokens
  expect(await estimated({ inputTokens: 1_361, images, formats, contextWindow: window })).toMatchObject({
    likely: window,
  })
  expect((await estimated({ inputTokens: 1_361, images, formats, contextWindow: window - 1 })).likely).toBe(likely)
})

test("of a document behind an address nothing but the window is known", async () => {
  const behind = { ...guessed, most: Infinity, remote: true }
  expect(await estimated({ inputTokens: 1_151, documents: [counted, behind] })).toMatchObject({
    likely: 2_852,
    least: Infinity,
    most: Infinity,
  })
})

const pdf: SentDocument = { likely: 6_000, most: Infinity, known: false, pdf: "JVBERi0=" }
const withPdf = { inputTokens: 7_000, documents: [pdf] }

test.each([
  ["that cannot be read counts by its size", undefined, 6_000, Infinity],
  ["that takes too long counts as the longest", "endless", MAX_PAGES * PAGE_TOKENS, Infinity],
  ["whose text is hidden counts by its pages", { pages: 10, textBytes: undefined }, 10 * PAGE_TOKENS, Infinity],
  ["of little text counts by its pages", { pages: 10, textBytes: 400 }, 10 * PAGE_TOKENS, 120_400],
  ["of much text counts by its text", { pages: 10, textBytes: 400_000 }, 115_000, 520_000],
  ["of more pages than any counts as the longest", { pages: 9_000, textBytes: 0 }, MAX_PAGES * PAGE_TOKENS, 7_200_000],
] as const)("a PDF %s", async (_, reading, likely, most) => {
  const estimate = await estimated({ ...withPdf, reading })
  expect(estimate).toMatchObject({ texts: 1_000, documents: likely, likely: 2_400 + 3 * likely, read: 1 })
  expect(estimate.most).toBe(Math.max(2_400 + 3 * likely, 2_400 + most))
  const window = 1_000 + likely
  const isCounted = typeof reading === "object"
  // What was only guessed does not say that the input is too large.
  const { likely: within } = await estimated({ ...withPdf, reading, contextWindow: window - 1 })
  expect(within).toBe(isCounted ? 2_400 + 3 * likely : window - 1)
})

test("PDFs are read for whoever could pay for a page, and twenty of a call", async () => {
  const reading = { pages: 1, textBytes: 0 }
  expect(await estimated({ ...withPdf, reading })).toMatchObject({ read: 1, asked: [PAGE_TOKENS] })
  expect(await estimated({ ...withPdf, reading, canAfford: false })).toMatchObject({ read: 0, documents: 6_000 })
  const many = { inputTokens: 150_000, documents: [counted, ...Array.from({ length: 24 }, () => pdf)], reading }
  expect(await estimated(many)).toMatchObject({ read: 19, documents: 100 + 19 * PAGE_TOKENS + 5 * 6_000 })
})

/** What a call is held for: terms of its quote, in tokens. */
describe("the terms of a call", () => {
  const rates: Rates = { input: micro(1n), output: micro(2n), cacheRead: micro(3n), cacheWrite: micro(4n) }
  interface Asked {
    readonly least?: number
    readonly most?: number
    readonly contextWindow?: number | null
    readonly clientLimit?: number | undefined
    readonly features?: readonly Feature[]
  }
  function termsOf(asked: Asked): QuoteInput {
    const { least = 100, most = 150, contextWindow = 1_000, clientLimit, features = [] } = asked
    const request = { inputTokens: 100, maxOutputTokens: clientLimit, choices: 2, features: new Set(features) }
    const offer = { model: { contextWindow, maxOutputTokens: 200 }, price: { rates } } as unknown as Offer
    return quoteTerms(
      { catalogue: { largestWindow: 500 } as unknown as LiveCatalogue },
      {
        request: request as unknown as ModelRequest,
        inputEstimate: { likely: 100, most, least, texts: 0, documents: 0 },
      },
      { offer, minAnswerTokens: 64 },
    )
  }
  const plain: QuoteInput = {
    inputTokens: 100,
    mostInputTokens: 150,
    clientLimit: undefined,
    modelLimit: 200,
    choices: 2,
    rates,
    loop: undefined,
  }

  test.each<[string, Asked, Partial<QuoteInput>]>([
    ["are its estimate, the model's limit and rates, and how many answers it asks for", {}, {}],
    ["have no more input than the window", { most: 1_001 }, { mostInputTokens: 1_000 }],
    [
      "have the whole window where only the backend sees a document",
      { least: Infinity, most: Infinity },
      { inputTokens: 1_000, mostInputTokens: 1_000 },
    ],
    [
      "have the catalogue's largest window where the model's is not known",
      { least: Infinity, most: Infinity, contextWindow: null },
      { inputTokens: 500, mostInputTokens: 500 },
    ],
    ["have no less input than the request's estimate", { least: 0 }, {}],
    ["have the client's limit", { clientLimit: 65 }, { clientLimit: 65 }],
    ["have the least limit that a backend takes", { clientLimit: 63 }, { clientLimit: 64 }],
    [
      "with web search have five turns, each with two searches of what they find",
      { features: ["web_search"] },
      { loop: { turns: 5, addedTokens: 5_000 } },
    ],
    ["with other features have one", { features: ["tools", "vision"] }, {}],
  ])("%s", (_, asked, differing) => expect(termsOf(asked)).toEqual({ ...plain, ...differing }))
})
