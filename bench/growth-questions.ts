/** What the dashboard and operators ask of a house with years of records, first and deep pages of each list. */
import type { Sql } from "../src/store/database.ts"
import { BIG, BIG_KEY } from "./growth-data.ts"

export interface Question {
  readonly of: "customer" | "operator"
  readonly name: string
  readonly path: string
}

const cursor = (...words: readonly string[]): string => `cursor=${Buffer.from(words.join(" ")).toString("base64url")}`
const since = (days: number): string => `from=${new Date(Date.now() - days * 86_400_000).toISOString()}`
const month = (monthsAgo: number): string => {
  const now = new Date()
  return new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - monthsAgo, 1)).toISOString().slice(0, 7)
}

const half = (from: string): string => `offset (select count(*) / 2 from ${from})`

/** Deep pages begin in the middle and near the end of a list. */
export async function questions(sql: Sql): Promise<readonly Question[]> {
  const one = async (query: string): Promise<string> => String((await sql.unsafe(`${query} limit 1`))[0]?.["id"])
  const bigCall = await one(
    `select request_id as id from usage where account_id = '${BIG}' and part = 0 order by request_id ${half(`usage where account_id = '${BIG}'`)}`,
  )
  const oldCall = await one(
    `select request_id as id from usage where account_id = '${BIG}' order by request_id offset 100`,
  )
  const account = await one(`select id from accounts order by created_at ${half("accounts")}`)
  const topUp = await one(`select id from top_ups order by created_at ${half("top_ups")}`)
  const audit = await one(`select id from audit_log order by id ${half("audit_log")}`)
  const event = await one(`select id from account_events where account_id = '${BIG}' order by id offset 2500`)
  const refused = await one(
    `select request_id as id from refused_calls where account_id = '${BIG}' order by request_id offset 50`,
  )
  const flagged = await one(
    `select request_id as id from usage where flagged order by request_id ${half("usage where flagged")}`,
  )
  const customer = Object.entries({
    "account, summary": "/account/summary",
    keys: "/keys",
    "usage, first page": "/usage",
    "usage, in the middle": `/usage?${cursor(bigCall, "0")}`,
    "usage, near the end": `/usage?${cursor(oldCall, "0")}`,
    "usage, one key": `/usage?key_id=${BIG_KEY}`,
    "usage, one key, in the middle": `/usage?key_id=${BIG_KEY}&${cursor(bigCall, "0")}`,
    "usage, one model": "/usage?model=m-3",
    "usage, a model without calls": "/usage?model=none",
    "usage, a key without calls": "/usage?key_id=key_none",
    "usage, failed": "/usage?status=upstream_error",
    "usage, a status without calls": "/usage?status=billing_error",
    "usage, rerouted": "/usage?status=fallback_429",
    "usage, a day a year ago": `/usage?from=${new Date(Date.now() - 360 * 86_400_000).toISOString()}&to=${new Date(Date.now() - 359 * 86_400_000).toISOString()}`,
    "one call": `/usage/${bigCall}`,
    "summary by hour, 7 days": `/usage/summary?${since(7)}&group_by=hour`,
    "summary by day, 30 days": `/usage/summary?${since(30)}&group_by=day`,
    "summary by day and model, 90 days": `/usage/summary?${since(90)}&group_by=day&split_by=model`,
    "errors, 30 days": `/usage/errors?${since(30)}`,
    "refused, first page": "/usage/refused",
    "refused, deep": `/usage/refused?${cursor(refused)}`,
    "statement, this month": "/account/statement",
    "statement, last month": `/account/statement?month=${month(1)}`,
    "statement, a year ago": `/account/statement?month=${month(11)}`,
    "top-ups": "/top-ups",
    runs: "/runs",
    "history, first page": "/account/activity",
    "history, in the middle": `/account/activity?${cursor(event)}`,
    "price changes": "/account/price-changes",
  })
  const operator = Object.entries({
    "overview, a day": "/operator/overview",
    "overview, 30 days": `/operator/overview?${since(30)}`,
    "overview, 92 days": `/operator/overview?${since(91.9)}`,
    "billing health": "/operator/billing-health",
    "billing health, in the middle": `/operator/billing-health?${cursor(flagged)}`,
    "billing health, 92 days": `/operator/billing-health?${since(91.9)}`,
    "profit by day, 30 days": `/operator/profit?${since(30)}&group_by=day`,
    "profit by model, 92 days": `/operator/profit?${since(91.9)}&group_by=model`,
    "profit by account, 92 days": `/operator/profit?${since(91.9)}&group_by=account`,
    "mix of a model, 30 days": `/operator/models/m-3/mix`,
    "top-ups, first page": "/operator/top-ups",
    "top-ups, in the middle": `/operator/top-ups?${cursor(topUp)}`,
    "top-ups, expired": "/operator/top-ups?status=expired",
    "top-ups, pending": "/operator/top-ups?status=pending",
    "payment problems": "/operator/payment-problems",
    "accounts, first page": "/operator/accounts",
    "accounts, in the middle": `/operator/accounts?${cursor(account)}`,
    "accounts, part of an address": "/operator/accounts?query=person77",
    "accounts, an address of nobody": "/operator/accounts?query=nobody@",
    "accounts, an account's id": `/operator/accounts?query=${BIG}`,
    "accounts, a key's id": `/operator/accounts?query=${BIG_KEY}`,
    "one account": `/operator/accounts/${BIG}`,
    "transfers, first page": `/operator/accounts/${BIG}/transfers`,
    "transfers, in the middle": `/operator/accounts/${BIG}/transfers?${cursor(`- ${bigCall}`)}`,
    "transfers, near the end": `/operator/accounts/${BIG}/transfers?${cursor(`- ${oldCall}`)}`,
    "refunds of an account": `/operator/accounts/${BIG}/refunds`,
    "audit log, first page": "/operator/audit",
    "audit log, in the middle": `/operator/audit?${cursor(audit)}`,
    "audit log, one account": `/operator/audit?subject=${BIG}`,
    models: "/operator/models",
    backends: "/operator/backends",
  })
  const named =
    (of: Question["of"]) =>
    ([name, path]: readonly [string, string]): Question => ({ of, name, path })
  return [...customer.map(named("customer")), ...operator.map(named("operator"))]
}
