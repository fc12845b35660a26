/** The header that names a request which may be sent again: the same of calls and of the dashboard's changes. */
import { Failure } from "./failure/failure.ts"

export const IDEMPOTENCY_KEY = "Idempotency-Key"
export const KEY_DESCRIPTION = "1 to 255 visible ASCII characters"
const KEY = /^[\x21-\x7e]{1,255}$/

/** Of every answer that was given before. */
export const REPLAYED = { "Idempotency-Replayed": "true" } as const

/** Undefined without the header. One that comes twice is joined with a space, which is none of its characters. */
export function idempotencyKeyOf(headers: Headers): string | undefined | Failure {
  const key = headers.get(IDEMPOTENCY_KEY)
  if (key === null) return undefined
  return KEY.test(key)
    ? key
    : new Failure("request.invalid", { message: `'${IDEMPOTENCY_KEY}' must be ${KEY_DESCRIPTION}.` })
}
