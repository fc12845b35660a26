/** Which account is looked at: one's own, or one in which one has a role. Only people with such a role see anything of it. */
import { useQuery, useQueryClient } from "@tanstack/react-query"
import { Check, Users } from "lucide-react"
import { useEffect } from "react"
import { useChange } from "../api/change.ts"
import { api, unwrap } from "../api/client.ts"
import { type Account, accountQuery, lookAt, membershipsQuery } from "../api/queries.ts"
import { useFormat } from "../i18n/format.ts"
import { Notice } from "./notice.tsx"
import { useRoleText } from "./role-text.ts"
import { useSession } from "./session.tsx"

/** Loads the page anew, so that nothing of the account before is left on it. */
const useSwitch = () => useChange({ mutationFn: lookAt, onSuccess: () => location.assign("/dashboard/") })

/** In the menu of the account. */
export function AccountSwitcher() {
  const text = useRoleText()
  const { account } = useSession()
  const { data: memberships = [] } = useQuery({ ...membershipsQuery, enabled: account !== undefined })
  const change = useSwitch()
  if (account === undefined || memberships.length === 0) return null
  const own = { id: account.signed_in.id, email: account.signed_in.email, note: text.own }
  const others = memberships.map(({ account_id: id, email, role }) => ({ id, email, note: text.roles[role] }))
  return (
    <div className="account-switch" role="group" aria-label={text.accounts}>
      <p className="account-switch-title">
        <Users aria-hidden="true" />
        {text.accounts}
      </p>
      {[own, ...others].map(({ id, email, note }) => (
        <button
          key={id}
          type="button"
          className="navigation-link"
          aria-pressed={id === account.id}
          disabled={change.isPending}
          onClick={() => id !== account.id && change.mutate(id)}
        >
          <span className="account-switch-words">
            <span>{email}</span>
            <small>{note}</small>
          </span>
          {id === account.id && <Check aria-hidden="true" />}
        </button>
      ))}
    </div>
  )
}

/** On every page of another's account. */
export function LookedAt() {
  const text = useRoleText()
  const { account } = useSession()
  const change = useSwitch()
  if (account === undefined || account.id === account.signed_in.id) return null
  if (account.seen !== null) return <Seen account={account} until={account.seen.until} />
  return (
    <Notice tone="warn">
      {text.looking(account.email, text.roles[account.member_role])}{" "}
      <button
        type="button"
        className="notice-button"
        disabled={change.isPending}
        onClick={() => change.mutate(account.signed_in.id)}
      >
        {text.back}
      </button>
    </Notice>
  )
}

interface SeenProps {
  readonly account: Account
  readonly until: string
}

/** On every page that an operator sees as the account's customer does. It ends by itself. */
function Seen({ account, until }: SeenProps) {
  const text = useRoleText()
  const format = useFormat()
  const client = useQueryClient()
  const end = useChange({
    mutationFn: () => unwrap(api.auth["see-as"].end.post()),
    onSuccess: () => location.assign(`/dashboard/operator/accounts/${account.id}`),
  })
  useEffect(() => {
    const over = setTimeout(() => void client.invalidateQueries(accountQuery), Date.parse(until) - Date.now() + 500)
    return () => clearTimeout(over)
  }, [client, until])
  return (
    <Notice tone="bad">
      {text.seeing(account.email, account.signed_in.email, format.time(until))}{" "}
      <button type="button" className="notice-button" disabled={end.isPending} onClick={() => end.mutate()}>
        {text.endSeeing}
      </button>
    </Notice>
  )
}
