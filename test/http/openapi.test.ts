import { afterAll, beforeAll, expect, test } from "bun:test"
import { join } from "node:path"
import { Glob } from "bun"
import { failureCodes } from "../../src/failure/table.ts"
import { startTestGateway, type TestGateway } from "../gateway/harness.ts"

interface Document {
  readonly openapi: string
  readonly paths: Readonly<Record<string, Readonly<Record<string, { readonly security: readonly object[] }>>>>
  readonly components: { readonly schemas: Readonly<Record<string, unknown>> }
}

let gateway: TestGateway
let text: string
let document: Document

beforeAll(async () => {
  gateway = await startTestGateway()
  const response = await fetch(`${gateway.url}/openapi.json`)
  expect(response.headers.get("content-type")).toBe("application/json")
  text = await response.text()
  document = JSON.parse(text) as Document
})
afterAll(() => gateway[Symbol.asyncDispose]())

/** A route's path as the document writes it. */
const documented = (path: string) => path.replaceAll(/:(\w+)/g, "{$1}").replace("*", "{id}")
const filled = (path: string) => gateway.url + path.replaceAll(/\{\w+\}/g, "some-id")

test("what is documented is served, by these methods and no others", async () => {
  for (const [path, operations] of Object.entries(document.paths)) {
    const response = await fetch(filled(path), { method: "PROPFIND" })
    expect([path, response.status]).toEqual([path, 405])
    const served = (response.headers.get("allow") ?? "").split(", ").filter((method) => method !== "HEAD")
    const documented = Object.keys(operations).map((method) => method.toUpperCase())
    expect([path, served.sort()]).toEqual([path, documented.sort()])
  }
})

test("what is served is documented", async () => {
  const served = ["/v1/chat/completions", "/v1/messages", "/v1/messages/count_tokens", "/v1/responses"]
  const http = join(import.meta.dir, "../../src/http")
  for (const file of new Glob("**/*.ts").scanSync(http)) {
    const source = await Bun.file(join(http, file)).text()
    for (const [, path] of source.matchAll(/\.(?:get|post|put|patch|delete)\(\s*"(\/[^"]*)"/g)) served.push(path ?? "")
  }
  expect(served.length).toBeGreaterThan(20)
  const undocumented = served.filter((path) => document.paths[documented(path)] === undefined)
  expect(undocumented).toEqual([])
})

test("what is said to need a sign-in answers 401 without one, and the rest does not", async () => {
  for (const [path, operations] of Object.entries(document.paths)) {
    for (const [method, { security }] of Object.entries(operations)) {
      if (path.startsWith("/webhooks/")) continue
      const response = await fetch(filled(path), { method: method.toUpperCase() })
      await response.body?.cancel()
      expect([method, path, response.status === 401]).toEqual([method, path, security.length > 0])
    }
  }
})

test("every shape that is referred to is there", () => {
  expect(document.openapi).toBe("3.1.0")
  for (const [, name] of text.matchAll(/#\/components\/schemas\/(\w+)/g)) {
    expect(Object.keys(document.components.schemas)).toContain(name ?? "")
  }
})

test("the page shows every operation and every error, and loads nothing", async () => {
  const response = await fetch(`${gateway.url}/docs`)
  expect(response.headers.get("content-type")).toStartWith("text/html")
  expect(response.headers.get("content-security-policy")).toStartWith("default-src 'none'")
  const page = await response.text()
  for (const path of Object.keys(document.paths)) expect(page).toContain(path)
  for (const code of failureCodes) expect(page).toContain(code)
  expect(page).not.toMatch(/<script|<link|src=|https?:/)
})
