/** One of the figures over time, in total or by group. */
import { useQuery } from "@tanstack/react-query"
import { Activity } from "lucide-react"
import { lazy, Suspense, useMemo } from "react"
import { Choice, SelectField } from "../../components/form.tsx"
import { EmptyState, Skeleton, Stale } from "../../components/feedback.tsx"
import { Card } from "../../components/layout.tsx"
import { type Format, useFormat } from "../../i18n/format.ts"
import { type AddressedView, mayShowHours, type Show, shows, type Split, splits } from "./address.ts"
import { type Series, seriesBeforeQuery, useGroupName } from "./data.ts"
import { beforeSeries, type SeriesNames, splitSeries, stepsOf, wholeSeries } from "./series.ts"
import { useUsageText } from "./text.ts"

const Chart = lazy(() => import("../../components/chart.tsx"))

type ChartCardProps = Pick<AddressedView, "view" | "change" | "zoom"> & {
  readonly series: Series | undefined
  /** What the series is of, while another one is loading. */
  readonly staleOf: string | undefined
}

export function ChartCard({ view, change, zoom, series, staleOf }: ChartCardProps) {
  const text = useUsageText()
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
  return (
    <Suspense fallback={<Skeleton lines={6} />}>
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
    </Suspense>
  )
}

/** Days and hours are already in the account's time zone. */
function stepLabel(step: string, format: Format): string {
  const day = format.shortDay(step.slice(0, 10))
  return step.length === 10 ? day : `${day}, ${step.slice(11)}`
}

function unitOf(show: Show, format: Format): (value: number) => string {
  const count = (value: number) => format.number(Math.round(value))
  return {
    spend: (micro: number) => format.rupiah(Math.round(micro)),
    tokens: count,
    calls: count,
    cache: format.percent,
    latency: format.duration,
  }[show]
}

function useSeriesNames(show: Show, split: Split | undefined): SeriesNames {
  const text = useUsageText()
  const format = useFormat()
  const group = useGroupName(split)
  return useMemo(
    () => ({
      whole: text.captions[show],
      ok: text.ok,
      failed: text.failedSeries,
      median: text.median,
      slow: text.slow,
      buckets: text.buckets,
      others: (count) => text.others(format.number(count)),
      group,
    }),
    [text, format, show, group],
  )
}
