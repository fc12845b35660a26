/**
 * As in production, on a machine of 2 GiB: what is a share of memory must be reached by what this command may send,
 * and the sign-ups of an hour within seconds.
 */
export const USUAL = {
  BODY_MEMORY_BYTES: String(256 * 2 ** 20),
  MAX_UNREAD_BYTES: String(256 * 2 ** 20),
  SIGN_UPS_PER_HOUR: "15",
} as const

/** The environment of a gateway whose timeouts are short, for rows that would otherwise take minutes. */
export const HASTY = {
  ...USUAL,
  SETTLE_DEADLINE_MS: "1500",
  UPSTREAM_IDLE_TIMEOUT_MS: "3000",
  HEARTBEAT_MS: "1000",
} as const
