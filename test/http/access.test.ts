/**
 * Who may call what: every route that the running gateway has, by everybody who might. The routes are the framework's own
 * list, so one that is added without a row here fails; what a row expects of the others follows from whose it is.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { createSessionToken } from "../../src/accounts/session-token.ts"
import type { OpenapiDocument } from "../../src/http/openapi.ts"
import { problemsOf } from "./documented.ts"
import { startTestGateway, type Person, type TestGateway } from "../gateway/harness.ts"

/** Whose a route is: anybody's, a key's, of whoever is signed in, of the one who owns the thing, the operators'. */
type Owner = "anybody" | "key" | "signed-in" | "owner" | "operator"

interface Row {
  readonly of: Owner
  /** The answer to whoever may. */
  readonly status: number
  readonly body?: unknown
  /** Of the dashboard's page, not of the API: it is not in the document, and may be kept. */
  readonly page?: true
  /** What stands for `:id` in the path: a thing of the owner's, made anew for each call. */
  readonly id?: () => Promise<string> | string
}

let gateway: TestGateway
let owner: Person
let other: Person
let operator: Person
let key: string
let model: string
let document: OpenapiDocument

beforeAll(async () => {
  gateway = await startTestGateway({ env: { PAYMENT_SIMULATED_SECRET: "a secret of the tests" } })
  owner = await gateway.person(1_000_000)
  other = await gateway.person(10_000)
  operator = await gateway.person(10_000)
  await gateway.sql`update accounts set role = 'operator' where id = ${operator.accountId}`
  key = (await gateway.key(owner)).key
  model = await gateway.model({ format: "chat" })
  document = (await (await fetch(`${gateway.url}/openapi.json`)).json()) as OpenapiDocument
}, 30_000)
afterAll(() => gateway[Symbol.asyncDispose]())

/** A session of its own for each call, because some calls end theirs. */
async function session({ accountId }: Person): Promise<string> {
  const { token, hash } = createSessionToken()
  await gateway.sql`
    insert into sessions (token_hash, account_id, expires_at) values (${hash}, ${accountId}, now() + interval '1 hour')`
  return token
}

const bearer = async (person: Person) => ({ Authorization: `Bearer ${await session(person)}` })

const made = async (path: string, body: object): Promise<string> => {
  // Its first session is over: a call of the table has ended all others.
  const response = await fetch(gateway.url + path, {
    method: "POST",
    headers: await bearer(owner),
    body: JSON.stringify(body),
  })
  if (!response.ok) throw new Error(`${path} answered ${response.status}`)
  return ((await response.json()) as { id: string }).id
}
const ownKey = () => made("/keys", { name: "a key" })
const ownTopUp = () => made("/top-ups", { amount_rp: 10_000 })
const ownSession = async () => {
  const [row] = await gateway.sql<{ id: string }[]>`
    insert into sessions (token_hash, account_id, expires_at)
    values (${createSessionToken().hash}, ${owner.accountId}, now() + interval '1 hour') returning id`
  return row?.id ?? ""
}
const ownCall = async () => {
  const body = { model, max_tokens: 10, messages: [{ role: "user", content: "hi" }] }
  return (await gateway.post("/v1/chat/completions", key, body)).headers.get("x-request-id") ?? ""
}
const ownAccount = () => owner.accountId
const someModel = () => gateway.model({ format: "chat" })
const price = { input_micro: 1_000, output_micro: 5_000, cache_read_micro: 100, cache_write_micro: 1_250 }
const inAnHour = () => new Date(Date.now() + 3_600_000).toISOString()
const say = (format: "chat" | "messages" | "responses") => ({ model: `no-${format}`, messages: [], input: "" })

