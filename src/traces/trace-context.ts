/**
 * The header `traceparent` (W3C Trace Context, level 1): which trace a caller is in. `tracestate` is never read: it is other
 * vendors' data, which nobody here needs.
 */

export interface TraceParent {
  /** 32 and 16 hexadecimal digits, not all of them 0. */
  readonly traceId: string
  readonly spanId: string
  readonly sampled: boolean
}

const FORM = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-|$)/
const LENGTH = 55
/** Of a later version, which may say more. */
const LONGEST = 512
const NOTHING = /^0+$/
const SAMPLED = 1

/** Undefined where there is none, and where it is malformed, which counts as none. */
export function readTraceParent(header: string | null): TraceParent | undefined {
  if (header === null || header.length < LENGTH || header.length > LONGEST) return undefined
  const [, version, traceId = "", spanId = "", flags = ""] = FORM.exec(header) ?? []
  if (version === undefined || version === "ff" || (version === "00" && header.length > LENGTH)) return undefined
  if (NOTHING.test(traceId) || NOTHING.test(spanId)) return undefined
  return { traceId, spanId, sampled: (Number.parseInt(flags, 16) & SAMPLED) !== 0 }
}

export const writeTraceParent = ({ traceId, spanId, sampled }: TraceParent): string =>
  `00-${traceId}-${spanId}-${sampled ? "01" : "00"}`

/** So many random bytes as hexadecimal digits, for an id. */
export const randomId = (bytes: 8 | 16): string =>
  Buffer.from(crypto.getRandomValues(new Uint8Array(bytes))).toString("hex")
