/**
 * What a change of second factors has in common: the proof that is asked for, the recovery codes that may come of it, the words.
 */
import { useQuery, useQueryClient } from "@tanstack/react-query"
import { passkeysQuery, usePasskeyError } from "../../api/browser.ts"
import { secondFactorQuery } from "../../api/queries.ts"
import { Button, CopyButton } from "../../components/button.tsx"
import { Dialog, FormDialog } from "../../components/dialog.tsx"
import { formText, PasswordField, TextField } from "../../components/form.tsx"
import { texts } from "../../i18n/language.tsx"
import { usePasswordError } from "./security.tsx"

export interface Typed {
  readonly password: string
  /** Empty where a passkey is to be used instead. */
  readonly code: string
}

/** Whether the account has a passkey that this page can use. */
export function useHasPasskey(): boolean {
  const { data } = useQuery(passkeysQuery)
  return data !== undefined && data.data.length > 0
}

/** What shows second factors and sessions is read anew. */
export function useFactorsChanged(): () => Promise<unknown> {
  const client = useQueryClient()
  return () =>
    Promise.all(
      [secondFactorQuery.queryKey, passkeysQuery.queryKey, ["sessions"]].map((queryKey) =>
        client.invalidateQueries({ queryKey }),
      ),
    )
}

interface ProofDialogProps {
  readonly title: string
  /** The word on the button; the title unless it is said. */
  readonly submit?: string
  readonly intro: string
  readonly change: {
    readonly isPending: boolean
    readonly error: Error | null
    readonly mutate: (proof: Typed) => void
  }
  readonly onClose: () => void
  readonly danger?: boolean
}

/**
 * Asks for the password and a code, or a passkey. The server does not tell which of them was wrong before the other was right.
 */
export function ProofDialog({ title, submit = title, intro, change, onClose, danger = false }: ProofDialogProps) {
  const text = useSecondFactorText()
  const hasPasskey = useHasPasskey()
  const hasApp = useQuery(secondFactorQuery).data?.since !== null
  const trouble = usePasskeyError()(change.error)
  const wrong = usePasswordError()(change.error) === undefined ? trouble : text.wrongProof
  return (
    <FormDialog
      title={title}
      submit={submit}
      danger={danger}
      busy={change.isPending}
      error={wrong === undefined ? change.error : null}
      onClose={onClose}
      onSubmit={(form) => change.mutate({ password: formText(form, "password"), code: formText(form, "code") })}
    >
      <p>{intro}</p>
      <PasswordField label={text.password} name="password" autoComplete="current-password" required />
      <CodeField error={wrong} label={hasApp ? text.anyCode : text.recoveryCode} orPasskey={hasPasskey} />
    </FormDialog>
  )
}

interface CodeFieldProps {
  readonly error: string | undefined
  readonly label: string
  /** Left empty, a passkey is used. */
  readonly orPasskey?: boolean
}

export function CodeField({ error, label, orPasskey = false }: CodeFieldProps) {
  const text = useSecondFactorText()
  return (
    <TextField
      label={label}
      optional={orPasskey}
      hint={orPasskey ? text.orPasskey : undefined}
      name="code"
      autoComplete="one-time-code"
      autoCapitalize="characters"
      spellCheck={false}
      maxLength={40}
      required={!orPasskey}
      error={error}
    />
  )
}

/** Shown this once. */
export function Codes({ codes, onClose }: { readonly codes: readonly string[]; readonly onClose: () => void }) {
  const text = useSecondFactorText()
  const file = `data:text/plain;charset=utf-8,${encodeURIComponent(`Loket\n${codes.join("\n")}\n`)}`
  return (
    <Dialog
      title={text.codes}
      insistent
      onClose={onClose}
      footer={
        <>
          <a className="button button-secondary button-medium" href={file} download="loket-recovery-codes.txt">
            {text.download}
          </a>
          <Button kind="primary" onClick={onClose}>
            {text.kept}
          </Button>
        </>
      }
    >
      <p>{text.codesIntro}</p>
      <ul className="factor-codes">
        {codes.map((code) => (
          <li key={code}>
            <code>{code}</code>
          </li>
        ))}
      </ul>
      <p className="settings-copied">
        {text.copyAll}
        <CopyButton text={codes.join("\n")} what={text.codes} />
      </p>
    </Dialog>
  )
}

