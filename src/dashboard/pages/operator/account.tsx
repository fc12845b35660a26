/** One account: its balance, transfers, keys and top-ups, and what an operator can do about it. */
import { queryOptions, useQuery } from "@tanstack/react-query"
import { Eye, Scale, Snowflake, Sun, Undo2, UserCog } from "lucide-react"
import { useState } from "react"
import { Link, useParams } from "wouter"
import { api, unwrap } from "../../api/client.ts"
import { Button, CopyButton } from "../../components/button.tsx"
import { type Column, DataTable } from "../../components/data-table.tsx"
import { ErrorState, Skeleton } from "../../components/feedback.tsx"
import { Card, Stat, Stats } from "../../components/layout.tsx"
import { Money } from "../../components/values.tsx"
import { useFormat } from "../../i18n/language.tsx"
import {
  AdjustDialog,
  FreezeDialog,
  RevokeKeyDialog,
  RoleDialog,
  SeeAsDialog,
  UnfreezeDialog,
} from "./account-dialogs.tsx"
import { useAccountText } from "./account-text.ts"
import { AccountNotice, AccountTags, KeyState, Members } from "./accounts.tsx"
import { at, CsvLink, OperatorPage, RoleButton, useList } from "./frame.tsx"
import { RefundDialog, useRefundsText } from "./refund-dialog.tsx"
import { Refunds, useRefunds } from "./refunds.tsx"
import { AccountTopUps, useAccountTopUps } from "./top-ups.tsx"

export default function AccountPage() {
  const text = useAccountText()
  const { id = "" } = useParams()
  const { data, error, refetch } = useQuery(accountQuery(id))
  // Asked for at once; shown below.
  useTransfers(id)
  useKeys(id)
  useRefunds(id)
  useAccountTopUps(id)
  if (data !== undefined) return <Account account={data} />
  const waiting = error ? <ErrorState error={error} retry={refetch} /> : <Skeleton lines={8} />
  return <OperatorPage title={text.title}>{waiting}</OperatorPage>
}

function Account({ account }: { readonly account: AccountDetail }) {
  const text = useAccountText()
  const { refund } = useRefundsText()
  const [act, setAct] = useState<"adjust" | "freeze" | "unfreeze" | "role" | "refund" | "see-as">()
  const close = () => setAct(undefined)
  return (
    <OperatorPage
      title={account.email}
      intro={<Identity account={account} />}
      actions={
        <>
          <RoleButton role="finance" icon={<Undo2 />} onClick={() => setAct("refund")}>
            {refund}
          </RoleButton>
          {account.deleted_at === null && (
            <>
              {account.role === "customer" && (
                <Button icon={<Eye />} onClick={() => setAct("see-as")}>
                  {text.seeAs}
                </Button>
              )}
              <RoleButton role="owner" icon={<UserCog />} onClick={() => setAct("role")}>
                {text.changeRole}
              </RoleButton>
              <RoleButton role="finance" icon={<Scale />} onClick={() => setAct("adjust")}>
                {text.adjust}
              </RoleButton>
              <Button
                icon={account.frozen ? <Sun /> : <Snowflake />}
                onClick={() => setAct(account.frozen ? "unfreeze" : "freeze")}
              >
                {account.frozen ? text.unfreeze : text.freeze}
              </Button>
            </>
          )}
        </>
      }
    >
      <AccountNotice account={account} />
      <Numbers account={account} />
      <Ledger accountId={account.id} />
      <Refunds accountId={account.id} />
      {account.members.length > 0 && <Members members={account.members} />}
      <Keys accountId={account.id} />
      <AccountTopUps account={account} />
      {act === "refund" && <RefundDialog account={account} onClose={close} />}
      {act === "adjust" && <AdjustDialog account={account} onClose={close} />}
      {act === "see-as" && <SeeAsDialog account={account} onClose={close} />}
      {act === "role" && <RoleDialog account={account} onClose={close} />}
      {act === "freeze" && <FreezeDialog account={account} keys={account.active_key_count} onClose={close} />}
      {act === "unfreeze" && <UnfreezeDialog account={account} onClose={close} />}
    </OperatorPage>
  )
}

function Identity({ account }: { readonly account: AccountDetail }) {
  const text = useAccountText()
  return (
    <span className="operator-identity">
      <AccountTags account={account} />
      <span>
        <code>{account.id}</code>
        <CopyButton text={account.id} what={text.accountId} />
      </span>
      <span className="operator-identity-links">
        <Link href={`/operator/accounts/${account.id}/calls`}>{text.calls}</Link>
        <Link href={`/operator/audit?subject=${account.id}`}>{text.audit}</Link>
      </span>
    </span>
  )
}

function Numbers({ account }: { readonly account: AccountDetail }) {
  const text = useAccountText()
  const { claim, claimNote } = useRefundsText()
  const format = useFormat()
  return (
    <Stats>
      <Stat label={text.available} note={text.availableNote}>
        <Money micro={BigInt(account.balance_micro) - BigInt(account.held_micro)} />
      </Stat>
      <Stat label={text.balance} note={text.balanceNote}>
        <Money micro={account.balance_micro} />
      </Stat>
      <Stat label={text.held} note={text.heldNote}>
        <Money micro={account.held_micro} />
      </Stat>
      <Stat label={text.leased} note={text.leasedNote(format.rupiah(account.unleased_micro))}>
        <Money micro={account.leased_micro} />
      </Stat>
      {account.claim_micro > 0 && (
        <Stat label={claim} note={claimNote}>
          <Money micro={-account.claim_micro} />
        </Stat>
      )}
    </Stats>
  )
}

