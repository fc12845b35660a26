/** What belongs to the account itself: preferences, alerts, password, sessions, and its end. */
import { Card } from "../../components/card.tsx"
import { CopyButton } from "../../components/copy-button.tsx"
import { Facts } from "../../components/facts.tsx"
import { Page } from "../../components/page.tsx"
import { useFormat } from "../../i18n/format.ts"
import { LanguageSwitch, ThemeSwitch } from "../../shell/preferences.tsx"
import { useAccount } from "../../shell/session.tsx"
import { DeleteAccount } from "./delete-account.tsx"
import { LowBalance } from "./low-balance.tsx"
import { PasswordChange } from "./password-change.tsx"
import { Sessions } from "./sessions.tsx"
import { useSettingsText } from "./text.ts"
import { TimeZoneField } from "./time-zone-field.tsx"

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
