/** `/operator/profit`: what calls brought and what they cost the house. Nothing of it is anybody else's to see. */
import { type Static, Type } from "@sinclair/typebox"
import { Elysia } from "elysia"
import { microToJson, minus } from "../../../actors/money/micro.ts"
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
import type { AuditStore } from "../../store/operator/audit.ts"
import type { ProfitPeriod } from "../../store/operator/profit-parts.ts"
import { type Cell, csvAnswer, csvQuery, Rupiah } from "../csv.ts"
import { type Authenticate, type Operator, operatorBy } from "../dashboard/session.ts"
import { period, periodOf } from "../dashboard/usage-query.ts"
import { tokenCounts, tokensJson } from "../dashboard/usage-rows.ts"
import { refused } from "../route.ts"
import { described, field, flag, integer, micro as microShape, oneOf, orNull, text, time } from "../shapes.ts"
import { LONGEST_DAYS } from "./overview.ts"

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
const MOST_ROWS = 500
/** The database takes no NUL. */
const NAME = /^[^\p{Cc}]{1,200}$/u
const MOST_EXPORTED = 50_000

const fields = {
  calls: integer,
  revenue_micro: described(microShape, field("Charged to customers.", "Ditagihkan kepada pelanggan.")),
  cost_micro: described(microShape, field("Of what is known.", "Dari yang diketahui.")),
  margin_micro: described(microShape, field("Revenue less cost.", "Pendapatan dikurangi biaya.")),
  estimated_micro: described(
    microShape,
    field("The part of the cost that was estimated.", "Bagian biaya yang merupakan perkiraan."),
  ),
  unknown_cost: described(integer, field("Records whose cost is not known.", "Catatan yang biayanya tidak diketahui.")),
  absorbed_micro: described(
    microShape,
    field("What calls came to over their charge.", "Nilai panggilan di atas yang ditagih."),
  ),
  under_cost: described(
    integer,
    field("Calls whose price was under their cost.", "Panggilan dengan harga di bawah biayanya."),
  ),
  under_cost_micro: described(microShape, field("By how much, in all.", "Jumlah selisihnya.")),
}
const LeakShape = Type.Object({ records: integer, cost_micro: microShape })
const ProfitShape = Type.Object({
  data: Type.Array(
    Type.Object({
      group: described(
        text,
        field(
          "A day, or the id of a model, a member or an account.",
          "Hari, atau id model, anggota kumpulan, atau akun.",
        ),
      ),
      split: Type.Optional(orNull(text, field("Where `split_by` is asked for.", "Jika `split_by` diminta."))),
      email: orNull(text, field("Of an account.", "Untuk akun.")),
      ...fields,
    }),
  ),
  truncated: described(
    flag,
    field("There are more rows; the export has them.", "Masih ada baris lain; ekspor memuatnya."),
  ),
  total: Type.Object(fields),
  leaks: Type.Object({
    usage_missing: described(
      LeakShape,
      field("Answers whose counts could not be read.", "Jawaban yang jumlah tokennya tidak terbaca."),
    ),
    failed: described(
      LeakShape,
      field(
        "Calls that failed after their backend had begun to answer.",
        "Panggilan yang gagal setelah backend mulai menjawab.",
      ),
    ),
    retries: described(
      LeakShape,
      field(
        "Tries that failed, of calls that went on.",
        "Percobaan yang gagal, dari panggilan yang kemudian dilanjutkan.",
      ),
    ),
    rerouted: described(
      LeakShape,
      field("Models that a call was rerouted from.", "Model asal panggilan yang dialihkan."),
    ),
    searches: described(
      LeakShape,
      field("Searches of backends, which have no price.", "Pencarian oleh backend, yang tidak punya harga jual."),
    ),
    voided: described(LeakShape, field("Charges that were taken back.", "Tagihan yang ditarik kembali.")),
  }),
  under: Type.Array(Type.Object({ model: text, member: text, calls: integer, short_micro: microShape }), {
    description: field(
      "Where calls are sold under their cost, the worst first.",
      "Di mana panggilan dijual di bawah biayanya, yang terburuk dulu.",
    ),
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
const MixShape = Type.Object({
  model: text,
  days: integer,
  calls: integer,
  customers: described(
    integer,
    field(
      "Accounts that made these calls: a coming price is shown to them.",
      "Akun yang membuat panggilan ini: harga yang akan datang ditampilkan kepada mereka.",
    ),
  ),
  ...tokenCounts,
  revenue_micro: microShape,
  cost_micro: described(
    microShape,
    field("Of the calls whose cost is known.", "Dari panggilan yang biayanya diketahui."),
  ),
  unknown_cost: described(
    integer,
    field("Of the calls, those whose cost is not known.", "Panggilan di antaranya yang biayanya tidak diketahui."),
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
        {
          tag: "Operator",
          role: "support",
          summary: { en: "The same as CSV, in rupiah", id: "Yang sama sebagai CSV, dalam rupiah" },
          query: Type.Object({ ...Query.properties, ...csvQuery }),
          media: "text/csv",
        },
        async ({ query: { lang, ...query }, operator }) => {
          const question = asked(query, operator, MOST_EXPORTED)
          if (question instanceof Failure) return question
          await audit.exported(operator.act, { list: "profit", filters: query })
          const sums = await profit(question)
          const rows = profitRows(question, sums, await emails(accountsIn(question, sums)))
          return csvAnswer({ name: "loket-profit", rows, notation: lang })
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

function profitRows(question: ProfitQuestion, { rows }: ProfitSums, emails: ReadonlyMap<string, string>): Cell[][] {
  const { groupBy, splitBy } = question
  const named = (group: ProfitGroup | undefined, id: string | undefined): (string | number)[] =>
    group === undefined ? [] : group === "account" ? [id ?? "", emails.get(id ?? "") ?? ""] : [id ?? ""]
  const lines: Cell[][] = [[...heads(groupBy), ...heads(splitBy), ...FIGURES.split(" ")]]
  for (const row of rows) {
    lines.push([
      ...named(groupBy, row.group),
      ...named(splitBy, row.split),
      row.calls,
      new Rupiah(row.revenueMicro),
      new Rupiah(row.costMicro),
      new Rupiah(minus(row.revenueMicro, row.costMicro)),
      new Rupiah(row.estimatedMicro),
      row.unknown,
      new Rupiah(row.absorbedMicro),
      row.under,
      new Rupiah(row.underMicro),
    ])
  }
  return lines
}
