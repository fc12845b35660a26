/** The latest reconciliations and what they found, as the page of the books shows them; and that page's query and words. */
import { Link } from "wouter"
import { api, unwrap } from "../../api/client.ts"
import { DataTable } from "../../components/data-table.tsx"
import { EmptyState } from "../../components/feedback.tsx"
import { Card } from "../../components/layout.tsx"
import { Tag } from "../../components/values.tsx"
import { texts, useFormat } from "../../i18n/language.tsx"
import { at } from "./frame.tsx"

/** A page of flagged records. It has the sums and the reconciliations too. */
export const billingPage = (cursor: string | undefined) =>
  unwrap(api.operator["billing-health"].get({ query: at(cursor) }))
export type BillingHealth = Awaited<ReturnType<typeof billingPage>>
type Run = BillingHealth["reconciliation"]["runs"][number]
type Difference = BillingHealth["reconciliation"]["differences"][number]

/** The latest reconciliations. */
export function Runs({ runs }: { readonly runs: readonly Run[] }) {
  const text = useBillingText()
  const format = useFormat()
  const { runColumns: heads } = text
  const outcome = ({ ended_at: ended, differences, broken_off: isBrokenOff }: Run) => {
    if (isBrokenOff) return <Tag tone="warn">{text.brokenOff}</Tag>
    if (ended === null) return <Tag>{text.running}</Tag>
    if (differences === null || differences === 0) return <Tag tone="good">{text.clean}</Tag>
    return <Tag tone="bad">{text.differing(format.number(differences))}</Tag>
  }
  return (
    <Card title={text.runs} flush>
      <DataTable
        caption={text.runs}
        rows={runs}
        rowKey={({ id }) => String(id)}
        empty={<EmptyState title={text.noRuns}>{text.noRunsHint}</EmptyState>}
        columns={[
          { id: "started", head: heads.started, names: true, cell: (run) => format.dateTime(run.started_at) },
          { id: "outcome", head: heads.outcome, cell: outcome },
          {
            id: "took",
            head: heads.took,
            numeric: true,
            cell: ({ started_at: from, ended_at: to }) =>
              to === null ? "–" : format.duration(Date.parse(to) - Date.parse(from)),
          },
          {
            id: "not-compared",
            head: heads.notCompared,
            numeric: true,
            cell: ({ not_compared: count }) => (count === null ? "–" : format.number(count)),
          },
        ]}
      />
    </Card>
  )
}

export function Differences({ differences }: { readonly differences: readonly Difference[] }) {
  const text = useBillingText()
  const { differenceColumns: heads } = text
  return (
    <Card title={text.differences} flush>
      <DataTable
        caption={text.differences}
        rows={differences}
        rowKey={({ id }) => String(id)}
        empty={text.noDifferences}
        columns={[
          { id: "claim", head: heads.claim, names: true, cell: ({ claim }) => claim },
          {
            id: "state",
            head: heads.state,
            cell: ({ mended }) => (mended ? <Tag tone="good">{text.mended}</Tag> : <Tag tone="bad">{text.open}</Tag>),
          },
          {
            id: "account",
            head: heads.account,
            cell: ({ account_id: id }) =>
              id === null ? (
                text.house
              ) : (
                <Link href={`/operator/accounts/${id}`}>
                  <code>{id}</code>
                </Link>
              ),
          },
          {
            id: "figures",
            head: heads.figures,
            cell: ({ figures }) => <code className="operator-figures">{figuresText(figures)}</code>,
          },
        ]}
      />
    </Card>
  )
}

/** The reconciliation's own names and exact numbers. */
const figuresText = (figures: unknown): string =>
  typeof figures === "object" && figures !== null
    ? Object.entries(figures)
        .map(([name, value]) => `${name}: ${String(value)}`)
        .join(", ")
    : String(figures)

