/** The state of the books: flagged records, absorbed costs, and what reconciliations found. */
import { ShieldCheck } from "lucide-react"
import { Link } from "wouter"
import { api, unwrap } from "../../api/client.ts"
import { type Column, DataTable } from "../../components/data-table.tsx"
import { EmptyState, Skeleton } from "../../components/feedback.tsx"
import { Card, Stat, Stats } from "../../components/layout.tsx"
import { Money, Tag } from "../../components/values.tsx"
import { useFormat } from "../../i18n/format.ts"
import { AbsorbedAccounts } from "./absorbed.tsx"
import { useBillingText } from "./billing-text.ts"
import { at, OperatorPage, useList } from "./frame.tsx"

/** A page of flagged records. It has the sums and the reconciliations too. */
const billingPage = (cursor: string | undefined) => unwrap(api.operator["billing-health"].get({ query: at(cursor) }))
type BillingHealth = Awaited<ReturnType<typeof billingPage>>
type Flagged = BillingHealth["data"][number]

export default function BillingPage() {
  const text = useBillingText()
  const { table, first } = useList<Flagged, BillingHealth>(["billing"], billingPage)
  const columns = useColumns()
  if (first === undefined && table.error === null) {
    return (
      <OperatorPage title={text.title} intro={text.intro}>
        <Skeleton lines={16} />
      </OperatorPage>
    )
  }
  return (
    <OperatorPage title={text.title} intro={text.intro}>
      {first !== undefined && <Sums sums={first.sums} />}
      <AbsorbedAccounts />
      <Card title={text.flagged} flush>
        <DataTable
          caption={text.flagged}
          columns={columns}
          {...table}
          rowKey={({ request_id: id, kind }) => `${id} ${kind}`}
          empty={
            <EmptyState icon={<ShieldCheck />} title={text.noFlagged}>
              {text.noFlaggedHint}
            </EmptyState>
          }
        />
      </Card>
      {first !== undefined && <Runs runs={first.reconciliation.runs} />}
      {first !== undefined && <Differences differences={first.reconciliation.differences} />}
    </OperatorPage>
  )
}

function Sums({ sums }: { readonly sums: BillingHealth["sums"] }) {
  const { kinds, notes, ...text } = useBillingText()
  const format = useFormat()
  return (
    <Stats>
      <Stat label={kinds.usage_missing} note={notes.usage_missing}>
        {format.number(sums.usage_missing)}
      </Stat>
      <Stat label={kinds.billing_error} note={notes.billing_error}>
        {format.number(sums.billing_error)}
      </Stat>
      <Stat label={kinds.fenced} note={notes.fenced(format.rupiah(sums.fenced_micro))}>
        {format.number(sums.fenced)}
      </Stat>
      <Stat label={kinds.excess} note={notes.excess(format.rupiah(sums.excess_micro))}>
        {format.number(sums.excess)}
      </Stat>
      <Stat label={text.absorbed} note={text.absorbedNote}>
        <Money micro={sums.absorbed_micro} />
      </Stat>
    </Stats>
  )
}

function useColumns(): readonly Column<Flagged>[] {
  const text = useBillingText()
  const format = useFormat()
  const { columns: heads } = text
  return [
    { id: "request", head: heads.request, names: true, cell: ({ request_id: id }) => <code>{id}</code> },
    { id: "kind", head: heads.kind, cell: ({ kind }) => <Tag tone="warn">{text.kinds[kind]}</Tag> },
    { id: "model", head: heads.model, cell: ({ model }) => <code>{model}</code> },
    {
      id: "account",
      head: heads.account,
      cell: ({ account_id: id }) => (
        <Link href={`/operator/accounts/${id}`}>
          <code>{id}</code>
        </Link>
      ),
    },
    {
      id: "absorbed",
      head: heads.absorbed,
      numeric: true,
      cell: ({ absorbed_micro: absorbed }) => <Money micro={absorbed} />,
    },
    { id: "time", head: heads.time, cell: ({ created_at: time }) => format.dateTime(time) },
  ]
}

type Run = BillingHealth["reconciliation"]["runs"][number]
type Difference = BillingHealth["reconciliation"]["differences"][number]

/** The latest reconciliations. */
export function Runs({ runs }: { readonly runs: readonly Run[] }) {
  const text = useBillingText()
  const format = useFormat()
  const { runColumns: heads } = text
  const outcome = ({ ended_at: ended, differences }: Run) => {
    if (ended === null) return <Tag>{text.running}</Tag>
    if (differences === null || differences === 0) return <Tag tone="good">{text.clean}</Tag>
    return <Tag tone="bad">{text.differing(format.number(differences))}</Tag>
  }
  return (
    <Card title={text.runs} flush>
      <DataTable
        caption={text.runs}
        rows={runs}
        rowKey={({ id }) => String(id)}
        empty={<EmptyState title={text.noRuns}>{text.noRunsHint}</EmptyState>}
        columns={[
          { id: "started", head: heads.started, names: true, cell: (run) => format.dateTime(run.started_at) },
          { id: "outcome", head: heads.outcome, cell: outcome },
          {
            id: "took",
            head: heads.took,
            numeric: true,
            cell: ({ started_at: from, ended_at: to }) =>
              to === null ? "–" : format.duration(Date.parse(to) - Date.parse(from)),
          },
          {
            id: "not-compared",
            head: heads.notCompared,
            numeric: true,
            cell: ({ not_compared: count }) => (count === null ? "–" : format.number(count)),
          },
        ]}
      />
    </Card>
  )
}

export function Differences({ differences }: { readonly differences: readonly Difference[] }) {
  const text = useBillingText()
  const { differenceColumns: heads } = text
  return (
    <Card title={text.differences} flush>
      <DataTable
        caption={text.differences}
        rows={differences}
        rowKey={({ id }) => String(id)}
        empty={text.noDifferences}
        columns={[
          { id: "claim", head: heads.claim, names: true, cell: ({ claim }) => claim },
          {
            id: "state",
            head: heads.state,
            cell: ({ mended }) => (mended ? <Tag tone="good">{text.mended}</Tag> : <Tag tone="bad">{text.open}</Tag>),
          },
          {
            id: "account",
            head: heads.account,
            cell: ({ account_id: id }) =>
              id === null ? (
                text.house
              ) : (
                <Link href={`/operator/accounts/${id}`}>
                  <code>{id}</code>
                </Link>
              ),
          },
          {
            id: "figures",
            head: heads.figures,
            cell: ({ figures }) => <code className="operator-figures">{figuresText(figures)}</code>,
          },
        ]}
      />
    </Card>
  )
}

/** The reconciliation's own names and exact numbers. */
const figuresText = (figures: unknown): string =>
  typeof figures === "object" && figures !== null
    ? Object.entries(figures)
        .map(([name, value]) => `${name}: ${String(value)}`)
        .join(", ")
    : String(figures)
