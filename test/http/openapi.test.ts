import { afterAll, beforeAll, expect, test } from "bun:test"
import { failureCodes } from "../../src/failure/table.ts"
import type { OpenapiDocument } from "../../src/http/openapi.ts"
import { problemsOf } from "./documented.ts"
import { startTestGateway, type TestGateway } from "../gateway/harness.ts"

let gateway: TestGateway
let text: string
let document: OpenapiDocument

beforeAll(async () => {
  gateway = await startTestGateway()
  const response = await fetch(`${gateway.url}/openapi.json`)
  expect(response.headers.get("content-type")).toBe("application/json")
  text = await response.text()
  document = JSON.parse(text) as OpenapiDocument
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

test("every route that is served is documented, but for those of the dashboard's page", () => {
  const undocumented = gateway.server.routes
    .filter(({ method, path }) => document.paths[documented(path)]?.[method.toLowerCase()] === undefined)
    .map(({ method, path }) => `${method} ${path}`)
  expect(gateway.server.routes.length).toBeGreaterThan(50)
  expect([...new Set(undocumented)].sort()).toEqual([
    "GET /",
    "GET /dashboard",
    "GET /dashboard/",
    "GET /dashboard/*",
    "GET /dashboard/assets/:name",
  ])
})

test("an answer that is not as the document says is found", async () => {
  const response = await fetch(`${gateway.url}/models`)
  const json = (await response.json()) as { readonly data: readonly object[] }
  const asked = { method: "GET", path: "/models", status: 200 }
  const [item] = json.data
  const as = (changed: object) => problemsOf(document, { ...asked, json: { ...json, data: [{ ...item, ...changed }] } })
  expect(item).toBeDefined()
  expect(problemsOf(document, { ...asked, json })).toEqual([])
  expect(as({ tier: 1 })).toEqual(["GET /models 200.data[0].tier is integer and not string"])
  expect(as({ input_micro: 0.5 })).toEqual(["GET /models 200.data[0].input_micro is number and not integer"])
  expect(as({ endpoints: ["none"] })).toEqual(['GET /models 200.data[0].endpoints[0] is "none"'])
  expect(as({ secret: "x" })).toEqual(["GET /models 200.data[0].secret is not documented"])
  expect(as({ context_window: null })).toEqual([])
  expect(problemsOf(document, { ...asked, json: { object: "list" } })).toEqual(["GET /models 200.data is missing"])
  expect(problemsOf(document, { ...asked, status: 418, json })[0]).toBe("GET /models 418.error is missing")
  expect(problemsOf(document, { ...asked, status: 201, json })).toEqual(["GET /models does not answer 201"])
  expect(problemsOf(document, { ...asked, path: "/nothing", json })).toEqual(["GET /nothing is not in the document"])
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