export const useBillingText = texts({
  id: {
    title: "Pembukuan",
    intro: "Catatan yang perlu dilihat, dan apa yang ditemukan pencocokan buku. Jumlahnya mencakup seluruh waktu.",
    kinds: {
      usage_missing: "Tanpa hitungan",
      billing_error: "Gagal dibukukan",
      fenced: "Terlambat datang",
      excess: "Hitungan berlebih",
    },
    notes: {
      usage_missing: "Backend tidak memberi jumlah token yang masuk akal; pelanggan tidak ditagih",
      billing_error: "Buku besar tidak dapat menulis pada waktunya; pelanggan tidak ditagih",
      fenced: (amount: string) => `Tagihan yang datang setelah prosesnya ditutup; ${amount} ditanggung sendiri`,
      excess: (amount: string) =>
        `Backend menghitung lebih dari batas yang diteruskan; kelebihannya tidak ditagih, ${amount} ditanggung sendiri`,
    },
    absorbed: "Ditanggung sendiri",
    absorbedNote: "Biaya panggilan yang melebihi dana tertahan atau batasnya",
    byAccount: "Ditanggung per akun",
    byAccountHint:
      "Akun yang panggilannya lebih mahal daripada yang tertagih. Membekukan akun menghentikan kuncinya seketika.",
    within: "Dalam",
    days: { "1": "24 jam", "7": "7 hari", "30": "30 hari", "90": "90 hari" },
    noneAbsorbed: "Tidak ada yang ditanggung",
    noneAbsorbedHint: "Semua panggilan pada masa ini tertagih penuh.",
    absorbedColumns: {
      account: "Akun",
      absorbed: "Ditanggung",
      calls: "Panggilan",
      newest: "Terakhir",
      requests: "Panggilan terbaru",
      act: "Tindakan",
    },
    absorbedSum: (amount: string) => `Seluruhnya ${amount} pada masa ini.`,
    absorbedOthers: (amount: string) => `${amount} dari akun lain.`,
    freeze: "Bekukan",
    unfreeze: "Buka kembali",
    flagged: "Catatan yang ditandai",
    noFlagged: "Tidak ada catatan yang ditandai",
    noFlaggedHint: "Setiap panggilan dihitung dan dibukukan.",
    columns: {
      request: "Permintaan",
      kind: "Masalah",
      model: "Model",
      account: "Akun",
      absorbed: "Ditanggung",
      time: "Waktu",
    },
    runs: "Pencocokan buku",
    noRuns: "Belum ada pencocokan",
    noRunsHint: "Berjalan sekali sehari; `bun run reconcile` menjalankannya sekarang.",
    runColumns: { started: "Dimulai", took: "Lama", outcome: "Hasil", notCompared: "Tidak dibandingkan" },
    running: "Sedang berjalan",
    brokenOff: "Terputus",
    clean: "Cocok",
    differing: (count: string) => `Selisih: ${count}`,
    differences: "Selisih terbaru",
    noDifferences: "Tidak ada selisih",
    differenceColumns: { claim: "Yang seharusnya berlaku", account: "Akun", figures: "Angka", state: "Status" },
    mended: "Diperbaiki",
    open: "Perlu dilihat",
    house: "seluruh buku",
  },
  en: {
    title: "Billing health",
    intro: "Records that want a look, and what reconciliations found. The totals are of all time.",
    kinds: {
      usage_missing: "Not counted",
      billing_error: "Not booked",
      fenced: "Came too late",
      excess: "Counted too much",
    },
    notes: {
      usage_missing: "The backend gave no token counts that make sense; nothing was charged",
      billing_error: "The ledger could not write in time; nothing was charged",
      fenced: (amount: string) => `Charges that came after their process was closed; the house bore ${amount}`,
      excess: (amount: string) =>
        `The backend counted more than the limits that were forwarded; the rest was not charged, the house bore ${amount}`,
    },
    absorbed: "Absorbed",
    absorbedNote: "What calls cost beyond what was held, or beyond their limits",
    byAccount: "Absorbed by account",
    byAccountHint: "Accounts whose calls cost more than they were charged. Freezing one stops its keys at once.",
    within: "Within",
    days: { "1": "24 hours", "7": "7 days", "30": "30 days", "90": "90 days" },
    noneAbsorbed: "Nothing absorbed",
    noneAbsorbedHint: "Every call of this time was charged in full.",
    absorbedColumns: {
      account: "Account",
      absorbed: "Absorbed",
      calls: "Calls",
      newest: "Latest",
      requests: "Latest calls",
      act: "Action",
    },
    absorbedSum: (amount: string) => `${amount} in all in this time.`,
    absorbedOthers: (amount: string) => `${amount} of it by other accounts.`,
    freeze: "Freeze",
    unfreeze: "Unfreeze",
    flagged: "Flagged records",
    noFlagged: "No flagged records",
    noFlaggedHint: "Every call was counted and booked.",
    columns: {
      request: "Request",
      kind: "Problem",
      model: "Model",
      account: "Account",
      absorbed: "Absorbed",
      time: "Time",
    },
    runs: "Reconciliations",
    noRuns: "No reconciliation yet",
    noRunsHint: "One runs each day; `bun run reconcile` runs one now.",
    runColumns: { started: "Started", took: "Took", outcome: "Outcome", notCompared: "Not compared" },
    running: "Running",
    brokenOff: "Broken off",
    clean: "Books agree",
    differing: (count: string) => `Differs: ${count}`,
    differences: "Latest differences",
    noDifferences: "No differences",
    differenceColumns: { claim: "What should hold", account: "Account", figures: "Figures", state: "State" },
    mended: "Mended",
    open: "Wants a look",
    house: "the books as a whole",
  },
})
