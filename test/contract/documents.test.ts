/** What documents cost whom: they are counted before anybody knows what they come to (decisions §13.4). */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { type Person, startTestGateway, type TestGateway } from "../gateway/harness.ts"
import { lying, onePage, pagesOf, stream } from "../pdf/files.ts"
import { requestId } from "./calling.ts"

/** Of the dearest model of the catalogue, in micro-rupiah. */
const rates = { input_micro: 67_200, output_micro: 336_000, cache_read_micro: 6_720, cache_write_micro: 84_000 }

let gateway: TestGateway

beforeAll(async () => {
  gateway = await startTestGateway({ env: { MAX_CONCURRENCY: "512" } })
})
afterAll(() => gateway[Symbol.asyncDispose]())

const dear = (script: string, window: number | null = 1_000_000) =>
  gateway.model({ format: "messages", script, context_window: window, max_concurrency: 128, ...rates })

const inData = (file: Buffer) => ({
  type: "document",
  source: { type: "base64", media_type: "application/pdf", data: file.toString("base64") },
})
const pixel = Buffer.from("\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\b\0\0\0\0", "latin1").toString("base64")
const behindAddress = { type: "document", source: { type: "url", url: "https://files.example/a.pdf" } }

const ask = (key: string, model: string, document: unknown) =>
  gateway.post("/v1/messages", key, {
    model,
    max_tokens: 16,
    messages: [{ role: "user", content: [document, { type: "text", text: "What is this?" }] }],
  })

/** The statuses of so many calls at once, and what they came to in rupiah. */
async function atOnce(person: Person, count: number, model: string, document: unknown) {
  const { key } = await gateway.key(person)
  const responses = await Promise.all(Array.from({ length: count }, () => ask(key, model, document)))
  for (const response of responses) await response.text()
  const answered = responses.filter(({ status }) => status === 200)
  for (const response of answered) await gateway.usage(person, requestId(response))
  return {
    answered: answered.length,
    statuses: new Set(responses.map(({ status }) => status)),
    ...(await sums(person)),
  }
}

async function sums({ accountId }: Person) {
  const [row] = await gateway.sql<{ charged: number; absorbed: number }[]>`
    select coalesce(sum(charge_micro), 0)::float8 / 1e6 as charged, coalesce(sum(absorbed_micro), 0)::float8 / 1e6 as absorbed
    from usage where account_id = ${accountId}`
  return row ?? { charged: 0, absorbed: 0 }
}

/** A call's price where the backend counts 900,000 tokens. */
const DEAR = 60_480

describe("with Rp 10,000, and a backend that counts 900,000 tokens of each document", () => {
  test.each([20, 45])("%p documents behind an address at once cost the house nothing", async (count) => {
    const model = await dear("input=900000&output=1")
    const person = await gateway.person(10_000)
    const outcome = await atOnce(person, count, model, behindAddress)
    expect(outcome).toEqual({ answered: 0, statuses: new Set([402]), charged: 0, absorbed: 0 })
  })

  test("files that show a naive reader one page are likely the window, and pass on no such balance", async () => {
    const model = await dear("input=900000&output=1")
    const person = await gateway.person(10_000)
    const { answered, absorbed } = await atOnce(person, 8, model, inData(lying(3_000_000)))
    expect({ answered, absorbed }).toEqual({ answered: 0, absorbed: 0 })
  })

  test("a page of small print is likely what it shows", async () => {
    const model = await dear("input=900000&output=1")
    const person = await gateway.person(10_000)
    const print = onePage("/Contents 4 0 R", stream(`(${"word ".repeat(700_000)}) Tj`))
    expect(await atOnce(person, 8, model, inData(print))).toMatchObject({ answered: 0, absorbed: 0 })
  })

  // A page may be 12,000 tokens, whatever shows on it: Rp 1,022 is held for each of eight, then 912, 456 and 260.
  test.each([20, 45])("%p files of a page at once cost the house eleven, and none after that", async (count) => {
    const model = await dear("input=900000&output=1")
    const person = await gateway.person(10_000)
    const file = inData(pagesOf(["An honest look"]))
    const { answered, charged, absorbed } = await atOnce(person, count, model, file)
    expect(answered).toBeLessThanOrEqual(11)
    expect(charged).toBe(10_000)
    expect(absorbed).toBeLessThanOrEqual(11 * DEAR + 4 - 10_000)

    await gateway.topUp(person, 10_000)
    expect(await atOnce(person, count, model, file)).toMatchObject({ answered: 0, absorbed })
    // Words alone cost that account what they cost everybody.
    const { key } = await gateway.key(person)
    const plain = await dear("input=12&output=1")
    expect((await ask(key, plain, { type: "text", text: "Hello" })).status).toBe(200)
    expect((await ask(key, model, { type: "text", text: "Hello" })).status).toBe(200)
  })
})

