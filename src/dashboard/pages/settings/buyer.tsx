/** To whom receipts and statements are made out: name, address and tax number of the buyer. */
import { useQueryClient } from "@tanstack/react-query"
import { type FormEvent, useState } from "react"
import { useChange } from "../../api/change.ts"
import { accountQuery } from "../../api/queries.ts"
import { Button } from "../../components/button.tsx"
import { ErrorState, useToasts } from "../../components/feedback.tsx"
import { Field, TextField } from "../../components/form.tsx"
import { Card } from "../../components/layout.tsx"
import { texts } from "../../i18n/language.tsx"
import { useAccount } from "../../shell/session.tsx"
import { changeAccount } from "./alerts.tsx"

/** As the server takes it. */
const NPWP = /^(?:\d{15,16}|\d{2}\.\d{3}\.\d{3}\.\d-\d{3}\.\d{3})$/
const LINES = 6

/** Null takes it away. */
const typedOrNull = (typed: string): string | null => (typed === "" ? null : typed)

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
