/** `/operator/profit`: what calls brought and what they cost the house. Nothing of it is anybody else's to see. */
import { type Static, Type } from "@sinclair/typebox"
import { Elysia } from "elysia"
import { microToJson } from "../../../actors/money/micro.ts"
import { Failure } from "../../failure/failure.ts"
import {
  type Mix,
  profitGroups,
  type ProfitQuestion,
  type ProfitRow,
  type ProfitSums,
} from "../../store/operator/profit.ts"
import type { AuditStore } from "../../store/operator/audit.ts"
import type { ProfitPeriod, Under } from "../../store/operator/profit-parts.ts"
import { csvFile, csvQuery, MAX_EXPORTED } from "../dashboard/page.ts"
import { type Authenticate, type Operator, operatorBy } from "../dashboard/session.ts"
import { period, periodOf } from "../dashboard/usage-query.ts"
import { tokensJson } from "../dashboard/usage-rows.ts"
import { refused } from "../route.ts"
import { field, oneOf } from "../shapes.ts"
import { LONGEST_DAYS } from "./overview.ts"
import { MixShape, ProfitShape, accountOf, leakJson, profitCells, profitColumns, profitJson } from "./profit-json.ts"

export interface ProfitDeps {
  readonly authenticate: Authenticate
  readonly audit: Pick<AuditStore, "exported">
  readonly now: () => number
  readonly profit: (question: ProfitQuestion) => Promise<ProfitSums>
  readonly under: (period: ProfitPeriod) => Promise<readonly Under[]>
  readonly mix: (model: string, period: ProfitPeriod) => Promise<Mix>
  readonly emails: (ids: readonly string[]) => Promise<ReadonlyMap<string, string>>
}

/** How far back it goes, unless asked otherwise; and what a price is tried on. */
const DAYS = 30
const DAY_MS = 24 * 60 * 60 * 1_000
const MAX_ROWS = 500
/** The database takes no NUL. */
const NAME = /^[^\p{Cc}]{1,200}$/u
const Query = Type.Object({
  ...period,
  group_by: Type.Optional(oneOf(profitGroups)),
  split_by: Type.Optional(
    oneOf(
      profitGroups,
      field(
        `one of ${profitGroups.join(", ")}, and not 'group_by' again`,
        `salah satu dari ${profitGroups.join(", ")}, dan bukan 'group_by' lagi`,
      ),
    ),
  ),
})

