/** The top-ups of all accounts. */
import { useState } from "react"
import { Link } from "wouter"
import { api, unwrap } from "../../api/client.ts"
import { Choice } from "../../components/form.tsx"
import { type Column, DataTable } from "../../components/data-table.tsx"
import { Card } from "../../components/layout.tsx"
import { Money } from "../../components/values.tsx"
import { useFormat, texts } from "../../i18n/language.tsx"
import { TopUpStatus } from "../wallet/top-up.tsx"
import { useAccountText } from "./account-text.ts"
import { at, CsvLink, OperatorPage, RoleButton, useList, useParameter } from "./frame.tsx"
import {
  isRefundable,
  RefundDialog,
  type RefundedAccount,
  type RefundedTopUp,
  useRefundsText,
} from "./refund-dialog.tsx"

interface TopUpFilter {
  readonly account_id?: string
  readonly status?: (typeof topUpStatuses)[number]
}

const topUpsPage = (filter: TopUpFilter, cursor: string | undefined) =>
  unwrap(api.operator["top-ups"].get({ query: { ...filter, ...at(cursor) } }))
type OwnedTopUp = Awaited<ReturnType<typeof topUpsPage>>["data"][number]

export default function TopUpsPage() {
  const text = useTopUpsText()
  const [asked, setStatus] = useParameter("status")
  const status = topUpStatuses.find((known) => known === asked)
  const { table } = useList(["top-ups", status], (cursor) => topUpsPage(status === undefined ? {} : { status }, cursor))
  const [name, ...rest] = useTopUpColumns()
  const account: Column<OwnedTopUp> = {
    id: "account",
    head: text.columns.account,
    cell: ({ account_id: id, email }) => <Link href={`/operator/accounts/${id}`}>{email}</Link>,
  }
  const columns: Column<OwnedTopUp>[] = name === undefined ? [] : [name, account, ...rest]
  return (
    <OperatorPage
      title={text.title}
      intro={text.intro}
      actions={<CsvLink path="/operator/top-ups" query={{ status: status ?? "" }} />}
    >
      <Choice
        label={text.status}
        values={["", ...topUpStatuses]}
        chosen={status ?? ""}
        nameOf={(value) => (value === "" ? text.any : text.statuses[value])}
        onChoose={setStatus}
      />
      <Card flush>
        <DataTable caption={text.title} columns={columns} {...table} rowKey={({ id }) => id} empty={text.none} />
      </Card>
    </OperatorPage>
  )
}

export const topUpStatuses = ["pending", "paid", "expired"] as const

/** The list of an account's top-ups. */
export const useAccountTopUps = (id: string) =>
  useList(["top-ups", "of", id], (cursor) => topUpsPage({ account_id: id }, cursor))

/** The top-ups of one account; what is left of each can go back. */
export function AccountTopUps({ account }: { readonly account: RefundedAccount }) {
  const text = useAccountText()
  const { refund } = useRefundsText()
  const { table } = useAccountTopUps(account.id)
  const [refunded, setRefunded] = useState<RefundedTopUp>()
  const back: Column<OwnedTopUp> = {
    id: "refund",
    head: "",
    cell: (topUp) =>
      isRefundable(topUp) && (
        <RoleButton role="finance" size="small" aria-label={`${refund} ${topUp.id}`} onClick={() => setRefunded(topUp)}>
          {refund}
        </RoleButton>
      ),
  }
  return (
    <Card
      title={text.topUps}
      flush
      action={<CsvLink path="/operator/top-ups" query={{ account_id: account.id }} size="small" />}
    >
      <DataTable
        caption={text.topUps}
        columns={[...useTopUpColumns(), back]}
        {...table}
        rowKey={({ id }) => id}
        empty={text.topUpsEmpty}
      />
      {refunded && <RefundDialog account={account} first={refunded} onClose={() => setRefunded(undefined)} />}
    </Card>
  )
}

/** The columns of a list of top-ups: of one account, and of all. */
function useTopUpColumns(): readonly Column<OwnedTopUp>[] {
  const { columns: heads, paidAt, refunded } = useTopUpsText()
  const format = useFormat()
  return [
    {
      id: "id",
      head: heads.id,
      names: true,
      cell: ({ id, provider, reference }) => (
        <span className="operator-name">
          <span>{provider}</span>
          <code>{id}</code>
          {reference !== null && reference !== id && <code>{reference}</code>}
        </span>
      ),
    },
    {
      id: "status",
      head: heads.status,
      cell: (topUp) => <TopUpStatus {...topUp} />,
    },
    {
      id: "time",
      head: heads.created,
      cell: ({ created_at: created, paid_at: paid }) => (
        <span className="operator-reference">
          <span>{format.dateTime(created)}</span>
          {paid !== null && <small>{paidAt(format.dateTime(paid))}</small>}
        </span>
      ),
    },
    {
      id: "credited",
      head: heads.credited,
      numeric: true,
      cell: ({ breakdown }) => <Money micro={breakdown.balance_purchased_micro} />,
    },
    {
      id: "paid",
      head: heads.paid,
      numeric: true,
      cell: ({ breakdown, refunded_micro: back }) => (
        <span className="operator-reference">
          <Money micro={breakdown.total_micro} />
          {back > 0 && <small>{refunded(format.rupiah(back))}</small>}
        </span>
      ),
    },
  ]
}

export const useTopUpsText = texts({
  id: {
    title: "Isi saldo",
    intro: "Isi saldo semua akun, yang terbaru lebih dulu. Pembayaran yang tidak cocok ada di Masalah pembayaran.",
    status: "Status",
    any: "Semua",
    statuses: { pending: "Menunggu", paid: "Lunas", expired: "Kedaluwarsa" },
    paidAt: (time: string) => `Dibayar ${time}`,
    refunded: (amount: string) => `${amount} dikembalikan`,
    none: "Tidak ada isi saldo seperti ini",
    columns: {
      id: "Isi saldo",
      account: "Akun",
      status: "Status",
      credited: "Saldo",
      paid: "Yang harus dibayar",
      created: "Dibuat",
    },
  },
  en: {
    title: "Top-ups",
    intro: "Top-ups of every account, the newest first. Payments that do not match are under Payment problems.",
    status: "Status",
    any: "All",
    statuses: { pending: "Pending", paid: "Paid", expired: "Expired" },
    paidAt: (time: string) => `Paid ${time}`,
    refunded: (amount: string) => `${amount} went back`,
    none: "No top-ups like this",
    columns: {
      id: "Top-up",
      account: "Account",
      status: "Status",
      credited: "Balance",
      paid: "To pay",
      created: "Created",
    },
  },
})
