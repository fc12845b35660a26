/**
 * Which account is looked at, and the lines over every page about it: that it is another's, is paused, or spends unusually much.
 */
import { useQuery, useQueryClient } from "@tanstack/react-query"
import { Check, Users, CircleAlert } from "lucide-react"
import { useEffect, type ReactNode } from "react"
import { Link } from "wouter"
import { api, unwrap } from "../api/client.ts"
import { type Account, accountQuery, lookAt, membershipsQuery, useChange, breakerQuery } from "../api/queries.ts"
import { useBreakerText } from "../components/spending.tsx"
import { useFormat } from "../i18n/language.tsx"
import { useSession, useMay } from "./session.tsx"
import { useRoleText } from "./text.ts"

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

/** A line over the page, about the account or the connection. */
export const Notice = ({ tone, children }: { readonly tone: "warn" | "bad"; readonly children: ReactNode }) => (
  <p className={`notice notice-${tone}`} role="status">
    <CircleAlert aria-hidden="true" />
    <span>{children}</span>
  </p>
)

/** All keys are refused: the account has come to its ceiling. */
export function AccountPaused() {
  const text = useBreakerText()
  const format = useFormat()
  const client = useQueryClient()
  const { account } = useSession()
  const may = useMay()
  const { data } = useQuery({ ...breakerQuery, enabled: account !== undefined })
  const resume = useChange({
    mutationFn: () => unwrap(api.account.breaker.resume.post()),
    onSuccess: () => client.invalidateQueries(breakerQuery),
  })
  const paused = account === undefined ? null : (data?.paused ?? null)
  if (paused === null) return null
  return (
    <Notice tone="bad">
      {text.accountPaused(format.dateTime(paused.since))}{" "}
      {paused.until !== null && `${text.until(format.dateTime(paused.until))} `}
      {may("guard") && (
        <button type="button" className="notice-button" disabled={resume.isPending} onClick={() => resume.mutate()}>
          {text.resume}
        </button>
      )}
    </Notice>
  )
}

/** Until it is dismissed. */
export function Unusual() {
  const text = useBreakerText()
  const format = useFormat()
  const client = useQueryClient()
  const { account } = useSession()
  const may = useMay()
  const { data } = useQuery({ ...breakerQuery, enabled: account !== undefined })
  const dismiss = useChange({
    mutationFn: () => unwrap(api.account.breaker.dismiss.post()),
    onSuccess: () => client.invalidateQueries(breakerQuery),
  })
  if (account === undefined || data === undefined || data.alerts.length === 0) return null
  // Of an account with one key the key says it all.
  const keys = data.alerts.filter(({ key_id: key }) => key !== null)
  return (
    <Notice tone="warn">
      {(keys.length > 0 ? keys : data.alerts).map(
        ({ key_name: name, why, spent_micro: spent, threshold_micro: most }) => (
          <span key={name}>
            {name === null ? text.unusualAccount(format.rupiah(spent)) : text.unusualKey(name, format.rupiah(spent))} (
            {why === "ceiling" ? text.overCeiling(format.rupiah(most)) : text.overUsual(format.rupiah(most))}).{" "}
          </span>
        ),
      )}
      <Link href="/keys">{text.toKeys}</Link>{" "}
      {may("guard") && (
        <button type="button" className="notice-button" disabled={dismiss.isPending} onClick={() => dismiss.mutate()}>
          {text.dismiss}
        </button>
      )}
    </Notice>
  )
}
