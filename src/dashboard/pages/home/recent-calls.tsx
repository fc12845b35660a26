/** The last few calls; new ones come in by themselves. */
import { useQuery } from "@tanstack/react-query"
import { Zap } from "lucide-react"
import { Link } from "wouter"
import { Card } from "../../components/card.tsx"
import { type Column, DataTable } from "../../components/data-table.tsx"
import { Money } from "../../components/money.tsx"
import { EmptyState } from "../../components/empty-state.tsx"
import { StatusTag } from "../../components/status-tag.tsx"
import { useFormat } from "../../i18n/format.ts"
import { type Call, recentCallsQuery } from "./data.ts"
import { useHomeText } from "./text.ts"

export function RecentCalls() {
  const text = useHomeText()
  const format = useFormat()
  const calls = useQuery(recentCallsQuery)
  const columns: Column<Call>[] = [
    { id: "model", head: text.columns.model, names: true, cell: ({ model }) => <code>{model}</code> },
    { id: "time", head: text.columns.time, cell: (call) => format.dateTime(call.created_at) },
    { id: "status", head: text.columns.status, cell: ({ status }) => <StatusTag status={status} /> },
    {
      id: "tokens",
      head: text.columns.tokens,
      numeric: true,
      cell: (call) =>
        text.tokens(
          format.compact(call.input_tokens + call.cache_read_tokens + call.cache_write_tokens),
          format.compact(call.output_tokens),
        ),
    },
    { id: "duration", head: text.columns.duration, numeric: true, cell: (call) => format.duration(call.duration_ms) },
    { id: "charge", head: text.columns.charge, numeric: true, cell: (call) => <Money micro={call.charge_micro} /> },
  ]
  return (
    <Card title={text.recent} flush action={<Link href="/usage">{text.allCalls}</Link>}>
      <DataTable
        caption={text.recent}
        columns={columns}
        rows={calls.data}
        rowKey={(call) => call.request_id}
        error={calls.error}
        retry={calls.refetch}
        empty={
          <EmptyState icon={<Zap />} title={text.noCalls}>
            {text.noCallsHint}
          </EmptyState>
        }
      />
    </Card>
  )
}