export const profitController = ({ authenticate, audit, now, profit, under, mix, emails }: ProfitDeps) => {
  const operators = operatorBy(authenticate)
  const asked = (query: Static<typeof Query>, { timeZone }: Operator, limit: number): ProfitQuestion | Failure => {
    const range = periodOf(query, { timeZone, now: now(), longestDays: LONGEST_DAYS, days: DAYS })
    if (range instanceof Failure) return range
    const { group_by: groupBy = "day", split_by: splitBy } = query
    if (splitBy === groupBy) return refused("split_by", Query.properties.split_by.description ?? "another")
    return { from: range.from, to: range.to, timeZone, groupBy, splitBy, limit }
  }
  return new Elysia({ name: "operator/profit" })
    .get(
      ...operators(
        "/operator/profit",
        {
          tag: "Operator",
          role: "support",
          summary: {
            en: "Revenue, cost and margin by day, model, member or account, and each divided by another",
            id: "Pendapatan, biaya, dan margin per hari, model, anggota kumpulan, atau akun, masing-masing dapat dibagi lagi",
          },
          description: {
            en: "Of hours that began in the time; without one it is the last 30 days, at most 92. Costs are at the rates and the exchange rate that were in force when a call was opened.",
            id: "Dari jam yang mulai dalam waktu itu; tanpa waktu, 30 hari terakhir, paling lama 92. Biaya memakai tarif dan kurs yang berlaku saat panggilan dibuka.",
          },
          query: Type.Object({
            ...Query.properties,
            limit: Type.Optional(
              Type.Integer({
                minimum: 1,
                maximum: MAX_ROWS,
                default: MAX_ROWS,
                description: field(`an integer from 1 to ${MAX_ROWS}`, `bilangan bulat dari 1 sampai ${MAX_ROWS}`),
              }),
            ),
          }),
          answer: ProfitShape,
        },
        async ({ query: { limit = MAX_ROWS, ...query }, operator }) => {
          const question = asked(query, operator, limit)
          if (question instanceof Failure) return question
          const [sums, short] = await Promise.all([profit(question), under(question)])
          const known = await emails(accountsIn(question, sums.rows))
          return {
            data: sums.rows.map((row) => ({
              group: row.group,
              ...(question.splitBy !== undefined && { split: row.split ?? null }),
              email: known.get(accountOf(question, row) ?? "") ?? null,
              ...profitJson(row),
            })),
            truncated: sums.truncated,
            total: profitJson(sums.total),
            leaks: {
              usage_missing: leakJson(sums.leaks.usage_missing),
              failed: leakJson(sums.leaks.failed),
              retries: leakJson(sums.leaks.retries),
              rerouted: leakJson(sums.leaks.rerouted),
              searches: leakJson(sums.leaks.searches),
              voided: leakJson(sums.leaks.voided),
            },
            under: short.map(({ model, member, calls, shortMicro }) => ({
              model,
              member,
              calls,
              short_micro: Number(shortMicro),
            })),
            group_by: question.groupBy,
            split_by: question.splitBy ?? null,
            time_zone: question.timeZone,
            from: question.from.toISOString(),
            to: question.to.toISOString(),
          }
        },
      ),
    )
    .get(
      ...operators(
        "/operator/profit/export.csv",
        {
          tag: "Operator",
          role: "support",
          summary: { en: "The same as CSV, in rupiah", id: "Yang sama sebagai CSV, dalam rupiah" },
          query: Type.Object({ ...Query.properties, ...csvQuery }),
          media: "text/csv",
        },
        async ({ query: { lang, ...query }, operator }) => {
          const question = asked(query, operator, MAX_EXPORTED + 1)
          if (question instanceof Failure) return question
          await audit.exported(operator.act, { list: "profit", filters: query })
          const pages = pagesOf(question, profit)
          return await csvFile<FiledRow>({
            name: "loket-profit",
            columns: profitColumns(question),
            notation: lang,
            most: MAX_EXPORTED,
            cells: ({ row, email }) => profitCells(question, row, email),
            async read({ limit, after }) {
              const rows = await pages(limit, after === undefined)
              const known = await emails(accountsIn(question, rows))
              return rows.map((row) => ({ row, email: known.get(accountOf(question, row) ?? "") }))
            },
          })
        },
      ),
    )
    .get(
      ...operators(
        "/operator/models/:model/mix",
        {
          tag: "Operator",
          role: "support",
          summary: {
            en: "What a model's charged calls of the last 30 days were made of, and what they cost",
            id: "Susunan panggilan berbayar sebuah model dalam 30 hari terakhir, dan biayanya",
          },
          answer: MixShape,
        },
        async ({ params: { model } }) => {
          if (!NAME.test(model)) return new Failure("resource.not_found")
          const to = new Date(now() + DAY_MS)
          const sold = await mix(model, { from: new Date(now() - DAYS * DAY_MS), to })
          return {
            model,
            days: DAYS,
            calls: sold.calls,
            customers: sold.customers,
            ...tokensJson(sold.tokens),
            revenue_micro: microToJson(sold.revenueMicro),
            cost_micro: microToJson(sold.costMicro),
            unknown_cost: sold.unknown,
          }
        },
      ),
    )
}

interface FiledRow {
  readonly row: ProfitRow
  readonly email: string | undefined
}

/**
 * The next so many rows, with each call. Of many accounts the first ones are found at once, and to sum all takes seconds: so all are read
 * when more than the first ones are wanted, and once, because calls go on meanwhile and change the order.
 */
export function pagesOf(
  question: ProfitQuestion,
  profit: (question: ProfitQuestion) => Promise<Pick<ProfitSums, "rows" | "truncated">>,
) {
  const listed = new Set<string>()
  let rest: readonly ProfitRow[] | undefined
  let at = 0
  const first = async (limit: number) => {
    const { rows, truncated } = await profit({ ...question, limit })
    for (const row of rows) listed.add(nameOf(row))
    if (!truncated) rest = []
    return rows
  }
  const next = async (limit: number) => {
    rest ??= (await profit(question)).rows.filter((row) => !listed.has(nameOf(row)))
    const from = at
    at += limit
    return rest.slice(from, at)
  }
  return async (limit: number, isFirst: boolean): Promise<readonly ProfitRow[]> =>
    isFirst ? await first(limit) : await next(limit)
}

const nameOf = ({ group, split }: ProfitRow): string => JSON.stringify([group, split])

const accountsIn = (question: ProfitQuestion, rows: readonly ProfitRow[]): string[] => [
  ...new Set(rows.flatMap((row) => accountOf(question, row) ?? [])),
]
