/** What became of the members of pools: the share of errors by the hour, and what happened, of one member or of all. */
import { queryOptions, useQuery } from "@tanstack/react-query"
import { History } from "lucide-react"
import { api, unwrap } from "../../api/client.ts"
import { type Column, DataTable } from "../../components/data-table.tsx"
import { EmptyState, ErrorState, Skeleton, useChart, useChartAhead } from "../../components/feedback.tsx"
import { SelectField } from "../../components/form.tsx"
import { Card } from "../../components/layout.tsx"
import { Tag } from "../../components/values.tsx"
import { type Format, useFormat } from "../../i18n/language.tsx"
import { useBackendsText } from "./text.ts"
import { at, useList, useParameter } from "./frame.tsx"

const HOUR_MS = 3_600_000
const HOURS = 7 * 24
const FOLLOW_MS = 10_000
const HOURS_EVERY_MS = 60_000

const of = (member: string) => (member === "" ? {} : { member })
const historyPage = (member: string, cursor: string | undefined) =>
  unwrap(api.operator.backends.history.get({ query: { ...of(member), ...at(cursor) } }))
type Entry = Awaited<ReturnType<typeof historyPage>>["data"][number]

const hoursQuery = (member: string) =>
  queryOptions({
    queryKey: ["operator", "backends", "hours", member],
    queryFn: () => unwrap(api.operator.backends.hours.get({ query: of(member) })),
    refetchInterval: HOURS_EVERY_MS,
  })

const useHistory = (member: string) =>
  useList(["backends", "history", member], (cursor) => historyPage(member, cursor), FOLLOW_MS)

/** It is asked for at once, and shown below what the page waits for. */
export function useHistoryAhead(): void {
  const [member] = useParameter("member")
  useHistory(member)
  useQuery(hoursQuery(member))
  useChartAhead()
}

export function BackendsHistory({ members }: { readonly members: readonly string[] }) {
  const text = useBackendsText().history
  const [member, setMember] = useParameter("member")
  const { table } = useHistory(member)
  const choices = [...new Set([...members, ...(member === "" ? [] : [member])])].toSorted()
  return (
    <section className="operator-history" aria-label={text.title}>
      <h2>{text.title}</h2>
      <div className="operator-search">
        <SelectField
          label={text.member}
          value={member}
          onChange={({ target: { value } }) => setMember(value)}
          options={[{ value: "", label: text.all }, ...choices.map((id) => ({ value: id, label: id }))]}
        />
      </div>
      <Hours member={member} />
      <Card title={text.events} flush>
        <DataTable
          caption={text.events}
          columns={useColumns()}
          {...table}
          rowKey={({ event, member: id, model, at: time, request_id: request }) =>
            [event, id, model, time, request].join(" ")
          }
          empty={<EmptyState icon={<History />} title={text.none} />}
        />
      </Card>
    </section>
  )
}

function Hours({ member }: { readonly member: string }) {
  const text = useBackendsText().history
  const format = useFormat()
  const { data: hours, error, refetch } = useQuery(hoursQuery(member))
  const Chart = useChart()
  return (
    <Card title={text.hours}>
      <div className="operator-history-charts">
        {hours === undefined || Chart === undefined ? (
          error ? (
            <ErrorState error={error} retry={refetch} />
          ) : (
            <Skeleton lines={9} />
          )
        ) : hours.data.length === 0 ? (
          <EmptyState icon={<History />} title={text.noTries} />
        ) : (
          chartsOf(hours.data, text).map(({ title, values, first, isTime, ...chart }) => (
            <section key={title} aria-label={title}>
              <h3>{title}</h3>
              <Chart
                {...chart}
                caption={title}
                labels={values.map((_, step) => hourOf(first + step * HOUR_MS, format))}
                format={isTime ? format.duration : format.percent}
                kind="bars"
              />
            </section>
          ))
        )}
      </div>
    </Card>
  )
}

/** "21 Nov, 22.00": without the seconds. */
const hourOf = (at: number, format: Format) => `${format.day(at)}, ${format.time(at).slice(0, 5)}`

type HourOfTries = Awaited<ReturnType<NonNullable<ReturnType<typeof hoursQuery>["queryFn"]>>>["data"][number]

/** A step for each of the last hours, also of those without tries. */
function chartsOf(known: readonly HourOfTries[], text: ReturnType<typeof useBackendsText>["history"]) {
  const first = (Math.floor(Date.now() / HOUR_MS) + 1 - HOURS) * HOUR_MS
  const values: (HourOfTries | undefined)[] = Array.from({ length: HOURS }, () => undefined)
  for (const hour of known) {
    const step = (Date.parse(hour.hour) - first) / HOUR_MS
    if (step >= 0 && step < HOURS) values[step] = hour
  }
  const share = (part: (hour: HourOfTries) => number) =>
    values.map((hour) => (hour === undefined ? null : part(hour) / hour.tries))
  const limited = { name: text.limited, values: share(({ rate_limited: some }) => some) }
  const failed = {
    name: text.failed,
    values: share(({ failures, rate_limited: some }) => failures - some),
  }
  const times = { name: text.first, values: values.map((hour) => hour?.first_token_p50_ms ?? null) }
  return [
    { title: text.share, isTime: false, series: [failed, limited], total: text.share, values, first },
    { title: text.first, isTime: true, series: [times], values, first },
  ]
}

const tones = {
  opened: "warn",
  closed: "good",
  credential_refused: "bad",
  credential_accepted: "good",
  "member.changed": "neutral",
  "member.retried": "neutral",
} as const

function useColumns(): readonly Column<Entry>[] {
  const text = useBackendsText().history
  const format = useFormat()
  return [
    {
      id: "event",
      head: text.columns.event,
      names: true,
      cell: ({ event, times }) => (
        <span className="operator-tags">
          <Tag tone={tones[event]}>{text.names[event]}</Tag>
          {times > 1 && text.times(format.number(times))}
        </span>
      ),
    },
    { id: "member", head: text.columns.member, cell: ({ member }) => <code className="operator-long">{member}</code> },
    { id: "why", head: text.columns.why, cell: (entry) => <Why entry={entry} /> },
    { id: "time", head: text.columns.time, cell: ({ at: time }) => format.moment(time) },
  ]
}

/** By what it came: a failure, or an operator and what was set. */
function Why({
  entry: { event, class: failure, status, operator, after, processes, model },
}: {
  readonly entry: Entry
}) {
  const all = useBackendsText()
  const text = all.history
  const format = useFormat()
  if (event === "member.changed" || event === "member.retried") {
    const { state, weight } = event === "member.changed" ? fieldsOf(after) : {}
    const set = [
      state === undefined ? "" : (Object.entries(all.states).find(([name]) => name === state)?.[1] ?? ""),
      weight === undefined ? "" : text.weight(typeof weight === "number" ? format.number(weight) : undefined),
    ]
    return <span className="operator-long">{[...set, operator?.email ?? text.machine].filter(Boolean).join(", ")}</span>
  }
  const cause = failure === null ? "" : `${all.classes[failure]}${status === null ? "" : ` (${status})`}`
  const seen = processes.length > 1 ? text.processes(format.number(processes.length)) : ""
  return <span className="operator-long">{[cause, model ?? "", seen].filter(Boolean).join(", ")}</span>
}

const fieldsOf = (value: unknown): { readonly state?: unknown; readonly weight?: unknown } =>
  typeof value === "object" && value !== null ? value : {}
