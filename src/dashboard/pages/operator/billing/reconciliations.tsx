/** The latest reconciliations, and what was found not to hold. */
import { Link } from "wouter"
import { Card } from "../../../components/card.tsx"
import { DataTable } from "../../../components/data-table.tsx"
import { EmptyState } from "../../../components/empty-state.tsx"
import { Tag } from "../../../components/tag.tsx"
import { useFormat } from "../../../i18n/format.ts"
import type { BillingHealth } from "./data.ts"
import { useBillingText } from "./text.ts"

type Run = BillingHealth["reconciliation"]["runs"][number]
type Difference = BillingHealth["reconciliation"]["differences"][number]

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

/** As the reconciliation wrote them: its own names and exact numbers. */
const figuresText = (figures: unknown): string =>
  typeof figures === "object" && figures !== null
    ? Object.entries(figures)
        .map(([name, value]) => `${name}: ${String(value)}`)
        .join(", ")
    : String(figures)
