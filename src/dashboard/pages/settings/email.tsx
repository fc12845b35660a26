/** Another e-mail address: it takes over when its owner opens the link that is sent there, or at once where no mail is sent. */
import { useQuery, useQueryClient } from "@tanstack/react-query"
import { useState } from "react"
import { useChange } from "../../api/change.ts"
import { api, ApiFailure, unwrap } from "../../api/client.ts"
import { aboutQuery, accountQuery } from "../../api/queries.ts"
import { useToasts } from "../../components/feedback.tsx"
import { TextField } from "../../components/form.tsx"
import { texts } from "../../i18n/language.tsx"
import { useAccount } from "../../shell/session.tsx"
import { PasswordForm } from "./password-form.tsx"

export function EmailChange() {
  const text = useText()
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
  const refused =
    change.error instanceof ApiFailure && change.error.code === "request.invalid" ? text.refused : undefined
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

const useText = texts({
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
