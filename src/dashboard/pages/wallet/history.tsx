/** The account's top-ups, the newest first; each opens with its details. */
import { useQuery } from "@tanstack/react-query"
import { ReceiptText } from "lucide-react"
import { useLocation } from "wouter"
import { Card } from "../../components/card.tsx"
import { type Column, DataTable } from "../../components/data-table.tsx"
import { EmptyState } from "../../components/empty-state.tsx"
import { Money } from "../../components/money.tsx"
import { useFormat } from "../../i18n/format.ts"
import { type ListedTopUp, topUpsQuery } from "./data.ts"
import { TopUpStatus, useMethodName } from "./status.tsx"
import { useWalletText } from "./text.ts"

export function History() {
  const text = useWalletText()
  const format = useFormat()
  const methodName = useMethodName()
  const [, navigate] = useLocation()
  const topUps = useQuery(topUpsQuery)
  const { columns: heads } = text
  const columns: Column<ListedTopUp>[] = [
    { id: "time", head: heads.time, names: true, cell: (topUp) => format.dateTime(topUp.created_at) },
    { id: "status", head: heads.status, cell: ({ status }) => <TopUpStatus status={status} /> },
    { id: "method", head: heads.method, wide: true, cell: ({ provider }) => methodName(provider) },
    {
      id: "total",
      head: heads.total,
      numeric: true,
      cell: ({ status, breakdown }) => (status === "paid" ? <Money micro={breakdown.total_micro} /> : "–"),
    },
    {
      id: "amount",
      head: heads.amount,
      numeric: true,
      cell: ({ breakdown }) => <Money micro={breakdown.balance_purchased_micro} />,
    },
  ]
  return (
    <Card title={text.history} flush>
      <DataTable
        caption={text.history}
        columns={columns}
        rows={topUps.data}
        rowKey={({ id }) => id}
        error={topUps.error}
        retry={topUps.refetch}
        onOpen={({ id }) => navigate(`/wallet/${id}`)}
        empty={
          <EmptyState icon={<ReceiptText />} title={text.none}>
            {text.noneHint}
          </EmptyState>
        }
      />
    </Card>
  )
}
