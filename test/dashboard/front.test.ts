/** The page for visitors at `/`: what it says, that its call works, and that asking for it again and again is cheap. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { request } from "node:http"
import { formatRupiah } from "../../src/dashboard/i18n/figures.ts"
import { startTestGateway, type TestGateway } from "../gateway/harness.ts"

let gateway: TestGateway
beforeAll(async () => {
  gateway = await startTestGateway()
})
afterAll(() => gateway[Symbol.asyncDispose]())

const get = (path: string, headers: Record<string, string> = {}) =>
  fetch(gateway.url + path, { headers, redirect: "manual" })
const htmlOf = async (path: string, headers: Record<string, string> = {}) => (await get(path, headers)).text()

/** With a `Host` that `fetch` would not send. */
const underHost = (host: string, path = "/", headers: Record<string, string> = {}) => {
  const { promise, resolve, reject } = Promise.withResolvers<{ html: string; encoding: string | undefined }>()
  const sent = request(gateway.url + path, { headers: { Host: host, ...headers } }, (answer) => {
    const chunks: Buffer[] = []
    answer.on("data", (chunk: Buffer) => chunks.push(chunk))
    answer.on("end", () =>
      resolve({ html: Buffer.concat(chunks).toString(), encoding: answer.headers["content-encoding"] }),
    )
  })
  sent.on("error", reject).end()
  return promise
}

test.each([
  ["", "", "id", "Satu kunci"],
  ["", "en-GB,en;q=0.9", "en", "One key"],
  ["?lang=en", "id-ID", "en", "One key"],
  ["?lang=id&utm_source=x", "en", "id", "Satu kunci"],
])("/%s asked for in %j is in %j", async (query, accepted, language, words) => {
  const response = await get(`/${query}`, { "Accept-Language": accepted })
  expect([response.status, response.headers.get("content-language")]).toEqual([200, language])
  expect(response.headers.get("vary")).toContain("Accept-Language")
  const html = await response.text()
  expect(html).toContain(`<html lang="${language}">`)
  expect(html).toContain(words)
  expect(html).toContain('<meta property="og:title"')
})

test("it has each model that is sold, with what a million tokens cost", async () => {
  const model = await gateway.model({ format: "chat", display_name: "Model <b>& friends" })
  const { data } = (await (await get("/models")).json()) as {
    data: { model: string; input_micro: number; output_micro: number }[]
  }
  await Bun.sleep(1_100)
  const html = await htmlOf("/?lang=id")
  expect(html).toContain(model)
  expect(html).toContain("Model &lt;b&gt;&amp; friends")
  expect(html).not.toContain("<b>")
  for (const { input_micro: input, output_micro: output } of data) {
    expect(html).toContain(formatRupiah(BigInt(input) * 1_000_000n, "id"))
    expect(html).toContain(formatRupiah(BigInt(output) * 1_000_000n, "id"))
  }
})

test("it runs nothing inline, and takes its files from here", async () => {
  const response = await get("/?lang=en")
  expect(response.headers.get("content-security-policy")).toBe(
    (await get("/terms")).headers.get("content-security-policy"),
  )
  const html = await response.text()
  expect(html).not.toMatch(/<script(?![^>]*\bsrc=)|\sstyle=|\son\w+=/)
  const files = [...html.matchAll(/(?:src|href)="(\/dashboard\/assets\/[^"]+)"/g)].map(([, path]) => path ?? "")
  expect(files).toHaveLength(2)
  for (const file of files) expect([file, (await get(file)).status]).toEqual([file, 200])
})

test("the call on the page works as it is copied, with a key in its variable", async () => {
  const person = await gateway.person(100_000)
  const { key } = await gateway.key(person)
  const [, shown = ""] = /<pre[^>]*><code>(.*?)<\/code>/s.exec(await htmlOf("/?lang=en")) ?? []
  const command = shown
    .replaceAll(/<[^>]+>/g, "")
    .replaceAll("&quot;", '"')
    .replaceAll("&lt;", "<")
    .replaceAll("&amp;", "&")
  expect(command).toContain(`curl ${gateway.url}/v1/chat/completions`)
  const ran = Bun.spawn(["sh", "-c", command], { env: { ...process.env, LOKET_API_KEY: key }, stderr: "ignore" })
  const answer = (await new Response(ran.stdout).json()) as { choices: { message: { role: string } }[] }
  expect(answer.choices[0]?.message.role).toBe("assistant")
})

