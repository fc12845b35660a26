/** The dashboard as the gateway serves it: its page, its files, their headers, and how much of them there is. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { startTestGateway, type TestGateway } from "../gateway/harness.ts"

let gateway: TestGateway
beforeAll(async () => {
  gateway = await startTestGateway()
})
afterAll(() => gateway[Symbol.asyncDispose]())

const get = (path: string, headers: Record<string, string> = {}) =>
  fetch(gateway.url + path, { headers, redirect: "manual", decompress: false })

const filesOf = (html: string) =>
  [...html.matchAll(/(?:src|href)="(\/dashboard\/assets\/[^"]+)"/g)].map(([, path]) => path ?? "")

test.each(["/dashboard", "/dashboard/keys", "/dashboard/usage/req_1"])("%s is the page", async (path) => {
  const response = await get(path)
  expect(response.status).toBe(200)
  expect(response.headers.get("content-type")).toStartWith("text/html")
  expect(await response.text()).toContain('<div id="root">')
})

test("what is elsewhere, and a file that is not there, are a 404 with the error body", async () => {
  for (const path of ["/dashboards", "/keys/x/y", "/dashboard/assets/none.js"]) {
    const response = await get(path)
    expect([path, response.status, response.headers.get("x-error-code")]).toEqual([path, 404, "route.not_found"])
  }
})

test("the page takes nothing from elsewhere and nothing inline, may not be framed, and is not kept", async () => {
  const { headers } = await get("/dashboard")
  const policy = headers.get("content-security-policy") ?? ""
  expect(policy).toContain("default-src 'none'")
  expect(policy).toContain("frame-ancestors 'none'")
  expect(policy).not.toContain("unsafe")
  expect(policy).not.toMatch(/https?:|\*/)
  expect(headers.get("x-content-type-options")).toBe("nosniff")
  expect(headers.get("referrer-policy")).toBe("same-origin")
  expect(headers.get("cache-control")).toBe("no-store")
  expect(headers.get("x-request-id")).toStartWith("req_")
})

test("files are named by their content, kept for ever, and never sniffed", async () => {
  const files = filesOf(await (await get("/dashboard")).text())
  expect(files.length).toBeGreaterThanOrEqual(3)
  for (const file of files) {
    const { headers, status } = await get(file)
    expect([file, status]).toEqual([file, 200])
    expect(file).toMatch(/-[a-z0-9]{8}\.\w+$/)
    expect(headers.get("cache-control")).toBe("public, max-age=31536000, immutable")
    expect(headers.get("x-content-type-options")).toBe("nosniff")
  }
})

test("files come in the encoding that is asked for, and are the same in each", async () => {
  const script = filesOf(await (await get("/dashboard")).text()).find((file) => file.endsWith(".js")) ?? ""
  const encoded = async (accepted: string) => {
    const response = await get(script, { "Accept-Encoding": accepted })
    return [response.headers.get("content-encoding"), new Uint8Array(await response.arrayBuffer())] as const
  }
  const [none, plain] = await encoded("identity")
  const [gzip, gzipped] = await encoded("gzip, deflate")
  const [br, brotli] = await encoded("gzip, deflate, br, zstd")
  expect([none, gzip, br]).toEqual([null, "gzip", "br"])
  expect(Bun.gunzipSync(gzipped)).toEqual(plain)
  expect(brotli.length).toBeLessThan(gzipped.length)
  expect((await encoded("br;q=0, gzip;q=0.5"))[0]).toBe("gzip")
  expect((await encoded(`${"x,".repeat(99)}gzip`))[0]).toBe("gzip")
  // No more are looked at.
  expect((await encoded(`${"x,".repeat(100)}gzip`))[0]).toBeNull()
})
