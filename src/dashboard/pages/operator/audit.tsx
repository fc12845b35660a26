/** The audit log of operators' changes: who, when, from where, before and after, and why. */
import { ScrollText } from "lucide-react"
import { useState } from "react"
import { api, unwrap } from "../../api/client.ts"
import { type Column, DataTable } from "../../components/data-table.tsx"
import { Drawer } from "../../components/dialog.tsx"
import { EmptyState } from "../../components/feedback.tsx"
import { Card, Facts } from "../../components/layout.tsx"
import { useFormat, texts } from "../../i18n/language.tsx"
import { Changes } from "./changes.tsx"
import { at, CsvLink, OperatorPage, SearchForm, useList, useParameter } from "./frame.tsx"

const auditPage = (subject: string, cursor: string | undefined) =>
  unwrap(api.operator.audit.get({ query: { ...(subject !== "" && { subject }), ...at(cursor) } }))
type Entry = Awaited<ReturnType<typeof auditPage>>["data"][number]

export default function AuditPage() {
  const text = useAuditText()
  const [subject, setSubject] = useParameter("subject")
  const [opened, setOpened] = useState<Entry>()
  const { table } = useList(["audit", subject], (cursor) => auditPage(subject, cursor))
  return (
    <OperatorPage
      title={text.title}
      intro={text.intro}
      actions={<CsvLink path="/operator/audit" query={{ subject }} />}
    >
      <SearchForm label={text.subject} hint={text.subjectHint} value={subject} onSearch={setSubject} />
      <Card flush>
        <DataTable
          caption={text.title}
          columns={useColumns()}
          {...table}
          rowKey={({ id }) => String(id)}
          onOpen={setOpened}
          empty={<EmptyState icon={<ScrollText />} title={subject === "" ? text.none : text.noneOf} />}
        />
      </Card>
      {opened !== undefined && <EntryDrawer entry={opened} onClose={() => setOpened(undefined)} />}
    </OperatorPage>
  )
}

function useActionName(): (action: string) => string {
  const { actions } = useAuditText()
  return (action) => Object.entries(actions).find(([known]) => known === action)?.[1] ?? action
}

/** Without an operator it was the command line, or Loket itself, whose reconciliation found that books do not agree. */
const useWho = () => {
  const text = useAuditText()
  return ({ operator, request_id: request }: Entry) =>
    operator?.email ?? (request.startsWith("reconciliation_") ? text.reconciliation : text.machine)
}

function useColumns(): readonly Column<Entry>[] {
  const text = useAuditText()
  const format = useFormat()
  const nameOf = useActionName()
  const who = useWho()
  const { columns: heads } = text
  return [
    { id: "action", head: heads.action, names: true, cell: ({ action }) => nameOf(action) },
    { id: "subject", head: heads.subject, cell: ({ subject }) => <code className="operator-long">{subject}</code> },
    {
      id: "operator",
      head: heads.operator,
      cell: (entry) => <span className="operator-long">{who(entry)}</span>,
    },
    {
      id: "reason",
      head: heads.reason,
      cell: ({ reason }) => <span className="operator-long">{reason ?? text.unknown}</span>,
    },
    { id: "time", head: heads.time, cell: ({ at: time }) => format.moment(time) },
  ]
}

interface EntryDrawerProps {
  readonly entry: Entry
  readonly onClose: () => void
}

function EntryDrawer({ entry, onClose }: EntryDrawerProps) {
  const text = useAuditText()
  const format = useFormat()
  const nameOf = useActionName()
  const who = useWho()
  const { columns: heads } = text
  return (
    <Drawer title={nameOf(entry.action)} onClose={onClose}>
      <Changes before={entry.before} after={entry.after} />
      <Facts
        title={text.details}
        facts={[
          { name: heads.subject, value: <code>{entry.subject}</code> },
          { name: heads.operator, value: who(entry) },
          { name: heads.reason, value: entry.reason ?? text.unknown },
          { name: heads.time, value: format.moment(entry.at) },
          { name: text.address, value: entry.address ?? text.unknown },
          { name: text.request, value: <code>{entry.request_id}</code> },
        ]}
      />
    </Drawer>
  )
}

