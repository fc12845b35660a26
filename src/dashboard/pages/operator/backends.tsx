/** The pool of each model: its members, how they did in the last minutes, and what an operator sets of them. Refetched all the time. */
import { queryOptions, useQuery } from "@tanstack/react-query"
import { RotateCw, ServerOff } from "lucide-react"
import { useState } from "react"
import { api, unwrap } from "../../api/client.ts"
import { type Column, DataTable } from "../../components/data-table.tsx"
import { EmptyState, ErrorState, Skeleton } from "../../components/feedback.tsx"
import { SelectField, TextField } from "../../components/form.tsx"
import { Card } from "../../components/layout.tsx"
import { Tag } from "../../components/values.tsx"
import { useFormat, useLanguage } from "../../i18n/language.tsx"
import { parseWhole } from "../../i18n/figures.ts"
import { ActDialog, useDraft } from "./act-dialog.tsx"
import { BackendsHistory, useHistoryAhead } from "./backends-history.tsx"
import { useBackendsText } from "./text.ts"
import { ChangeDialog } from "./changes.tsx"
import { OperatorPage, RoleButton, useMay } from "./frame.tsx"
import { StatusNotes, statusNotesQuery } from "./status-notes.tsx"

const FOLLOW_MS = 10_000
const MAX_WEIGHT = 100_000_000
const STATES = ["serving", "draining", "disabled"] as const

const backendsQuery = queryOptions({
  queryKey: ["operator", "backends"],
  queryFn: () => unwrap(api.operator.backends.get()),
  refetchInterval: FOLLOW_MS,
})
type Backends = Awaited<ReturnType<NonNullable<typeof backendsQuery.queryFn>>>
type Pool = Backends["data"][number]
type Member = Pool["members"][number]
/** A member, and the model whose pool it is of. */
type Row = Member & { readonly model: string }

type Acting = { readonly act: "change" | "retry"; readonly row: Row }

const isWell = ({ circuit, credential_circuit: ofCredential }: Member): boolean =>
  circuit === "closed" && ofCredential === "closed"

/** The members of pools, and before all others those that are not well. */
const rowsOf = (pools: readonly Pool[]): Row[] =>
  pools
    .flatMap(({ model, members }) => members.map((member) => ({ model, ...member })))
    .toSorted((one, other) => Number(isWell(one)) - Number(isWell(other)))

export default function BackendsPage() {
  const text = useBackendsText()
  const format = useFormat()
  const { data: backends, error, refetch } = useQuery(backendsQuery)
  // They stand above all else, so that the page waits for them and nothing moves.
  const { isPending: noNotes } = useQuery(statusNotesQuery)
  useHistoryAhead()
  const [acting, setActing] = useState<Acting>()
  const close = () => setActing(undefined)
  return (
    <OperatorPage
      key={backends && "known"}
      title={text.title}
      intro={backends && text.intro(format.number(backends.minutes))}
    >
      {backends === undefined || noNotes ? (
        error ? (
          <ErrorState error={error} retry={refetch} />
        ) : (
          <Skeleton lines={8} />
        )
      ) : (
        <>
          <StatusNotes />
          <PoolCards pools={backends.data} onAct={setActing} />
          <p className="operator-count">{text.process(backends.process_id)}</p>
          <BackendsHistory members={backends.data.flatMap(({ members }) => members.map(({ member }) => member))} />
        </>
      )}
      {acting?.act === "change" && <MemberDialog row={acting.row} onClose={close} />}
      {acting?.act === "retry" && <RetryDialog row={acting.row} onClose={close} />}
    </OperatorPage>
  )
}

interface PoolCardsProps {
  readonly pools: readonly Pool[]
  readonly onAct: (acting: Acting) => void
}

/** A card for each pool of several, and one for all models that have one backend or none. */
function PoolCards({ pools, onAct }: PoolCardsProps) {
  const text = useBackendsText()
  const columns = useColumns(onAct)
  const [member, ...others] = columns
  const model: Column<Row> = { id: "model", head: text.columns.model, cell: ({ model: id }) => <code>{id}</code> }
  const several = pools.filter(({ members }) => members.length > 1)
  const single = pools.filter(({ members }) => members.length === 1)
  const unconfigured = pools.filter(({ members }) => members.length === 0)
  const may = useMay("owner")
  const opens = may ? { onOpen: (row: Row) => onAct({ act: "change", row }) } : {}
  if (pools.length === 0) return <EmptyState icon={<ServerOff />} title={text.noBackends} />
  return (
    <>
      {several.map((pool) => (
        <Card key={pool.model} title={pool.model} flush>
          <DataTable
            caption={pool.model}
            columns={columns}
            rows={rowsOf([pool])}
            rowKey={({ member: id }) => id}
            {...opens}
            empty={text.noMembers}
          />
        </Card>
      ))}
      {single.length > 0 && member !== undefined && (
        <Card title={text.single} flush>
          <DataTable
            caption={text.single}
            columns={[member, model, ...others]}
            rows={rowsOf(single)}
            rowKey={(row) => `${row.model} ${row.member}`}
            {...opens}
            empty={text.noMembers}
          />
        </Card>
      )}
      {unconfigured.length > 0 && (
        <Card title={text.unconfigured}>
          <p>{text.noMembers}</p>
          <span className="operator-tags">
            {unconfigured.map(({ model: id }) => (
              <Tag key={id}>{id}</Tag>
            ))}
          </span>
        </Card>
      )}
    </>
  )
}

