/**
 * Who may call what: every route that the running gateway has, by everybody who might. The routes are the framework's own
 * list, so one that is added without a row here fails; what a row expects of the others follows from whose it is.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { mayDo, rolesThatMay } from "../../src/accounts/members.ts"
import { createSessionToken } from "../../src/accounts/bearer-tokens.ts"
import type { OpenapiDocument } from "../../src/http/openapi.ts"
import type { Documented, RouteTerms } from "../../src/http/route.ts"
import { type MemberRole, memberRoles } from "../../src/store/account-settings.ts"
import { mayAct, type OperatorRole, operatorRoles } from "../../src/store/operator/role.ts"
import { problemsOf } from "./documented.ts"
import { makeOperator } from "./operator/operator.ts"
import type { Endpoint } from "../../src/language/request.ts"
import { startTestGateway, type Person, type TestGateway } from "../gateway/harness.ts"

/** Whose a route is: anybody's, a key's, a management token's, of whoever is signed in, of the one who owns the thing, the operators'. */
type Owner = "anybody" | "key" | "token" | "signed-in" | "owner" | "operator"

interface Row {
  readonly of: Owner
  /** The answer to whoever may. */
  readonly status: number
  readonly body?: unknown
  /** Of the dashboard's page and those for visitors, not of the API: it is not in the document, and may be kept. */
  readonly page?: true
  /** Its answer may be kept, and is asked for again. */
  readonly kept?: true
  /** What stands for `:id` in the path: a thing of the owner's, made anew for each call. */
  readonly id?: () => Promise<string> | string
}

let gateway: TestGateway
let owner: Person
let other: Person
let operator: Person
const others = new Map<OperatorRole, Person>()
/** Of the owner's account. */
const members = new Map<MemberRole, Person>()
let key: string
let keyId: string
let token: string
let model: string
let document: OpenapiDocument

beforeAll(async () => {
  gateway = await startTestGateway({ env: { PAYMENT_SIMULATED_SECRET: "a secret of the tests" } })
  owner = await gateway.person(1_000_000)
  other = await gateway.person(10_000)
  // One from before there were roles, who is an owner.
  operator = await gateway.person(10_000)
  await gateway.sql`update accounts set role = 'operator' where id = ${operator.accountId}`
  for (const role of operatorRoles) others.set(role, await makeOperator(gateway, role))
  for (const role of memberRoles) members.set(role, await ownMember(role))
  ;({ key, id: keyId } = await gateway.key(owner))
  token = await newToken()
  model = await gateway.model({ format: "chat" })
  for (const format of ["completions", "embeddings"] as const) await gateway.model({ format })
  document = (await (await fetch(`${gateway.url}/openapi.json`)).json()) as OpenapiDocument
  // The day's reconciliation, before the rows that are made by hand: it would freeze their account later.
  await gateway.server.reconcileIfDue()
})
afterAll(() => gateway[Symbol.asyncDispose]())

/** A session of its own for each call that may end sessions. */
async function session({ accountId }: Person, looksAt?: Person): Promise<string> {
  const { token, hash } = createSessionToken()
  await gateway.sql`
    insert into sessions (token_hash, account_id, expires_at, looks_at)
    values (${hash}, ${accountId}, now() + interval '1 hour', ${looksAt?.accountId ?? null})`
  return token
}