const rows: Readonly<Record<string, Row>> = {
  "GET /": { of: "anybody", status: 302, page: true },
  "GET /dashboard": { of: "anybody", status: 200, page: true },
  "GET /dashboard/": { of: "anybody", status: 200, page: true },
  "GET /dashboard/*": { of: "anybody", status: 200, page: true, id: () => "keys" },
  "GET /dashboard/assets/:name": { of: "anybody", status: 404, page: true, id: () => "none.js" },
  "GET /models": { of: "anybody", status: 200 },
  "GET /about": { of: "anybody", status: 200 },
  "GET /openapi.json": { of: "anybody", status: 200 },
  "GET /docs": { of: "anybody", status: 200 },
  "GET /healthz": { of: "anybody", status: 200 },
  "GET /readyz": { of: "anybody", status: 200 },
  "POST /auth/sign-up": { of: "anybody", status: 400, body: {} },
  "POST /auth/sign-in": { of: "anybody", status: 400, body: {} },
  "POST /webhooks/payments/:provider": { of: "anybody", status: 401, body: {}, id: () => "simulated" },
  "GET /simulated-pay/:id": { of: "anybody", status: 200, id: ownTopUp },
  "POST /simulated-pay/:id": { of: "anybody", status: 200, id: ownTopUp },

  "POST /v1/chat/completions": { of: "key", status: 400, body: say("chat") },
  "POST /v1/messages": { of: "key", status: 400, body: say("messages") },
  "POST /v1/messages/count_tokens": { of: "key", status: 400, body: say("messages") },
  "POST /v1/responses": { of: "key", status: 400, body: say("responses") },
  "GET /v1/models": { of: "key", status: 200 },
  "GET /v1/models/*": { of: "key", status: 200, id: () => model },

  "POST /auth/sign-out": { of: "signed-in", status: 204 },
  "POST /auth/password": { of: "signed-in", status: 400, body: {} },
  "GET /account": { of: "signed-in", status: 200 },
  "PATCH /account": { of: "signed-in", status: 200, body: {} },
  "DELETE /account": { of: "signed-in", status: 400, body: {} },
  "GET /account/summary": { of: "signed-in", status: 200 },
  "GET /account/sessions": { of: "signed-in", status: 200 },
  "DELETE /account/sessions": { of: "signed-in", status: 204 },
  "DELETE /account/sessions/:id": { of: "owner", status: 204, id: ownSession },
  "GET /keys": { of: "signed-in", status: 200 },
  "POST /keys": { of: "signed-in", status: 201, body: { name: "a key" } },
  "PATCH /keys/:id": { of: "owner", status: 200, body: { name: "another name" }, id: ownKey },
  "POST /keys/:id/revoke": { of: "owner", status: 200, id: ownKey },
  "POST /keys/:id/rotate": { of: "owner", status: 201, body: {}, id: ownKey },
  "GET /top-ups": { of: "signed-in", status: 200 },
  "POST /top-ups": { of: "signed-in", status: 201, body: { amount_rp: 10_000 } },
  "GET /top-ups/quote": { of: "signed-in", status: 400 },
  "GET /top-ups/:id": { of: "owner", status: 200, id: ownTopUp },
  "POST /top-ups/:id/check": { of: "owner", status: 200, id: ownTopUp },
  "GET /usage": { of: "signed-in", status: 200 },
  "GET /usage/summary": { of: "signed-in", status: 200 },
  "GET /usage/errors": { of: "signed-in", status: 200 },
  "GET /usage/export.csv": { of: "signed-in", status: 200 },
  "GET /account/statement": { of: "signed-in", status: 200 },
  "GET /account/statement.csv": { of: "signed-in", status: 200 },
  "GET /usage/:request_id": { of: "owner", status: 200, id: ownCall },
  "GET /events": { of: "signed-in", status: 200 },

  "GET /operator/overview": { of: "operator", status: 200 },
  "GET /operator/billing-health": { of: "operator", status: 200 },
  "GET /operator/profit": { of: "operator", status: 200 },
  "GET /operator/profit/export.csv": { of: "operator", status: 200 },
  "GET /operator/models/:model/mix": { of: "operator", status: 200, id: () => "plain" },
  "GET /operator/exchange-rates": { of: "operator", status: 200 },
  "POST /operator/exchange-rates": {
    of: "operator",
    status: 201,
    body: { currency: "USD", rupiah: "16250.5" },
  },
  "GET /operator/backends": { of: "operator", status: 200 },
  "PATCH /operator/members/:member": {
    of: "operator",
    status: 200,
    body: { state: "draining" },
    id: () => "simulated/default/plain",
  },
  "POST /operator/members/:member/retry": {
    of: "operator",
    status: 200,
    body: {},
    id: () => "simulated/default/plain",
  },
  "GET /operator/top-ups": { of: "operator", status: 200 },
  "GET /operator/payment-problems": { of: "operator", status: 200 },
  "POST /operator/payment-problems/:id/resolve": {
    of: "operator",
    status: 404,
    body: { note: "a test" },
    id: () => "999999",
  },
  "GET /operator/audit": { of: "operator", status: 200 },
  "GET /operator/accounts": { of: "operator", status: 200 },
  "GET /operator/accounts/:id": { of: "operator", status: 200, id: ownAccount },
  "GET /operator/accounts/:id/transfers": { of: "operator", status: 200, id: ownAccount },
  "POST /operator/accounts/:id/adjustments": {
    of: "operator",
    status: 201,
    body: { amount_micro: 1, reason: "a test", idempotency_key: "once" },
    id: ownAccount,
  },
  "POST /operator/accounts/:id/freeze": {
    of: "operator",
    status: 200,
    body: { reason: "a test" },
    id: async () => (await gateway.person()).accountId,
  },
  "POST /operator/accounts/:id/unfreeze": { of: "operator", status: 200, body: { reason: "a test" }, id: ownAccount },
  "GET /operator/models": { of: "operator", status: 200 },
  "PATCH /operator/models/:model": { of: "operator", status: 200, body: { tier: "gold" }, id: someModel },
  "POST /operator/models/:model/prices": { of: "operator", status: 201, body: price, id: someModel },
  "DELETE /operator/models/:model/prices/:id": { of: "operator", status: 404, id: () => "1" },
  "POST /operator/models/:model/retire": {
    of: "operator",
    status: 400,
    body: { target: "nobody", until: inAnHour() },
    id: someModel,
  },
  "POST /operator/models/:model/restore": { of: "operator", status: 200, body: {}, id: someModel },
}

