/** What in the books wants a look: flagged records, and what reconciliations found. */
import { ShieldCheck } from "lucide-react"
import { Link } from "wouter"
import { Card, Stat, Stats } from "../../../components/card.tsx"
import { type Column, DataTable } from "../../../components/data-table.tsx"
import { EmptyState } from "../../../components/empty-state.tsx"
import { Money } from "../../../components/money.tsx"
import { Tag } from "../../../components/tag.tsx"
import { useFormat } from "../../../i18n/format.ts"
import { useList } from "../list.ts"
import { OperatorPage } from "../section.tsx"
import { AbsorbedAccounts } from "./absorbed.tsx"
import { type BillingHealth, billingPage, type Flagged } from "./data.ts"
import { Differences, Runs } from "./reconciliations.tsx"
import { useBillingText } from "./text.ts"

export default function BillingPage() {
  const text = useBillingText()
  const { table, first } = useList<Flagged, BillingHealth>(["billing"], billingPage)
  return (
    <OperatorPage title={text.title} intro={text.intro}>
      {first !== undefined && <Sums sums={first.sums} />}
      <AbsorbedAccounts />
      <Card title={text.flagged} flush>
        <DataTable
          caption={text.flagged}
          columns={useColumns()}
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
