/**
 * What the owner is written to about, a low balance and keys' budgets; and to whom receipts and statements are made out.
 */
import { useQuery, useQueryClient } from "@tanstack/react-query"
import { type FormEvent, useState } from "react"
import { api, unwrap } from "../../api/client.ts"
import { aboutQuery, accountQuery, useChange, useEdits } from "../../api/queries.ts"
import { Button } from "../../components/button.tsx"
import { ErrorState, useToasts } from "../../components/feedback.tsx"
import { Field, TextField } from "../../components/form.tsx"
import { Card } from "../../components/layout.tsx"
import { Tag } from "../../components/values.tsx"
import { useLanguage, useLanguageChange, texts } from "../../i18n/language.tsx"
import { amountIn, amountText, parseRupiah, typedLine } from "../../i18n/figures.ts"
import { useAccount, useMay } from "../../shell/session.tsx"
import { useSettingsText } from "./text.ts"
import { webhookQuery } from "./webhook.tsx"

export const changeAccount = (change: Parameters<typeof api.account.patch>[0]) => unwrap(api.account.patch(change))

const FIRST_MICRO = 20_000_000_000

export function EmailAlerts() {
  const text = useSettingsText()
  const toasts = useToasts()
  const client = useQueryClient()
  const { language } = useLanguage()
  const account = useAccount()
  const { low_balance_email: email, low_balance_threshold_micro: threshold } = account
  const about = useQuery(aboutQuery)
  const mayLook = useMay()("build")
  const webhook = useQuery({ ...webhookQuery, enabled: mayLook })
  // The account has one limit for both. Who may not look at the webhook, or has not seen it yet, does not take its limit away.
  const isShared = webhook.data !== null
  const isOn = email !== null && (threshold !== null || account.budget_mails)
  const { draft, edits, edit, forget } = useEdits({
    address: email ?? account.email,
    threshold: isOn && threshold === null ? "" : amountText(threshold ?? FIRST_MICRO, language),
    budgets: isOn ? account.budget_mails : true,
  })
  useLanguageChange((was) => {
    if (edits.threshold !== undefined) edit({ threshold: amountIn(language, edits.threshold, was) })
  })
  const [tried, setTried] = useState(false)
  const isEmpty = draft.threshold.trim() === ""
  const micro = parseRupiah(draft.threshold, language)
  const isAmount = isEmpty || (micro !== undefined && micro <= BigInt(Number.MAX_SAFE_INTEGER))
  const isAddress = /^[^\s@]+@[^\s@.]+(\.[^\s@.]+)+$/.test(draft.address.trim())
  const change = useChange({
    mutationFn: changeAccount,
    onSuccess: (changed) => {
      client.setQueryData(accountQuery.queryKey, changed)
      toasts.done(changed.low_balance_email === null ? text.turnedOff : text.saved)
    },
  })
  const save = (changed: Parameters<typeof changeAccount>[0]) =>
    change.mutate(changed, { onSuccess: () => forget(edits) })
  const submit = (event: FormEvent) => {
    event.preventDefault()
    setTried(true)
    if (!isAmount || !isAddress || change.isPending) return
    // Turned on, it is as it stands here.
    const sent = isOn ? edits : draft
    save({
      ...(sent.address !== undefined && { low_balance_email: typedLine(sent.address) }),
      ...(sent.threshold !== undefined && { low_balance_threshold_micro: isEmpty ? null : Number(micro) }),
      ...(sent.budgets !== undefined && { budget_mails: sent.budgets }),
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
          value={draft.address}
          onChange={({ target }) => edit({ address: target.value })}
        />
        <TextField
          label={text.threshold}
          hint={webhook.data ? text.thresholdHintShared : text.thresholdHint}
          error={tried && !isAmount ? text.thresholdWrong : undefined}
          before="Rp"
          inputMode="numeric"
          autoComplete="off"
          maxLength={24}
          value={draft.threshold}
          onChange={({ target }) => edit({ threshold: target.value })}
        />
        <label className="check">
          <input type="checkbox" checked={draft.budgets} onChange={({ target }) => edit({ budgets: target.checked })} />
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
                save({
                  low_balance_email: null,
                  budget_mails: false,
                  ...(!isShared && { low_balance_threshold_micro: null }),
                })
              }
            >
              {text.turnOff}
            </Button>
          )}
        </div>
        {isOn && threshold !== null && (webhook.data || !mayLook) && <p className="field-hint">{text.turnOffKeeps}</p>}
      </form>
    </Card>
  )
}