interface Identity {
  readonly headers: () => Promise<Readonly<Record<string, string>>>
  /** What it is told at a route: the row's own status, or a refusal. */
  readonly expected: (row: Row, method: string) => number
}

const refuses = (allowed: readonly Owner[], refusal: (row: Row) => number) => (row: Row) =>
  row.of === "anybody" || allowed.includes(row.of) ? row.status : refusal(row)
const asOwner = refuses(["signed-in", "owner"], ({ of }) => (of === "operator" ? 403 : 401))
const changes = (method: string) => method !== "GET"
const byCookie = (headers: Readonly<Record<string, string>>): Identity => ({
  headers: async () => ({ Cookie: `session=${await session(owner)}`, ...headers }),
  // Nothing of a key's or anybody's looks at the cookie; elsewhere a change must come from a page of ours.
  expected: (row, method) =>
    changes(method) && ["signed-in", "owner", "operator"].includes(row.of) ? 403 : asOwner(row),
})

const identities: Readonly<Record<string, Identity>> = {
  nobody: { headers: async () => ({}), expected: refuses([], () => 401) },
  "another account": {
    headers: () => bearer(other),
    expected: refuses(["signed-in"], ({ of }) => ({ operator: 403, owner: 404 })[of as "owner"] ?? 401),
  },
  "the owner": { headers: () => bearer(owner), expected: asOwner },
  "an operator": {
    headers: () => bearer(operator),
    expected: refuses(["signed-in", "operator"], ({ of }) => (of === "owner" ? 404 : 401)),
  },
  "an API key": {
    headers: async () => ({ Authorization: `Bearer ${key}` }),
    expected: refuses(["key"], () => 401),
  },
  "an API key beside a session": {
    headers: async () => ({ "x-api-key": key, ...(await bearer(operator)) }),
    expected: refuses([], () => 401),
  },
  "a cookie without Origin": byCookie({}),
  "a cookie with a foreign Origin": byCookie({ Origin: "https://evil.example" }),
  "a cookie with the Origin null": byCookie({ Origin: "null" }),
}

