/** `/operator/profit`: what calls brought and what they cost the house. Nothing of it is anybody else's to see. */
import { type Static, Type } from "@sinclair/typebox"
import { Elysia } from "elysia"
import { microToJson, microToRupiah, minus } from "../../../actors/money/micro.ts"
import { Failure } from "../../failure/failure.ts"
import {
  type Leak,
  type Mix,
  type Profit,
  type ProfitGroup,
  profitGroups,
  type ProfitQuestion,
  type ProfitRow,
  type ProfitSums,
  type Under,
} from "../../store/operator/profit.ts"
import type { ProfitPeriod } from "../../store/operator/profit-parts.ts"
import { csvLine } from "../csv.ts"
import { type Authenticate, type Operator, operatorBy } from "../dashboard/session.ts"
import { period, periodOf } from "../dashboard/usage-query.ts"
import { tokenCounts, tokensJson } from "../dashboard/usage-rows.ts"
import { refused } from "../route.ts"
import { described, flag, integer, micro as microShape, oneOf, orNull, text, time } from "../shapes.ts"
import { LONGEST_DAYS } from "./overview.ts"

export interface ProfitDeps {
  readonly authenticate: Authenticate
  readonly now: () => number
  readonly profit: (question: ProfitQuestion) => Promise<ProfitSums>
  readonly under: (period: ProfitPeriod) => Promise<readonly Under[]>
  readonly mix: (model: string, period: ProfitPeriod) => Promise<Mix>
  readonly emails: (ids: readonly string[]) => Promise<ReadonlyMap<string, string>>
}

/** How far back it goes, unless asked otherwise; and what a price is tried on. */
const DAYS = 30
const DAY_MS = 24 * 60 * 60 * 1_000
const MOST_ROWS = 500
/** The database takes no NUL. */
const NAME = /^[^\p{Cc}]{1,200}$/u
const MOST_EXPORTED = 50_000

const fields = {
  calls: integer,
  revenue_micro: described(microShape, "Charged to customers."),
  cost_micro: described(microShape, "Of what is known."),
  margin_micro: described(microShape, "Revenue less cost."),
  estimated_micro: described(microShape, "The part of the cost that was estimated."),
  unknown_cost: described(integer, "Records whose cost is not known."),
  absorbed_micro: described(microShape, "What calls came to over their charge."),
  under_cost: described(integer, "Calls whose price was under their cost."),
  under_cost_micro: described(microShape, "By how much, in all."),
}
const LeakShape = Type.Object({ records: integer, cost_micro: microShape })
const ProfitShape = Type.Object({
  data: Type.Array(
    Type.Object({
      group: described(text, "A day, or the id of a model, a member or an account."),
      split: Type.Optional(orNull(text, "Where `split_by` is asked for.")),
      email: orNull(text, "Of an account."),
      ...fields,
    }),
  ),
  truncated: described(flag, "There are more rows; the export has them."),
  total: Type.Object(fields),
  leaks: Type.Object({
    usage_missing: described(LeakShape, "Answers whose counts could not be read."),
    failed: described(LeakShape, "Calls that failed after their backend had begun to answer."),
    retries: described(LeakShape, "Tries that failed, of calls that went on."),
    rerouted: described(LeakShape, "Models that a call was rerouted from."),
    searches: described(LeakShape, "Searches of backends, which have no price."),
    voided: described(LeakShape, "Charges that were taken back."),
  }),
  under: Type.Array(Type.Object({ model: text, member: text, calls: integer, short_micro: microShape }), {
    description: "Where calls are sold under their cost, the worst first.",
  }),
  group_by: text,
  split_by: orNull(text),
  time_zone: text,
  from: time,
  to: time,
})
const Query = Type.Object({
  ...period,
  group_by: Type.Optional(oneOf(profitGroups)),
  split_by: Type.Optional(oneOf(profitGroups, `one of ${profitGroups.join(", ")}, and not 'group_by' again`)),
})
const MixShape = Type.Object({
  model: text,
  days: integer,
  calls: integer,
  customers: described(integer, "Accounts that made these calls: a coming price is shown to them."),
  ...tokenCounts,
  revenue_micro: microShape,
  cost_micro: described(microShape, "Of the calls whose cost is known."),
  unknown_cost: described(integer, "Of the calls, those whose cost is not known."),
})

