/** The settings of the account: preferences, alerts, password, sessions, and its deletion. */
import { Combobox } from "@base-ui/react/combobox"
import { useQueryClient, useQuery } from "@tanstack/react-query"
import { Check, ChevronDown } from "lucide-react"
import { useMemo, useState } from "react"
import { useLocation } from "wouter"
import { api, unwrap } from "../../api/client.ts"
import { accountQuery, useChange, keysQuery } from "../../api/queries.ts"
import { CopyButton, Button } from "../../components/button.tsx"
import { FormDialog } from "../../components/dialog.tsx"
import { ErrorState, useToasts } from "../../components/feedback.tsx"
import { Field, PasswordField, TextField } from "../../components/form.tsx"
import { Card, Facts, Page } from "../../components/layout.tsx"
import { useFormat, useLanguage } from "../../i18n/language.tsx"
import { LegalLinks, LanguageSwitch, ThemeSwitch } from "../../shell/appearance.tsx"
import { useAccount, useIsOwn, useMay, useSession } from "../../shell/session.tsx"
import { AccountBreaker } from "../keys/breaker.tsx"
import { Activity } from "./activity.tsx"
import { changeAccount, EmailAlerts, Buyer } from "./alerts.tsx"
import { describeZone, timeZonesWith, zoneMatches, zoneName } from "../../api/browser.ts"
import { MembersCard } from "./members.tsx"
import { Memberships } from "./memberships.tsx"
import { Passkeys } from "./passkeys.tsx"
import { DataExport, EmailChange } from "./password-form.tsx"
import { SecondFactor } from "./second-factor.tsx"
import { PasswordChange, Sessions, usePasswordError } from "./security.tsx"
import { useSettingsText } from "./text.ts"
import { WebhookSettings } from "./webhook.tsx"

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
        {may("guard") && <AccountBreaker />}
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

/** The end of the account: what it takes with it is named, and it is asked for twice. */
function DeleteAccount() {
  const text = useSettingsText()
  const [isOpen, setOpen] = useState(false)
  return (
    <Card title={text.danger}>
      <div className="settings-danger">
        <p className="settings-intro">{text.dangerIntro}</p>
        <Button onClick={() => setOpen(true)}>{text.delete}</Button>
      </div>
      {isOpen && <DeleteDialog onClose={() => setOpen(false)} />}
    </Card>
  )
}

function DeleteDialog({ onClose }: { readonly onClose: () => void }) {
  const text = useSettingsText()
  const toasts = useToasts()
  const { ended } = useSession()
  const { email } = useAccount()
  const [, navigate] = useLocation()
  const passwordError = usePasswordError()
  const [typed, setTyped] = useState("")
  const [password, setPassword] = useState("")
  const [isUnlike, setUnlike] = useState(false)
  const deletion = useChange({
    mutationFn: () => unwrap(api.account.delete({ password })),
    onSuccess: async () => {
      await ended()
      navigate("/sign-in")
      toasts.done(text.deleted)
    },
  })
  const wrong = passwordError(deletion.error)
  const submit = () => {
    const isConfirmed = typed.trim().toLowerCase() === email.toLowerCase()
    setUnlike(!isConfirmed)
    if (isConfirmed) deletion.mutate()
  }
  return (
    <FormDialog
      title={text.deleteTitle}
      submit={text.deleteNow}
      danger
      busy={deletion.isPending}
      error={wrong === undefined ? deletion.error : null}
      onSubmit={submit}
      onClose={onClose}
    >
      <Consequences />
      <TextField
        label={text.confirm(email)}
        error={isUnlike ? text.confirmWrong : undefined}
        autoComplete="off"
        autoCapitalize="none"
        spellCheck={false}
        required
        data-autofocus
        value={typed}
        onChange={({ target }) => setTyped(target.value)}
      />
      <PasswordField
        label={text.deletePassword}
        autoComplete="current-password"
        maxLength={256}
        required
        error={wrong}
        value={password}
        onChange={({ target }) => setPassword(target.value)}
      />
    </FormDialog>
  )
}

function Consequences() {
  const text = useSettingsText()
  const format = useFormat()
  const { balance_micro: balance } = useAccount()
  const keys = useQuery(keysQuery)
  const active = keys.data?.keys.filter(({ status }) => status === "active").length
  return (
    <ul className="settings-consequences">
      {active !== undefined && (
        <li>{active === 0 ? text.deleteNoKeys : text.deleteKeys(format.number(active), active === 1)}</li>
      )}
      <li>{balance > 0 ? text.deleteBalance(format.rupiah(balance, "exact")) : text.deleteNoBalance}</li>
      <li>{text.deleteSessions}</li>
      <li>{text.deleteData}</li>
      <li>
        <strong>{text.deleteFinal}</strong>
      </li>
    </ul>
  )
}
