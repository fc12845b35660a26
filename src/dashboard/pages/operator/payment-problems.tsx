/** Payments that arrived and could not be credited, until an operator resolves them. */
import { CircleCheck } from "lucide-react"
import { useState } from "react"
import { Link } from "wouter"
import { api, unwrap } from "../../api/client.ts"
import { type Column, DataTable } from "../../components/data-table.tsx"
import { EmptyState } from "../../components/feedback.tsx"
import { Card, Facts } from "../../components/layout.tsx"
import { Switch } from "../../components/form.tsx"
import { Tag } from "../../components/values.tsx"
import { useFormat, texts } from "../../i18n/language.tsx"
import { ActDialog } from "./act-dialog.tsx"
import { at, OperatorPage, RoleButton, useList, useParameter } from "./frame.tsx"

const problemsPage = (resolved: boolean, cursor: string | undefined) =>
  unwrap(api.operator["payment-problems"].get({ query: { resolved, ...at(cursor) } }))
type Problem = Awaited<ReturnType<typeof problemsPage>>["data"][number]

export default function PaymentProblemsPage() {
  const text = useProblemsText()
  const [asked, setResolved] = useParameter("resolved")
  const [resolving, setResolving] = useState<Problem>()
  const resolved = asked === "true"
  const { table } = useList(["payment-problems", resolved], (cursor) => problemsPage(resolved, cursor))
  return (
    <OperatorPage title={text.title} intro={text.intro}>
      <Switch label={text.all} checked={resolved} onChange={(checked) => setResolved(checked ? "true" : "")} />
      <Card flush>
        <DataTable
          caption={text.title}
          columns={useColumns(setResolving)}
          {...table}
          rowKey={({ id }) => String(id)}
          empty={
            <EmptyState icon={<CircleCheck />} title={text.none}>
              {text.noneHint}
            </EmptyState>
          }
        />
      </Card>
      {resolving !== undefined && <ResolveDialog problem={resolving} onClose={() => setResolving(undefined)} />}
    </OperatorPage>
  )
}

function useColumns(onResolve: (problem: Problem) => void): readonly Column<Problem>[] {
  const text = useProblemsText()
  const format = useFormat()
  const { columns: heads } = text
  return [
    {
      id: "reference",
      head: heads.reference,
      names: true,
      cell: ({ provider, reference }) => (
        <span className="operator-name">
          <span>{provider}</span>
          <code>{reference}</code>
        </span>
      ),
    },
    { id: "kind", head: heads.kind, cell: ({ kind }) => <Tag tone="warn">{text.kinds[kind]}</Tag> },
    { id: "paid", head: heads.paid, cell: ({ paid }) => paid },
    {
      id: "account",
      head: heads.account,
      cell: ({ account_id: account, top_up_id: topUp }) =>
        account === null ? (
          text.nobody
        ) : (
          <span className="operator-reference">
            <Link href={`/operator/accounts/${account}`}>{text.toAccount}</Link>
            <code>{topUp}</code>
          </span>
        ),
    },
    { id: "seen", head: heads.seen, cell: ({ last_seen_at: seen }) => format.dateTime(seen) },
    {
      id: "resolution",
      head: heads.resolution,
      cell: (problem) =>
        problem.resolved_at === null ? (
          <RoleButton role="finance" size="small" onClick={() => onResolve(problem)}>
            {text.resolve}
          </RoleButton>
        ) : (
          <span className="operator-reference">
            <span>{problem.note}</span>
            <span>{text.resolved(format.dateTime(problem.resolved_at))}</span>
          </span>
        ),
    },
  ]
}

interface ResolveDialogProps {
  readonly problem: Problem
  readonly onClose: () => void
}