test("without a script the form answers with its own numbers", async () => {
  const { data } = (await (await get("/models")).json()) as { data: { input_micro: number; output_micro: number }[] }
  const html = await htmlOf("/?lang=en&input=1000&output=10&calls=7")
  for (const { input_micro: input, output_micro: output } of data) {
    const month = (1_000n * BigInt(input) + 10n * BigInt(output)) * 7n * 30n
    expect(html).toContain(`>${formatRupiah(month, "en", "whole")}</td>`)
  }
  expect(html).toContain('name="input" value="1000"')
})

test.each([
  ["id", "20.000", "20000"],
  ["en", "20,000", "20000"],
  // In the other language it would be twenty and a fraction.
  ["en", "20.000", "2000"],
  ["id", "20,000", "2000"],
])("in %s the calculator reads %s as %s", async (language, typed, read) => {
  const html = await htmlOf(`/?lang=${language}&input=${typed}&output=10&calls=7`)
  expect(html).toContain(`name="input" value="${read}"`)
})

test.each([
  "input=1e3&output=1&calls=1",
  "input=-1&output=1&calls=1",
  "input=1&output=1",
  'input="><b>&output=1&calls=1',
])("numbers that are none (%s) are those of the page as it begins", async (query) => {
  const html = await htmlOf(`/?lang=en&${query}`)
  expect(html).toBe(await htmlOf("/?lang=en"))
})

test("the largest numbers that it takes do not break it", async () => {
  const nines = "999999999"
  const response = await get(`/?input=${nines}&output=${nines}&calls=${nines}`)
  expect(response.status).toBe(200)
  expect(await response.text()).toContain("Rp")
})

test("who has it already is told so, and who has another one is not", async () => {
  const first = await get("/", { "Accept-Language": "id" })
  const tag = first.headers.get("etag") ?? ""
  expect(tag).not.toBe("")
  const again = await get("/", { "Accept-Language": "id", "If-None-Match": tag })
  expect([again.status, await again.text(), again.headers.get("etag")]).toEqual([304, "", tag])
  expect((await get("/", { "Accept-Language": "en", "If-None-Match": tag })).status).toBe(200)
})

test("it is compressed as the browser asks", async () => {
  for (const encoding of ["br", "gzip"]) {
    const response = await get("/", { "Accept-Encoding": encoding })
    expect(response.headers.get("content-encoding")).toBe(encoding)
    expect(response.headers.get("vary")).toContain("Accept-Encoding")
    expect(await response.text()).toContain("<!doctype html>")
  }
})

test("addresses that anybody can make up are shown as they are, and compressed for few of them", async () => {
  const compressed: (string | undefined)[] = []
  for (let n = 0; n < 10; n++) {
    const { html } = await underHost(`h${n}.example`, "/?lang=id")
    expect(html).toContain(`curl <span data-base>http://h${n}.example</span>/models`)
    if (n > 0) expect(html).not.toContain(`h${n - 1}.example`)
    compressed.push((await underHost(`h${n}.example`, "/?lang=id", { "Accept-Encoding": "br" })).encoding)
  }
  expect(compressed.filter((encoding) => encoding === "br").length).toBeLessThanOrEqual(4)
  expect(compressed.at(-1)).toBeUndefined()
})

test("who is signed in is led to the dashboard, who is not is asked in", async () => {
  const person = await gateway.person()
  const signedIn = await htmlOf("/?lang=en", { Cookie: `session=${person.token}` })
  expect(signedIn).toContain('href="/dashboard"')
  expect(signedIn).not.toContain("/dashboard/sign-up")
  const visitor = await htmlOf("/?lang=en")
  expect(visitor).toContain("/dashboard/sign-up")
  expect(visitor).toContain("/dashboard/sign-in")
})

test("robots are told what is for nobody's index, and the icon is where browsers look for it", async () => {
  const robots = await get("/robots.txt")
  expect(robots.headers.get("content-type")).toStartWith("text/plain")
  expect(await robots.text()).toContain("Disallow: /dashboard")
  const icon = await get("/favicon.ico")
  expect([icon.status, icon.headers.get("content-type")]).toEqual([200, "image/svg+xml"])
})

test("PUBLIC_URL stands before what a request calls the gateway", async () => {
  await using other = await startTestGateway({ env: { PUBLIC_URL: "https://loket.example/" } })
  const html = await (await fetch(`${other.url}/?lang=en`)).text()
  expect(html).toContain("curl <span data-base>https://loket.example</span>/v1/chat/completions")
  expect(html).toContain('<link rel="canonical" href="https://loket.example/?lang=en">')
  expect(html).not.toContain(other.url)
})