function useColumns(onAct: (acting: Acting) => void): readonly Column<Row>[] {
  const text = useBackendsText()
  const format = useFormat()
  const { columns: heads } = text
  const duration = (ms: number | null) => (ms === null ? "–" : format.duration(ms))
  return [
    {
      id: "member",
      head: heads.member,
      names: true,
      cell: ({ member }) => <code className="operator-member">{member}</code>,
    },
    {
      id: "state",
      head: heads.state,
      cell: (row) => (
        <span className="operator-reference">
          <span>
            <MemberTags row={row} onRetry={() => onAct({ act: "retry", row })} />
          </span>
          <LastFailure of={row} />
        </span>
      ),
    },
    { id: "weight", head: heads.weight, numeric: true, cell: ({ weight }) => format.number(weight) },
    {
      id: "share",
      head: heads.share,
      numeric: true,
      cell: ({ share }) => (share === null ? "–" : format.percent(share)),
    },
    {
      id: "under-way",
      head: heads.underWay,
      numeric: true,
      cell: ({ under_way: underWay, max_concurrency: most }) =>
        most === null ? format.number(underWay) : `${format.number(underWay)} / ${format.number(most)}`,
    },
    { id: "calls", head: heads.calls, numeric: true, cell: ({ calls }) => format.number(calls) },
    {
      id: "failures",
      head: heads.failures,
      numeric: true,
      cell: ({ failures }) => <span className={failures > 0 ? "is-bad" : undefined}>{format.number(failures)}</span>,
    },
    {
      id: "first",
      head: heads.first,
      numeric: true,
      cell: ({ first_token_p50_ms: p50, first_token_p95_ms: p95 }) =>
        p50 === null ? "–" : `${duration(p50)} / ${duration(p95)}`,
    },
  ]
}

const tones = { serving: "neutral", draining: "warn", disabled: "bad" } as const

function MemberTags({ row, onRetry }: { readonly row: Row; readonly onRetry: () => void }) {
  const text = useBackendsText()
  const format = useFormat()
  const { state, circuit, credential_circuit: ofCredential, reopens_in_s: seconds } = row
  const again = seconds === null ? "" : `, ${text.again(format.number(seconds))}`
  return (
    <span className="operator-tags">
      {state !== "serving" && <Tag tone={tones[state]}>{text.states[state]}</Tag>}
      {isWell(row) && state === "serving" && <Tag tone="good">{text.circuits.closed}</Tag>}
      {circuit !== "closed" && <Tag tone="warn">{`${text.circuits[circuit]}${again}`}</Tag>}
      {ofCredential !== "closed" && <Tag tone="bad">{text.credential}</Tag>}
      {!isWell(row) && (
        <RoleButton role="owner" size="small" icon={<RotateCw aria-hidden="true" />} onClick={onRetry}>
          {text.retry}
        </RoleButton>
      )}
    </span>
  )
}

/** Under its state, because a column of its own is more than a screen has room for. */
function LastFailure({ of: { last_failure: last } }: { readonly of: Member }) {
  const text = useBackendsText()
  const format = useFormat()
  if (last === null) return null
  const status = last.status === null ? "" : ` (${last.status})`
  const failure = text.failure(text.classes[last.class], status, format.ago(last.at, Date.now()))
  return <small>{`${text.columns.last}: ${failure}`}</small>
}

interface DialogProps {
  readonly row: Row
  readonly onClose: () => void
}

const at = (member: string) => api.operator.members({ member: encodeURIComponent(member) })

function RetryDialog({ row, onClose }: DialogProps) {
  const text = useBackendsText()
  return (
    <ActDialog
      title={row.member}
      act={text.retry}
      done={text.retried}
      run={() => unwrap(at(row.member).retry.post())}
      onClose={onClose}
    >
      <p>{text.retryText}</p>
    </ActDialog>
  )
}

/** Its state and its weight. Only what was edited is sent. */
function MemberDialog({ row, onClose }: DialogProps) {
  const text = useBackendsText()
  const { language } = useLanguage()
  const format = useFormat()
  const [before] = useState(row)
  const written = before.own_weight === null ? "" : String(before.own_weight)
  const { values, set, sent, send } = useDraft({ state: before.state, weight: written })
  const asked = values.weight.trim() === "" ? null : parseWhole(values.weight, language)
  const weight = asked === undefined || (asked !== null && asked > MAX_WEIGHT) ? undefined : asked
  const read = () => {
    send()
    if (weight === undefined) return undefined
    return {
      ...(values.state !== before.state && { state: values.state }),
      ...(values.weight.trim() !== written && { weight }),
    }
  }
  return (
    <ChangeDialog
      title={text.change(before.member)}
      done={text.changed}
      danger={values.state === "disabled"}
      read={read}
      send={(change, { dryRun }) => unwrap(at(before.member).patch(change, { query: { dry_run: dryRun } }))}
      onClose={onClose}
    >
      <SelectField
        label={text.stateLabel}
        hint={text.stateHint}
        options={STATES.map((state) => ({ value: state, label: text.states[state] }))}
        value={values.state}
        onChange={({ target: { value } }) => set({ state: STATES.find((state) => state === value) ?? before.state })}
      />
      <TextField
        label={text.weightLabel}
        inputMode="numeric"
        hint={text.weightHint(format.number(before.catalogue_weight))}
        error={sent && weight === undefined ? text.weightWrong : undefined}
        value={values.weight}
        onChange={({ target: { value } }) => set({ weight: value })}
      />
    </ChangeDialog>
  )
}
