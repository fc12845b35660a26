/** A file of all that is known of the account, for whoever has its password. */
import { useState } from "react"
import { useChange } from "../../api/change.ts"
import { api, unwrap } from "../../api/client.ts"
import { useToasts } from "../../components/feedback.tsx"
import { texts } from "../../i18n/language.tsx"
import { PasswordForm } from "./password-form.tsx"

export function DataExport() {
  const text = useText()
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

function save(file: Blob, name: string): void {
  const link = document.createElement("a")
  link.href = URL.createObjectURL(file)
  link.download = name
  link.click()
  // The download has started by then.
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000)
}

const useText = texts({
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
