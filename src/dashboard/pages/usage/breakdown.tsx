/** The range by model, key or format, and its errors by code. Choosing a row filters the page. */
import { keepPreviousData, useQuery } from "@tanstack/react-query"
import { CircleCheck } from "lucide-react"
import { useMemo, useState } from "react"
import { type Column, DataTable, type Sorting } from "../../components/data-table.tsx"
import { EmptyState, Stale } from "../../components/feedback.tsx"
import { Card, Tabs } from "../../components/layout.tsx"
import { Money } from "../../components/values.tsx"
import { useFormat } from "../../i18n/format.ts"
import { callFormat } from "../../api/call-formats.ts"
import { type AddressedView, type Split } from "./address.ts"
import { breakdownQuery, errorsQuery, type Sum, useGroupName, useViewName } from "./data.ts"
import { cacheShare, inputOf } from "./series.ts"
import { useUsageText } from "./text.ts"

type BreakdownProps = Pick<AddressedView, "view" | "change">

export function Breakdown(props: BreakdownProps) {
  const text = useUsageText()
  return (
    <Card title={text.breakdown} flush>
      <div className="usage-breakdown">
        <Tabs
          label={text.breakdown}
          tabs={[
            { id: "model", label: text.byModel, content: <Groups {...props} by="model" /> },
            { id: "key", label: text.byKey, content: <Groups {...props} by="key" /> },
            { id: "format", label: text.byFormat, content: <Groups {...props} by="format" /> },
            { id: "errors", label: text.errors, content: <Errors {...props} /> },
          ]}
        />
      </div>
    </Card>
  )
}

function Groups({ view, change, by }: BreakdownProps & { readonly by: Split }) {
  const text = useUsageText()
  const viewName = useViewName()
  const { data, error, refetch, isPlaceholderData } = useQuery({
    ...breakdownQuery(view, by),
    placeholderData: keepPreviousData,
  })
  const [sorting, setSorting] = useState<Sorting>({ by: "spend", down: true })
  const rows = useMemo(() => data && sorted(data.data, sorting), [data, sorting])
  const columns = useColumns(by, data?.total.charge_micro ?? 0)
  const narrowTo = ({ group }: Sum) => {
    if (by === "format") change({ format: callFormat(group) })
    else change({ [by]: group })
  }
  return (
    <Stale of={isPlaceholderData && data ? viewName(data.of) : undefined}>
      <DataTable
        caption={text.columns[by]}
        columns={columns}
        rows={rows}
        rowKey={({ group }) => group}
        error={error}
        retry={refetch}
        sorting={sorting}
        onSort={setSorting}
        onOpen={narrowTo}
        empty={text.nothing}
      />
    </Stale>
  )
}

const orders: Readonly<Record<string, (sum: Sum) => number>> = {
  spend: (sum) => sum.charge_micro,
  calls: (sum) => sum.requests,
  failed: (sum) => sum.errors,
  input: inputOf,
  output: (sum) => sum.output_tokens,
  cache: (sum) => cacheShare(sum) ?? -1,
  median: (sum) => sum.first_token_p50_ms ?? -1,
  slow: (sum) => sum.first_token_p95_ms ?? -1,
}

function sorted(sums: readonly Sum[], { by, down }: Sorting): readonly Sum[] {
  const order = orders[by] ?? inputOf
  return sums.toSorted((a, b) => (down ? order(b) - order(a) : order(a) - order(b)))
}

const number = (id: string, head: string, cell: Column<Sum>["cell"], wide = false): Column<Sum> => ({
  id,
  head,
  cell,
  wide,
  numeric: true,
  sortable: true,
})

function useColumns(by: Split, totalMicro: number): readonly Column<Sum>[] {
  const text = useUsageText()
  const format = useFormat()
  const nameOf = useGroupName(by)
  const { columns } = text
  const times = (ms: number | null) => (ms === null ? "–" : format.duration(ms))
  return [
    {
      id: "group",
      head: columns[by],
      names: true,
      cell: ({ group }) => (by === "model" ? <code>{group}</code> : nameOf(group)),
    },
    number("spend", columns.spend, (sum) => <Money micro={sum.charge_micro} form="column" />),
    {
      id: "share",
      head: columns.share,
      numeric: true,
      wide: true,
      cell: (sum) => format.percent(totalMicro === 0 ? 0 : sum.charge_micro / totalMicro),
    },
    number("calls", columns.calls, (sum) => format.number(sum.requests)),
    number("failed", columns.failed, (sum) => format.number(sum.errors), true),
    number("input", columns.input, (sum) => format.compact(inputOf(sum)), true),
    number("output", columns.output, (sum) => format.compact(sum.output_tokens), true),
    number(
      "cache",
      columns.cache,
      (sum) => {
        const share = cacheShare(sum)
        return share === null ? "–" : format.percent(share)
      },
      true,
    ),
    number("median", columns.median, (sum) => times(sum.first_token_p50_ms)),
    number("slow", columns.slow, (sum) => times(sum.first_token_p95_ms), true),
  ]
}

function Errors({ view, change }: BreakdownProps) {
  const text = useUsageText()
  const format = useFormat()
  const viewName = useViewName()
  const { data, error, refetch, isPlaceholderData } = useQuery({
    ...errorsQuery(view),
    placeholderData: keepPreviousData,
  })
  return (
    <Stale of={isPlaceholderData && data ? viewName(data.of) : undefined}>
      <DataTable
        caption={text.errors}
        columns={[
          { id: "code", head: text.columns.code, names: true, cell: ({ code }) => <code>{code}</code> },
          { id: "calls", head: text.columns.calls, numeric: true, cell: (row) => format.number(row.requests) },
          { id: "last", head: text.columns.last, numeric: true, cell: (row) => format.dateTime(row.last_at) },
        ]}
        rows={data?.data}
        rowKey={({ code }) => code}
        error={error}
        retry={refetch}
        onOpen={({ code }) => change({ error: code })}
        empty={
          <EmptyState icon={<CircleCheck />} title={text.noErrors}>
            {text.noErrorsHint}
          </EmptyState>
        }
      />
    </Stale>
  )
}
