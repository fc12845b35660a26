/**
 * What the dashboard and operators ask of a house with years of records: each list at its first page, in the middle and near its end, and with
 * each of its filters, those that hardly anything fits among them; each sum and chart; and the first bytes of each file.
 */
import type { Sql } from "../src/store/database.ts"
import { BIG, BIG_KEY, RARE_KEY } from "./growth-data.ts"

export interface Question {
  readonly of: "customer" | "operator"
  readonly name: string
  readonly path: string
}

const DAY_MS = 86_400_000
const cursor = (...words: readonly string[]): string => `cursor=${Buffer.from(words.join(" ")).toString("base64url")}`
const daysAgo = (days: number): string => new Date(Date.now() - days * DAY_MS).toISOString()
const since = (days: number): string => `from=${daysAgo(days)}`
const month = (monthsAgo: number): string => {
  const now = new Date()
  return new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - monthsAgo, 1)).toISOString().slice(0, 7)
}
/** A day, and most of a year. */
const A_DAY = `${since(360)}&to=${daysAgo(359)}`
const A_YEAR = since(364)

/** What a list of calls may be narrowed to, `rare` by what one call in thousands is and `none` by what no call is. */
const NARROWINGS = {
  "one key": `key_id=${BIG_KEY}`,
  "a rare key": `key_id=${RARE_KEY}`,
  "a key without calls": "key_id=key_none",
  "one model": "model=m-3",
  "a rare model": "model=m-4",
  "a model without calls": "model=none",
  failed: "status=upstream_error",
  "a rare status": "status=usage_missing",
  "a status without calls": "status=billing_error",
  rerouted: "status=fallback_429",
  "a reroute that no call had": "status=fallback_oversize",
  "one format": "format=messages",
  "a rare format": "format=responses",
  "a format without calls": "format=embeddings",
  "one error": "error_code=dependency.upstream_unavailable",
  "a rare error": "error_code=dependency.usage_missing",
  "an error without calls": "error_code=none",
  "a rare model that failed": "model=m-4&status=upstream_error",
  "a rare model of a rare key": `model=m-4&key_id=${RARE_KEY}`,
  "a day a year ago": A_DAY,
  "a rare model, a day a year ago": `model=m-4&${A_DAY}`,
} as const

const ofCall = (id: string) => [id, "0"]
const active = (id: string) => ["active", id]
const eventWords = (words: string) => words.split(" ")

interface Place {
  readonly middle: string
  readonly deep: string
}

/** The values of a column in the middle of a list and near its end; `of`: the list from its end on. */
async function placeIn(sql: Sql, column: string, of: string, order = column): Promise<Place> {
  const [row] = await sql.unsafe<{ middle: string; deep: string }[]>(`
    select (select (${column})::text from ${of} order by ${order} offset (select count(*) / 2 from ${of}) limit 1) as middle,
      (select (${column})::text from ${of} order by ${order} offset least(100, (select count(*) / 4 from ${of})) limit 1) as deep`)
  return { middle: String(row?.middle), deep: String(row?.deep) }
}

const pages = (name: string, path: string, place: Place, words = (id: string): readonly string[] => [id]) => {
  const more = `${path}${path.includes("?") ? "&" : "?"}`
  return {
    [`${name}, first page`]: path,
    [`${name}, in the middle`]: more + cursor(...words(place.middle)),
    [`${name}, near the end`]: more + cursor(...words(place.deep)),
  }
}

function callLists(name: string, path: string, calls: Place): Record<string, string> {
  const lists = { ...pages(name, path, calls, ofCall) }
  for (const [to, query] of Object.entries(NARROWINGS)) {
    lists[`${name}, ${to}`] = `${path}?${query}`
    lists[`${name}, ${to}, in the middle`] = `${path}?${query}&${cursor(...ofCall(calls.middle))}`
  }
  return lists
}