export const useAuditText = texts({
  id: {
    title: "Log audit",
    intro:
      "Semua yang diubah operator, yang terbaru lebih dulu. Barisnya ditulis bersama perubahannya dan tidak dapat diubah.",
    subject: "Saring menurut yang diubah",
    subjectHint: "ID akun, model, atau masalah pembayaran, selengkapnya.",
    none: "Belum ada yang diubah",
    noneOf: "Belum ada perubahan atas ID ini",
    columns: { action: "Tindakan", subject: "Yang diubah", operator: "Oleh", reason: "Alasan", time: "Waktu" },
    details: "Rincian",
    address: "Alamat",
    request: "ID permintaan",
    machine: "baris perintah",
    reconciliation: "Loket, saat mencocokkan buku",
    unknown: "–",
    actions: {
      "account.adjusted": "Saldo disesuaikan",
      "account.frozen": "Akun dibekukan",
      "account.refunded": "Dana dikembalikan",
      "account.password_link": "Tautan kata sandi dibuat",
      "account.second_factor_reset": "Faktor kedua dihapus",
      "refund.paid_out": "Transfer pengembalian dana dicatat",
      "refund.sending": "Pengembalian dana dikirim lewat penyedia",
      "refund.cancelled": "Pengembalian dana dibatalkan",
      "exchange_rate.set": "Kurs diatur",
      "key.revoked": "Kunci dicabut",
      "account.unfrozen": "Akun dibuka kembali",
      "account.role": "Peran diubah",
      "account.see_as": "Dilihat sebagai pelanggan",
      "account.see_as_ended": "Selesai dilihat sebagai pelanggan",
      "list.exported": "Daftar diunduh sebagai CSV",
      "model.changed": "Model diubah",
      "model.price_scheduled": "Harga dijadwalkan",
      "model.price_deleted": "Harga dihapus",
      "model.retired": "Model ditarik",
      "model.restored": "Model dijual kembali",
      "payment_problem.resolved": "Masalah pembayaran selesai",
      "status_note.posted": "Catatan status ditulis",
      "status_note.changed": "Catatan status diubah",
      "status_note.resolved": "Catatan status diselesaikan",
      "catalogue.overwritten": "Katalog ditimpa",
      "member.changed": "Anggota kumpulan diubah",
      "member.retried": "Anggota kumpulan dicoba lagi",
    },
  },
  en: {
    title: "Audit log",
    intro:
      "All that operators changed, the newest first. A row is written together with its change, and cannot be changed.",
    subject: "Filter by what was changed",
    subjectHint: "The whole ID of an account, a model or a payment problem.",
    none: "Nothing has been changed yet",
    noneOf: "Nothing of this ID has been changed",
    columns: { action: "Action", subject: "Subject", operator: "By", reason: "Reason", time: "Time" },
    details: "Details",
    address: "Address",
    request: "Request ID",
    machine: "command line",
    reconciliation: "Loket, comparing the books",
    unknown: "–",
    actions: {
      "account.adjusted": "Balance adjusted",
      "account.frozen": "Account frozen",
      "account.refunded": "Refund made",
      "account.password_link": "Password link made",
      "account.second_factor_reset": "Second factor removed",
      "refund.paid_out": "Transfer of a refund recorded",
      "refund.sending": "Refund sent by the provider",
      "refund.cancelled": "Refund cancelled",
      "exchange_rate.set": "Exchange rate set",
      "key.revoked": "Key revoked",
      "account.unfrozen": "Account unfrozen",
      "account.role": "Role changed",
      "account.see_as": "Seen as the customer",
      "account.see_as_ended": "No longer seen as the customer",
      "list.exported": "List downloaded as CSV",
      "model.changed": "Model changed",
      "model.price_scheduled": "Price scheduled",
      "model.price_deleted": "Price deleted",
      "model.retired": "Model retired",
      "model.restored": "Model restored",
      "payment_problem.resolved": "Payment problem resolved",
      "status_note.posted": "Status note posted",
      "status_note.changed": "Status note changed",
      "status_note.resolved": "Status note resolved",
      "catalogue.overwritten": "Catalogue overwritten",
      "member.changed": "Pool member changed",
      "member.retried": "Pool member tried again",
    },
  },
})
