/** How the house does: what it made in a time, and what stands now. Asked again by itself. */
import { useQuery } from "@tanstack/react-query"
import type { ReactNode } from "react"
import { Card } from "../../../components/card.tsx"
import { DataTable } from "../../../components/data-table.tsx"
import { DateRange } from "../../../components/date-range.tsx"
import { ErrorState } from "../../../components/error-state.tsx"
import { Skeleton } from "../../../components/skeleton.tsx"
import { type CallStatus, StatusTag } from "../../../components/status-tag.tsx"
import { useFormat } from "../../../i18n/format.ts"
import { useDays } from "../address.ts"
import { OperatorPage } from "../section.tsx"
import { type Overview, overviewQuery } from "./data.ts"
import { NowNumbers, PeriodNumbers } from "./numbers.tsx"
import { useOverviewText } from "./text.ts"

export default function OverviewPage() {
  const text = useOverviewText()
  const { days, today, choose } = useDays()
  const { data: overview, error, refetch } = useQuery(overviewQuery(days))
  return (
    <OperatorPage title={text.title} intro={text.intro}>
      <DateRange value={days} today={today} onChange={choose} />
      {overview !== undefined ? (
        <Figures overview={overview} />
      ) : error ? (
        <ErrorState error={error} retry={refetch} />
      ) : (
        <Skeleton lines={8} />
      )}
    </OperatorPage>
  )
}

function Figures({ overview }: { readonly overview: Overview }) {
  const text = useOverviewText()
  const { by_status: byStatus, by_error_code: byCode, total } = overview.calls
  return (
    <>
      <PeriodNumbers overview={overview} />
      <NowNumbers overview={overview} />
      <div className="operator-halves">
        <Counts
          title={text.byStatus}
          of={text.columns.status}
          counts={byStatus}
          total={total}
          name={(status) => <StatusTag status={status as CallStatus} />}
          empty={text.noCalls}
        />
        <Counts
          title={text.byCode}
          of={text.columns.code}
          counts={byCode}
          total={total}
          name={(code) => <code>{code}</code>}
          empty={text.noErrors}
        />
      </div>
    </>
  )
}

interface CountsProps {
  readonly title: string
  readonly of: string
  readonly counts: Readonly<Record<string, number>>
  readonly total: number
  readonly name: (key: string) => ReactNode
  readonly empty: string
}

/** The most frequent first. */
function Counts({ title, of, counts, total, name, empty }: CountsProps) {
  const text = useOverviewText()
  const format = useFormat()
  const rows = Object.entries(counts).sort(([, a], [, b]) => b - a)
  return (
    <Card title={title} flush>
      <DataTable
        caption={title}
        rows={rows}
        rowKey={([key]) => key}
        empty={empty}
        columns={[
          { id: "name", head: of, names: true, cell: ([key]) => name(key) },
          { id: "calls", head: text.columns.calls, numeric: true, cell: ([, count]) => format.number(count) },
          {
            id: "share",
            head: text.columns.share,
            numeric: true,
            cell: ([, count]) => format.percent(total === 0 ? 0 : count / total),
          },
        ]}
      />
    </Card>
  )
}
