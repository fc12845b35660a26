/** The settings of the account: preferences, alerts, password, sessions, and its deletion. */
import { Combobox } from "@base-ui/react/combobox"
import { useQuery, useQueryClient } from "@tanstack/react-query"
import { Check, ChevronDown } from "lucide-react"
import { type FormEvent, useMemo, useState } from "react"
import { useChange } from "../../api/change.ts"
import { api, unwrap } from "../../api/client.ts"
import { aboutQuery, accountQuery } from "../../api/queries.ts"
import { Button, CopyButton } from "../../components/button.tsx"
import { ErrorState, useToasts } from "../../components/feedback.tsx"
import { Field, TextField } from "../../components/form.tsx"
import { Card, Facts, Page } from "../../components/layout.tsx"
import { Tag } from "../../components/values.tsx"
import { useFormat } from "../../i18n/format.ts"
import { useLanguage } from "../../i18n/language.tsx"
import { amountText, parseRupiah } from "../../i18n/parse.ts"
import { LanguageSwitch, ThemeSwitch } from "../../shell/preferences.tsx"
import { useAccount } from "../../shell/session.tsx"
import { DeleteAccount } from "./delete-account.tsx"
import { PasswordChange, Sessions } from "./security.tsx"
import { useSettingsText } from "./text.ts"
import { describeZone, timeZonesWith, zoneMatches, zoneName } from "./time-zones.ts"

interface AccountChange {
  readonly time_zone?: string
  /** Null removes it. */
  readonly low_balance_email?: string | null
  readonly low_balance_threshold_micro?: number | null
}

const changeAccount = (change: AccountChange) => unwrap(api.account.patch(change))

export default function SettingsPage() {
  const text = useSettingsText()
  const format = useFormat()
  const account = useAccount()
  return (
    <Page title={text.title}>
      <div className="settings-pair">
        <Card title={text.account}>
          <Facts
            facts={[
              { name: text.email, value: account.email },
              {
                name: text.accountId,
                value: (
                  <span className="settings-copied">
                    <code>{account.id}</code>
                    <CopyButton text={account.id} what={text.accountId} />
                  </span>
                ),
              },
              { name: text.since, value: format.date(account.created_at) },
            ]}
          />
        </Card>
        <Card title={text.preferences}>
          <div className="settings-form">
            <div className="settings-choices">
              <LanguageSwitch />
              <ThemeSwitch />
            </div>
            <TimeZoneField />
          </div>
        </Card>
        <PasswordChange />
        <LowBalance />
      </div>
      <Sessions />
      <DeleteAccount />
    </Page>
  )
}

const FIRST_MICRO = 20_000_000_000

/** The alert for a low balance: its address and its limit. */
function LowBalance() {
  const text = useSettingsText()
  const toasts = useToasts()
  const client = useQueryClient()
  const { language } = useLanguage()
  const { email: own, low_balance_email: email, low_balance_threshold_micro: threshold } = useAccount()
  const about = useQuery(aboutQuery)
  const isOn = email !== null && threshold !== null
  const [address, setAddress] = useState(email ?? own)
  const [typed, setTyped] = useState(() => amountText(threshold ?? FIRST_MICRO, language))
  const [tried, setTried] = useState(false)
  const micro = parseRupiah(typed, language)
  const isAmount = micro !== undefined && micro <= BigInt(Number.MAX_SAFE_INTEGER)
  const isAddress = /^[^\s@]+@[^\s@.]+(\.[^\s@.]+)+$/.test(address.trim())
  const change = useChange({
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

/** The account's time zone, found by typing a part of its name. It is saved as soon as it is chosen. */
function TimeZoneField() {
  const text = useSettingsText()
  const toasts = useToasts()
  const client = useQueryClient()
  const { language } = useLanguage()
  const { time_zone: own } = useAccount()
  const zones = useMemo(() => timeZonesWith(own), [own])
  const change = useChange({
    mutationFn: (zone: string) => changeAccount({ time_zone: zone }),
    onSuccess: (account) => {
      client.setQueryData(accountQuery.queryKey, account)
      // Days begin at another time now.
      void client.invalidateQueries({ queryKey: ["usage"] })
      void client.invalidateQueries({ queryKey: ["summary"] })
      toasts.done(text.saved)
    },
  })
  return (
    <>
      <Combobox.Root
        items={zones}
        value={own}
        onValueChange={(zone: string | null) => {
          if (zone !== null && zone !== own) change.mutate(zone)
        }}
        itemToStringLabel={zoneName}
        filter={(zone: string, query) => zoneMatches(zone, query, language)}
        autoHighlight
      >
        <Field label={text.timeZone} hint={text.timeZoneHint}>
          {(attributes) => (
            <Combobox.InputGroup className="input">
              {/* A label of its own: while the list is open, the field's label is hidden from screen readers. */}
              <Combobox.Input
                {...attributes}
                aria-label={text.timeZone}
                placeholder={text.timeZoneSearch}
                autoComplete="off"
              />
              <Combobox.Trigger className="zone-trigger" aria-label={text.timeZones}>
                <ChevronDown />
              </Combobox.Trigger>
            </Combobox.InputGroup>
          )}
        </Field>
        <Combobox.Portal>
          <Combobox.Positioner className="zones-place" sideOffset={4}>
            <Combobox.Popup className="zones" aria-label={text.timeZones}>
              <Combobox.Empty className="zones-none">{text.timeZoneNone}</Combobox.Empty>
              <Combobox.List className="zones-list">
                {(zone: string) => (
                  <Combobox.Item key={zone} value={zone} className="zone">
                    <span>
                      {zoneName(zone)}
                      <small>{describeZone(zone, language)}</small>
                    </span>
                    <Combobox.ItemIndicator>
                      <Check />
                    </Combobox.ItemIndicator>
                  </Combobox.Item>
                )}
              </Combobox.List>
            </Combobox.Popup>
          </Combobox.Positioner>
        </Combobox.Portal>
      </Combobox.Root>
      {change.error !== null && <ErrorState error={change.error} />}
    </>
  )
}