const useTransfers = (accountId: string) =>
  useList(["transfers", accountId], (cursor) => transfersPage(accountId, cursor))

/** The account's transfers, the newest first, with the balance after each. */
export function Ledger({ accountId }: { readonly accountId: string }) {
  const text = useAccountText()
  const { table } = useTransfers(accountId)
  return (
    <Card
      title={text.ledger}
      flush
      action={<CsvLink path={`/operator/accounts/${encodeURIComponent(accountId)}/transfers`} size="small" />}
    >
      <DataTable
        caption={text.ledger}
        columns={useTransferColumns()}
        {...table}
        rowKey={({ id }) => id}
        empty={text.ledgerEmpty}
      />
    </Card>
  )
}

function useTransferColumns(): readonly Column<Transfer>[] {
  const text = useAccountText()
  const format = useFormat()
  const { ledgerColumns: heads, reasons } = text
  return [
    {
      id: "reason",
      head: heads.reason,
      names: true,
      cell: ({ reason }) => Object.entries(reasons).find(([known]) => known === reason)?.[1] ?? reason,
    },
    { id: "time", head: heads.time, cell: ({ created_at: time }) => format.dateTime(time) },
    {
      id: "note",
      head: heads.note,
      cell: (transfer) => (
        <span className="operator-reference">
          {transfer.note !== null && <span>{transfer.note}</span>}
          <code>{transfer.for}</code>
        </span>
      ),
    },
    {
      id: "amount",
      head: heads.amount,
      numeric: true,
      cell: ({ amount_micro: amount }) => (
        <span className={amount > 0 ? "is-good" : undefined}>
          {amount > 0 && "+"}
          <Money micro={amount} />
        </span>
      ),
    },
    {
      id: "balance",
      head: heads.balance,
      numeric: true,
      cell: ({ balance_micro: balance }) => <Money micro={balance} />,
    },
  ]
}

const useKeys = (accountId: string) => useList(["keys", accountId], (cursor) => keysPage(accountId, cursor))

/** The account's keys, as far as an operator sees them. */
function Keys({ accountId }: { readonly accountId: string }) {
  const text = useAccountText()
  const { table } = useKeys(accountId)
  const [leaked, setLeaked] = useState<Key>()
  return (
    <Card title={text.keys} flush>
      <DataTable
        caption={text.keys}
        columns={useKeyColumns(setLeaked)}
        {...table}
        rowKey={({ id }) => id}
        empty={text.keysEmpty}
      />
      {leaked !== undefined && (
        <RevokeKeyDialog accountId={accountId} apiKey={leaked} onClose={() => setLeaked(undefined)} />
      )}
    </Card>
  )
}

function useKeyColumns(onRevoke: (key: Key) => void): readonly Column<Key>[] {
  const text = useAccountText()
  const format = useFormat()
  const { keyColumns: heads } = text
  const limit = ({ spending_limit_micro: most, spent_micro: spent, spending_period: period }: Key) =>
    most === null || period === null
      ? text.unlimited
      : `${format.rupiah(spent ?? 0)} / ${format.rupiah(most)} ${text.periods[period]}`
  const bound = ({ expires_at: until, models, endpoints, networks, origins, max_rate_micro: rate }: Key) =>
    [
      until === null ? [] : text.keyUntil(format.dateTime(until)),
      models ?? [],
      endpoints ?? [],
      networks ?? [],
      origins ?? [],
      rate === null ? [] : text.keyRate(format.rupiah(BigInt(rate) * 1_000_000n)),
    ]
      .flat()
      .join(", ") || "–"
  return [
    {
      id: "name",
      head: heads.name,
      names: true,
      cell: ({ name, prefix, last4 }) => (
        <span className="operator-name">
          <span>{name}</span>
          <code>{`${prefix}…${last4}`}</code>
        </span>
      ),
    },
    {
      id: "state",
      head: heads.state,
      cell: (key) => (
        <span className="operator-state">
          <KeyState apiKey={key} />
          {key.status !== "revoked" && (
            <Button size="small" onClick={() => onRevoke(key)}>
              {text.revokeKey}
            </Button>
          )}
        </span>
      ),
    },
    { id: "limit", head: heads.limit, cell: limit },
    { id: "bound", head: heads.bound, cell: (key) => bound(key) },
    {
      id: "used",
      head: heads.used,
      cell: ({ last_used_at: used }) => (used === null ? text.never : format.dateTime(used)),
    },
    { id: "created", head: heads.created, cell: ({ created_at: created }) => format.date(created) },
  ]
}

const keysPage = (id: string, cursor: string | undefined) =>
  unwrap(api.operator.accounts({ id: encodeURIComponent(id) }).keys.get({ query: at(cursor) }))
type Key = Awaited<ReturnType<typeof keysPage>>["data"][number]

/** Everything about one account but its transfers. */
export const accountQuery = (id: string) =>
  queryOptions({
    queryKey: ["operator", "account", id],
    queryFn: () => unwrap(api.operator.accounts({ id: encodeURIComponent(id) }).get()),
  })
type AccountDetail = Awaited<ReturnType<NonNullable<ReturnType<typeof accountQuery>["queryFn"]>>>

export const transfersPage = (id: string, cursor: string | undefined) =>
  unwrap(api.operator.accounts({ id: encodeURIComponent(id) }).transfers.get({ query: at(cursor) }))
type Transfer = Awaited<ReturnType<typeof transfersPage>>["data"][number]