function ResolveDialog({ problem, onClose }: ResolveDialogProps) {
  const text = useProblemsText()
  const format = useFormat()
  return (
    <ActDialog
      title={text.resolveTitle(problem.reference)}
      act={text.resolveAct}
      done={text.resolveDone}
      reason={text.note}
      run={(note) => unwrap(api.operator["payment-problems"]({ id: problem.id }).resolve.post({ note }))}
      // The first note stays. Two who resolve one may both have credited it.
      before={({ note }, written) => (note === written ? undefined : text.resolvedBefore(note ?? ""))}
      onClose={onClose}
    >
      <Facts
        facts={[
          { name: text.columns.kind, value: text.kinds[problem.kind] },
          { name: text.columns.paid, value: problem.paid },
          { name: text.topUp, value: problem.top_up_id ?? "–" },
          { name: text.columns.seen, value: format.dateTime(problem.last_seen_at) },
        ]}
      />
      <p>{text.resolveText}</p>
    </ActDialog>
  )
}

export const useProblemsText = texts({
  id: {
    title: "Masalah pembayaran",
    intro:
      "Pembayaran yang masuk tetapi tidak dapat dikreditkan, yang ditarik kembali oleh bank pembayar, dan yang dikreditkan ke akun yang sudah ditutup. Tidak ada uang lain yang bergerak sampai Anda menanganinya, misalnya dengan penyesuaian saldo.",
    all: "Tampilkan juga yang sudah selesai",
    none: "Tidak ada masalah pembayaran",
    noneHint: "Semua pembayaran yang masuk sudah dikreditkan.",
    kinds: {
      unknown_order: "Pesanan tak dikenal",
      wrong_amount: "Jumlah salah",
      mismatch: "Tidak cocok dengan penyedia",
      chargeback: "Ditarik kembali oleh bank pembayar",
      over_refunded: "Kembali lebih dari yang dibayar",
      closed_account: "Dibayar setelah akun ditutup",
    },
    columns: {
      reference: "Rujukan",
      kind: "Masalah",
      paid: "Menurut penyedia",
      account: "Milik",
      seen: "Terakhir diberitahukan",
      resolution: "Penyelesaian",
    },
    topUp: "Isi saldo",
    toAccount: "Buka akun",
    nobody: "tidak diketahui",
    resolve: "Selesaikan",
    resolveTitle: (reference: string) => `Selesaikan ${reference}?`,
    resolveText:
      "Masalah ini dikeluarkan dari daftar dan catatan Anda tersimpan di log audit. Ini tidak mengkreditkan apa pun: sesuaikan saldo akunnya lebih dulu jika perlu.",
    note: "Apa yang sudah dilakukan",
    resolveAct: "Tandai selesai",
    resolveDone: "Masalah ditandai selesai.",
    resolvedBefore: (note: string) =>
      `Sudah diselesaikan operator lain: “${note}”. Catatan Anda tidak disimpan. Periksa buku besar akunnya: jangan sampai dikreditkan dua kali.`,
    resolved: (time: string) => `Selesai ${time}`,
  },
  en: {
    title: "Payment problems",
    intro:
      "Payments that came and could not be credited, those that a payer's bank took back, and those that were credited to a closed account. No other money moves until you see to it, such as by adjusting a balance or a refund.",
    all: "Show resolved ones too",
    none: "No payment problems",
    noneHint: "Every payment that came has been credited.",
    kinds: {
      unknown_order: "Unknown order",
      wrong_amount: "Wrong amount",
      mismatch: "Not as the provider has it",
      chargeback: "Taken back by the payer's bank",
      over_refunded: "More went back than was paid",
      closed_account: "Paid after the account was closed",
    },
    columns: {
      reference: "Reference",
      kind: "Problem",
      paid: "As the provider says",
      account: "Whose",
      seen: "Last told",
      resolution: "Resolution",
    },
    topUp: "Top-up",
    toAccount: "Open account",
    nobody: "not known",
    resolve: "Resolve",
    resolveTitle: (reference: string) => `Resolve ${reference}?`,
    resolveText:
      "The problem leaves the list, and your note is kept in the audit log. This credits nothing: adjust the account's balance first where it is due.",
    note: "What was done",
    resolveAct: "Mark as resolved",
    resolveDone: "The problem is resolved.",
    resolvedBefore: (note: string) =>
      `Another operator had resolved it: “${note}”. Your note is not kept. Look at the account's ledger: it may have been credited twice.`,
    resolved: (time: string) => `Resolved ${time}`,
  },
})