export const profitController = ({ authenticate, now, profit, under, mix, emails }: ProfitDeps) => {
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
          summary: "Revenue, cost and margin by day, model, member or account, and each divided by another",
          description:
            "Of hours that began in the time; without one it is the last 30 days, at most 92. Costs are at the rates and the exchange rate that were in force when a call was opened.",
          query: Query,
          answer: ProfitShape,
        },
        async ({ query, operator }) => {
          const question = asked(query, operator, MOST_ROWS)
          if (question instanceof Failure) return question
          const [sums, short] = await Promise.all([profit(question), under(question)])
          const known = await emails(accountsIn(question, sums))
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
        { tag: "Operator", role: "support", summary: "The same as CSV, in rupiah", query: Query, media: "text/csv" },
        async ({ query, operator }) => {
          const question = asked(query, operator, MOST_EXPORTED)
          if (question instanceof Failure) return question
          const sums = await profit(question)
          return new Response(profitCsv(question, sums, await emails(accountsIn(question, sums))), {
            headers: {
              "content-type": "text/csv; charset=utf-8",
              "content-disposition": 'attachment; filename="loket-profit.csv"',
              "cache-control": "no-store",
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
          summary: "What a model's charged calls of the last 30 days were made of, and what they cost",
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

const profitJson = (sum: Profit) => ({
  calls: sum.calls,
  revenue_micro: microToJson(sum.revenueMicro),
  cost_micro: microToJson(sum.costMicro),
  margin_micro: microToJson(minus(sum.revenueMicro, sum.costMicro)),
  estimated_micro: microToJson(sum.estimatedMicro),
  unknown_cost: sum.unknown,
  absorbed_micro: microToJson(sum.absorbedMicro),
  under_cost: sum.under,
  under_cost_micro: microToJson(sum.underMicro),
})

const leakJson = ({ records, costMicro }: Leak) => ({ records, cost_micro: microToJson(costMicro) })

function accountOf({ groupBy, splitBy }: ProfitQuestion, { group, split }: ProfitRow): string | undefined {
  if (groupBy === "account") return group
  return splitBy === "account" ? split : undefined
}

const accountsIn = (question: ProfitQuestion, { rows }: ProfitSums): string[] => [
  ...new Set(rows.flatMap((row) => accountOf(question, row) ?? [])),
]

const FIGURES = "calls revenue_rp cost_rp margin_rp estimated_rp unknown_cost absorbed_rp under_cost under_cost_rp"

const heads = (group: ProfitGroup | undefined): string[] =>
  group === undefined ? [] : group === "account" ? ["account", "email"] : [group]

function profitCsv(question: ProfitQuestion, { rows }: ProfitSums, emails: ReadonlyMap<string, string>): string {
  const { groupBy, splitBy } = question
  const named = (group: ProfitGroup | undefined, id: string | undefined): (string | number)[] =>
    group === undefined ? [] : group === "account" ? [id ?? "", emails.get(id ?? "") ?? ""] : [id ?? ""]
  const lines: (string | number)[][] = [[...heads(groupBy), ...heads(splitBy), ...FIGURES.split(" ")]]
  for (const row of rows) {
    lines.push([
      ...named(groupBy, row.group),
      ...named(splitBy, row.split),
      row.calls,
      microToRupiah(row.revenueMicro),
      microToRupiah(row.costMicro),
      microToRupiah(minus(row.revenueMicro, row.costMicro)),
      microToRupiah(row.estimatedMicro),
      row.unknown,
      microToRupiah(row.absorbedMicro),
      row.under,
      microToRupiah(row.underMicro),
    ])
  }
  return lines.map(csvLine).join("")
}