async function customers(sql: Sql): Promise<Record<string, string>> {
  const ofBig = `where account_id = '${BIG}'`
  const calls = await placeIn(sql, "request_id", `usage ${ofBig} and part = 0`)
  const event = await placeIn(sql, "id", `account_events ${ofBig}`)
  const refused = await placeIn(sql, "request_id", `refused_calls ${ofBig}`)
  const run = await placeIn(sql, "id", `runs ${ofBig}`, "created_at")
  const key = await placeIn(sql, "id", `api_keys ${ofBig} and parent_id is null`, "created_at")
  const child = await placeIn(sql, "id", `api_keys where parent_id = '${BIG_KEY}'`, "created_at")
  const topUp = (await placeIn(sql, "id", `top_ups ${ofBig} and status = 'paid'`, "created_at")).middle
  const runCalls = await placeIn(sql, "request_id", `usage where run_id = '${run.middle}'`)
  return {
    account: "/account",
    "account, summary": "/account/summary",
    members: "/account/members",
    memberships: "/account/memberships",
    sessions: "/account/sessions",
    webhook: "/account/webhook",
    "webhook, deliveries": "/account/webhook/deliveries",
    breaker: "/account/breaker",
    ...pages("keys", "/keys", key, active),
    ...pages("keys with 30 days' spending", "/keys?days=30&limit=100", key, active),
    ...pages("children of a key", `/keys?parent=${BIG_KEY}`, child, active),
    ...pages("children with 30 days' spending", `/keys?parent=${BIG_KEY}&days=30&limit=100`, child, active),
    "tokens of a key": `/keys/${BIG_KEY}/tokens`,
    ...callLists("usage", "/usage", calls),
    ...pages("usage, one run", `/usage?run_id=${run.middle}`, runCalls, ofCall),
    "usage, a run without calls": "/usage?run_id=run_none",
    "one call": `/usage/${calls.middle}`,
    "summary by hour, 7 days": `/usage/summary?${since(7)}&group_by=hour`,
    "summary by day, 30 days": `/usage/summary?${since(30)}&group_by=day`,
    "summary by day and model, 90 days": `/usage/summary?${since(90)}&group_by=day&split_by=model`,
    "summary by day and key, 90 days": `/usage/summary?${since(90)}&group_by=day&split_by=key`,
    "summary by day and key, a year": `/usage/summary?${A_YEAR}&group_by=day&split_by=key`,
    "summary by model, a year": `/usage/summary?${A_YEAR}&group_by=model`,
    "summary by key, a year": `/usage/summary?${A_YEAR}&group_by=key`,
    "summary by format, a year": `/usage/summary?${A_YEAR}&group_by=format`,
    "summary by status, a year": `/usage/summary?${A_YEAR}&group_by=status`,
    "summary by day, a year, of a rare model": `/usage/summary?${A_YEAR}&group_by=day&model=m-4`,
    "summary by day, a year, of one key": `/usage/summary?${A_YEAR}&group_by=day&key_id=${BIG_KEY}`,
    "errors, 30 days": `/usage/errors?${since(30)}`,
    "errors, a year": `/usage/errors?${A_YEAR}`,
    "errors, a year, of a rare model": `/usage/errors?${A_YEAR}&model=m-4`,
    ...pages("refused", "/usage/refused", refused),
    "refused, one key": `/usage/refused?key_id=${BIG_KEY}`,
    "refused, a key without": `/usage/refused?key_id=${RARE_KEY}`,
    "refused, a model without": "/usage/refused?model=none",
    "refused, a format without": "/usage/refused?format=responses",
    "refused, a code without": "/usage/refused?error_code=none",
    "one refused call": `/usage/refused/${refused.middle}`,
    "statement, this month": "/account/statement",
    "statement, last month": `/account/statement?month=${month(1)}`,
    "statement, a year ago": `/account/statement?month=${month(11)}`,
    "top-ups": "/top-ups",
    "one top-up": `/top-ups/${topUp}`,
    ...pages("runs", "/runs", run),
    "runs, one key": `/runs?key_id=${BIG_KEY}`,
    "runs, a key without": `/runs?key_id=${RARE_KEY}`,
    "one run": `/runs/${run.middle}`,
    ...pages("history", "/account/activity", event),
    "price changes": "/account/price-changes",
    "file of calls": "/usage/export.csv",
    "file of calls, a rare model": "/usage/export.csv?model=m-4",
    "file of refused calls": "/usage/refused/export.csv",
    "file of the history": "/account/activity/export.csv",
    "file of a statement": `/account/statement.csv?month=${month(1)}`,
  }
}

