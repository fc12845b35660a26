import { afterAll, beforeAll, expect, test } from "bun:test"
import { failureCodes } from "../../src/failure/table.ts"
import { openapiDocument, type OpenapiDocument } from "../../src/http/openapi.ts"
import { problemsOf } from "./documented.ts"
import { startTestGateway, type TestGateway } from "../gateway/harness.ts"

let gateway: TestGateway
let text: string
let document: OpenapiDocument

beforeAll(async () => {
  gateway = await startTestGateway()
  for (const format of ["completions", "embeddings"] as const) await gateway.model({ format })
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
    "GET /favicon.ico",
    "GET /robots.txt",
    "GET /status",
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

test("a body that sets a limit or moves money takes its own fields alone", () => {
  const exact = operations(document)
    .filter(({ operation }) => JSON.stringify(operation.requestBody ?? "").includes(`"additionalProperties":false`))
    .map(({ name }) => name)
  expect(exact.sort()).toEqual([
    "patch /account",
    "patch /keys/{id}",
    "patch /operator/members/{member}",
    "patch /operator/models/{model}",
    "patch /v1/keys/{id}",
    "post /keys",
    "post /keys/{id}/rotate",
    "post /operator/accounts/{id}/adjustments",
    "post /operator/accounts/{id}/refunds",
    "post /operator/exchange-rates",
    "post /operator/models/{model}/prices",
    "post /operator/models/{model}/retire",
    "post /runs",
    "post /top-ups",
    "post /v1/keys",
    "put /account/breaker",
    "put /keys/{id}/breaker",
  ])
})

test("every shape that is referred to is there", () => {
  expect(document.openapi).toBe("3.1.0")
  for (const [, name] of text.matchAll(/#\/components\/schemas\/(\w+)/g)) {
    expect(Object.keys(document.components.schemas)).toContain(name ?? "")
  }
})

test("the page shows every operation and every error, and loads nothing from elsewhere", async () => {
  const response = await fetch(`${gateway.url}/docs?lang=en`)
  expect(response.headers.get("content-type")).toStartWith("text/html")
  expect(response.headers.get("content-security-policy")).toStartWith("default-src 'none'; script-src 'self'")
  const page = await response.text()
  for (const path of Object.keys(document.paths)) expect(page).toContain(path)
  for (const code of failureCodes) expect(page).toContain(code)
  for (const { operation } of operations(document)) expect(page).toContain(asHtml(operation.summary))
  const addresses = [...page.matchAll(/(?:src|href|action)="([^"]*)"/g)].map(([, address = ""]) => address)
  expect(addresses.filter((address) => !/^(?:\/(?!\/)|#)/.test(address))).toEqual([])
  const ids = [...page.matchAll(/ id="([^"]*)"/g)].map(([, id]) => id)
  expect(ids.length).toBe(new Set(ids).size)
  for (const address of addresses.filter((each) => each.startsWith("#"))) expect(ids).toContain(address.slice(1))
})

const asHtml = (text: string) =>
  text
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;")
    .replaceAll('"', "&quot;")
    .replaceAll(/`([^`]*)`/g, "<code>$1</code>")

const operations = ({ paths }: OpenapiDocument) =>
  Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ name: `${method} ${path}`, path, method, operation })),
  )

test("no operation and no parameter lacks Indonesian, and the Indonesian page has none of the English", async () => {
  const indonesian = openapiDocument(gateway.server.routes as Parameters<typeof openapiDocument>[0], "id")
  const page = await (await fetch(`${gateway.url}/docs?lang=id`)).text()
  expect(page).toContain('<html lang="id">')
  const lacking: string[] = []
  for (const { name, path, method, operation } of operations(document)) {
    const said = indonesian.paths[path]?.[method]
    const pairs = [
      ["summary", operation.summary, said?.summary],
      ["description", operation.description, said?.description],
      ...(operation.parameters ?? []).map(
        (parameter, index) => [parameter.name, parameter.description, said?.parameters?.[index]?.description] as const,
      ),
    ] as const
    for (const [what, en, id] of pairs) {
      if (en === undefined) continue
      const isThere = id !== undefined && page.includes(asHtml(id))
      if (!isThere || id === en || page.includes(`>${asHtml(en)}<`)) lacking.push(`${name} ${what}: ${en} / ${id}`)
    }
  }
  expect(lacking).toEqual([])
})

interface FieldWords {
  readonly where: string
  readonly en: string
  readonly id: unknown
}

/** Every description within a schema of the document, beside what stands in its place in the other one. */
function fieldsOf(where: string, en: unknown, id: unknown): FieldWords[] {
  if (typeof en !== "object" || en === null) return []
  const [ours, theirs] = [en, id].map((each) => Object(each) as Readonly<Record<string, unknown>>)
  return Object.entries(ours ?? {}).flatMap(([name, each]) =>
    name === "description" && typeof each === "string"
      ? [{ where, en: each, id: theirs?.[name] }]
      : fieldsOf(`${where}.${name}`, each, theirs?.[name]),
  )
}

test("no field of a body, an answer or a shape lacks Indonesian", () => {
  const indonesian = openapiDocument(gateway.server.routes as Parameters<typeof openapiDocument>[0], "id")
  const found = [
    ...fieldsOf("shapes", document.components.schemas, indonesian.components.schemas),
    ...operations(document).flatMap(({ name, path, method, operation }) => {
      const said = indonesian.paths[path]?.[method]
      const [, answer] = Object.entries(operation.responses)[0] ?? []
      const [, saidAnswer] = Object.entries(said?.responses ?? {})[0] ?? []
      return [
        ...fieldsOf(`${name} body`, operation.requestBody?.content, said?.requestBody?.content),
        ...fieldsOf(`${name} answer`, answer?.content, saidAnswer?.content),
        ...(operation.parameters ?? []).flatMap((parameter, index) =>
          fieldsOf(`${name} ${parameter.name}`, parameter.schema, said?.parameters?.[index]?.schema),
        ),
      ]
    }),
  ]
  expect(found.length).toBeGreaterThan(500)
  const lacking = found.filter(({ en, id }) => typeof id !== "string" || id === "" || id === en)
  expect(lacking).toEqual([])
})

const textIn = async (path: string, language: string) =>
  await (await fetch(gateway.url + path, { headers: { "Accept-Language": language } })).text()

test("the document for machines is in English whatever is asked for, and the page in the language that is", async () => {
  expect(await textIn("/openapi.json?lang=id", "id")).toBe(text)
  expect(await textIn("/docs", "id")).toBe(await textIn("/docs?lang=id", "en"))
  expect(await textIn("/docs", "en-GB,id;q=0.5")).toBe(await textIn("/docs?lang=en", "id"))
  expect(await textIn("/docs", "id")).not.toBe(await textIn("/docs", "en"))
})

const raw = (headers: Record<string, string>) => fetch(`${gateway.url}/docs?lang=id`, { headers, decompress: false })

test("the page is rendered once: who has it gets 304, and it travels compressed", async () => {
  const first = await raw({ "Accept-Encoding": "br" })
  expect(first.headers.get("content-encoding")).toBe("br")
  expect(first.headers.get("vary")).toBe("Accept-Language, Accept-Encoding")
  const compressed = await first.arrayBuffer()
  const whole = await (await raw({ "Accept-Encoding": "identity" })).arrayBuffer()
  expect(compressed.byteLength).toBeLessThan(whole.byteLength / 4)
  const again = await raw({ "If-None-Match": first.headers.get("etag") ?? "" })
  expect([again.status, (await again.arrayBuffer()).byteLength]).toEqual([304, 0])
})
