/** Codes that are typed: of an authenticator app, and for recovery, of which the hash alone is kept. */
import { Secret, TOTP } from "otpauth"

export const PERIOD_S = 30

export const RECOVERY_CODES = 10
/** Without letters that look like digits; 16 of 32 are 80 bits, too many to be guessed from their hash. */
const CODE_LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"
export const CODE_LENGTH = 16

/** As people type and paste it. */
export const plain = (code: string): string => code.toUpperCase().replaceAll(/[\s-]/g, "")

export const hashOf = (code: string): Uint8Array =>
  new Uint8Array(new Bun.CryptoHasher("sha256").update(plain(code)).digest())

/** 32 letters divide 256, so every code is as likely as any other. */
export const newCodes = (): readonly string[] =>
  Array.from({ length: RECOVERY_CODES }, () =>
    [...crypto.getRandomValues(new Uint8Array(CODE_LENGTH))]
      .map((byte, at) => (at > 0 && at % 4 === 0 ? "-" : "") + CODE_LETTERS[byte % CODE_LETTERS.length])
      .join(""),
  )

/** Which step's code of the app it is, if it is one of now, of the step before or of the next. Time in milliseconds. */
export function stepOf(secret: Uint8Array, typed: string, timestamp: number): number | undefined {
  const token = plain(typed)
  if (!/^\d{6}$/.test(token)) return undefined
  const buffer = new Uint8Array(secret).buffer
  const delta = TOTP.validate({ token, secret: new Secret({ buffer }), period: PERIOD_S, timestamp, window: 1 })
  return delta === null ? undefined : Math.floor(timestamp / 1_000 / PERIOD_S) + delta
}
