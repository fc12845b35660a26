/** The first page: the balance, the spending, the latest calls, and what to do next. It follows the account live. */
import { keepPreviousData, queryOptions, useQuery } from "@tanstack/react-query"
import { Activity, ChevronRight, Circle, CircleCheck, Zap } from "lucide-react"
import { Link } from "wouter"
import { api, unwrap } from "../../api/client.ts"
import { priceChangesQuery } from "../../api/queries.ts"
import { ButtonLink } from "../../components/button.tsx"
import { type Column, DataTable } from "../../components/data-table.tsx"
import { EmptyState, ErrorState, Skeleton, useChart } from "../../components/feedback.tsx"
import { Card, Page, Stat, Stats } from "../../components/layout.tsx"
import { Money, StatusTag } from "../../components/values.tsx"
import { useFormat, useTimeZone, useToday } from "../../i18n/language.tsx"
import { dayIn, type Days, daysOf, lastDays, sameDaysLastMonth } from "../../i18n/figures.ts"
import { PriceChanges } from "../../shell/notices.tsx"
import { useAccount, useMay } from "../../shell/session.tsx"
import { useHomeText } from "./text.ts"

export default function HomePage() {
  const text = useHomeText()
  const may = useMay()
  const today = useToday()
  const timeZone = useTimeZone()
  const days = useQuery(daysQuery(today))
  const summary = useQuery(summaryQuery)
  const changes = useQuery(priceChangesQuery)
  const lastMonth = useQuery(lastMonthQuery(today, timeZone))
  // Asked for at once; shown below.
  useQuery(recentCallsQuery)
  // What stands at the top, or does not, would move all the rest.
  // Until each was answered once: what is shown below asks anew where there was an error, and must not be taken away for that.
  if ([summary, changes, lastMonth].some(({ isPending, errorUpdateCount }) => isPending && errorUpdateCount === 0)) {
    return (
      <Page title={text.title}>
        <Skeleton lines={20} />
      </Page>
    )
  }
  return (
    <Page
      title={text.title}
      actions={
        may("pay") && (
          <ButtonLink to="/wallet" kind="primary">
            {text.topUp}
          </ButtonLink>
        )
      }
    >
      <PriceChanges />
      {may("pay") && may("build") && <FirstSteps />}
      <Numbers />
      <Card title={text.spend}>
        <div className="home-chart">
          {days.data?.every(({ chargeMicro }) => chargeMicro === 0) ? (
            <EmptyState icon={<Activity />} title={text.noSpend} />
          ) : days.data !== undefined ? (
            <SpendChart days={days.data} />
          ) : days.error ? (
            <ErrorState error={days.error} retry={days.refetch} />
          ) : (
            <Skeleton lines={5} />
          )}
        </div>
      </Card>
      <RecentCalls />
    </Page>
  )
}

function SpendChart({ days }: { readonly days: readonly Day[] }) {
  const text = useHomeText()
  const format = useFormat()
  const Chart = useChart()
  if (Chart === undefined) return <Skeleton lines={5} />
  return (
    <Chart
      caption={text.spend}
      kind="bars"
      labels={days.map(({ day }) => format.day(`${day}T12:00:00Z`))}
      series={[{ name: text.spendSeries, values: days.map(({ chargeMicro }) => chargeMicro) }]}
      format={(micro) => format.rupiah(Math.round(micro))}
    />
  )
}

/** What a new account still has to do, until all of it is done. */
function FirstSteps() {
  const text = useHomeText()
  const { data: summary } = useQuery(summaryQuery)
  if (summary === undefined) return null
  const { topped_up: toppedUp, key_made: keyMade, call_made: callMade } = summary.first_steps
  const steps = [
    { to: "/wallet", title: text.steps.topUp, hint: text.steps.topUpHint, done: toppedUp },
    { to: "/keys", title: text.steps.key, hint: text.steps.keyHint, done: keyMade },
    { to: "/quick-start", title: text.steps.call, hint: text.steps.callHint, done: callMade },
  ]
  if (steps.every(({ done }) => done)) return null
  return (
    <Card title={text.firstSteps} flush>
      <ol className="first-steps">
        {steps.map(({ to, title, hint, done }) => (
          <li key={to} className={done ? "is-done" : undefined}>
            <Link href={to}>
              {done ? <CircleCheck aria-hidden="true" /> : <Circle aria-hidden="true" />}
              <span className="first-step-words">
                <span>
                  {title}
                  {done && <span className="visually-hidden"> ({text.done})</span>}
                </span>
                <span className="first-step-hint">{hint}</span>
              </span>
              <ChevronRight aria-hidden="true" />
            </Link>
          </li>
        ))}
      </ol>
    </Card>
  )
}

/** A longer time is shown as "more than a year". */
const LONGEST_DAYS = 365

