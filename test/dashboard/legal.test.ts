/** The pages of terms, privacy and refunds: for anybody, in the language that is asked for, and never HTML of a file. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { languageOf } from "../../src/dashboard/serve/kept.ts"
import { rendered } from "../../src/dashboard/serve/frame.ts"
import { startTestGateway, type TestGateway } from "../gateway/harness.ts"

const texts = mkdtempSync(join(tmpdir(), "loket-legal-"))
for (const topic of ["terms", "privacy", "refunds"])
  for (const language of ["id", "en"])
    writeFileSync(join(texts, `${topic}.${language}.md`), `Our ${topic} in ${language}. <script>alert(1)</script>\n`)

let gateway: TestGateway
beforeAll(async () => {
  gateway = await startTestGateway({ env: { LEGAL_TEXTS_DIR: texts } })
})
afterAll(async () => {
  await gateway[Symbol.asyncDispose]()
  rmSync(texts, { recursive: true, force: true })
})

const get = (path: string, language = "") => fetch(gateway.url + path, { headers: { "Accept-Language": language } })

test.each(["terms", "privacy", "refunds"])(
  "/%s is the operator's text, in the language that is asked for",
  async (topic) => {
    const asked = [
      ["", "", "id"],
      ["", "en-GB,en;q=0.9", "en"],
      ["?lang=id", "en-GB", "id"],
      ["?lang=en", "id-ID", "en"],
      ["?lang=xx", "id-ID", "id"],
    ] as const
    for (const [query, header, language] of asked) {
      const response = await get(`/${topic}${query}`, header)
      expect([response.status, response.headers.get("content-language")]).toEqual([200, language])
      const html = await response.text()
      expect(html).toContain(`<html lang="${language}">`)
      expect(html).toContain(`Our ${topic} in ${language}.`)
    }
  },
)

test("a page runs nothing, takes nothing from elsewhere, and shows its text's tags as text", async () => {
  const response = await get("/terms?lang=en")
  const policy = response.headers.get("content-security-policy") ?? ""
  expect(response.headers.get("vary")).toBe("Accept-Language")
  expect(response.headers.get("x-content-type-options")).toBe("nosniff")
  const html = await response.text()
  expect(html).not.toMatch(/<script|\sstyle=|\son\w+=/)
  expect(html).toContain("&lt;script&gt;alert(1)&lt;/script&gt;")
  // As the dashboard's, but for one style sheet, by its hash.
  const [, style = ""] = /<style>(.*?)<\/style>/s.exec(html) ?? []
  const hash = ` 'sha256-${new Bun.CryptoHasher("sha256").update(style).digest("base64")}'`
  expect(style).not.toBe("")
  expect(policy).toContain(hash)
  expect(policy.replace(hash, "")).toBe((await get("/dashboard")).headers.get("content-security-policy") ?? "none")
  const { legal_version: version } = (await (await get("/about")).json()) as { legal_version: string }
  expect(html).toContain(version)
  // The text has no heading of its own.
  expect(html.match(/<h1>/g)).toHaveLength(1)
})

test.each([
  ["[x](javascript:alert(1))", "href"],
  ["[x](vbscript:x)", "href"],
  ["[x](data:text/html,x)", "href"],
  ["<javascript:alert(1)>", "<javascript"],
  ["![x](https://elsewhere.example/x.png)", "<img"],
  ["<img src=x onerror=alert(1)>", "<img"],
  ["<div>\n\nx\n\n</div>", "<div"],
  ["| a |\n| ---: |\n| 1 |", "style"],
])("%j has no %s", async (markdown, unwanted) => {
  const html = await rendered(markdown)
  expect(html).not.toContain(unwanted)
  expect(html).not.toBe("")
})

test("tables, lists and links are what they are", async () => {
  const html = await rendered("# A\n\n- **b**\n\n| c | d |\n| --- | --- |\n| 1 | [e](/privacy?lang=id) |\n")
  for (const part of ["<h1>A</h1>", "<li><strong>b</strong></li>", "<td>1</td>", '<a href="/privacy?lang=id">e</a>'])
    expect(html).toContain(part)
})

test.each([
  ["de;q=0.5, id;q=0.8", "id"],
  ["id;q=0, en;q=0.1", "en"],
  ["*", "id"],
  ["ms-MY", "id"],
  ["identity", "en"],
  ["en;q=nonsense", "id"],
  [";;,,", "id"],
  [`${"de;q=0,".repeat(99)}en`, "en"],
  // No more are looked at.
  [`${"de;q=0,".repeat(100)}en`, "id"],
] as const)("Accept-Language %j is %s", (header, language) => {
  expect(languageOf(undefined, header)).toBe(language)
})
