/** What the owner is written to about: a low balance, and keys' budgets. */
import { useQuery, useQueryClient } from "@tanstack/react-query"
import { type FormEvent, useState } from "react"
import { useChange } from "../../api/change.ts"
import { api, unwrap } from "../../api/client.ts"
import { aboutQuery, accountQuery } from "../../api/queries.ts"
import { Button } from "../../components/button.tsx"
import { ErrorState, useToasts } from "../../components/feedback.tsx"
import { TextField } from "../../components/form.tsx"
import { Card } from "../../components/layout.tsx"
import { Tag } from "../../components/values.tsx"
import { useLanguage } from "../../i18n/language.tsx"
import { amountText, parseRupiah } from "../../i18n/parse.ts"
import { useAccount } from "../../shell/session.tsx"
import { useSettingsText } from "./text.ts"

interface AccountChange {
  readonly time_zone?: string
  /** Null removes it. */
  readonly low_balance_email?: string | null
  readonly low_balance_threshold_micro?: number | null
  readonly budget_mails?: boolean
  readonly buyer_name?: string | null
  readonly buyer_address?: string | null
  readonly buyer_npwp?: string | null
}

export const changeAccount = (change: AccountChange) => unwrap(api.account.patch(change))

const FIRST_MICRO = 20_000_000_000

export function EmailAlerts() {
  const text = useSettingsText()
  const toasts = useToasts()
  const client = useQueryClient()
  const { language } = useLanguage()
  const account = useAccount()
  const { low_balance_email: email, low_balance_threshold_micro: threshold } = account
  const about = useQuery(aboutQuery)
  const isOn = email !== null && (threshold !== null || account.budget_mails)
  const [address, setAddress] = useState(email ?? account.email)
  const [typed, setTyped] = useState(() =>
    isOn && threshold === null ? "" : amountText(threshold ?? FIRST_MICRO, language),
  )
  const [budgets, setBudgets] = useState(isOn ? account.budget_mails : true)
  const [tried, setTried] = useState(false)
  const isEmpty = typed.trim() === ""
  const micro = parseRupiah(typed, language)
  const isAmount = isEmpty || (micro !== undefined && micro <= BigInt(Number.MAX_SAFE_INTEGER))
  const isAddress = /^[^\s@]+@[^\s@.]+(\.[^\s@.]+)+$/.test(address.trim())
  const change = useChange({
    mutationFn: changeAccount,
    onSuccess: (changed) => {
      client.setQueryData(accountQuery.queryKey, changed)
      toasts.done(changed.low_balance_email === null ? text.turnedOff : text.saved)
    },
  })
  const submit = (event: FormEvent) => {
    event.preventDefault()
    setTried(true)
    if (!isAmount || !isAddress || change.isPending) return
    change.mutate({
      low_balance_email: address.trim(),
      low_balance_threshold_micro: isEmpty ? null : Number(micro),
      budget_mails: budgets,
    })
  }
  return (
    <Card title={text.alerts} action={<Tag tone={isOn ? "good" : "neutral"}>{isOn ? text.on : text.off}</Tag>}>
      <form className="settings-form" onSubmit={submit} noValidate>
        <p className="settings-intro">{text.alertsIntro}</p>
        {about.data?.sends_mail === false && <p className="settings-warning">{text.noMail}</p>}
        {change.error !== null && <ErrorState error={change.error} />}
        <TextField
          label={text.lowBalanceEmail}
          error={tried && !isAddress ? text.emailWrong : undefined}
          type="email"
          autoComplete="email"
          maxLength={254}
          value={address}
          onChange={({ target }) => setAddress(target.value)}
        />
        <TextField
          label={text.threshold}
          hint={text.thresholdHint}
          error={tried && !isAmount ? text.thresholdWrong : undefined}
          before="Rp"
          inputMode="numeric"
          autoComplete="off"
          maxLength={24}
          value={typed}
          onChange={({ target }) => setTyped(target.value)}
        />
        <label className="check">
          <input type="checkbox" checked={budgets} onChange={({ target }) => setBudgets(target.checked)} />
          {text.budgetMails}
        </label>
        <div className="settings-actions">
          <Button type="submit" busy={change.isPending}>
            {text.save}
          </Button>
          {isOn && (
            <Button
              kind="quiet"
              onClick={() =>
                change.mutate({
                  low_balance_email: null,
                  low_balance_threshold_micro: null,
                  budget_mails: false,
                })
              }
            >
              {text.turnOff}
            </Button>
          )}
        </div>
      </form>
    </Card>
  )
}
