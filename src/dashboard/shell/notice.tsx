/** Lines over every page: that the account is paused, or spends more than its owner's ceiling or than usual. */
import { useQuery, useQueryClient } from "@tanstack/react-query"
import { CircleAlert } from "lucide-react"
import type { ReactNode } from "react"
import { Link } from "wouter"
import { useChange } from "../api/change.ts"
import { api, unwrap } from "../api/client.ts"
import { breakerQuery } from "../api/queries.ts"
import { useBreakerText } from "../components/breaker.tsx"
import { useFormat } from "../i18n/format.ts"
import { useMay, useSession } from "./session.tsx"

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