const filled = (path: string, id: string) =>
  path.replace(":model/prices/:id", "some-model/prices/1").replace(/:\w+|\*/, encodeURIComponent(id))

async function ask(route: string, headers: Readonly<Record<string, string>>, id?: string): Promise<Response> {
  const [method = "", path = ""] = route.split(" ")
  const row = rows[route]
  const url = gateway.url + filled(path, id ?? (await row?.id?.()) ?? "")
  const body = row?.body === undefined ? {} : { body: JSON.stringify(row.body) }
  return await fetch(url, { method, headers, redirect: "manual", ...body })
}

const known = () => gateway.server.routes.map(({ method, path }) => `${method} ${path}`)

test("every route has a row, and every row a route", () => {
  expect([...new Set(known())].sort()).toEqual(Object.keys(rows).sort())
})

test("every route is in the OpenAPI document with its kind of sign-in, and nothing else is", async () => {
  const { paths } = (await (await fetch(`${gateway.url}/openapi.json`)).json()) as {
    paths: Record<string, Record<string, { security: Record<string, unknown>[] }>>
  }
  const documented = Object.entries(paths).flatMap(([path, operations]) =>
    Object.entries(operations).map(([method, { security }]) => {
      const kind = security.length === 0 ? "anybody" : "key" in (security[0] ?? {}) ? "key" : "session"
      return `${method.toUpperCase()} ${path} ${kind}`
    }),
  )
  const kinds = { anybody: "anybody", key: "key", "signed-in": "session", owner: "session", operator: "session" }
  const ofTheApi = Object.entries(rows).filter(([, { page }]) => !page)
  const expected = ofTheApi.map(
    ([route, { of }]) => `${route.replace("*", "{id}").replaceAll(/:(\w+)/g, "{$1}")} ${kinds[of]}`,
  )
  expect(documented.sort()).toEqual(expected.sort())
})

describe.each(Object.entries(identities))("%s", (_, { headers, expected }) => {
  test.each(Object.entries(rows))("%s", async (route, row) => {
    const response = await ask(route, await headers())
    const status = expected(row, route.split(" ")[0] ?? "")
    expect(response.status).toBe(status)
    if (status === 403) expect(response.headers.get("x-error-code")).toBe("auth.forbidden")
    expect(response.headers.get("x-content-type-options")).toBe("nosniff")
    if (!row.page && response.headers.get("content-type")?.startsWith("application/json")) {
      const [method = ""] = route.split(" ")
      const answer = { method, path: new URL(response.url).pathname, status, json: await response.json() }
      expect(problemsOf(document, answer)).toEqual([])
    }
    if (!row.page) expect(response.headers.get("cache-control")).toContain("no-store")
    expect([...response.headers.keys()].filter((name) => name.startsWith("access-control-"))).toEqual([])
    if (!response.bodyUsed) await response.body?.cancel()
  })
})

/** An answer without what is its own: its id and its time. */
const told = async (response: Response) => {
  const id = response.headers.get("x-request-id") ?? ""
  const names = [...response.headers].filter(([name]) => name !== "date")
  return JSON.stringify([response.status, names, await response.text()]).replaceAll(id, "ID")
}

