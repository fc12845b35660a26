/** Why limits went from Redis back to shares. */
export type FallReason = (typeof FALL_REASONS)[number]

/**
 * `closed`: it could not be connected to, or the connection ended. `late`: no answer in time. `emptied`: its data have begun anew.
 * Others are its own errors, of which `error` is any that is not named.
 */
export const FALL_REASONS = [
  "closed",
  "late",
  "emptied",
  "oom",
  "readonly",
  "loading",
  "misconf",
  "noauth",
  "noperm",
  "error",
] as const

export function reasonOf(error: unknown): FallReason {
  const code = errorCodeOf(error)?.toLowerCase()
  if (code === undefined) return "closed"
  return FALL_REASONS.find((reason) => reason === code) ?? "error"
}

/** In upper case, as Redis begins an error that it answers; undefined where it answered nothing. */
function errorCodeOf(error: unknown): string | undefined {
  const message = error instanceof Error ? error.message : ""
  return /^([A-Z]{2,20})\b/.exec(message)?.[1]
}
