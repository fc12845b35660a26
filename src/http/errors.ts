/** How a failure leaves over HTTP: its body and headers (gateway-api.md, "Errors"; decisions §4). */
import type { Failure } from "../failure/failure.ts"

export function failureResponse(failure: Failure, requestId: string): Response {
  const headers = new Headers(failure.detail.headers)
  headers.set("Content-Type", "application/json")
  headers.set("X-Error-Code", failure.code)
  if (!failure.retryable) headers.set("x-should-retry", "false")
  if (failure.detail.retryAfterS !== undefined) headers.set("Retry-After", String(failure.detail.retryAfterS))
  return new Response(JSON.stringify(failure.body(requestId)), { status: failure.status, headers })
}
