/** The calls themselves, the newest first; each opens its receipt. */
import { keepPreviousData, useQuery } from "@tanstack/react-query"
import { ArrowUp, SearchX, Zap } from "lucide-react"
import { Button, ButtonLink } from "../../components/button.tsx"
import { type Column, DataTable } from "../../components/data-table.tsx"
import { EmptyState, Stale } from "../../components/feedback.tsx"
import { Card } from "../../components/layout.tsx"
import { Money, StatusTag } from "../../components/values.tsx"
import { useFormat } from "../../i18n/format.ts"
import { type AddressedView, isFiltered, nothingFiltered } from "./address.ts"
import { callName, LONGEST } from "./call-list.ts"
import { type Call, callsQuery, PAGE, useCallPages, useKeyName, useViewName } from "./data.ts"
import { inputOf } from "./series.ts"
import { useUsageText } from "./text.ts"

export function Calls({ view, change, open }: AddressedView) {
  const text = useUsageText()
  const format = useFormat()
  const viewName = useViewName()
  const { data, error, refetch, isPlaceholderData } = useQuery({
    ...callsQuery(view),
    placeholderData: keepPreviousData,
  })
  const { older, toNewest } = useCallPages(view)
  const columns = useCallColumns(useKeyName(), data?.arrived)
  const cursor = data?.nextCursor
  const isLong = data !== undefined && data.calls.length >= LONGEST
  return (
    <Card title={text.list} flush action={<span className="usage-hint">{text.listHint}</span>}>
      <Stale of={isPlaceholderData && data ? viewName(data.of) : undefined} className="usage-calls">
        <Newest unseen={data?.newest?.unseen} toNewest={toNewest} />
        <DataTable
          caption={text.list}
          columns={columns}
          rows={data?.calls}
          rowKey={callName}
          error={older.error ?? error}
          retry={older.error && cursor ? () => older.mutate(cursor) : refetch}
          onOpen={(call) => open(call.request_id)}
          more={cursor && !isLong ? { load: () => older.mutate(cursor), busy: older.isPending } : undefined}
          empty={
            isFiltered(view) ? (
              <EmptyState
                icon={<SearchX />}
                title={text.noMatch}
                action={<Button onClick={() => change(nothingFiltered)}>{text.clear}</Button>}
              >
                {text.noMatchHint}
              </EmptyState>
            ) : (
              <EmptyState
                icon={<Zap />}
                title={text.nothing}
                action={<ButtonLink to="/quick-start">{text.start}</ButtonLink>}
              >
                {text.noCallsHint}
              </EmptyState>
            )
          }
        />
        {isLong && cursor !== null && <p className="usage-longest">{text.longest(format.number(LONGEST))}</p>}
      </Stale>
    </Card>
  )
}

/** How many newer ones there are than a list that somebody reads on in; undefined where it follows them by itself. */
export function Newest({ unseen, toNewest }: { readonly unseen: number | undefined; readonly toNewest: () => void }) {
  const text = useUsageText()
  const format = useFormat()
  if (unseen === undefined) return null
  return (
    <div className="usage-newest" role="status">
      {unseen > 0 && (
        <Button size="small" icon={<ArrowUp />} onClick={toNewest}>
          {text.unseen(format.number(unseen) + (unseen === PAGE ? "+" : ""), unseen === 1)}
        </Button>
      )}
    </div>
  )
}

export function useCallColumns(
  keyName: (id: string) => string,
  arrived?: ReadonlySet<string>,
): readonly Column<Call>[] {
  const { columns } = useUsageText()
  const format = useFormat()
  return [
    {
      id: "model",
      head: columns.model,
      names: true,
      cell: (call) => (
        <span className={arrived?.has(callName(call)) ? "usage-call is-new" : "usage-call"}>
          <code>{call.model}</code>
          <span>{keyName(call.key_id)}</span>
        </span>
      ),
    },
    { id: "time", head: columns.time, cell: (call) => format.moment(call.created_at) },
    { id: "status", head: columns.status, cell: ({ status }) => <StatusTag status={status} /> },
    {
      id: "tokens",
      head: columns.tokens,
      numeric: true,
      wide: true,
      cell: (call) => `${format.compact(inputOf(call))} / ${format.compact(call.output_tokens)}`,
    },
    {
      id: "first-token",
      head: columns.firstToken,
      numeric: true,
      wide: true,
      cell: (call) => (call.first_token_ms === null ? "–" : format.duration(call.first_token_ms)),
    },
    {
      id: "duration",
      head: columns.duration,
      numeric: true,
      wide: true,
      cell: (call) => format.duration(call.duration_ms),
    },
    {
      id: "charge",
      head: columns.charge,
      numeric: true,
      cell: (call) => <Money micro={call.charge_micro} form="column" />,
    },
  ]
}
