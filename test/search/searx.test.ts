import { afterAll, describe, expect, test } from "bun:test"
import { permits, searx } from "../../src/search/searx.ts"
import { kyoto, pages, startSearx } from "./searx-server.ts"

const server = startSearx()
const failures: (number | undefined)[] = []
const asker = { baseUrl: server.url, failed: (status: number | undefined) => failures.push(status) }
const search = searx(asker)
const everywhere = { allowed: undefined, blocked: [] }
const going = new AbortController().signal
const ask = (query = "kyoto", domains: Parameters<typeof search>[1] = everywhere) => search(query, domains, going)

afterAll(() => server[Symbol.asyncDispose]())

describe("a search", () => {
  test("asks for the query as it is, in JSON", async () => {
    server.answer = () => pages(kyoto)
    const query = "cuaca & angin? #1 \u{1F341}"
    expect(await ask(query)).toEqual([
      {
        url: "https://example.com/kyoto",
        title: "Kyoto in autumn",
        snippet: "The maples turn red in the middle of November.",
        published: "2026-10-02T00:00:00",
      },
    ])
    expect(Object.fromEntries(server.asked.at(-1) ?? [])).toEqual({ format: "json", q: query })
  })

  test("hands on no more than eight results, each once and cut", async () => {
    const many = Array.from({ length: 20 }, (_, at) => ({
      url: `https://example.com/${at >> 1}`,
      title: "t".repeat(5_000),
      content: ` ${"c ".repeat(5_000)}\n`,
    }))
    server.answer = () => pages(...many)
    const found = await ask()
    if (typeof found === "string") throw new Error(found)
    expect(found.map(({ url }) => url)).toEqual(Array.from({ length: 8 }, (_, at) => `https://example.com/${at}`))
    expect(found.every(({ title, snippet }) => title.length === 200 && snippet.length === 700)).toBe(true)
  })

  test("hands on addresses of the web alone", async () => {
    const odd = [
      "javascript:alert(1)",
      "file:///etc/passwd",
      "not an address",
      7,
      null,
      `https://a.b/${"x".repeat(3_000)}`,
    ]
    server.answer = () =>
      pages(...odd.map((url) => ({ url, title: "x", content: "y" })), "no object", { url: "http://a.b" })
    expect(await ask()).toEqual([{ url: "http://a.b/", title: "a.b", snippet: "", published: undefined }])
  })

  test("keeps to the domains that are allowed, and counts only those", async () => {
    const others = Array.from({ length: 10 }, (_, at) => ({ url: `https://other.org/${at}` }))
    server.answer = () => pages(...others, kyoto)
    const found = await ask("kyoto", { allowed: ["example.com"], blocked: [] })
    expect(found).toMatchObject([{ url: kyoto.url }])
    expect(await ask("kyoto", { allowed: undefined, blocked: ["example.com", "other.org"] })).toEqual([])
  })
})

const padded = async (bytes: number) => new Response((await pages(kyoto).text()).padEnd(bytes))

const failing: readonly (readonly [string, () => Response | Promise<Response>, string])[] = [
  ["that is refused", () => new Response("Forbidden", { status: 403 }), "unavailable"],
  ["that is throttled", () => new Response("{}", { status: 429 }), "too_many_requests"],
  ["answered with a page", () => new Response("<html>"), "unavailable"],
  ["answered without results", () => Response.json({ results: "none" }), "unavailable"],
  ["answered with more than 2 MiB", () => padded(2 * 1024 * 1024 + 1), "unavailable"],
]

describe("a search", () => {
  test.each(failing)("%s comes to nothing, and the operator hears of it", async (_, answer, problem) => {
    server.answer = answer
    const before = failures.length
    expect(await ask()).toBe(problem as "unavailable")
    expect(failures.length).toBe(before + 1)
  })

  test("answered with 2 MiB is read", async () => {
    server.answer = () => padded(2 * 1024 * 1024)
    expect(await ask()).toMatchObject([{ url: kyoto.url }])
  })

  test("not answered in time comes to nothing, and the operator hears of it", async () => {
    server.answer = () => Bun.sleep(2_000).then(() => pages(kyoto))
    const before = failures.length
    expect(await searx({ ...asker, timeoutMs: 200 })("kyoto", everywhere, going)).toBe("unavailable")
    expect(failures.slice(before)).toEqual([undefined])
  })
})

const within = (domain: string, url: string) => permits({ allowed: [domain], blocked: [] })(url)

describe("a domain", () => {
  test.each([
    ["example.com", "https://example.com/a", true],
    ["example.com", "https://docs.example.com/", true],
    ["Example.COM", "https://example.com/", true],
    ["https://example.com/", "https://example.com/x", true],
    ["docs.example.com", "https://example.com/", false],
    ["example.com", "https://badexample.com/", false],
    ["example.com", "https://example.com.evil.org/", false],
    ["example.com/blog", "https://example.com/blog/post", true],
    ["example.com/blog/*", "https://example.com/blog/post", true],
    ["example.com/blog", "https://example.com/blogs", false],
    ["example.com/*", "https://example.com/blog", true],
    ["example.com/a//*", "https://example.com/a/b", true],
    ["*", "https://example.com/", false],
  ] as const)("%s and the address %s: %p", (domain, url, permitted) => {
    expect(within(domain, url)).toBe(permitted)
  })
})

test("a domain of slashes, or many of them, takes no time", async () => {
  const results = Array.from({ length: 50 }, (_, page) => ({ ...kyoto, url: `https://other.example/${page}` }))
  server.answer = () => pages(...results)
  const begun = performance.now()
  const slashes = `example.com/${"/".repeat(20_000)}x`
  for (const domains of [[slashes], Array.from({ length: 1_000 }, (_, at) => `site${at}.example/${"/".repeat(100)}`)])
    expect(await searx(asker)("kyoto", { allowed: domains, blocked: [] }, going)).toEqual([])
  expect(performance.now() - begun).toBeLessThan(2_000)
})
