/** The calls themselves, the newest first, each of which opens its receipt; and the run that they are of. */
import { keepPreviousData, useQuery, queryOptions } from "@tanstack/react-query"
import { ArrowUp, Search, SearchX, Zap, CircleStop, X } from "lucide-react"
import { useState } from "react"
import { api, unwrap } from "../../api/client.ts"
import { Button, ButtonLink, IconButton } from "../../components/button.tsx"
import { type Column, DataTable } from "../../components/data-table.tsx"
import { EmptyState, Stale, ErrorState, Skeleton } from "../../components/feedback.tsx"
import { formText, TextField } from "../../components/form.tsx"
import { Card, Facts } from "../../components/layout.tsx"
import { EndRunDialog, useRunText } from "../../components/spending.tsx"
import { Money, StatusTag } from "../../components/values.tsx"
import { useFormat } from "../../i18n/language.tsx"
import { useMay } from "../../shell/session.tsx"
import { type AddressedView, isFiltered, nothingFiltered } from "./address.ts"
import { inputOf } from "./series.ts"
import { type Call, callName, callsQuery, LONGEST, PAGE, useCallPages, useKeyName, useViewName } from "./data.ts"
import { useUsageText } from "./text.ts"

/** A request id, as clients log it or paste it: with its header's name, quotes, or a line around it. */
const REQUEST_ID = /req_[A-Za-z0-9_-]{1,60}/

/** Finds one call, whatever the range and the filters. */
export function CallSearch({ open }: Pick<AddressedView, "open">) {
  const text = useUsageText()
  const [isWrong, setWrong] = useState(false)
  const find = (typed: string): boolean => {
    const [id] = REQUEST_ID.exec(typed) ?? []
    if (id !== undefined) open(id)
    return id !== undefined
  }
  return (
    <form
      className="usage-search"
      noValidate
      onSubmit={(event) => {
        event.preventDefault()
        setWrong(!find(formText(new FormData(event.currentTarget), "request")))
      }}
    >
      <TextField
        label={text.find}
        name="request"
        placeholder="req_…"
        autoComplete="off"
        spellCheck={false}
        error={isWrong ? text.findWrong : undefined}
        onChange={() => setWrong(false)}
        onPaste={(event) => {
          if (find(event.clipboardData.getData("text"))) event.preventDefault()
        }}
        after={
          <IconButton type="submit" size="small" label={text.findNow}>
            <Search />
          </IconButton>
        }
      />
    </form>
  )
}

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
        <Archived until={data?.archivedUntil} />
        <Newest unseen={data?.newest?.unseen} toNewest={toNewest} />
        <DataTable
          caption={text.list}
          columns={columns}
          rows={data?.calls}
          rowKey={callName}
          error={older.error ?? error}
          retry={older.error && cursor ? () => older.load(cursor) : refetch}
          onOpen={(call) => open(call.request_id)}
          more={cursor && !isLong ? { load: () => older.load(cursor), busy: older.busy } : undefined}
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

/** Which calls are in no list and no file. */
export function Archived({ until }: { readonly until: string | undefined }) {
  const text = useUsageText()
  const format = useFormat()
  if (until === undefined) return null
  return <p className="usage-longest">{text.archived(format.dateTime(until))}</p>
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

/** Under the name of sums, which are asked for again when a call has ended. */
const runQuery = (id: string) =>
  queryOptions({ queryKey: ["sums", "run", id], queryFn: () => unwrap(api.runs({ id }).get()) })

/** In the receipt of one of its calls. */
export function RunOfCall({ id }: { readonly id: string }) {
  const text = useRunText()
  return (
    <section>
      <RunFacts id={id} />
      <ButtonLink to={`/usage?run=${encodeURIComponent(id)}`}>{text.allCalls}</ButtonLink>
    </section>
  )
}

/** Above the list of its calls. */
export function RunCard({ id, change }: Pick<AddressedView, "change"> & { readonly id: string }) {
  const text = useRunText()
  const run = useQuery(runQuery(id)).data
  const mayEnd = useMay()("build")
  const [ending, setEnding] = useState(false)
  return (
    <Card
      title={text.title}
      action={
        <span className="usage-filtered">
          {mayEnd && run?.status === "open" && (
            <Button size="small" icon={<CircleStop />} onClick={() => setEnding(true)}>
              {text.endNow}
            </Button>
          )}
          <Button size="small" icon={<X />} onClick={() => change({ run: undefined })}>
            {text.clear}
          </Button>
        </span>
      }
    >
      <RunFacts id={id} />
      {ending && run !== undefined && <EndRunDialog run={run} onClose={() => setEnding(false)} />}
    </Card>
  )
}

function RunFacts({ id }: { readonly id: string }) {
  const text = useRunText()
  const format = useFormat()
  const keyName = useKeyName()
  const { data: run, error, refetch } = useQuery(runQuery(id))
  if (run === undefined) return error ? <ErrorState error={error} retry={refetch} /> : <Skeleton lines={4} />
  const ends = format.dateTime(run.ends_at)
  return (
    <>
      <Facts
        title={`${text.title} ${run.name}`}
        facts={[
          { name: text.left, value: <Money micro={run.remaining_micro} form="exact" /> },
          {
            name: text.spent,
            value: text.of(format.rupiah(run.spent_micro, "exact"), format.rupiah(run.budget_micro, "exact")),
          },
          { name: text.calls, value: format.number(run.calls) },
          { name: text.key, value: keyName(run.key_id) },
          { name: text.ends, value: run.status === "ended" ? text.ended(ends) : ends },
        ]}
      />
      {run.models.length > 0 && (
        <Facts
          title={text.models}
          facts={run.models.map(({ model, charge_micro: charge }) => ({
            name: model,
            value: <Money micro={charge} form="exact" />,
          }))}
        />
      )}
    </>
  )
}