async function ownMember(role: MemberRole): Promise<Person> {
  const person = await gateway.person()
  await gateway.sql`
    insert into members (account_id, member_id, role, invited_by, invitation_hash)
    values (${owner.accountId}, ${person.accountId}, ${role}, ${owner.accountId}, ''::bytea)`
  return person
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
async function newToken(): Promise<string> {
  const path = `/keys/${keyId}/tokens`
  const response = await gateway.dashboard(owner, path, { method: "POST", body: JSON.stringify({ name: "a token" }) })
  return ((await response.json()) as { token: string }).token
}
const ownChild = async () => {
  const headers = { Authorization: `Bearer ${token}` }
  const response = await fetch(`${gateway.url}/v1/keys`, {
    method: "POST",
    headers,
    body: JSON.stringify({ name: "a child" }),
  })
  if (!response.ok) throw new Error(await response.text())
  return ((await response.json()) as { id: string }).id
}
const ownRun = () => made("/runs", { key_id: keyId, budget_micro: 1_000_000 })
const ownTopUp = () => made("/top-ups", { amount_rp: 10_000 })
const ownPaidTopUp = async () => {
  const id = await ownTopUp()
  await gateway.sql`update top_ups set status = 'paid', paid_at = now(), reference = 'ref' where id = ${id}`
  return id
}
const ownRefund = async () => {
  const [row] = await gateway.sql<{ id: string }[]>`
    insert into refunds (id, account_id, kind, idempotency_key, balance_micro, service_fee_micro, payment_fee_micro, claimed_micro,
      reason, status, paid_out_at)
    values (${`ref_${crypto.randomUUID()}`}, ${owner.accountId}, 'refund', ${crypto.randomUUID()}, 1000000, 0, 0, 0, 'a test',
      'paid_out', now()) returning id`
  return row?.id ?? ""
}
const ownSession = async () => {
  const [row] = await gateway.sql<{ id: string }[]>`
    insert into sessions (token_hash, account_id, expires_at)
    values (${createSessionToken().hash}, ${owner.accountId}, now() + interval '1 hour') returning id`
  return row?.id ?? ""
}
const ownInvitation = async () => {
  const id = `inv_${crypto.randomUUID()}`
  await gateway.sql`
    insert into invitations (id, account_id, email, role, invited_by, expires_at)
    values (${id}, ${owner.accountId}, ${`${id}@example.com`}, 'viewer', ${owner.accountId}, now() + interval '1 day')`
  return id
}
const ownCall = async () => {
  const body = { model, max_tokens: 10, messages: [{ role: "user", content: "hi" }] }
  return (await gateway.post("/v1/chat/completions", key, body)).headers.get("x-request-id") ?? ""
}
/** Everybody has one, and the last test of it is over. */
const someWebhook = async () => {
  await gateway.sql`
    insert into webhooks (account_id, url, secret) select id, 'https://hooks.example.com/', 'whsec_AAAA' from accounts
    on conflict do nothing`
  await gateway.sql`update outbox set created_at = created_at - interval '1 minute', due_at = null`
  return ""
}
/** Made once: of many alike in a minute only the first ones are kept, and they are written every two seconds. */
let refusedOnce: Promise<string> | undefined
const ownRefusal = () => (refusedOnce ??= refused())
async function refused(): Promise<string> {
  const response = await gateway.post("/v1/chat/completions", key, { model, max_tokens: 10, messages: "none" })
  const id = response.headers.get("x-request-id") ?? ""
  while ((await gateway.sql`select 1 from refused_calls where request_id = ${id}`).length === 0) await Bun.sleep(50)
  return id
}
const ownAccount = () => owner.accountId
const someModel = () => gateway.model({ format: "chat" })
const price = { input_micro: 1_000, output_micro: 5_000, cache_read_micro: 100, cache_write_micro: 1_250 }
const inAnHour = () => new Date(Date.now() + 3_600_000).toISOString()
const say = (format: Endpoint) => ({ model: `no-${format}`, messages: [], input: "" })

const rows: Readonly<Record<string, Row>> = {
  "GET /": { of: "anybody", status: 200, page: true },
  "GET /favicon.ico": { of: "anybody", status: 200, page: true },
  "GET /robots.txt": { of: "anybody", status: 200, page: true },
  "GET /status": { of: "anybody", status: 200, page: true },
  "GET /dashboard": { of: "anybody", status: 200, page: true },
  "GET /dashboard/": { of: "anybody", status: 200, page: true },
  "GET /dashboard/*": { of: "anybody", status: 200, page: true, id: () => "keys" },
  "GET /dashboard/assets/:name": { of: "anybody", status: 404, page: true, id: () => "none.js" },
  "GET /models": { of: "anybody", status: 200 },
  "GET /about": { of: "anybody", status: 200 },
  "GET /openapi.json": { of: "anybody", status: 200 },
  "GET /docs": { of: "anybody", status: 200, kept: true },
  "GET /terms": { of: "anybody", status: 200 },
  "GET /privacy": { of: "anybody", status: 200 },
  "GET /refunds": { of: "anybody", status: 200 },
  "GET /healthz": { of: "anybody", status: 200 },
  "GET /readyz": { of: "anybody", status: 200 },
  "POST /auth/sign-up": { of: "anybody", status: 400, body: {} },
  "POST /auth/sign-in": { of: "anybody", status: 400, body: {} },
  "POST /auth/sign-in/second-factor": { of: "anybody", status: 400, body: {} },
  "POST /auth/sign-in/second-factor/options": { of: "anybody", status: 400, body: {} },
  "POST /auth/sign-in/passkey/options": { of: "anybody", status: 200 },
  "POST /auth/sign-in/passkey": { of: "anybody", status: 400, body: {} },
  "POST /auth/password/forgotten": { of: "anybody", status: 400, body: {} },
  "POST /auth/password/reset": { of: "anybody", status: 400, body: {} },
  "POST /invitations/open": { of: "anybody", status: 400, body: {} },
  "POST /webhooks/payments/:provider": { of: "anybody", status: 401, body: {}, id: () => "simulated" },
  "GET /simulated-pay/:id": { of: "anybody", status: 200, id: ownTopUp },
  "POST /simulated-pay/:id": { of: "anybody", status: 200, id: ownTopUp },

  "POST /v1/chat/completions": { of: "key", status: 400, body: say("chat") },
  "POST /v1/messages": { of: "key", status: 400, body: say("messages") },
  "POST /v1/messages/count_tokens": { of: "key", status: 400, body: say("messages") },
  "POST /v1/responses": { of: "key", status: 400, body: say("responses") },
  "POST /v1/completions": { of: "key", status: 400, body: say("completions") },
  "POST /v1/embeddings": { of: "key", status: 400, body: say("embeddings") },
  "POST /v1/responses/input_tokens": { of: "key", status: 400, body: say("responses") },
  "GET /v1/runs/:id": { of: "key", status: 200, id: ownRun },
  "POST /v1/runs/:id/end": { of: "key", status: 200, id: ownRun },
  "GET /v1/balance": { of: "key", status: 200 },
  // Whose call is whose is looked at in test/http/own-key.test.ts.
  "GET /v1/usage/:request_id": { of: "key", status: 404, id: () => "req_none" },
  "GET /v1/models": { of: "key", status: 200 },
  "GET /v1/models/*": { of: "key", status: 200, id: () => model },

  "GET /v1/keys": { of: "token", status: 200 },
  "POST /v1/keys": { of: "token", status: 201, body: { name: "a child" } },
  "GET /v1/keys/:id": { of: "token", status: 200, id: ownChild },
  "PATCH /v1/keys/:id": { of: "token", status: 200, body: { name: "another name" }, id: ownChild },
  "DELETE /v1/keys/:id": { of: "token", status: 200, id: ownChild },

  "POST /auth/sign-out": { of: "signed-in", status: 204 },
  "POST /auth/see-as/end": { of: "signed-in", status: 204 },
  "POST /auth/look-at": { of: "signed-in", status: 400, body: {} },
  "POST /auth/password": { of: "signed-in", status: 400, body: {} },
  "POST /auth/email": { of: "signed-in", status: 400, body: {} },
  "POST /auth/email/send-again": { of: "signed-in", status: 204 },
  "POST /auth/email/prove": { of: "signed-in", status: 400, body: {} },
  "GET /account": { of: "signed-in", status: 200 },
  "PATCH /account": { of: "signed-in", status: 200, body: {} },
  "DELETE /account": { of: "signed-in", status: 400, body: {} },
  "GET /account/second-factor": { of: "signed-in", status: 200 },
  "POST /account/second-factor": { of: "signed-in", status: 400, body: {} },
  "DELETE /account/second-factor": { of: "signed-in", status: 400, body: {} },
  "POST /account/second-factor/confirm": { of: "signed-in", status: 400, body: {} },
  "POST /account/second-factor/recovery-codes": { of: "signed-in", status: 400, body: {} },
  "GET /account/passkeys": { of: "signed-in", status: 200 },
  "POST /account/passkeys": { of: "signed-in", status: 400, body: {} },
  "POST /account/passkeys/options": { of: "signed-in", status: 400, body: {} },
  "POST /account/passkeys/proof": { of: "signed-in", status: 400 },
  // Whose one is another's is looked at in test/accounts/passkeys.test.ts.
  "PATCH /account/passkeys/:id": { of: "signed-in", status: 400, body: {}, id: () => "pk_none" },
  "DELETE /account/passkeys/:id": { of: "signed-in", status: 400, body: {}, id: () => "pk_none" },
  "POST /account/agreement": { of: "signed-in", status: 400, body: {} },
  "POST /account/export": { of: "signed-in", status: 400, body: {} },
  "GET /account/summary": { of: "signed-in", status: 200 },
  "GET /account/members": { of: "signed-in", status: 200 },
  "PATCH /account/members/:id": {
    of: "owner",
    status: 200,
    body: { role: "billing" },
    id: async () => (await ownMember("viewer")).accountId,
  },
  "DELETE /account/members/:id": { of: "owner", status: 204, id: async () => (await ownMember("viewer")).accountId },
  "POST /account/invitations": { of: "signed-in", status: 400, body: {} },
  "POST /account/invitations/:id/send-again": { of: "owner", status: 200, id: ownInvitation },
  "DELETE /account/invitations/:id": { of: "owner", status: 204, id: ownInvitation },
  "GET /account/memberships": { of: "signed-in", status: 200 },
  "POST /account/memberships": { of: "signed-in", status: 400, body: {} },
  // Whose one is another's is looked at in test/http/members.test.ts.
  "DELETE /account/memberships/:id": { of: "signed-in", status: 404, id: () => "acc_none" },
  "GET /account/sessions": { of: "signed-in", status: 200 },
  "GET /account/webhook": { of: "signed-in", status: 200 },
  "PUT /account/webhook": { of: "signed-in", status: 200, body: { url: "https://hooks.example.com/" } },
  "POST /account/webhook/rotate": { of: "signed-in", status: 200, id: someWebhook },
  "POST /account/webhook/test": { of: "signed-in", status: 204, id: someWebhook },
  "GET /account/webhook/deliveries": { of: "signed-in", status: 200 },
  "DELETE /account/webhook": { of: "signed-in", status: 204 },
  "DELETE /account/sessions": { of: "signed-in", status: 204 },
  "DELETE /account/sessions/:id": { of: "owner", status: 204, id: ownSession },
  "GET /keys": { of: "signed-in", status: 200 },
  "POST /keys": { of: "signed-in", status: 201, body: { name: "a key" } },
  "PATCH /keys/:id": { of: "owner", status: 200, body: { name: "another name" }, id: ownKey },
  "POST /keys/:id/revoke": { of: "owner", status: 200, id: ownKey },
  "POST /keys/:id/rotate": { of: "owner", status: 201, body: {}, id: ownKey },
  "GET /keys/:id/tokens": { of: "owner", status: 200, id: ownKey },
  "POST /keys/:id/tokens": { of: "owner", status: 201, body: { name: "a token" }, id: ownKey },
  // Whose one is another's is looked at in test/http/children.test.ts.
  "POST /keys/:id/tokens/:token/revoke": { of: "signed-in", status: 404, id: () => "key_none" },
  "GET /account/breaker": { of: "signed-in", status: 200 },
  "PUT /account/breaker": { of: "signed-in", status: 200, body: { ceiling_micro: 1, factor: null } },
  "POST /account/breaker/dismiss": { of: "signed-in", status: 204 },
  "POST /account/breaker/resume": { of: "signed-in", status: 204 },
  "POST /keys/:id/resume": { of: "owner", status: 204, id: ownKey },
  "PUT /keys/:id/breaker": { of: "owner", status: 200, body: { ceiling_micro: null }, id: ownKey },
  "GET /top-ups": { of: "signed-in", status: 200 },
  "POST /top-ups": { of: "signed-in", status: 201, body: { amount_rp: 10_000 } },
  "GET /top-ups/quote": { of: "signed-in", status: 400 },
  "GET /top-ups/:id": { of: "owner", status: 200, id: ownTopUp },
  "POST /top-ups/:id/check": { of: "owner", status: 200, id: ownTopUp },
  "GET /runs": { of: "signed-in", status: 200 },
  "POST /runs": { of: "signed-in", status: 404, body: { key_id: "key_none", budget_micro: 1_000_000 } },
  "GET /runs/:id": { of: "owner", status: 200, id: ownRun },
  "POST /runs/:id/end": { of: "owner", status: 200, id: ownRun },
  "GET /usage": { of: "signed-in", status: 200 },
  "GET /usage/summary": { of: "signed-in", status: 200 },
  "GET /account/price-changes": { of: "signed-in", status: 200 },
  "GET /usage/errors": { of: "signed-in", status: 200 },
  "GET /usage/export.csv": { of: "signed-in", status: 200 },
  "GET /account/statement": { of: "signed-in", status: 200 },
  "GET /account/statement.csv": { of: "signed-in", status: 200 },
  "GET /account/statement.pdf": { of: "signed-in", status: 200 },
  "GET /top-ups/:id/receipt.pdf": { of: "owner", status: 200, id: ownPaidTopUp },
  "GET /refunds/:id/receipt.pdf": { of: "owner", status: 200, id: ownRefund },
  "GET /usage/:request_id": { of: "owner", status: 200, id: ownCall },
  "GET /account/activity": { of: "signed-in", status: 200 },
  "GET /account/activity/export.csv": { of: "signed-in", status: 200 },
  "GET /usage/refused": { of: "signed-in", status: 200 },
  "GET /usage/refused/export.csv": { of: "signed-in", status: 200 },
  "GET /usage/refused/:request_id": { of: "owner", status: 200, id: ownRefusal },
  "GET /events": { of: "signed-in", status: 200 },

  "GET /operator/overview": { of: "operator", status: 200 },
  "GET /operator/overview/days": { of: "operator", status: 200 },
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
  "GET /operator/status-notes": { of: "operator", status: 200 },
  "POST /operator/status-notes": {
    of: "operator",
    status: 201,
    body: { text: { id: "Gangguan.", en: "Trouble." } },
  },
  "PATCH /operator/status-notes/:note": {
    of: "operator",
    status: 404,
    body: { resolved: true },
    id: () => "note_x",
  },
  "GET /operator/backends/history": { of: "operator", status: 200 },
  "GET /operator/backends/hours": { of: "operator", status: 200 },
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
  "GET /operator/accounts/export.csv": { of: "operator", status: 200 },
  "GET /operator/top-ups/export.csv": { of: "operator", status: 200 },
  "GET /operator/audit/export.csv": { of: "operator", status: 200 },
  "GET /operator/accounts/:id/transfers/export.csv": { of: "operator", status: 200, id: ownAccount },
  "GET /operator/accounts/:id/usage": { of: "operator", status: 200, id: ownAccount },
  "GET /operator/accounts/:id/usage/export.csv": { of: "operator", status: 200, id: ownAccount },
  // Whose call is whose is looked at in test/http/operator/exports.test.ts.
  "GET /operator/accounts/:id/usage/:request_id": { of: "operator", status: 404, id: ownAccount },
  "GET /operator/accounts/:id/keys": { of: "operator", status: 200, id: ownAccount },
  // Whose key is whose is looked at in test/http/operator/exports.test.ts.
  "POST /operator/accounts/:id/keys/:key/revoke": {
    of: "operator",
    status: 404,
    body: { reason: "a test" },
    id: ownAccount,
  },
  "GET /operator/accounts/:id/transfers": { of: "operator", status: 200, id: ownAccount },
  "POST /operator/accounts/:id/adjustments": {
    of: "operator",
    status: 201,
    body: { amount_micro: 1, reason: "a test", idempotency_key: "once" },
    id: ownAccount,
  },
  "GET /operator/refunds": { of: "operator", status: 200 },
  "GET /operator/accounts/:id/refunds": { of: "operator", status: 200, id: ownAccount },
  "POST /operator/accounts/:id/refunds": {
    of: "operator",
    status: 400,
    body: { amount_micro: 1, payout: "by_hand", reason: "a test", idempotency_key: "once" },
    id: ownAccount,
  },
  "POST /operator/refunds/:id/paid-out": {
    of: "operator",
    status: 404,
    body: { reference: "a test", reason: "a test" },
    id: () => "ref_x",
  },
  "POST /operator/refunds/:id/send": { of: "operator", status: 404, body: { reason: "a test" }, id: () => "ref_x" },
  "POST /operator/refunds/:id/cancel": { of: "operator", status: 404, body: { reason: "a test" }, id: () => "ref_x" },
  "POST /operator/accounts/:id/freeze": {
    of: "operator",
    status: 200,
    body: { reason: "a test" },
    id: async () => (await gateway.person()).accountId,
  },
  "POST /operator/accounts/:id/see-as": { of: "operator", status: 200, body: { reason: "a test" }, id: ownAccount },
  "POST /operator/accounts/:id/unfreeze": { of: "operator", status: 200, body: { reason: "a test" }, id: ownAccount },
  "POST /operator/accounts/:id/role": {
    of: "operator",
    status: 200,
    body: { role: "customer", reason: "a test" },
    id: async () => (await gateway.person()).accountId,
  },
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
  readonly expected: (row: Row, method: string, route: string) => number
  /** Of a 403, where it is not that of everybody else. */
  readonly code?: string
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

/** By what the routes themselves say. */
const ofRole = (role: OperatorRole): Identity => ({
  headers: async () => bearer(others.get(role) ?? operator),
  expected: (row, _, route) => {
    if (row.of !== "operator") return refuses(["signed-in"], ({ of }) => (of === "owner" ? 404 : 401))(row)
    const needed = declared(route)
    return needed !== undefined && mayAct(role, needed) ? row.status : 403
  },
})

/** Looks at the owner's account. What is a person's own is never the owner's, whatever the role. */
const ofMember = (role: MemberRole): Identity => ({
  headers: async () => ({ Authorization: `Bearer ${await session(members.get(role) ?? other, owner)}` }),
  expected: (row, _, route) => {
    if (row.of !== "signed-in" && row.of !== "owner") return asOwner(row)
    const may = termsOf(route)?.may
    if (may === undefined) throw new Error(`${route} does not say what it takes`)
    if (may === "self") return row.of === "owner" ? 404 : row.status
    return mayDo(role, may) ? row.status : 403
  },
  code: "auth.role_required",
})

/** Sees the owner's account as the owner does: reads everything of the owner's, and changes nothing. */
const seer: Identity = {
  headers: async () => {
    const token = await session(others.get("support") ?? operator)
    const headers = { Authorization: `Bearer ${token}` }
    const path = `${gateway.url}/operator/accounts/${owner.accountId}/see-as`
    const begun = await fetch(path, { method: "POST", headers, body: JSON.stringify({ reason: "a test" }) })
    if (!begun.ok) throw new Error(await begun.text())
    return headers
  },
  expected: (row, method, route) => {
    if (row.of === "operator") {
      const needed = declared(route)
      return changes(method) || needed === undefined || !mayAct("support", needed) ? 403 : row.status
    }
    if (row.of !== "signed-in" && row.of !== "owner") return asOwner(row)
    const ofTheirOwn = ["POST /auth/sign-out", "POST /auth/see-as/end"].includes(route)
    if (ofTheirOwn) return row.status
    return changes(method) || route.endsWith(".pdf") ? 403 : row.status
  },
  code: "auth.read_only",
}

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
  ...Object.fromEntries(operatorRoles.map((role) => [`an operator of the role ${role}`, ofRole(role)])),
  ...Object.fromEntries(memberRoles.map((role) => [`a member of the role ${role}`, ofMember(role)])),
  "an operator who sees as the owner does": seer,
  "an API key": {
    headers: async () => ({ Authorization: `Bearer ${key}` }),
    expected: refuses(["key"], () => 401),
  },
  "a management token": {
    headers: async () => ({ Authorization: `Bearer ${token}` }),
    expected: refuses(["token"], () => 401),
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

interface ServedRoute {
  readonly method: string
  readonly path: string
  readonly hooks?: { readonly detail?: Partial<Documented> }
}

/** By route, once: the framework makes its list anew for whoever asks. */
let terms: ReadonlyMap<string, RouteTerms | undefined> | undefined
function termsOf(route: string): RouteTerms | undefined {
  terms ??= readTerms()
  return terms.get(route)
}
function readTerms(): ReadonlyMap<string, RouteTerms | undefined> {
  // Of two of a name it is the first.
  const routes = (gateway.server.routes as readonly ServedRoute[]).toReversed()
  return new Map(routes.map(({ method, path, hooks }) => [`${method} ${path}`, hooks?.detail?.terms]))
}
const declared = (route: string): OperatorRole | undefined => termsOf(route)?.role

const known = () => gateway.server.routes.map(({ method, path }) => `${method} ${path}`)

test("every route has a row, and every row a route", () => {
  expect([...new Set(known())].sort()).toEqual(Object.keys(rows).sort())
})

test("each operator's route says for whom it is: support reads all, freezes, revokes keys, sees as customers do and writes notes, finance moves money and prices", () => {
  const byRole = Map.groupBy(
    Object.keys(rows).filter((route) => rows[route]?.of === "operator"),
    declared,
  )
  const changing = (role: OperatorRole) => byRole.get(role)?.filter((route) => !route.startsWith("GET "))
  expect([...byRole.keys()].filter((role) => role === undefined)).toEqual([])
  expect(Object.keys(rows).filter((route) => rows[route]?.of !== "operator" && declared(route) !== undefined)).toEqual(
    [],
  )
  expect(changing("support")).toEqual([
    "POST /operator/status-notes",
    "PATCH /operator/status-notes/:note",
    "POST /operator/accounts/:id/keys/:key/revoke",
    "POST /operator/accounts/:id/freeze",
    "POST /operator/accounts/:id/see-as",
    "POST /operator/accounts/:id/unfreeze",
  ])
  expect(changing("owner")).toEqual([
    "PATCH /operator/members/:member",
    "POST /operator/members/:member/retry",
    "POST /operator/accounts/:id/role",
  ])
  for (const role of ["finance", "owner"] as const)
    expect(byRole.get(role)?.filter((route) => route.startsWith("GET "))).toEqual([])
  for (const [route, row] of Object.entries(rows)) {
    if (row.of !== "operator") continue
    const [method = "", path = ""] = route.split(" ")
    const operation = document.paths[path.replaceAll(/:(\w+)/g, "{$1}")]?.[method.toLowerCase()]
    expect([route, operation?.["x-role"]]).toEqual([route, declared(route)])
  }
})

test("each route of whoever is signed in says what a member's role must allow: the whole table, by role", () => {
  const signedIn = Object.keys(rows).filter((route) => ["signed-in", "owner"].includes(rows[route]?.of ?? ""))
  const changing = (role: MemberRole) =>
    signedIn.filter((route) => {
      const may = termsOf(route)?.may
      return !route.startsWith("GET ") && may !== undefined && may !== "self" && mayDo(role, may)
    })
  expect(signedIn.filter((route) => termsOf(route)?.may === undefined)).toEqual([])
  expect(Object.keys(rows).filter((route) => !signedIn.includes(route) && termsOf(route)?.may !== undefined)).toEqual(
    [],
  )
  // Field by field, of which the language is anybody's own.
  const anybodys = ["PATCH /account"]
  const guarding = ["PUT /account/breaker", "POST /account/breaker/dismiss", "POST /account/breaker/resume"]
  const paying = ["POST /top-ups", "POST /top-ups/:id/check"]
  const building = [
    "PUT /account/webhook",
    "POST /account/webhook/rotate",
    "POST /account/webhook/test",
    "DELETE /account/webhook",
    "POST /keys",
    "PATCH /keys/:id",
    "POST /keys/:id/revoke",
    "POST /keys/:id/rotate",
    "POST /keys/:id/resume",
    "PUT /keys/:id/breaker",
    "POST /keys/:id/tokens/:token/revoke",
    "POST /runs",
    "POST /runs/:id/end",
  ]
  const managing = [
    "PATCH /account/members/:id",
    "DELETE /account/members/:id",
    "POST /account/invitations",
    "POST /account/invitations/:id/send-again",
    "DELETE /account/invitations/:id",
    "POST /keys/:id/tokens",
  ]
  expect(changing("viewer")).toEqual(anybodys)
  expect(changing("billing").sort()).toEqual([...anybodys, ...guarding, ...paying].sort())
  expect(changing("developer").sort()).toEqual([...anybodys, ...guarding, ...building].sort())
  expect(changing("owner").sort()).toEqual([...anybodys, ...guarding, ...paying, ...building, ...managing].sort())
  // Whoever has the account's books: names, addresses and tax numbers.
  const books = signedIn.filter((route) => termsOf(route)?.may === "books")
  expect(books.filter((route) => !/statement|top-ups|receipt/.test(route))).toEqual([])
  for (const route of signedIn) {
    const [method = "", path = ""] = route.split(" ")
    const may = termsOf(route)?.may
    const operation = document.paths[path.replaceAll(/:(\w+)/g, "{$1}")]?.[method.toLowerCase()]
    const roles = may === undefined || may === "self" ? undefined : rolesThatMay(may)
    expect([route, operation?.["x-account-roles"]]).toEqual([route, roles])
  }
})

const refusal = async (role: OperatorRole, route: string) => {
  const response = await ask(route, await bearer(others.get(role) ?? operator))
  return ((await response.json()) as { error: string }).error
}

test("a refused operator is told which role it takes", async () => {
  expect(await refusal("support", "POST /operator/exchange-rates")).toBe(
    "This is for operators of the role 'finance' or above; yours is 'support'.",
  )
  expect(await refusal("finance", "POST /operator/members/:member/retry")).toBe(
    "This is for operators of the role 'owner'; yours is 'finance'.",
  )
})

test("every route is in the OpenAPI document with its kind of sign-in, and nothing else is", async () => {
  const { paths } = (await (await fetch(`${gateway.url}/openapi.json`)).json()) as {
    paths: Record<string, Record<string, { security: Record<string, unknown>[] }>>
  }
  const documented = Object.entries(paths).flatMap(([path, operations]) =>
    Object.entries(operations).map(([method, { security }]) => {
      const kind = Object.keys(security[0] ?? { anybody: [] })[0]
      return `${method.toUpperCase()} ${path} ${kind}`
    }),
  )
  const kinds = {
    anybody: "anybody",
    key: "key",
    token: "token",
    "signed-in": "session",
    owner: "session",
    operator: "session",
  }
  const ofTheApi = Object.entries(rows).filter(([, { page }]) => !page)
  const expected = ofTheApi.map(
    ([route, { of }]) => `${route.replace("*", "{id}").replaceAll(/:(\w+)/g, "{$1}")} ${kinds[of]}`,
  )
  expect(documented.sort()).toEqual(expected.sort())
})

/** What stands for `:id` in calls that are refused, which leave it as it is: made once for each route. */
const refusedThings = new Map<string, string>()
async function refusedThing(route: string): Promise<string> {
  const thing = refusedThings.get(route) ?? (await rows[route]?.id?.()) ?? ""
  refusedThings.set(route, thing)
  return thing
}

/** Of an identity whose calls were all refused since, which leaves its session as it is: any other call may end sessions. */
const refusedHeaders = new Map<string, Readonly<Record<string, string>>>()

describe.each(Object.entries(identities))("%s", (name, { headers, expected, code = "auth.forbidden" }) => {
  test.each(Object.entries(rows))("%s", async (route, row) => {
    const status = expected(row, route.split(" ")[0] ?? "", route)
    const isRefused = status === 401 || status === 403
    const sent = refusedHeaders.get(name) ?? (await headers())
    if (isRefused) refusedHeaders.set(name, sent)
    else refusedHeaders.clear()
    const response = await ask(route, sent, isRefused ? await refusedThing(route) : undefined)
    expect(response.status).toBe(status)
    const needed = declared(route)
    const mayOtherwise = code === "auth.read_only" && needed !== undefined && mayAct("support", needed)
    const refusedBy = row.of === "operator" && !mayOtherwise ? "auth.forbidden" : code
    if (status === 403) expect(response.headers.get("x-error-code")).toBe(refusedBy)
    expect(response.headers.get("x-content-type-options")).toBe("nosniff")
    if (!row.page && response.headers.get("content-type")?.startsWith("application/json")) {
      const [method = ""] = route.split(" ")
      const answer = { method, path: new URL(response.url).pathname, status, json: await response.json() }
      expect(problemsOf(document, answer)).toEqual([])
    }
    if (!row.page && !row.kept) expect(response.headers.get("cache-control")).toContain("no-store")
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

/** Of what is the owner's, all that a change of a foreign thing could change. */
const state = async () => {
  const { accountId } = owner
  const found = await gateway.sql<{ row: string }[]>`
    select k::text as row from api_keys k where account_id = ${accountId}
    union all select s::text from key_secrets s join api_keys k on k.id = s.key_id where k.account_id = ${accountId}
    union all select r::text from runs r where account_id = ${accountId}
    union all select m::text from members m where account_id = ${accountId}
    union all select i::text from invitations i where account_id = ${accountId}
    union all select s.id from sessions s where account_id = ${accountId}
    union all select t::text from management_tokens t where account_id = ${accountId}`
  return found.map(({ row }) => row).sort()
}

test("a foreign thing that is told not to be there is left as it is", async () => {
  for (const [route, row] of Object.entries(rows)) {
    if (row.of !== "owner" || route.startsWith("GET ")) continue
    const thing = (await row.id?.()) ?? ""
    const before = await state()
    expect([route, (await ask(route, await bearer(other), thing)).status]).toEqual([route, 404])
    expect([route, await state()]).toEqual([route, before])
  }
})

test("an id with what the database cannot hold names nothing, and is no bug", async () => {
  for (const [route, row] of Object.entries(rows)) {
    if (!/[:*]/.test(route)) continue
    const shown = row.of === "key" ? key : row.of === "token" ? token : undefined
    const headers = shown === undefined ? await bearer(operator) : { Authorization: `Bearer ${shown}` }
    const id = (await row.id?.()) ?? "some-id"
    for (const asked of ["\u0000", `${id}\u0000`, `\u0000${id}`]) {
      const response = await ask(route, headers, asked)
      expect([route, asked, response.status < 500]).toEqual([route, asked, true])
      await response.body?.cancel()
    }
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