async function operators(sql: Sql): Promise<Record<string, string>> {
  const calls = await placeIn(sql, "request_id", `usage where account_id = '${BIG}' and part = 0`)
  const account = await placeIn(sql, "id", "accounts", "created_at, id")
  const topUp = await placeIn(sql, "id", "top_ups", "created_at, id")
  const expired = await placeIn(sql, "id", "top_ups where status = 'expired'", "created_at, id")
  const audit = await placeIn(sql, "id", "audit_log")
  const flagged = await placeIn(sql, "request_id", "usage where flagged")
  const problem = await placeIn(sql, "id", "payment_problems where resolved_at is null")
  const solved = await placeIn(sql, "id", "payment_problems")
  const event = await placeIn(
    sql,
    "(extract(epoch from at) * 1000000)::bigint || ' e ' || id",
    "backend_events",
    "at, id",
  )
  const one = `/operator/accounts/${BIG}`
  const member = encodeURIComponent("vendor/default/m-3")
  return {
    "overview, a day": "/operator/overview",
    "overview, 30 days": `/operator/overview?${since(30)}`,
    "overview, 92 days": `/operator/overview?${since(91.9)}`,
    "days, 30 days": `/operator/overview/days?${since(30)}`,
    "days, 92 days": `/operator/overview/days?${since(91.9)}`,
    ...pages("billing health", "/operator/billing-health", flagged),
    "billing health, 92 days": `/operator/billing-health?${since(91.9)}`,
    "profit by day, 30 days": `/operator/profit?${since(30)}&group_by=day`,
    "profit by day and model, 92 days": `/operator/profit?${since(91.9)}&group_by=day&split_by=model`,
    "profit by model, 92 days": `/operator/profit?${since(91.9)}&group_by=model`,
    "profit by member, 92 days": `/operator/profit?${since(91.9)}&group_by=member`,
    "profit by account, 30 days": `/operator/profit?${since(30)}&group_by=account`,
    "profit by account, 92 days": `/operator/profit?${since(91.9)}&group_by=account`,
    "profit by account and model, 92 days, 500 rows": `/operator/profit?${since(91.9)}&group_by=account&split_by=model`,
    "profit by account and model, 92 days": `/operator/profit?${since(91.9)}&group_by=account&split_by=model&limit=100`,
    "profit by day and account, 92 days": `/operator/profit?${since(91.9)}&group_by=day&split_by=account`,
    "mix of a model, 30 days": "/operator/models/m-3/mix",
    ...pages("top-ups", "/operator/top-ups", topUp),
    ...pages("top-ups, expired", "/operator/top-ups?status=expired", expired),
    "top-ups, pending": "/operator/top-ups?status=pending",
    ...pages("payment problems", "/operator/payment-problems", problem),
    ...pages("payment problems, resolved too", "/operator/payment-problems?resolved=true", solved),
    ...pages("accounts", "/operator/accounts", account),
    "accounts, part of an address": "/operator/accounts?query=person77",
    "accounts, an address of nobody": "/operator/accounts?query=nobody@",
    "accounts, an account's id": `/operator/accounts?query=${BIG}`,
    "accounts, a key's id": `/operator/accounts?query=${BIG_KEY}`,
    "accounts, a key": "/operator/accounts?query=sk-0000000000abc",
    "one account": one,
    ...pages("transfers", `${one}/transfers`, calls, (id) => ["-", id]),
    ...callLists("an account's calls", `${one}/usage`, calls),
    "an account's call": `${one}/usage/${calls.middle}`,
    "refunds of an account": `${one}/refunds`,
    "refunds that are open": "/operator/refunds",
    ...pages("audit log", "/operator/audit", audit),
    "audit log, one account": `/operator/audit?subject=${BIG}`,
    "audit log, a subject without": "/operator/audit?subject=none",
    models: "/operator/models",
    backends: "/operator/backends",
    ...pages("history of backends", "/operator/backends/history", event, eventWords),
    "history of one backend": `/operator/backends/history?member=${member}`,
    "history of a backend without": "/operator/backends/history?member=none",
    "hours of backends": "/operator/backends/hours",
    "hours of one backend": `/operator/backends/hours?member=${member}`,
    "exchange rates": "/operator/exchange-rates",
    "file of accounts": "/operator/accounts/export.csv",
    "file of top-ups": "/operator/top-ups/export.csv",
    "file of the audit log": "/operator/audit/export.csv",
    "file of an account's transfers": `${one}/transfers/export.csv`,
    "file of an account's calls": `${one}/usage/export.csv`,
    "file of profit by account, 92 days": `/operator/profit/export.csv?${since(91.9)}&group_by=account`,
  }
}

export async function questions(sql: Sql): Promise<readonly Question[]> {
  const named =
    (of: Question["of"]) =>
    ([name, path]: readonly [string, string]): Question => ({ of, name, path })
  return [
    ...Object.entries(await customers(sql)).map(named("customer")),
    ...Object.entries(await operators(sql)).map(named("operator")),
  ]
}
