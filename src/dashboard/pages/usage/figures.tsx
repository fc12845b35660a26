/** The figures of the range: over time, in total or by group; by model, key or format; and its errors by code. */
import { useQuery, keepPreviousData } from "@tanstack/react-query"
import { Activity, CircleCheck } from "lucide-react"
import { useMemo, useState } from "react"
import { type Column, DataTable, type Sorting } from "../../components/data-table.tsx"
import { EmptyState, Skeleton, Stale, useChart, useChartAhead } from "../../components/feedback.tsx"
import { Choice, SelectField } from "../../components/form.tsx"
import { Card, Tabs } from "../../components/layout.tsx"
import { callFormat, Money } from "../../components/values.tsx"
import { useFormat } from "../../i18n/language.tsx"
import {
  type Series,
  seriesBeforeQuery,
  useGroupName,
  useSeriesNames,
  breakdownQuery,
  errorsQuery,
  type Sum,
  useViewName,
} from "./data.ts"
import { useUsageText } from "./text.ts"
import { type AddressedView, mayShowHours, type Show, shows, type Split, splits } from "./address.ts"
import { beforeSeries, splitSeries, stepLabel, stepsOf, unitOf, wholeSeries, cacheShare, inputOf } from "./series.ts"

type ChartCardProps = Pick<AddressedView, "view" | "change" | "zoom"> & {
  readonly series: Series | undefined
  /** What the series is of, while another one is loading. */
  readonly staleOf: string | undefined
}

/** One of the figures over time, in total or by group. */
export function ChartCard({ view, change, zoom, series, staleOf }: ChartCardProps) {
  const text = useUsageText()
  useChartAhead()
  // What is drawn is told by the answer that is there, which may still be that of the view before.
  const before = useQuery({ ...seriesBeforeQuery(series?.of ?? view), enabled: series !== undefined }).data
  return (
    <Card>
      <div className="usage-chart-controls">
        <Choice
          label={text.show}
          values={shows}
          chosen={view.show}
          nameOf={(show) => text.shows[show]}
          onChoose={(show) => change({ show })}
        />
        <SelectField
          label={text.splitBy}
          value={view.split ?? ""}
          options={[
            { value: "", label: text.splits.none },
            ...splits.map((split) => ({ value: split, label: text.splits[split] })),
          ]}
          onChange={({ target }) => change({ split: splits.find((split) => split === target.value) })}
        />
        {mayShowHours(view.days) && (
          <Choice
            label={text.step}
            values={["hour", "day"]}
            chosen={view.step}
            nameOf={(step) => text.steps[step]}
            onChoose={(step) => change({ step })}
          />
        )}
      </div>
      <Stale of={staleOf}>
        <div className="usage-chart">
          {series === undefined ? (
            <Skeleton lines={6} />
          ) : (
            <Drawn show={view.show} series={series} before={before} zoom={zoom} />
          )}
        </div>
      </Stale>
    </Card>
  )
}

const BARS: readonly Show[] = ["spend", "tokens", "calls"]

interface DrawnProps {
  readonly show: Show
  readonly series: Series
  readonly before: Series | undefined
  readonly zoom: AddressedView["zoom"]
}

/** The axis is that of the data, which may still be of the view before. */
function Drawn({ show, series, before, zoom }: DrawnProps) {
  const text = useUsageText()
  const format = useFormat()
  const { data, of, split_by: split } = series
  const names = useSeriesNames(show, of.split)
  const Chart = useChart()
  const { steps, labels, drawn } = useMemo(() => {
    const axis = stepsOf(of)
    return {
      steps: axis,
      labels: axis.map((step) => stepLabel(step, format)),
      drawn: (split === null ? wholeSeries : splitSeries)(data, axis, show, names),
    }
  }, [of, data, split, show, names, format])
  const past = useMemo(
    () => before && beforeSeries(before.data, stepsOf(before.of), show, text.before),
    [before, show, text],
  )
  const choose = (from: number, to: number) => {
    const [first, last] = [steps[from]?.slice(0, 10), steps[to]?.slice(0, 10)]
    if (first === undefined || last === undefined || (first === of.days.from && last === of.days.to)) return
    zoom({ from: first, to: last })
  }
  const unit = useMemo(() => unitOf(show, format), [show, format])
  if (drawn.every(({ values }) => values.every((value) => value === null || value === 0))) {
    return <EmptyState icon={<Activity />} title={show === "latency" ? text.noTimes : text.nothing} />
  }
  if (Chart === undefined) return <Skeleton lines={6} />
  return (
    <Chart
      caption={text.captions[show]}
      kind={BARS.includes(show) ? "bars" : "lines"}
      labels={labels}
      series={drawn}
      total={text.total}
      before={past}
      format={unit}
      onZoom={choose}
    />
  )
}

type BreakdownProps = Pick<AddressedView, "view" | "change">

/** The range by model, key or format. Choosing a row filters the page. */
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
