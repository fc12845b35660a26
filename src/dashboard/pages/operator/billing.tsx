/** The state of the books: flagged records, and the accounts whose costs the house absorbed. */
import { queryOptions, useQuery } from "@tanstack/react-query"
import { ShieldCheck, HandCoins, Snowflake, Sun } from "lucide-react"
import { useState } from "react"
import { Link } from "wouter"
import { api, unwrap } from "../../api/client.ts"
import { Button } from "../../components/button.tsx"
import { type Column, DataTable } from "../../components/data-table.tsx"
import { EmptyState, Skeleton } from "../../components/feedback.tsx"
import { Choice } from "../../components/form.tsx"
import { Card, Stat, Stats } from "../../components/layout.tsx"
import { Money, Tag } from "../../components/values.tsx"
import { useFormat } from "../../i18n/language.tsx"
import { FreezeDialog, UnfreezeDialog } from "./account-dialogs.tsx"
import { AccountTags } from "./accounts.tsx"
import { type BillingHealth, billingPage, Differences, Runs, useBillingText } from "./reconciliations.tsx"
import { OperatorPage, useList } from "./frame.tsx"

type Flagged = BillingHealth["data"][number]

export default function BillingPage() {
  const text = useBillingText()
  const { table, first } = useList<Flagged, BillingHealth>(["billing"], billingPage)
  // Asked for at once; shown below.
  useQuery(absorbedQuery(FIRST_ABSORBED))
  const columns = useFlaggedColumns()
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

function useFlaggedColumns(): readonly Column<Flagged>[] {
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

/** Ranges, in days up to now. */
const absorbedDays = ["1", "7", "30", "90"] as const
const FIRST_ABSORBED = "30"
const DAY_MS = 24 * 60 * 60 * 1_000

const absorbedQuery = (days: (typeof absorbedDays)[number]) =>
  queryOptions({
    queryKey: ["operator", "absorbed", days],
    queryFn: async () => {
      const from = new Date(Date.now() - Number(days) * DAY_MS).toISOString()
      return (await unwrap(api.operator["billing-health"].get({ query: { from, limit: 1 } }))).absorbed
    },
  })
type Absorbed = Awaited<ReturnType<NonNullable<ReturnType<typeof absorbedQuery>["queryFn"]>>>
type AbsorbedAccount = Absorbed["accounts"][number]

/** An account that costs more than it pays can be frozen here. */
function AbsorbedAccounts() {
  const text = useBillingText()
  const format = useFormat()
  const [days, setDays] = useState<(typeof absorbedDays)[number]>(FIRST_ABSORBED)
  const { data: absorbed, error, refetch } = useQuery(absorbedQuery(days))
  const [act, setAct] = useState<{ readonly of: AbsorbedAccount; readonly what: "freeze" | "unfreeze" }>()
  const close = () => setAct(undefined)
  return (
    <Card title={text.byAccount} flush>
      <div className="operator-absorbed">
        <p>{text.byAccountHint}</p>
        <Choice
          label={text.within}
          values={absorbedDays}
          chosen={days}
          nameOf={(count) => text.days[count]}
          onChoose={setDays}
        />
      </div>
      <DataTable
        caption={text.byAccount}
        columns={useAbsorbedColumns((of) => setAct({ of, what: of.frozen ? "unfreeze" : "freeze" }))}
        rows={absorbed?.accounts}
        error={error}
        retry={refetch}
        rowKey={({ account_id: id }) => id}
        empty={
          <EmptyState icon={<HandCoins />} title={text.noneAbsorbed}>
            {text.noneAbsorbedHint}
          </EmptyState>
        }
      />
      {absorbed !== undefined && absorbed.sum_micro !== 0 && (
        <p className="operator-absorbed">
          {text.absorbedSum(format.rupiah(absorbed.sum_micro))}
          {absorbed.others.absorbed_micro !== 0 &&
            ` ${text.absorbedOthers(format.rupiah(absorbed.others.absorbed_micro))}`}
        </p>
      )}
      {act?.what === "freeze" && (
        <FreezeDialog account={accountOf(act.of)} keys={act.of.active_key_count} onClose={close} />
      )}
      {act?.what === "unfreeze" && <UnfreezeDialog account={accountOf(act.of)} onClose={close} />}
    </Card>
  )
}

const accountOf = ({ account_id: id, email }: AbsorbedAccount) => ({ id, email })

function useAbsorbedColumns(onAct: (account: AbsorbedAccount) => void): readonly Column<AbsorbedAccount>[] {
  const text = useBillingText()
  const format = useFormat()
  const { absorbedColumns: heads } = text
  return [
    {
      id: "account",
      head: heads.account,
      names: true,
      cell: (account) => (
        <span className="operator-name">
          <Link href={`/operator/accounts/${account.account_id}`}>{account.email}</Link>
          <AccountTags account={{ ...account, operator_role: null }} />
        </span>
      ),
    },
    {
      id: "absorbed",
      head: heads.absorbed,
      numeric: true,
      cell: ({ absorbed_micro: absorbed }) => <Money micro={absorbed} />,
    },
    { id: "calls", head: heads.calls, numeric: true, cell: ({ calls }) => format.number(calls) },
    { id: "newest", head: heads.newest, cell: ({ newest_at: time }) => format.dateTime(time) },
    {
      id: "requests",
      head: heads.requests,
      cell: ({ request_ids: ids }) => (
        <span className="operator-name">
          {ids.map((id) => (
            <code key={id}>{id}</code>
          ))}
        </span>
      ),
    },
    {
      id: "act",
      head: heads.act,
      cell: (account) =>
        account.deleted_at === null && (
          <Button
            size="small"
            icon={account.frozen ? <Sun /> : <Snowflake />}
            aria-label={`${account.frozen ? text.unfreeze : text.freeze} ${account.email}`}
            onClick={() => onAct(account)}
          >
            {account.frozen ? text.unfreeze : text.freeze}
          </Button>
        ),
    },
  ]
}
