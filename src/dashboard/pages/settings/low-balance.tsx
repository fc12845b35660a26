/** Whom to write to when the balance runs low, and what low is. */
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query"
import { type FormEvent, useState } from "react"
import { aboutQuery, accountQuery } from "../../api/queries.ts"
import { Button } from "../../components/button.tsx"
import { Card } from "../../components/card.tsx"
import { ErrorState } from "../../components/error-state.tsx"
import { TextField } from "../../components/field.tsx"
import { Tag } from "../../components/tag.tsx"
import { useToasts } from "../../components/toast.tsx"
import { useLanguage } from "../../i18n/language.tsx"
import { parseRupiah } from "../../i18n/parse.ts"
import { formatRupiah } from "../../i18n/rupiah.ts"
import { useAccount } from "../../shell/session.tsx"
import { changeAccount } from "./data.ts"
import { useSettingsText } from "./text.ts"

const FIRST_MICRO = 20_000_000_000

export function LowBalance() {
  const text = useSettingsText()
  const toasts = useToasts()
  const client = useQueryClient()
  const { language } = useLanguage()
  const { email: own, low_balance_email: email, low_balance_threshold_micro: threshold } = useAccount()
  const about = useQuery(aboutQuery)
  const isOn = email !== null && threshold !== null
  const [address, setAddress] = useState(email ?? own)
  const [typed, setTyped] = useState(() =>
    formatRupiah(threshold ?? FIRST_MICRO, language, "exact").replace(/^Rp\s/, ""),
  )
  const [tried, setTried] = useState(false)
  const micro = parseRupiah(typed, language)
  const isAmount = micro !== undefined && micro <= BigInt(Number.MAX_SAFE_INTEGER)
  const isAddress = /^[^\s@]+@[^\s@.]+(\.[^\s@.]+)+$/.test(address.trim())
  const change = useMutation({
    mutationFn: changeAccount,
    onSuccess: (account) => {
      client.setQueryData(accountQuery.queryKey, account)
      toasts.done(account.low_balance_email === null ? text.turnedOff : text.saved)
    },
  })
  const submit = (event: FormEvent) => {
    event.preventDefault()
    setTried(true)
    if (!isAmount || !isAddress || change.isPending) return
    change.mutate({ low_balance_email: address.trim(), low_balance_threshold_micro: Number(micro) })
  }
  return (
    <Card title={text.lowBalance} action={<Tag tone={isOn ? "good" : "neutral"}>{isOn ? text.on : text.off}</Tag>}>
      <form className="settings-form" onSubmit={submit} noValidate>
        <p className="settings-intro">{text.lowBalanceIntro}</p>
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
        <div className="settings-actions">
          <Button type="submit" busy={change.isPending}>
            {text.save}
          </Button>
          {isOn && (
            <Button
              kind="quiet"
              onClick={() => change.mutate({ low_balance_email: null, low_balance_threshold_micro: null })}
            >
              {text.turnOff}
            </Button>
          )}
        </div>
      </form>
    </Card>
  )
}
