/** The state of the business: figures of a period, and of the current moment. Refetched by itself. */
import { keepPreviousData, queryOptions, useQuery } from "@tanstack/react-query"
import type { ReactNode } from "react"
import { api, unwrap } from "../../api/client.ts"
import { DataTable } from "../../components/data-table.tsx"
import { DateRange, useRangeName } from "../../components/date-field.tsx"
import { ErrorState, Skeleton, Stale, useChart } from "../../components/feedback.tsx"
import { Card, Stat, Stats } from "../../components/layout.tsx"
import { type CallStatus, Money, StatusTag } from "../../components/values.tsx"
import { useFormat } from "../../i18n/language.tsx"
import { dayCount, type Days, daysOf } from "../../i18n/figures.ts"
import { MOST_DAYS, OperatorPage, useDays } from "./frame.tsx"
import { useOverviewText } from "./text.ts"

export default function OverviewPage() {
  const text = useOverviewText()
  const { days, today, choose } = useDays(MOST_DAYS)
  const { data: overview, error, refetch } = useQuery(overviewQuery(days))
  return (
    <OperatorPage title={text.title} intro={text.intro}>
      <DateRange value={days} today={today} onChange={choose} />
      <OverTime days={days} />
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

/** Revenue, calls and customers by day, with empty days. */
function OverTime({ days }: { readonly days: Days }) {
  const text = useOverviewText()
  const format = useFormat()
  const rangeName = useRangeName()
  const { data, error, refetch, isPlaceholderData } = useQuery(daysQuery(days))
  const Chart = useChart()
  if (data === undefined || Chart === undefined) {
    return (
      <Card title={text.overTime}>
        <div className="operator-over-time">
          {error ? <ErrorState error={error} retry={refetch} /> : <Skeleton lines={9} />}
        </div>
      </Card>
    )
  }
  // The axis is that of the answer, which may still be that of the range before.
  const { of, rows } = data
  const all = daysOf(of.from, dayCount(of)).map((day) => rows.find((one) => one.day === day) ?? { ...nothing, day })
  // The axis may have steps between whole numbers.
  const count = (value: number) => (Number.isInteger(value) ? format.number(value) : "")
  const charts = [
    {
      title: text.revenue,
      kind: "bars" as const,
      series: [{ name: text.revenue, values: all.map(({ revenue_micro: micro }) => micro) }],
      format: (micro: number) => format.rupiah(Math.round(micro)),
    },
    {
      title: text.calls,
      kind: "bars" as const,
      series: [{ name: text.calls, values: all.map(({ calls }) => calls) }],
      format: count,
    },
    {
      title: text.customers,
      kind: "lines" as const,
      series: [
        { name: text.active, values: all.map(({ active_accounts: active }) => active) },
        { name: text.newAccounts, values: all.map(({ new_accounts: made }) => made) },
      ],
      format: count,
    },
  ]
  return (
    <Card title={text.overTime}>
      <Stale of={isPlaceholderData ? rangeName(of) : undefined}>
        <div className="operator-over-time">
          {charts.map(({ title, ...chart }) => (
            <section key={title} aria-label={title}>
              <h3>{title}</h3>
              <Chart
                {...chart}
                caption={`${title}, ${text.overTime}`}
                labels={all.map(({ day }) => format.day(`${day}T12:00:00Z`))}
              />
            </section>
          ))}
        </div>
      </Stale>
    </Card>
  )
}

const nothing = { revenue_micro: 0, calls: 0, new_accounts: 0, active_accounts: 0 }

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

interface NumbersProps {
  readonly overview: Overview
}

/** The overview's figures, each with what it counts. */
function PeriodNumbers({ overview }: NumbersProps) {
  const text = useOverviewText()
  const format = useFormat()
  const { calls, top_ups: topUps } = overview
  const failed = calls.total - (calls.by_status["ok"] ?? 0)
  return (
    <section className="operator-stats" aria-label={text.period}>
      <h2>{text.period}</h2>
      <Stats>
        <Stat
          label={text.revenue}
          note={text.revenueNote(format.rupiah(overview.charged_micro), format.rupiah(overview.service_fees_micro))}
        >
          <Money micro={overview.revenue_micro} />
        </Stat>
        <Stat
          label={text.calls}
          note={
            failed === 0
              ? calls.total === 0
                ? text.noCalls
                : text.noFailures
              : text.callsNote(format.number(failed), format.percent(failed / calls.total))
          }
        >
          {format.number(calls.total)}
        </Stat>
        <Stat label={text.topUps} note={text.topUpsNote(format.number(topUps.count), topUps.count === 1)}>
          <Money micro={topUps.amount_micro} />
        </Stat>
        <Stat label={text.absorbed} note={text.absorbedNote}>
          <Money micro={overview.absorbed_micro} />
        </Stat>
        <Stat label={text.adjusted} note={text.adjustedNote}>
          <Money micro={overview.adjusted_micro} />
        </Stat>
        {overview.trial_micro > 0 && (
          <Stat label={text.trial} note={text.trialNote}>
            <Money micro={overview.trial_micro} />
          </Stat>
        )}
        <Stat label={text.newAccounts} note={text.newAccountsNote(format.number(overview.now.accounts))}>
          {format.number(overview.new_accounts)}
        </Stat>
      </Stats>
    </section>
  )
}

function NowNumbers({ overview }: NumbersProps) {
  const text = useOverviewText()
  const format = useFormat()
  const { now, this_process: here } = overview
  return (
    <section className="operator-stats" aria-label={text.now}>
      <h2>{text.now}</h2>
      <Stats>
        <Stat label={text.inFlight} note={text.inFlightNote(format.number(now.open_calls))}>
          {format.number(here.in_flight)}
        </Stat>
        <Stat label={text.held} note={text.heldNote}>
          <Money micro={now.held_micro} />
        </Stat>
        <Stat
          label={text.lag}
          note={here.ledger_backlog === null ? text.lagUnknown : text.lagNote(format.number(here.ledger_backlog))}
        >
          {here.ledger_lag_ms === null ? "–" : format.duration(here.ledger_lag_ms)}
        </Stat>
        <Stat label={text.balances} note={text.balancesNote}>
          <Money micro={now.balances_micro} />
        </Stat>
        <Stat label={text.frozen} note={text.frozenNote}>
          {format.number(now.frozen_accounts)}
        </Stat>
        <Stat label={text.processes} note={text.processesNote(here.id)}>
          {format.number(now.processes)}
        </Stat>
      </Stats>
    </section>
  )
}

const FOLLOW_MS = 10_000
const FOLLOW_DAYS_MS = 60_000

const overviewQuery = (days: Days) =>
  queryOptions({
    queryKey: ["operator", "overview", days],
    queryFn: () => unwrap(api.operator.overview.get({ query: { ...days } })),
    refetchInterval: FOLLOW_MS,
  })

const daysQuery = (days: Days) =>
  queryOptions({
    queryKey: ["operator", "overview-days", days],
    queryFn: async () => ({
      of: days,
      rows: (await unwrap(api.operator.overview.days.get({ query: { ...days } }))).data,
    }),
    refetchInterval: FOLLOW_DAYS_MS,
    placeholderData: keepPreviousData,
  })
type Overview = Awaited<ReturnType<NonNullable<ReturnType<typeof overviewQuery>["queryFn"]>>>
