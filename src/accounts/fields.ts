/**
 * What people may type into an account: e-mail address, password, time zone. As checks of one value each, with the
 * sentence that explains a refusal, because the dashboard shows it.
 */
import { type Static, Type } from "@sinclair/typebox"

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
