/** The state of the business: figures of a period, and of the current moment. Refetched by itself. */
import { queryOptions, useQuery } from "@tanstack/react-query"
import type { ReactNode } from "react"
import { api, unwrap } from "../../api/client.ts"
import { DataTable } from "../../components/data-table.tsx"
import { ErrorState, Skeleton } from "../../components/feedback.tsx"
import { DateRange } from "../../components/date-range.tsx"
import { Card, Stat, Stats } from "../../components/layout.tsx"
import { Money } from "../../components/values.tsx"
import { type CallStatus, StatusTag } from "../../components/status-tag.tsx"
import { useFormat } from "../../i18n/format.ts"
import type { Days } from "../../i18n/time.ts"
import { OperatorPage } from "./frame.tsx"
import { useDays } from "./list.ts"
import { useOverviewText } from "./overview-text.ts"

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

const overviewQuery = (days: Days) =>
  queryOptions({
    queryKey: ["operator", "overview", days],
    queryFn: () => unwrap(api.operator.overview.get({ query: { ...days } })),
    refetchInterval: FOLLOW_MS,
  })
type Overview = Awaited<ReturnType<NonNullable<ReturnType<typeof overviewQuery>["queryFn"]>>>