/** The account in four numbers. */
function Numbers() {
  const text = useHomeText()
  const format = useFormat()
  // The balance follows each event; the sums are refetched.
  const { balance_micro: balance, held_micro: held, created_at: created } = useAccount()
  const { data: summary, error, refetch } = useQuery(summaryQuery)
  const today = useToday()
  const timeZone = useTimeZone()
  const { data: lastMonth } = useQuery(lastMonthQuery(today, timeZone))
  if (summary === undefined && error) return <ErrorState error={error} retry={refetch} />
  const wasThere = lastMonth !== undefined && dayIn(timeZone, Date.parse(created)) <= lastMonth.to
  const told = ({ from, to, chargeMicro }: LastMonth) =>
    text.lastMonth(format.rupiah(chargeMicro), format.shortDays(from, to), from === to)
  return (
    <Stats>
      <Stat label={text.available} note={held === 0 ? text.nothingHeld : text.held(format.rupiah(held))}>
        <Money micro={BigInt(balance) - BigInt(held)} />
      </Stat>
      <Stat
        label={text.today}
        note={summary && text.calls(format.number(summary.calls_today), summary.calls_today === 1)}
      >
        {summary === undefined ? <Skeleton /> : <Money micro={summary.spent_today_micro} />}
      </Stat>
      <Stat label={text.month} note={wasThere ? told(lastMonth) : format.month(Date.now())}>
        {summary === undefined ? <Skeleton /> : <Money micro={summary.spent_month_micro} />}
      </Stat>
      {summary === undefined ? (
        <Stat label={text.daysLeft}>
          <Skeleton />
        </Stat>
      ) : (
        <DaysLeft days={summary.days_left} empty={balance <= 0} />
      )}
    </Stats>
  )
}

function DaysLeft({ days, empty }: { readonly days: number | null; readonly empty: boolean }) {
  const text = useHomeText()
  const format = useFormat()
  if (empty) {
    return (
      <Stat label={text.daysLeft} note={text.emptyNote}>
        {text.empty}
      </Stat>
    )
  }
  if (days === null) {
    return (
      <Stat label={text.daysLeft} note={text.noPace}>
        –
      </Stat>
    )
  }
  const whole = Math.floor(days)
  return (
    <Stat label={text.daysLeft} note={text.pace}>
      {whole > LONGEST_DAYS ? text.longer : text.days(whole === 0 ? text.underOne : format.number(whole), whole <= 1)}
    </Stat>
  )
}

/** The latest calls. New ones appear by themselves. */
function RecentCalls() {
  const text = useHomeText()
  const format = useFormat()
  const calls = useQuery(recentCallsQuery)
  const columns: Column<Call>[] = [
    { id: "model", head: text.columns.model, names: true, cell: ({ model }) => <code>{model}</code> },
    { id: "time", head: text.columns.time, cell: (call) => format.moment(call.created_at) },
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
    {
      id: "charge",
      head: text.columns.charge,
      numeric: true,
      cell: (call) => <Money micro={call.charge_micro} form="column" />,
    },
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

const RECENT = 8
const CHART_DAYS = 30

/** The queries of the home page. */
const summaryQuery = queryOptions({
  queryKey: ["summary"],
  queryFn: () => unwrap(api.account.summary.get()),
})

const recentCallsQuery = queryOptions({
  queryKey: ["usage", "recent"],
  queryFn: async () => (await unwrap(api.usage.get({ query: { limit: RECENT } }))).data,
})
type Call = Awaited<ReturnType<NonNullable<typeof recentCallsQuery.queryFn>>>[number]

interface Day {
  /** 2026-11-21, in the account's time zone. */
  readonly day: string
  readonly chargeMicro: number
}

/** What the same days of the month before came to. They are over: no event makes it stale. */
const lastMonthQuery = (today: string, timeZone: string) =>
  queryOptions({
    queryKey: ["last-month", today, timeZone],
    queryFn: async (): Promise<LastMonth> => {
      const days = sameDaysLastMonth(today)
      const { total } = await unwrap(api.usage.summary.get({ query: { ...days, group_by: "status" } }))
      return { ...days, chargeMicro: total.charge_micro }
    },
    staleTime: Number.POSITIVE_INFINITY,
    placeholderData: keepPreviousData,
  })

interface LastMonth extends Days {
  readonly chargeMicro: number
}

/** The cost of each of the last days, days without calls included. */
const daysQuery = (today: string) =>
  queryOptions({
    queryKey: ["usage", "days", today],
    queryFn: async (): Promise<readonly Day[]> => {
      const { from } = lastDays(today, CHART_DAYS)
      const { data } = await unwrap(api.usage.summary.get({ query: { from, to: today, group_by: "day" } }))
      const charges = new Map(data.map((row) => [row.group, row.charge_micro]))
      return daysOf(from, CHART_DAYS).map((day) => ({ day, chargeMicro: charges.get(day) ?? 0 }))
    },
  })
