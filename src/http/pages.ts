/**
 * What a browser is told of calls that pages of other origins make (CORS, as the Fetch standard has it): nothing, but for those
 * that a key lists (docs/decisions/2026-11-23-pages-call-with-keys-that-list-them.md). Credentials of a browser are never asked for.
 */
import { ORIGINAL_REQUEST_ID } from "../gateway/replayable-call.ts"
import { DROPPED_FIELDS } from "../wire/fields.ts"

/** A browser asks again after so many seconds. Calls are judged by their key, however old the pre-flight. */
const MAX_AGE_S = 600
/** Of names of headers, as a browser lists them. */
const HEADER_NAMES = /^[a-z0-9-]+(?:, ?[a-z0-9-]+){0,63}$/i
const LONGEST_NAMES = 2_048

/** What clients read beside the body. */
const EXPOSED = [
  "X-Request-Id",
  "request-id",
  "X-Cost-Rp",
  "X-Error-Code",
  "x-should-retry",
  "Retry-After",
  "X-Model",
  "X-Rerouted-From",
  DROPPED_FIELDS,
  "Idempotency-Replayed",
  ORIGINAL_REQUEST_ID,
  ...["Limit", "Remaining", "Reset"].flatMap((what) => [`X-RateLimit-${what}`, `X-RateLimit-${what}-Tokens`]),
  ...["Limit-Micro", "Usage-Micro", "Remaining-Micro", "Limit-Period"].map((what) => `X-Key-${what}`),
  ...["Limit", "Usage", "Remaining"].map((what) => `X-Run-${what}-Micro`),
].join(", ")

/** Undefined for what is no pre-flight of a page that a key lists. `methods`: of the path, for calls with a key. */
export function preflight(
  headers: Headers,
  methods: readonly string[] | undefined,
  pages: { has(origin: string): boolean },
): Response | undefined {
  const origin = headers.get("origin")
  if (origin === null || methods === undefined) return undefined
  if (!headers.has("access-control-request-method") || !pages.has(origin)) return undefined
  const asked = headers.get("access-control-request-headers") ?? ""
  const isPlain = asked.length <= LONGEST_NAMES && HEADER_NAMES.test(asked)
  return new Response(null, {
    status: 204,
    headers: {
      "Access-Control-Allow-Origin": origin,
      "Access-Control-Allow-Methods": methods.join(", "),
      ...(isPlain && { "Access-Control-Allow-Headers": asked }),
      "Access-Control-Max-Age": String(MAX_AGE_S),
      Vary: "Origin, Access-Control-Request-Headers",
    },
  })
}

/** Lets a page read an answer, and what it says beside its body. */
export function readableBy(origin: string, { headers }: Response): void {
  headers.set("Access-Control-Allow-Origin", origin)
  headers.set("Access-Control-Expose-Headers", EXPOSED)
  headers.append("Vary", "Origin")
}
