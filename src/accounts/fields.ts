/**
 * What people type into an account: e-mail address, password and time zone, and the codes of the second factor. A field is a
 * check of one value, with the sentence that explains a refusal, because the dashboard shows it.
 */
import { type Static, Type } from "@sinclair/typebox"
import { Secret, TOTP } from "otpauth"
import { NPWP } from "../config.ts"

/** One `@`, a domain with a dot, no white space; whether mail arrives there only a mail can tell. At most 254 octets (RFC 5321). */
export const Email = Type.RegExp(/^(?=[^]{3,254}$)[^\s@\p{Cc}]{1,64}@[^\s@.\p{Cc}]+(?:\.[^\s@.\p{Cc}]+)+$/u, {
  description: "an e-mail address of at most 254 characters",
})

/** An address to look for: what cannot be one is merely unknown, but the database takes no NUL. */
export const SomeEmail = Type.RegExp(/^[^\p{Cc}]{0,254}$/u, {
  description: "a string of at most 254 characters on one line",
})

/** Characters, not UTF-16 units: the `u` flag counts an emoji once. */
export const NewPassword = Type.RegExp(/^[^]{10,256}$/u, { description: "a string of 10 to 256 characters" })

/** A password to compare: any string, since what cannot be one is merely wrong. */
export const SomePassword = Type.String({ description: "a string" })

/** To whom receipts are made out. */
export const BuyerName = Type.RegExp(/^(?=[^]{1,200}$)(?=.*\S)[^\p{Cc}\u2028\u2029]+$/u, {
  description: "a name of 1 to 200 characters on one line",
})
export const BuyerAddress = Type.RegExp(/^(?=[^]{1,500}$)(?=[^]*\S)(?:[^\p{Cc}\u2028\u2029]+(?:\n|$)){1,6}$/u, {
  description: "an address of at most 500 characters and 6 lines",
})
export const Npwp = Type.String({
  pattern: NPWP,
  description: "an NPWP of 15 or 16 digits, such as 01.234.567.8-901.000",
})

/** What another version, or anything else, is refused with. */
export const agreeable = "the version of the texts that are in force, as `GET /about` tells it"
export const AgreedVersion = Type.String({ maxLength: 64, description: agreeable })

export const TimeZone = Type.RegExp(/^[A-Za-z][A-Za-z0-9_+/-]{0,63}$/, {
  description: "an IANA time zone such as Asia/Jakarta",
})
export type TimeZone = Static<typeof TimeZone>

/** Whether this runtime knows the zone. An offset such as +07:00 is none: `TimeZone` refused it. */
export function knownTimeZone(name: TimeZone): boolean {
  try {
    return new Intl.DateTimeFormat("en", { timeZone: name }).resolvedOptions().timeZone !== ""
  } catch {
    return false
  }
}

export const PERIOD_S = 30

export const RECOVERY_CODES = 10
/** Letters that look like digits are left out. 16 of 32 characters are 80 bits, too many to guess from a hash. */
const CODE_LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"
export const CODE_LENGTH = 16

/** Removes white space and dashes, which people type and paste. */
export const normalized = (code: string): string => code.toUpperCase().replaceAll(/[\s-]/g, "")

export const hashOf = (code: string): Uint8Array =>
  new Uint8Array(new Bun.CryptoHasher("sha256").update(normalized(code)).digest())

/** 32 letters divide 256, so every code is as likely as any other. */
export const newCodes = (): readonly string[] =>
  Array.from({ length: RECOVERY_CODES }, () =>
    [...crypto.getRandomValues(new Uint8Array(CODE_LENGTH))]
      .map((byte, at) => (at > 0 && at % 4 === 0 ? "-" : "") + CODE_LETTERS[byte % CODE_LETTERS.length])
      .join(""),
  )

/** The time step of a code of the app, if it is the current step, the one before or the next. Time in milliseconds. */
export function stepOf(secret: Uint8Array, typed: string, timestamp: number): number | undefined {
  const token = normalized(typed)
  if (!/^\d{6}$/.test(token)) return undefined
  const buffer = new Uint8Array(secret).buffer
  const delta = TOTP.validate({ token, secret: new Secret({ buffer }), period: PERIOD_S, timestamp, window: 1 })
  return delta === null ? undefined : Math.floor(timestamp / 1_000 / PERIOD_S) + delta
}
