/** What calls brought and what they cost: the margin, what leaked of it, and where calls are sold under their cost. */
import { queryOptions, useQuery } from "@tanstack/react-query"
import { Download, TrendingDown } from "lucide-react"
import { useState } from "react"
import { Link } from "wouter"
import { api, unwrap } from "../../api/client.ts"
import { Choice } from "../../components/form.tsx"
import { type Column, DataTable, type More } from "../../components/data-table.tsx"
import { DateRange } from "../../components/date-field.tsx"
import { EmptyState, ErrorState, Skeleton } from "../../components/feedback.tsx"
import { Card, DownloadLink, Stat, Stats } from "../../components/layout.tsx"
import { Money, Tag } from "../../components/values.tsx"
import { useFormat } from "../../i18n/language.tsx"
import type { Days } from "../../i18n/figures.ts"
import { ExchangeRates, ratesQuery } from "./exchange-rates.tsx"
import { MOST_DAYS, OperatorPage, type ProfitGroup, profitGroups, useDays, useDivision } from "./frame.tsx"
import { useProfitText } from "./margin.tsx"

const FOLLOW_MS = 10_000
/** Rows of a list that are shown at first, and when somebody asks for more of this list, which its address names. */
const [ROWS, MOST_ROWS] = [100, 500]

const leaks = ["usage_missing", "failed", "retries", "rerouted", "searches", "voided"] as const

type Margin = Pick<ProfitView["total"], "revenue_micro" | "margin_micro" | "unknown_cost">

/** The margin as a share of the revenue; undefined without a revenue, or where it is less than it seems because a cost is not known. */
const shareOf = (sum: Margin): number | undefined =>
  sum.revenue_micro === 0 || sum.unknown_cost > 0 ? undefined : sum.margin_micro / sum.revenue_micro

const daysOf = ({ from, to }: Days) => `${from} ${to}`

const profitQuery = (question: ReturnType<typeof questionOf>, limit: number) =>
  queryOptions({
    queryKey: ["operator", "profit", daysOf(question), question, limit],
    queryFn: () => unwrap(api.operator.profit.get({ query: { ...question, limit } })),
    refetchInterval: FOLLOW_MS,
  })
type ProfitView = Awaited<ReturnType<NonNullable<ReturnType<typeof profitQuery>["queryFn"]>>>
type Row = ProfitView["data"][number]

const questionOf = (days: Days, groupBy: ProfitGroup, splitBy: ProfitGroup | undefined) => ({
  ...days,
  group_by: groupBy,
  ...(splitBy !== undefined && { split_by: splitBy }),
})

export default function ProfitPage() {
  const text = useProfitText()
  const { days, today, choose } = useDays(MOST_DAYS)
  const { groupBy, splitBy, choose: divide } = useDivision()
  const question = questionOf(days, groupBy, splitBy)
  const address = `/operator/profit/export.csv?${new URLSearchParams(question)}`
  const [loaded, setLoaded] = useState("")
  const isAsked = loaded === address
  const long = useQuery({ ...profitQuery(question, MOST_ROWS), enabled: isAsked })
  const whole = isAsked ? long.data : undefined
  // Of other groups of the same days all stays but the rows: also what was pressed, which has the focus.
  const {
    data: short,
    error,
    errorUpdateCount: errors,
    refetch,
  } = useQuery({
    ...profitQuery(question, ROWS),
    enabled: whole === undefined,
    placeholderData: (before, of) => (of?.queryKey[2] === daysOf(days) ? before : undefined),
  })
  const profit = whole ?? short
  const load = () => (isAsked ? long.refetch() : setLoaded(address))
  const hasMore = whole === undefined && short?.truncated === true
  const more = hasMore ? { load, busy: isAsked && long.isFetching, error: isAsked && long.error } : undefined
  // Asked for at once; shown below.
  useQuery(ratesQuery)
  return (
    <OperatorPage
      title={text.title}
      intro={text.intro}
      actions={
        <DownloadLink href={address} icon={<Download />}>
          {text.download}
        </DownloadLink>
      }
    >
      <DateRange value={days} today={today} onChange={choose} />
      {profit !== undefined ? (
        <>
          <Figures profit={profit} />
          <Under under={profit.under} />
          <Breakdown {...{ profit, groupBy, splitBy, divide, more }} />
          <Leaks profit={profit} />
        </>
      ) : error ? (
        <ErrorState error={error} retry={refetch} />
      ) : (
        <Skeleton lines={8} />
      )}
      {/* It stays while what failed is asked for again: its dialog may be open. */}
      {(profit !== undefined || errors > 0) && <ExchangeRates />}
    </OperatorPage>
  )
}

function Figures({ profit: { total } }: { readonly profit: ProfitView }) {
  const text = useProfitText()
  const format = useFormat()
  const share = shareOf(total)
  return (
    <Stats>
      <Stat label={text.revenue} note={text.calls(format.number(total.calls), total.calls === 1)}>
        <Money micro={total.revenue_micro} />
      </Stat>
      <Stat
        label={text.cost}
        note={
          total.unknown_cost > 0
            ? text.unknownNote(format.number(total.unknown_cost))
            : text.estimated(format.rupiah(total.estimated_micro))
        }
      >
        <Money micro={total.cost_micro} />
      </Stat>
      <Stat
        label={text.margin}
        note={total.unknown_cost > 0 ? text.atMost : share !== undefined && text.ofRevenue(format.percent(share))}
      >
        <Money micro={total.margin_micro} />
      </Stat>
      <Stat label={text.underCost} note={text.underNote(format.rupiah(total.under_cost_micro))}>
        {format.number(total.under_cost)}
      </Stat>
    </Stats>
  )
}

