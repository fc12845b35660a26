/**
 * What people may type into an account: e-mail address, password, time zone. As checks of one value each, with the
 * sentence that explains a refusal, because the dashboard shows it.
 */
import { type Static, Type } from "@sinclair/typebox"
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
