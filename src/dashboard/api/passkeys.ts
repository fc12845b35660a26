/** Passkeys in the browser. What talks to the device is loaded when a person asks for it. */
import type { CreationOptions, RequestOptions } from "../../accounts/passkeys.ts"
import { queryOptions } from "@tanstack/react-query"
import { texts } from "../i18n/language.tsx"
import { api, unwrap } from "./client.ts"

export const passkeysQuery = queryOptions({
  queryKey: ["passkeys"],
  queryFn: () => unwrap(api.account.passkeys.get()),
})

/** Browsers have them on pages that nobody can listen in to, and a passkey belongs to one address. */
export const canUsePasskeys = (origin: string | null | undefined): boolean =>
  origin === location.origin && "PublicKeyCredential" in globalThis

const troubles = {
  NotAllowedError: "cancelled",
  AbortError: "cancelled",
  InvalidStateError: "known",
  SecurityError: "elsewhere",
  NotSupportedError: "unsupported",
  ConstraintError: "unsupported",
} as const
type Trouble = (typeof troubles)[keyof typeof troubles] | "failed"

/** The device has not signed. */
class PasskeyError extends Error {
  readonly trouble: Trouble

  constructor(cause: unknown) {
    super("the device has not signed", { cause })
    const name = cause instanceof Error ? cause.name : ""
    this.trouble = Object.entries(troubles).find(([known]) => known === name)?.[1] ?? "failed"
  }
}

/** As answers are typed. */
type Sent<T> = T extends object ? { readonly [Name in keyof T]: Sent<T[Name]> } : T

const library = () => import("@simplewebauthn/browser")

export const makePasskey = (options: Sent<CreationOptions>) =>
  library()
    .then(({ startRegistration }) => startRegistration({ optionsJSON: options as CreationOptions }))
    .catch((error: unknown) => {
      throw new PasskeyError(error)
    })

export const signByPasskey = (options: Sent<RequestOptions>) =>
  library()
    .then(({ startAuthentication }) => startAuthentication({ optionsJSON: options as RequestOptions }))
    .catch((error: unknown) => {
      throw new PasskeyError(error)
    })

/** What the server takes from who changes a second factor. */
export async function proofOf(typed: { readonly password: string; readonly code: string }, hasPasskey: boolean) {
  const { password, code } = typed
  if (code.trim() !== "" || !hasPasskey) return { password, code }
  return { password, passkey: await signByPasskey(await unwrap(api.account.passkeys.proof.post())) }
}

/** The words for a device that has not signed; undefined for any other error. */
export function usePasskeyError(): (error: Error | null) => string | undefined {
  const text = useTroubles()
  return (error) => (error instanceof PasskeyError ? text[error.trouble] : undefined)
}

const useTroubles = texts({
  id: {
    cancelled: "Passkey tidak jadi dipakai, atau waktunya habis. Coba lagi jika memang ingin memakainya.",
    known:
      "Perangkat ini sudah menyimpan passkey untuk akun Anda. Pakai passkey itu, atau tambahkan dari perangkat lain.",
    elsewhere: "Passkey tidak berlaku di alamat ini. Buka dasbor di alamat resminya.",
    unsupported:
      "Perangkat ini tidak dapat menyimpan passkey yang dilindungi PIN, sidik jari, atau wajah. Coba perangkat lain.",
    failed: "Perangkat tidak dapat memakai passkey. Coba lagi, atau pakai perangkat lain.",
  },
  en: {
    cancelled: "The passkey was not used, or the time ran out. Try again if you meant to use it.",
    known: "This device already keeps a passkey for your account. Use that one, or add one from another device.",
    elsewhere: "Passkeys do not work at this address. Open the dashboard at its own address.",
    unsupported: "This device cannot keep a passkey behind a PIN, a fingerprint or a face. Try another device.",
    failed: "The device could not use a passkey. Try again, or use another device.",
  },
})