/** Where the price is wrong, told before anything else. */
function Under({ under }: Pick<ProfitView, "under">) {
  const text = useProfitText()
  const format = useFormat()
  if (under.length === 0) return null
  return (
    <Card title={text.underCost} flush>
      <p className="operator-absorbed">{text.underHint}</p>
      <DataTable
        caption={text.underCost}
        rows={under}
        rowKey={({ model, member }) => `${model} ${member}`}
        empty={<EmptyState icon={<TrendingDown />} title={text.nothing} />}
        columns={[
          {
            id: "model",
            head: text.groups.model,
            names: true,
            cell: ({ model }) => <Link href={`/operator/models/${encodeURIComponent(model)}`}>{model}</Link>,
          },
          {
            id: "member",
            head: text.groups.member,
            cell: ({ member }) => <code className="operator-member">{member}</code>,
          },
          { id: "calls", head: text.columns.calls, numeric: true, cell: ({ calls }) => format.number(calls) },
          {
            id: "short",
            head: text.columns.short,
            numeric: true,
            cell: ({ short_micro: short }) => <Money micro={short} />,
          },
        ]}
      />
    </Card>
  )
}

interface BreakdownProps {
  readonly profit: ProfitView
  readonly groupBy: ProfitGroup
  readonly splitBy: ProfitGroup | undefined
  readonly divide: (by: ProfitGroup, and: ProfitGroup | undefined) => void
  readonly more: More | undefined
}

/** The sums, divided by one thing and then by another. */
function Breakdown({ profit, groupBy, splitBy, divide, more }: BreakdownProps) {
  const text = useProfitText()
  const columns = useColumns(groupBy, splitBy)
  const isHere = profit.group_by === groupBy && (profit.split_by ?? undefined) === splitBy
  return (
    <Card title={text.division} flush>
      <div className="operator-absorbed">
        <Choice
          label={text.groupBy}
          values={profitGroups}
          chosen={groupBy}
          nameOf={(group) => text.groups[group]}
          onChoose={(group) => divide(group, splitBy === group ? undefined : splitBy)}
        />
        <Choice
          label={text.splitBy}
          values={["none", ...profitGroups.filter((group) => group !== groupBy)]}
          chosen={splitBy ?? "none"}
          nameOf={(group) => text.groups[group]}
          onChoose={(group) => divide(groupBy, group === "none" ? undefined : group)}
        />
      </div>
      <DataTable
        caption={text.division}
        columns={columns}
        rows={isHere ? profit.data : undefined}
        rowKey={({ group, split = null }) => `${group} ${split}`}
        empty={text.nothing}
        more={more}
      />
      {isHere && profit.truncated && more === undefined && <p className="operator-foot">{text.truncated}</p>}
    </Card>
  )
}

function useColumns(groupBy: ProfitGroup, splitBy: ProfitGroup | undefined): readonly Column<Row>[] {
  const text = useProfitText()
  const format = useFormat()
  const { columns: heads } = text
  const name = (group: ProfitGroup, id: string, email: string | null) => {
    if (group === "day") return format.date(`${id}T12:00:00Z`)
    if (group === "account") return <Link href={`/operator/accounts/${id}`}>{email ?? id}</Link>
    return group === "model" ? id : <code className="operator-member">{id}</code>
  }
  const split: readonly Column<Row>[] =
    splitBy === undefined
      ? []
      : [{ id: "split", head: text.groups[splitBy], cell: (row) => name(splitBy, row.split ?? "", row.email) }]
  return [
    { id: "group", head: text.groups[groupBy], names: true, cell: (row) => name(groupBy, row.group, row.email) },
    ...split,
    { id: "calls", head: heads.calls, numeric: true, cell: ({ calls }) => format.number(calls) },
    { id: "revenue", head: text.revenue, numeric: true, cell: (row) => <Money micro={row.revenue_micro} /> },
    {
      id: "cost",
      head: text.cost,
      numeric: true,
      cell: (row) => (
        <span className="operator-name operator-amount">
          <Money micro={row.cost_micro} />
          {row.unknown_cost > 0 && <small>{text.unknownShort(format.number(row.unknown_cost))}</small>}
        </span>
      ),
    },
    { id: "margin", head: text.margin, numeric: true, cell: (row) => <Money micro={row.margin_micro} /> },
    { id: "share", head: heads.share, numeric: true, cell: (row) => <Share row={row} /> },
  ]
}

function Share({ row }: { readonly row: Row }) {
  const text = useProfitText()
  const format = useFormat()
  const share = shareOf(row)
  if (row.margin_micro < 0) return <Tag tone="bad">{share === undefined ? text.loss : format.percent(share)}</Tag>
  return share === undefined ? "–" : format.percent(share)
}

/** What cost money, or would have brought some, and brought none. */
function Leaks({ profit }: { readonly profit: ProfitView }) {
  const text = useProfitText()
  const format = useFormat()
  const rows = leaks.map((name) => ({ name, ...profit.leaks[name] }))
  return (
    <Card title={text.leaks} flush>
      <DataTable
        caption={text.leaks}
        rows={rows}
        rowKey={({ name }) => name}
        empty={text.nothing}
        columns={[
          {
            id: "why",
            head: text.columns.why,
            names: true,
            cell: ({ name }) => (
              <span className="operator-name">
                {text.leakNames[name]}
                <small>{text.leakHints[name]}</small>
              </span>
            ),
          },
          { id: "records", head: text.columns.records, numeric: true, cell: ({ records }) => format.number(records) },
          { id: "cost", head: text.cost, numeric: true, cell: ({ cost_micro: cost }) => <Money micro={cost} /> },
        ]}
      />
      <p className="operator-foot">{text.absorbedNote(format.rupiah(profit.total.absorbed_micro))}</p>
    </Card>
  )
}