/** As the server takes it. */
const NPWP = /^(?:\d{15,16}|\d{2}\.\d{3}\.\d{3}\.\d-\d{3}\.\d{3})$/
const LINES = 6

/** Null takes it away. */
const typedOrNull = (typed: string): string | null => (typed === "" ? null : typed)

/** The buyer's name, address and tax number, on receipts and statements. */
export function Buyer() {
  const text = useText()
  const toasts = useToasts()
  const client = useQueryClient()
  const account = useAccount()
  const { draft, edits, edit, forget } = useEdits({
    name: account.buyer_name ?? "",
    address: account.buyer_address ?? "",
    npwp: account.buyer_npwp ?? "",
  })
  const [tried, setTried] = useState(false)
  const lines = draft.address
    .split("\n")
    .map(typedLine)
    .filter((line) => line !== "")
  const npwp = draft.npwp.trim()
  const isNpwp = npwp === "" || NPWP.test(npwp)
  const isAddress = lines.length <= LINES
  const change = useChange({
    mutationFn: changeAccount,
    onSuccess: (changed) => {
      client.setQueryData(accountQuery.queryKey, changed)
      toasts.done(text.saved)
    },
  })
  const submit = (event: FormEvent) => {
    event.preventDefault()
    setTried(true)
    if (!isNpwp || !isAddress || change.isPending) return
    const changed = {
      ...(edits.name !== undefined && { buyer_name: typedOrNull(typedLine(edits.name)) }),
      ...(edits.address !== undefined && { buyer_address: typedOrNull(lines.join("\n")) }),
      ...(edits.npwp !== undefined && { buyer_npwp: typedOrNull(npwp) }),
    }
    change.mutate(changed, { onSuccess: () => forget(edits) })
  }
  return (
    <Card title={text.title}>
      <form className="settings-form" onSubmit={submit} noValidate>
        <p className="settings-intro">{text.intro}</p>
        {change.error !== null && <ErrorState error={change.error} />}
        <TextField
          label={text.name}
          hint={text.nameHint}
          autoComplete="organization"
          maxLength={200}
          value={draft.name}
          onChange={({ target }) => edit({ name: target.value })}
        />
        <Field label={text.address} error={tried && !isAddress ? text.addressWrong : undefined}>
          {(attributes) => (
            <span className="input">
              <textarea
                {...attributes}
                rows={3}
                autoComplete="street-address"
                maxLength={500}
                value={draft.address}
                onChange={({ target }) => edit({ address: target.value })}
              />
            </span>
          )}
        </Field>
        <TextField
          label={text.npwp}
          hint={text.npwpHint}
          error={tried && !isNpwp ? text.npwpWrong : undefined}
          inputMode="numeric"
          autoComplete="off"
          maxLength={20}
          value={draft.npwp}
          onChange={({ target }) => edit({ npwp: target.value })}
        />
        <div className="settings-actions">
          <Button type="submit" busy={change.isPending}>
            {text.save}
          </Button>
        </div>
      </form>
    </Card>
  )
}

const useText = texts({
  id: {
    title: "Data pembeli",
    intro: "Dicantumkan pada kuitansi dan mutasi PDF yang diterbitkan sesudahnya. Yang sudah terbit tidak berubah.",
    name: "Nama atau perusahaan",
    nameHint: "Jika kosong, alamat e-mail Anda yang dicantumkan.",
    address: "Alamat",
    addressWrong: "Paling banyak 6 baris.",
    npwp: "NPWP",
    npwpHint: "15 atau 16 angka.",
    npwpWrong: "Tulis 15 atau 16 angka, seperti 01.234.567.8-901.000.",
    save: "Simpan",
    saved: "Data pembeli disimpan",
  },
  en: {
    title: "Buyer's details",
    intro: "Shown on receipts and PDF statements issued from now on. What is issued already does not change.",
    name: "Name or company",
    nameHint: "Left empty, your e-mail address is shown.",
    address: "Address",
    addressWrong: "6 lines at most.",
    npwp: "Tax number (NPWP)",
    npwpHint: "15 or 16 digits.",
    npwpWrong: "Enter 15 or 16 digits, such as 01.234.567.8-901.000.",
    save: "Save",
    saved: "Buyer's details saved",
  },
})