test("a foreign thing and one that never was are told in the same bytes, but for the request's id", async () => {
  for (const [route, row] of Object.entries(rows)) {
    if (row.of !== "owner") continue
    const thing = (await row.id?.()) ?? ""
    const never = thing.slice(0, -4) + (thing.endsWith("0000") ? "1111" : "0000")
    const foreign = await told(await ask(route, await bearer(other), thing))
    expect(foreign).toBe(await told(await ask(route, await bearer(other), never)))
    // Nor does it show who asks, or that the id could not be one.
    expect(foreign).toBe(await told(await ask(route, await bearer(operator), thing)))
    expect(foreign).toBe(await told(await ask(route, await bearer(other), "not an id %")))
  }
})

test("the dashboard's own pages may change things by cookie", async () => {
  const headers = { Cookie: `session=${await session(owner)}`, Origin: gateway.url }
  expect((await ask("PATCH /account", headers)).status).toBe(200)
  const operators = { Cookie: `session=${await session(operator)}`, Origin: gateway.url }
  expect((await ask("POST /operator/accounts/:id/unfreeze", operators)).status).toBe(200)
})

/** As written, without what a client's URL would make of it. */
async function raw(request: string): Promise<string> {
  const { hostname, port } = new URL(gateway.url)
  let answer = ""
  const { promise, resolve } = Promise.withResolvers<void>()
  const socket = await Bun.connect({
    hostname,
    port: Number(port),
    socket: {
      data: (_, bytes) => void (answer += bytes.toString()),
      close: () => resolve(),
      error: () => resolve(),
    },
  })
  socket.write(request)
  await promise
  return answer
}

test.each([
  "//operator/audit",
  "/operator//audit",
  "/operator/audit/",
  "/OPERATOR/audit",
  "/Operator/Audit",
  "/operator%2faudit",
  "/%6fperator/audit",
  "/operator/audit;x",
  "/operator/audit%00",
  "/operator/audit%3fx",
  "/v1/models/..%2f..%2foperator/audit",
])("%s leads nobody to the audit log, an operator neither", async (path) => {
  const token = await session(operator)
  const answer = await raw(
    `GET ${path} HTTP/1.1\r\nHost: ${new URL(gateway.url).host}\r\nAuthorization: Bearer ${token}\r\nConnection: close\r\n\r\n`,
  )
  expect(answer).not.toContain('"next_cursor"')
})

test.each([
  "/./operator/audit",
  "/models/../operator/audit",
  "/%2e/operator/audit",
  "/a/%2E%2e/operator/audit",
  "/operator\\audit",
])("%s is the audit log, and asks who is there like its own path", async (path) => {
  const { host } = new URL(gateway.url)
  for (const [status, token] of [
    ["401", "nobody"],
    ["403", await session(owner)],
    ["200", await session(operator)],
  ]) {
    const answer = await raw(
      `GET ${path} HTTP/1.1\r\nHost: ${host}\r\nAuthorization: Bearer ${token}\r\nConnection: close\r\n\r\n`,
    )
    expect(answer.split(" ")[1]).toBe(status ?? "")
  }
})

test("HEAD asks who is there as GET does, and a preflight is a method like any other", async () => {
  for (const route of Object.keys(rows).filter((name) => name.startsWith("GET "))) {
    const [, path = ""] = route.split(" ")
    const url = gateway.url + filled(path, "some-id")
    const head = await fetch(url, { method: "HEAD", redirect: "manual" })
    const get = await fetch(url, { redirect: "manual" })
    expect([route, head.status, await head.text()]).toEqual([route, get.status, ""])
    await get.body?.cancel()
    const preflight = await fetch(url, {
      method: "OPTIONS",
      headers: { Origin: "https://evil.example", "Access-Control-Request-Method": "POST" },
    })
    expect([route, preflight.status]).toEqual([route, 405])
    expect(preflight.headers.get("access-control-allow-origin")).toBeNull()
  }
})
