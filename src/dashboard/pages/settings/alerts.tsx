/**
 * What the owner is written to about, a low balance and keys' budgets; and to whom receipts and statements are made out.
 */
import { useQuery, useQueryClient } from "@tanstack/react-query"
import { type FormEvent, useState } from "react"
import { api, unwrap } from "../../api/client.ts"
import { aboutQuery, accountQuery, type Breaker, breakerQuery, useChange } from "../../api/queries.ts"
import { breakerDraft, BreakerFields, readBreaker, useBreakerText } from "../../components/spending.tsx"
import { Button } from "../../components/button.tsx"
import { ErrorState, Skeleton, useToasts } from "../../components/feedback.tsx"
import { Choice, TextField, Field } from "../../components/form.tsx"
import { Card } from "../../components/layout.tsx"
import { Tag } from "../../components/values.tsx"
import { useLanguage, useLanguageChange, texts } from "../../i18n/language.tsx"
import { amountIn, amountsIn, amountText, parseRupiah } from "../../i18n/figures.ts"
import { useAccount } from "../../shell/session.tsx"
import { useSettingsText } from "./text.ts"

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
  const isOn = email !== null && (threshold !== null || account.budget_mails)
  const [address, setAddress] = useState(email ?? account.email)
  const [typed, setTyped] = useState(() =>
    isOn && threshold === null ? "" : amountText(threshold ?? FIRST_MICRO, language),
  )
  useLanguageChange((was) => setTyped(amountIn(language, typed, was)))
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

/** What all keys of the account together may spend within ten minutes, and when its owner is warned. */
export function BreakerSettings() {
  const text = useBreakerText()
  const { data, error, refetch } = useQuery(breakerQuery)
  const isOn = data !== undefined && (data.ceiling_micro !== null || data.factor !== null)
  const sign = data && <Tag tone={isOn ? "good" : "neutral"}>{isOn ? text.on : text.off}</Tag>
  return (
    <Card title={text.title} action={sign}>
      {data !== undefined ? (
        <BreakerForm breaker={data} />
      ) : error === null ? (
        <Skeleton lines={4} />
      ) : (
        <ErrorState error={error} retry={refetch} />
      )}
    </Card>
  )
}

const FACTORS = ["5", "10", "20", "none"] as const
const isKnown = (factor: string): factor is (typeof FACTORS)[number] => FACTORS.some((known) => known === factor)

function BreakerForm({ breaker }: { readonly breaker: Breaker }) {
  const text = useBreakerText()
  const { noMail } = useSettingsText()
  const toasts = useToasts()
  const client = useQueryClient()
  const { language } = useLanguage()
  const about = useQuery(aboutQuery)
  const [draft, setDraft] = useState(() => breakerDraft(breaker, language))
  useLanguageChange((was) => setDraft(amountsIn(language, draft, was, ["ceiling"])))
  const [factor, setFactor] = useState(breaker.factor === null ? "none" : String(breaker.factor))
  const [tried, setTried] = useState(false)
  const settings = readBreaker(draft, language)
  const change = useChange({
    mutationFn: (body: NonNullable<typeof settings>) =>
      unwrap(api.account.breaker.put({ ...body, factor: factor === "none" ? null : Number(factor) })),
    onSuccess: (changed) => {
      client.setQueryData(breakerQuery.queryKey, changed)
      toasts.done(text.saved)
    },
  })
  const submit = (event: FormEvent) => {
    event.preventDefault()
    setTried(true)
    if (settings !== undefined && !change.isPending) change.mutate(settings)
  }
  // One that was set through the API stays a choice.
  const factors = isKnown(factor) ? FACTORS : [factor, ...FACTORS]
  return (
    <form className="settings-form" onSubmit={submit} noValidate>
      <p className="settings-intro">{text.intro}</p>
      {about.data?.sends_mail === false && <p className="settings-warning">{noMail}</p>}
      {change.error !== null && <ErrorState error={change.error} />}
      <Choice
        label={text.factor}
        hint={text.factorHint}
        values={factors}
        chosen={factor}
        nameOf={(value) => (isKnown(value) ? text.factors[value] : text.factorOther(value))}
        onChoose={setFactor}
      />
      <BreakerFields draft={draft} wrong={tried && settings === undefined} onChange={setDraft} />
      <div className="settings-actions">
        <Button type="submit" busy={change.isPending}>
          {text.save}
        </Button>
      </div>
    </form>
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
  const [name, setName] = useState(account.buyer_name ?? "")
  const [address, setAddress] = useState(account.buyer_address ?? "")
  const [npwp, setNpwp] = useState(account.buyer_npwp ?? "")
  const [tried, setTried] = useState(false)
  const lines = address
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "")
  const isNpwp = npwp.trim() === "" || NPWP.test(npwp.trim())
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
    change.mutate({
      buyer_name: typedOrNull(name.trim()),
      buyer_address: typedOrNull(lines.join("\n")),
      buyer_npwp: typedOrNull(npwp.trim()),
    })
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
          value={name}
          onChange={({ target }) => setName(target.value)}
        />
        <Field label={text.address} error={tried && !isAddress ? text.addressWrong : undefined}>
          {(attributes) => (
            <span className="input">
              <textarea
                {...attributes}
                rows={3}
                autoComplete="street-address"
                maxLength={500}
                value={address}
                onChange={({ target }) => setAddress(target.value)}
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
          value={npwp}
          onChange={({ target }) => setNpwp(target.value)}
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