export const useSecondFactorText = texts({
  id: {
    title: "Verifikasi dua langkah",
    on: "Aktif",
    off: "Nonaktif",
    intro:
      "Selain kata sandi, masuk ke akun ini memerlukan kode dari aplikasi autentikator di ponsel Anda. Kunci API tidak terpengaruh.",
    introOn: (date: string) => `Aktif sejak ${date}: masuk memerlukan kode dari aplikasi autentikator Anda.`,
    introPasskey:
      "Passkey Anda sudah menjadi langkah kedua saat masuk. Aplikasi autentikator dapat menjadi cadangannya.",
    addApp: "Tambah aplikasi autentikator",
    addAppIntro: "Kode pemulihan yang lama akan diganti dengan yang baru.",
    removeApp: "Hapus aplikasi autentikator",
    removeAppIntro: "Setelah ini, langkah kedua adalah passkey Anda. Semua sesi lain diakhiri.",
    appRemoved: "Aplikasi autentikator dihapus",
    orPasskey: "Kosongkan untuk memakai passkey.",
    passkeys: "Passkey",
    passkeysIntro:
      "Masuk dengan sidik jari, wajah, atau PIN perangkat Anda, tanpa kata sandi dan tanpa kode. Passkey tidak dapat dipancing oleh situs palsu.",
    passkeysNone: "Belum ada passkey.",
    passkeysAt: (origin: string) => `Di gateway ini, passkey hanya dapat dipakai di ${origin}.`,
    passkeysUnavailable: "Passkey tidak tersedia di gateway ini: PUBLIC_URL harus berupa nama domain dengan https.",
    passkeysUnsupported: "Peramban ini tidak mendukung passkey.",
    passkeysFull: "Akun ini sudah memiliki sepuluh passkey. Hapus salah satu sebelum menambah.",
    addPasskey: "Tambah passkey",
    addPasskeyIntro: "Setelah ini, perangkat Anda akan meminta sidik jari, wajah, atau PIN.",
    passkeyName: "Nama passkey",
    passkeyNameWrong: "Isi nama, paling banyak 60 karakter.",
    passkeyAdded: "Passkey ditambahkan",
    passkeyMade: (date: string) => `Dibuat ${date}`,
    passkeyUsed: (ago: string) => `terakhir dipakai ${ago}`,
    passkeyUnused: "belum pernah dipakai",
    rename: "Ganti nama",
    renameOf: (name: string) => `Ganti nama ${name}`,
    renamed: "Nama passkey diganti",
    save: "Simpan",
    remove: "Hapus",
    removeOf: (name: string) => `Hapus ${name}`,
    removePasskey: "Hapus passkey",
    removePasskeyIntro: (name: string) =>
      `${name} tidak dapat lagi dipakai untuk masuk. Hapus juga dari pengelola kata sandi di perangkat Anda.`,
    passkeyRemoved: "Passkey dihapus",
    needed: "Halaman operator baru terbuka setelah verifikasi dua langkah aktif.",
    unproved: "Konfirmasi dahulu alamat e-mail akun ini.",
    few: (count: string) => `Kode pemulihan Anda tersisa ${count}. Buat yang baru sebelum habis.`,
    setUp: "Aktifkan verifikasi dua langkah",
    next: "Lanjut",
    password: "Kata sandi akun",
    scan: "Pindai kode QR ini dengan aplikasi autentikator, atau tulis kuncinya di sana. Lalu tulis enam angka yang ditampilkan aplikasi.",
    qr: "Kode QR untuk aplikasi autentikator",
    secret: "Kunci untuk aplikasi autentikator",
    code: "Enam angka dari aplikasi",
    anyCode: "Kode dari aplikasi, atau kode pemulihan",
    recoveryCode: "Kode pemulihan",
    wrong: "Kode ini salah, sudah dipakai, atau terlalu banyak percobaan. Tunggu kode berikutnya.",
    wrongProof: "Kata sandi, kode, atau passkey tidak diterima, atau terlalu banyak percobaan.",
    turnOn: "Aktifkan",
    codes: "Kode pemulihan",
    codesIntro:
      "Dengan salah satu kode ini Anda dapat masuk tanpa ponsel. Tiap kode berlaku sekali, dan hanya ditampilkan sekarang: simpan di tempat yang aman, bukan di ponsel yang sama.",
    copyAll: "Salin semuanya",
    download: "Unduh",
    kept: "Sudah saya simpan",
    renew: "Buat kode pemulihan baru",
    renewIntro: "Kode pemulihan yang lama tidak berlaku lagi.",
    turnOff: "Matikan verifikasi dua langkah",
    turnOffIntro: "Setelah ini, masuk hanya memerlukan kata sandi. Semua sesi lain diakhiri.",
    turnedOff: "Verifikasi dua langkah dimatikan",
  },
  en: {
    title: "Two-step verification",
    on: "On",
    off: "Off",
    intro:
      "Beside the password, signing in takes a code of an authenticator app on your phone. API keys are not affected.",
    introOn: (date: string) => `On since ${date}: signing in takes a code of your authenticator app.`,
    introPasskey: "Your passkey already is the second step of signing in. An authenticator app can stand in for it.",
    addApp: "Add an authenticator app",
    addAppIntro: "The old recovery codes are replaced by new ones.",
    removeApp: "Remove the authenticator app",
    removeAppIntro: "From then on, your passkeys are the second step. All other sessions end.",
    appRemoved: "Authenticator app removed",
    orPasskey: "Leave it empty to use a passkey.",
    passkeys: "Passkeys",
    passkeysIntro:
      "Sign in with your device's fingerprint, face or PIN, without the password and without a code. No false site can get at a passkey.",
    passkeysNone: "There is no passkey yet.",
    passkeysAt: (origin: string) => `Passkeys of this gateway can be used at ${origin} alone.`,
    passkeysUnavailable: "Passkeys are not available here: PUBLIC_URL has to be a domain name with https.",
    passkeysUnsupported: "This browser does not support passkeys.",
    passkeysFull: "This account has ten passkeys. Remove one before you add another.",
    addPasskey: "Add a passkey",
    addPasskeyIntro: "Your device then asks for a fingerprint, a face or a PIN.",
    passkeyName: "Name of the passkey",
    passkeyNameWrong: "Enter a name of at most 60 characters.",
    passkeyAdded: "Passkey added",
    passkeyMade: (date: string) => `Made ${date}`,
    passkeyUsed: (ago: string) => `last used ${ago}`,
    passkeyUnused: "never used",
    rename: "Rename",
    renameOf: (name: string) => `Rename ${name}`,
    renamed: "Passkey renamed",
    save: "Save",
    remove: "Remove",
    removeOf: (name: string) => `Remove ${name}`,
    removePasskey: "Remove the passkey",
    removePasskeyIntro: (name: string) =>
      `${name} can no longer be used to sign in. Remove it from your device's password manager too.`,
    passkeyRemoved: "Passkey removed",
    needed: "The operator's pages open once two-step verification is on.",
    unproved: "Confirm this account's e-mail address first.",
    few: (count: string) => `You have ${count} recovery codes left. Make new ones before they are used up.`,
    setUp: "Turn on two-step verification",
    next: "Next",
    password: "Account password",
    scan: "Scan this QR code with an authenticator app, or type the key there. Then enter the six digits that the app shows.",
    qr: "QR code for an authenticator app",
    secret: "Key for an authenticator app",
    code: "Six digits from the app",
    anyCode: "A code from the app, or a recovery code",
    recoveryCode: "Recovery code",
    wrong: "This code is wrong or was used before, or there were too many tries. Wait for the next one.",
    wrongProof: "The password, the code or the passkey was not accepted, or there were too many tries.",
    turnOn: "Turn on",
    codes: "Recovery codes",
    codesIntro:
      "With one of these codes you can sign in without your phone. Each works once, and they are shown only now: keep them in a safe place, and not on the same phone.",
    copyAll: "Copy all of them",
    download: "Download",
    kept: "I have kept them",
    renew: "Make new recovery codes",
    renewIntro: "The old recovery codes stop working.",
    turnOff: "Turn off two-step verification",
    turnOffIntro: "From then on, signing in takes the password alone. All other sessions end.",
    turnedOff: "Two-step verification turned off",
  },
})
