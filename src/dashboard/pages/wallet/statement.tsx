/** Every change of the balance in a month, and the balance after each. Calls are summed by day and key. */
import { keepPreviousData, queryOptions, useQuery } from "@tanstack/react-query"
import { ChevronLeft, ChevronRight, Download, FileText, ScrollText } from "lucide-react"
import { Link, useSearchParams } from "wouter"
import { api, unwrap } from "../../api/client.ts"
import { IconButton } from "../../components/button.tsx"
import { Choice } from "../../components/form.tsx"
import { type Column, DataTable } from "../../components/data-table.tsx"
import { EmptyState, ErrorState, Skeleton, Stale } from "../../components/feedback.tsx"
import { Card, DownloadLink, Page, Stat, Stats } from "../../components/layout.tsx"
import { Money } from "../../components/values.tsx"
import { useFormat, useToday } from "../../i18n/language.tsx"
import { useKeyName } from "../usage/data.ts"
import { useStatementText } from "./text.ts"

const statementQuery = (month: string) =>
  queryOptions({
    queryKey: ["statement", month],
    queryFn: () => unwrap(api.account.statement.get({ query: { month } })),
  })
type Statement = Awaited<ReturnType<NonNullable<ReturnType<typeof statementQuery>["queryFn"]>>>
type Entry = Statement["entries"][number]

const filters = ["all", "top_up", "calls", "refund", "adjustment"] as const
type Filter = (typeof filters)[number]
/** All that went back, and what it left to settle. */
const backs: ReadonlySet<Entry["kind"]> = new Set([
  "refund",
  "refund_cancelled",
  "provider_refund",
  "chargeback",
  "claim",
])

export default function StatementPage() {
  const text = useStatementText()
  const format = useFormat()
  const [search, setSearch] = useSearchParams()
  const current = useToday().slice(0, 7)
  const month = monthIn(search.get("month"), current)
  const filter = filters.find((known) => known === search.get("show")) ?? "all"
  const { data, error, refetch, isPlaceholderData } = useQuery({
    ...statementQuery(month),
    placeholderData: keepPreviousData,
  })
  // Asked for at once, for the names in the table.
  useKeyName()
  const change = (name: string, value: string, usual: string) =>
    setSearch(
      (now) => {
        const next = new URLSearchParams(now)
        if (value === usual) next.delete(name)
        else next.set(name, value)
        return next
      },
      { replace: true },
    )
  const monthName = (of: string) => format.month(`${of}-15T12:00:00Z`)
  return (
    <Page
      title={text.title}
      intro={text.intro}
      wide
      actions={
        <>
          <DownloadLink href={`/account/statement.csv?month=${month}`} icon={<Download />}>
            {text.download}
          </DownloadLink>
          <DownloadLink href={`/account/statement.pdf?month=${month}`} icon={<FileText />}>
            {text.pdf}
          </DownloadLink>
        </>
      }
    >
      <nav className="statement-month" aria-label={text.month}>
        <IconButton
          label={text.before}
          atEnd={data !== undefined && month <= data.first_month}
          onClick={() => change("month", otherMonth(month, -1), current)}
        >
          <ChevronLeft />
        </IconButton>
        <strong aria-live="polite">{monthName(month)}</strong>
        <IconButton
          label={text.after}
          atEnd={month >= current}
          onClick={() => change("month", otherMonth(month, 1), current)}
        >
          <ChevronRight />
        </IconButton>
      </nav>
      {data === undefined && error ? (
        <ErrorState error={error} retry={refetch} />
      ) : (
        <Stale of={isPlaceholderData && data ? monthName(data.month) : undefined}>
          <div className="page-body">
            <Numbers statement={data} isCurrent={month === current} />
            <Card
              title={text.changes}
              flush
              action={
                <Choice
                  label={text.show}
                  values={filters}
                  chosen={filter}
                  nameOf={(value) => text.filters[value]}
                  onChoose={(value) => change("show", value, "all")}
                />
              }
            >
              <div className="statement-entries">
                <Entries statement={data} filter={filter} />
              </div>
            </Card>
          </div>
        </Stale>
      )}
    </Page>
  )
}

