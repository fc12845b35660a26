/** Profit in answers: the schemas, the columns of the CSV file, and how sums are written. */
import { Type } from "@sinclair/typebox"
import { microToJson, minus } from "../../../actors/money/micro.ts"
import type { Leak, ProfitGroup, ProfitQuestion, ProfitRow } from "../../store/operator/profit.ts"
import type { Profit } from "../../store/operator/profit-parts.ts"
import { type Cell, Rupiah } from "../dashboard/page.ts"
import { tokenCounts } from "../dashboard/usage-rows.ts"
import { described, field, flag, integer, micro as microShape, orNull, text, time } from "../shapes.ts"

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
export const ProfitShape = Type.Object({
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
export const MixShape = Type.Object({
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

export const profitJson = (sum: Profit) => ({
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

export const leakJson = ({ records, costMicro }: Leak) => ({ records, cost_micro: microToJson(costMicro) })

export function accountOf({ groupBy, splitBy }: ProfitQuestion, { group, split }: ProfitRow): string | undefined {
  if (groupBy === "account") return group
  return splitBy === "account" ? split : undefined
}

const FIGURES = "calls revenue_rp cost_rp margin_rp estimated_rp unknown_cost absorbed_rp under_cost under_cost_rp"

const heads = (group: ProfitGroup | undefined): string[] =>
  group === undefined ? [] : group === "account" ? ["account", "email"] : [group]

export const profitColumns = ({ groupBy, splitBy }: ProfitQuestion): string[] => [
  ...heads(groupBy),
  ...heads(splitBy),
  ...FIGURES.split(" "),
]

/** `email`: of the account that the row is of. */
export function profitCells({ groupBy, splitBy }: ProfitQuestion, row: ProfitRow, email: string | undefined): Cell[] {
  const named = (group: ProfitGroup | undefined, id = ""): string[] =>
    group === undefined ? [] : group === "account" ? [id, email ?? ""] : [id]
  return [
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
  ]
}
