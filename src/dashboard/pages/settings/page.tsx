/** The settings of the account: preferences, alerts, password, sessions, and its deletion. */
import { Combobox } from "@base-ui/react/combobox"
import { useQueryClient } from "@tanstack/react-query"
import { Check, ChevronDown } from "lucide-react"
import { useMemo } from "react"
import { useChange } from "../../api/change.ts"
import { accountQuery } from "../../api/queries.ts"
import { CopyButton } from "../../components/button.tsx"
import { ErrorState, useToasts } from "../../components/feedback.tsx"
import { Field } from "../../components/form.tsx"
import { Card, Facts, Page } from "../../components/layout.tsx"
import { useFormat } from "../../i18n/format.ts"
import { useLanguage } from "../../i18n/language.tsx"
import { LegalLinks } from "../../shell/legal.tsx"
import { LanguageSwitch, ThemeSwitch } from "../../shell/preferences.tsx"
import { useAccount, useIsOwn, useMay } from "../../shell/session.tsx"
import { Activity } from "./activity.tsx"
import { changeAccount, EmailAlerts } from "./alerts.tsx"
import { BreakerSettings } from "./breaker.tsx"
import { Buyer } from "./buyer.tsx"
import { DeleteAccount } from "./delete-account.tsx"
import { DataExport, EmailChange } from "./password-form.tsx"
import { SecondFactor } from "./second-factor.tsx"
import { MembersCard } from "./members.tsx"
import { Memberships } from "./memberships.tsx"
import { Passkeys } from "./passkeys.tsx"
import { PasswordChange, Sessions } from "./security.tsx"
import { useSettingsText } from "./text.ts"
import { WebhookSettings } from "./webhook.tsx"
import { describeZone, timeZonesWith, zoneMatches, zoneName } from "./time-zones.ts"

export default function SettingsPage() {
  const text = useSettingsText()
  const format = useFormat()
  const account = useAccount()
  const isOwn = useIsOwn()
  const may = useMay()
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
              {
                name: text.terms,
                value: (
                  <>
                    <LegalLinks />
                    {account.agreed_at !== null && text.agreedOn(format.date(account.agreed_at))}
                  </>
                ),
              },
            ]}
          />
        </Card>
        <Card title={text.preferences}>
          <div className="settings-form">
            <div className="settings-choices">
              <LanguageSwitch />
              <ThemeSwitch />
            </div>
            {may("manage") && <TimeZoneField />}
          </div>
        </Card>
        {isOwn && (
          <>
            <EmailChange />
            <PasswordChange />
            <SecondFactor />
            <Passkeys />
          </>
        )}
        {may("pay") && <EmailAlerts />}
        {may("guard") && <BreakerSettings />}
        {may("pay") && <Buyer />}
        {isOwn && <DataExport />}
      </div>
      {may("manage") && <MembersCard />}
      {may("build") && <WebhookSettings />}
      {isOwn && <Sessions />}
      {may("manage") && <Activity />}
      <Memberships />
      {isOwn && <DeleteAccount />}
    </Page>
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
