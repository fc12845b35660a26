/** One account: what it has and may, what moved its balance, and what an operator can do about it. */
import { useQuery } from "@tanstack/react-query"
import { Scale, Snowflake, Sun } from "lucide-react"
import { useState } from "react"
import { Link, useParams } from "wouter"
import { Button } from "../../../components/button.tsx"
import { Stat, Stats } from "../../../components/card.tsx"
import { CopyButton } from "../../../components/copy-button.tsx"
import { ErrorState } from "../../../components/error-state.tsx"
import { Money } from "../../../components/money.tsx"
import { Skeleton } from "../../../components/skeleton.tsx"
import { useFormat } from "../../../i18n/format.ts"
import { AccountTags } from "../accounts/account-tags.tsx"
import { OperatorPage } from "../section.tsx"
import { AdjustDialog } from "./adjust-dialog.tsx"
import { type AccountDetail, accountQuery } from "./data.ts"
import { FreezeDialog, UnfreezeDialog } from "./freezing.tsx"
import { Keys } from "./keys.tsx"
import { Ledger } from "./ledger.tsx"
import { useAccountText } from "./text.ts"
import { AccountTopUps } from "./top-ups.tsx"

export default function AccountPage() {
  const text = useAccountText()
  const { id = "" } = useParams()
  const { data: account, error, refetch } = useQuery(accountQuery(id))
  if (account !== undefined) return <Account account={account} />
  return (
    <OperatorPage title={text.title}>
      {error ? <ErrorState error={error} retry={refetch} /> : <Skeleton lines={8} />}
    </OperatorPage>
  )
}

function Account({ account }: { readonly account: AccountDetail }) {
  const text = useAccountText()
  const [act, setAct] = useState<"adjust" | "freeze" | "unfreeze">()
  const close = () => setAct(undefined)
  return (
    <OperatorPage
      title={account.email}
      intro={<Identity account={account} />}
      actions={
        account.deleted_at === null && (
          <>
            <Button icon={<Scale />} onClick={() => setAct("adjust")}>
              {text.adjust}
            </Button>
            <Button
              icon={account.frozen ? <Sun /> : <Snowflake />}
              onClick={() => setAct(account.frozen ? "unfreeze" : "freeze")}
            >
              {account.frozen ? text.unfreeze : text.freeze}
            </Button>
          </>
        )
      }
    >
      <Notice account={account} />
      <Numbers account={account} />
      <Ledger accountId={account.id} />
      <Keys keys={account.keys} />
      <AccountTopUps topUps={account.top_ups} />
      <AdjustDialog account={account} open={act === "adjust"} onClose={close} />
      <FreezeDialog account={account} keys={account.key_count} open={act === "freeze"} onClose={close} />
      <UnfreezeDialog account={account} open={act === "unfreeze"} onClose={close} />
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
      <Link href={`/operator/audit?subject=${account.id}`}>{text.audit}</Link>
    </span>
  )
}

function Notice({ account }: { readonly account: AccountDetail }) {
  const text = useAccountText()
  const format = useFormat()
  if (account.deleted_at !== null)
    return <p className="operator-notice">{text.deletedSince(format.dateTime(account.deleted_at))}</p>
  if (account.frozen_at === null) return null
  return (
    <p className="operator-notice">
      {text.frozenSince(format.dateTime(account.frozen_at), account.frozen_reason ?? "")}
    </p>
  )
}

function Numbers({ account }: { readonly account: AccountDetail }) {
  const text = useAccountText()
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
    </Stats>
  )
}
