/** Cards with a form that takes the account's password: another e-mail address, and a file of all that is known of the account. */
import { useQuery, useQueryClient } from "@tanstack/react-query"
import { type FormEvent, type ReactNode, useState } from "react"
import { save } from "../../api/browser.ts"
import { aboutQuery, accountQuery, useChange } from "../../api/queries.ts"
import { api, isInvalid, unwrap } from "../../api/client.ts"
import { Button } from "../../components/button.tsx"
import { ErrorState, useToasts } from "../../components/feedback.tsx"
import { PasswordField, TextField } from "../../components/form.tsx"
import { Card } from "../../components/layout.tsx"
import { texts } from "../../i18n/language.tsx"
import { useAccount } from "../../shell/session.tsx"
import { usePasswordError } from "./security.tsx"

interface PasswordFormProps {
  readonly title: string
  readonly intro: string
  /** Of the password's field. */
  readonly label: string
  /** The word on the button. */
  readonly submit: string
  readonly password: string
  readonly onPassword: (password: string) => void
  readonly change: { readonly isPending: boolean; readonly error: Error | null; readonly mutate: () => void }
  /** Whether one of the children's fields shows what is wrong. */
  readonly isShown?: boolean
  readonly children?: ReactNode
}

/** The card and its form, with what else its children ask for. */
function PasswordForm(props: PasswordFormProps) {
  const { title, intro, label, submit, password, onPassword, change, isShown = false, children } = props
  const wrong = usePasswordError()(change.error)
  const send = (event: FormEvent) => {
    event.preventDefault()
    change.mutate()
  }
  return (
    <Card title={title}>
      <form className="settings-form" onSubmit={send}>
        <p className="settings-intro">{intro}</p>
        {change.error !== null && wrong === undefined && !isShown && <ErrorState error={change.error} />}
        {children}
        <PasswordField
          label={label}
          autoComplete="current-password"
          maxLength={256}
          required
          error={wrong}
          value={password}
          onChange={({ target }) => onPassword(target.value)}
        />
        <div className="settings-actions">
          <Button type="submit" busy={change.isPending}>
            {submit}
          </Button>
        </div>
      </form>
    </Card>
  )
}

/**
 * Another e-mail address: it takes over when its owner opens the link that is sent there, or at once where no mail is
 * sent.
 */
export function EmailChange() {
  const text = useEmailText()
  const toasts = useToasts()
  const client = useQueryClient()
  const { email } = useAccount()
  const sendsLinks = useQuery(aboutQuery).data?.sends_links === true
  const [address, setAddress] = useState("")
  const [password, setPassword] = useState("")
  const change = useChange({
    mutationFn: () => unwrap(api.auth.email.post({ email: address.trim(), password })),
    onSuccess: (account) => {
      client.setQueryData(accountQuery.queryKey, account)
      toasts.done(account.email === address.trim() ? text.changed : text.sent(address.trim()))
      setAddress("")
      setPassword("")
    },
  })
  const refused = isInvalid(change.error) ? text.refused : undefined
  return (
    <PasswordForm
      title={text.title}
      intro={sendsLinks ? text.introLink(email) : text.intro(email)}
      label={text.password}
      submit={text.change}
      password={password}
      onPassword={setPassword}
      change={change}
      isShown={refused !== undefined}
    >
      <TextField
        label={text.next}
        type="email"
        autoComplete="email"
        maxLength={254}
        required
        error={refused}
        value={address}
        onChange={({ target }) => setAddress(target.value)}
      />
    </PasswordForm>
  )
}

const useEmailText = texts({
  id: {
    title: "Alamat e-mail",
    intro: (email: string) => `Sekarang ${email}. Alamat yang baru langsung berlaku untuk masuk.`,
    introLink: (email: string) =>
      `Sekarang ${email}. Kami mengirim tautan ke alamat yang baru; setelah tautan itu dibuka, alamatnya berlaku.`,
    next: "Alamat e-mail baru",
    password: "Kata sandi akun",
    change: "Ganti alamat",
    changed: "Alamat e-mail diganti",
    sent: (email: string) => `Tautan dikirim ke ${email}`,
    refused: "Alamat ini tidak dapat dipakai: sudah milik akun lain, atau bukan alamat e-mail.",
  },
  en: {
    title: "E-mail address",
    intro: (email: string) => `Now ${email}. The new one is for signing in at once.`,
    introLink: (email: string) =>
      `Now ${email}. We send a link to the new address, which takes over when the link is opened.`,
    next: "New e-mail address",
    password: "Account password",
    change: "Change address",
    changed: "E-mail address changed",
    sent: (email: string) => `A link was sent to ${email}`,
    refused: "This address cannot be used: it is another account's, or no e-mail address.",
  },
})

/** A file of all that is known of the account, for whoever has its password. */
export function DataExport() {
  const text = useExportText()
  const toasts = useToasts()
  const [password, setPassword] = useState("")
  const change = useChange({
    mutationFn: async (): Promise<unknown> => await unwrap(api.account.export.post({ password })),
    onSuccess: (data) => {
      save(new Blob([JSON.stringify(data, undefined, 2)], { type: "application/json" }), "loket-account.json")
      setPassword("")
      toasts.done(text.done)
    },
  })
  return (
    <PasswordForm
      title={text.title}
      intro={text.intro}
      label={text.password}
      submit={text.download}
      password={password}
      onPassword={setPassword}
      change={change}
    />
  )
}

const useExportText = texts({
  id: {
    title: "Data Anda",
    intro:
      "Unduh semua yang kami simpan tentang akun ini dalam satu berkas JSON: pengaturan, sesi, kunci tanpa rahasianya, isi saldo, mutasi, dan setiap panggilan. Isi panggilan tidak pernah kami simpan.",
    password: "Kata sandi untuk mengunduh",
    download: "Unduh data saya",
    done: "Data diunduh",
  },
  en: {
    title: "Your data",
    intro:
      "Download all that we keep of this account as one JSON file: settings, sessions, keys without their secrets, top-ups, movements, and every call. What calls say is never kept.",
    password: "Password for the download",
    download: "Download my data",
    done: "Data downloaded",
  },
})