describe("an honest customer", () => {
  test("with Rp 10,000 has a scan of 10 MB and 5 pages read", async () => {
    const model = await dear("input=8000&output=10")
    const person = await gateway.person(10_000)
    const { key } = await gateway.key(person)
    const scan = inData(pagesOf(Array<string>(5).fill(""), 2_000_000))
    for (let turn = 1; turn <= 3; turn++) {
      const response = await ask(key, model, scan)
      expect([response.status, response.headers.get("x-cost-rp")]).toEqual([200, "540.96"])
    }
  })

  test("with Rp 10,000 has twenty files of two pages read one after the other", async () => {
    const model = await dear("input=5000&output=10")
    const person = await gateway.person(10_000)
    const { key } = await gateway.key(person)
    for (let n = 0; n < 20; n++) expect((await ask(key, model, inData(pagesOf([`file ${n}`, "two"])))).status).toBe(200)
    expect((await sums(person)).absorbed).toBe(0)
  })

  test("with Rp 500,000 has fifty files of a page read at once", async () => {
    const model = await dear("input=3000&output=10")
    const person = await gateway.person(500_000)
    const outcome = await atOnce(person, 50, model, inData(pagesOf(["An honest look"])))
    expect(outcome).toMatchObject({ answered: 50, absorbed: 0 })
  })
})

describe("what is held", () => {
  const cases: [string, unknown, number | null, number][] = [
    ["a document behind an address holds the window", behindAddress, 300_000, 300_000],
    [
      "a PDF whose words are unknown holds the window",
      inData(onePage("/Contents 4 0 R", stream("x", "/Filter/LZWDecode"))),
      300_000,
      300_000,
    ],
    ["without a window it holds the largest of the catalogue", behindAddress, null, 1_000_000],
    ["a page holds what it may be", inData(pagesOf([""])), 300_000, 12_000],
    [
      "a picture that says to be of one pixel holds the largest",
      { type: "image", source: { type: "base64", media_type: "image/png", data: pixel } },
      300_000,
      4_784,
    ],
    [
      "a picture in low detail holds a whole one",
      { type: "image", source: { type: "url", url: "https://a.example/b.png" }, detail: "low" },
      300_000,
      4_784,
    ],
  ]
  test.concurrent.each(cases)("%s", async (_, document, window, tokens) => {
    await dear("output=1")
    const model = await gateway.model({
      format: "messages",
      script: "input=10&output=1&ttft=3000",
      context_window: window,
      supports_vision: true,
      ...rates,
    })
    const person = await gateway.person(1_000_000)
    const { key } = await gateway.key(person)
    const asked = ask(key, model, document)
    let held = 0
    for (let tries = 0; tries < 150 && held === 0; tries++) {
      await Bun.sleep(20)
      held = (await gateway.balance(person)).held_micro
    }
    // Words and frames of the prompt are some fifty tokens, unless they are clamped to the window with the rest.
    const least = tokens * rates.cache_write_micro + 16 * rates.output_micro
    expect(held).toBeWithin(least, least + 100 * rates.cache_write_micro)
    expect((await asked).status).toBe(200)
  })
})

test("an estimate that guesses is never over the window, and one that has counted is", async () => {
  const model = await dear("input=10&output=1", 100_000)
  const { key } = await gateway.key(await gateway.person(100_000))
  const unreadable = Buffer.concat([Buffer.from("%PDF-1.7\n"), Buffer.alloc(10_000)])
  expect((await ask(key, model, inData(unreadable))).status).toBe(200)
  const response = await ask(key, model, inData(pagesOf(Array<string>(40).fill("page"))))
  expect([response.status, response.headers.get("x-error-code")]).toEqual([400, "upstream.context_length_exceeded"])
})

test("for nobody without money a file is read", async () => {
  const model = await dear("input=10&output=1")
  const tokens = async (person: Person) => {
    const { key } = await gateway.key(person)
    const messages = [{ role: "user", content: [inData(pagesOf(["a", "b", "c"]))] }]
    const response = await gateway.post("/v1/messages/count_tokens", key, { model, messages })
    return ((await response.json()) as { input_tokens: number }).input_tokens
  }
  // By its size it is one page.
  expect(await tokens(await gateway.person())).toBeWithin(3_000, 3_100)
  expect(await tokens(await gateway.person(10_000))).toBeWithin(9_000, 9_100)
})

test("files do not teach how a model cuts text", async () => {
  const model = await dear("input=90000&output=1")
  const { key } = await gateway.key(await gateway.person(1_000_000))
  const count = async () => {
    const body = { model, messages: [{ role: "user", content: "Some words. ".repeat(400) }] }
    return (await (await gateway.post("/v1/messages/count_tokens", key, body)).json()) as unknown
  }
  const before = await count()
  for (let n = 0; n < 5; n++) await (await ask(key, model, behindAddress)).text()
  expect(await count()).toEqual(before)
})