function Numbers({ statement, isCurrent }: { readonly statement: Statement | undefined; readonly isCurrent: boolean }) {
  const text = useStatementText()
  const figures = [
    [text.opening, statement?.opening_micro],
    [text.in, statement?.in_micro],
    [text.out, statement?.out_micro],
    [isCurrent ? text.now : text.closing, statement?.closing_micro],
    ...(statement !== undefined && statement.claim_micro > 0 ? ([[text.claim, -statement.claim_micro]] as const) : []),
  ] as const
  return (
    <Stats>
      {figures.map(([label, micro]) => (
        <Stat key={label} label={label}>
          {micro === undefined ? <Skeleton /> : <Money micro={micro} />}
        </Stat>
      ))}
    </Stats>
  )
}

function Entries({ statement, filter }: { readonly statement: Statement | undefined; readonly filter: Filter }) {
  const text = useStatementText()
  const columns = useColumns(statement)
  const rows = statement?.entries.filter(
    ({ kind }) => filter === "all" || kind === filter || (filter === "refund" && backs.has(kind)),
  )
  return (
    <>
      <DataTable
        caption={text.changes}
        columns={columns}
        rows={rows}
        rowKey={({ day, kind, at, key_id: key, balance_micro: balance, claim_micro: claim }) =>
          `${day} ${kind} ${at} ${key} ${balance} ${claim}`
        }
        empty={
          <EmptyState icon={<ScrollText />} title={text.nothing}>
            {text.nothingHint}
          </EmptyState>
        }
      />
      {statement?.by_key === false && <p className="statement-note">{text.byDay}</p>}
    </>
  )
}

function useColumns(statement: Statement | undefined): readonly Column<Entry>[] {
  const text = useStatementText()
  const format = useFormat()
  const { columns } = text
  return [
    {
      id: "what",
      head: columns.what,
      names: true,
      cell: (entry) => <What entry={entry} byKey={statement?.by_key ?? true} />,
    },
    {
      id: "time",
      head: columns.time,
      cell: ({ at, day }) => (at === null ? format.shortDay(day) : format.moment(at)),
    },
    {
      id: "amount",
      head: columns.amount,
      numeric: true,
      cell: ({ amount_micro: amount }) => (
        <span className={amount > 0 ? "is-good" : undefined}>
          {amount > 0 && "+"}
          <Money micro={amount} form="column" />
        </span>
      ),
    },
    {
      id: "balance",
      head: columns.balance,
      numeric: true,
      cell: (entry) => <Money micro={entry.balance_micro} form="column" />,
    },
  ]
}

/** What happened, as a link to more of it where there is more. */
function What({ entry, byKey }: { readonly entry: Entry; readonly byKey: boolean }) {
  const text = useStatementText()
  const format = useFormat()
  const keyName = useKeyName()
  const { kind, day, calls, key_id: key, top_up_id: topUp, note, claim_micro: claim } = entry
  const name = text.kinds[kind]
  const range = `from=${day}&to=${day}`
  const link =
    kind === "calls"
      ? `/usage?${range}${key === null ? "" : `&key=${encodeURIComponent(key)}`}`
      : topUp === null
        ? undefined
        : `/wallet/${topUp}`
  const more =
    kind === "calls"
      ? [text.calls(format.number(calls ?? 0), calls === 1)]
      : [note ?? undefined, claim > 0 ? text.claimed(format.rupiah(claim)) : undefined]
  return (
    <span className="statement-what">
      {link === undefined ? name : <Link href={link}>{name}</Link>}
      <span>
        {kind === "calls" && byKey && key !== null && (
          <>
            {/* A name that runs to the left would take the number with it. */}
            <bdi>{keyName(key)}</bdi>
            {" · "}
          </>
        )}
        {more.filter((part) => part !== undefined).join(" · ")}
      </span>
    </span>
  )
}

const MONTH = /^\d{4}-(?:0[1-9]|1[0-2])$/

/** What an address says, unless it makes no sense or is still to come. */
const monthIn = (given: string | null, current: string): string =>
  given !== null && MONTH.test(given) && given <= current ? given : current

function otherMonth(month: string, months: number): string {
  const [year = 0, number = 1] = month.split("-").map(Number)
  return new Date(Date.UTC(year, number - 1 + months, 15)).toISOString().slice(0, 7)
}
