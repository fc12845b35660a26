/** What every error of the contract looks like over HTTP (gateway-api.md, "Errors"; decisions §4). */
import { expect } from "bun:test"

/** Codes that a client may send again; written out here so that the table under test does not judge itself. */
const retryable = new Set([
  "rate_limit.rpm_exceeded",
  "rate_limit.tpm_exceeded",
  "gateway.capacity",
  "idempotency.in_progress",
  "upstream.rate_limited",
  "internal.error",
  "internal.panic",
  "dependency.upstream_unavailable",
  "dependency.database_unavailable",
  "dependency.upstream_unconfigured",
  "billing.reconcile_failed",
])

/** Checks the whole shape, and hands back the message, the hint or "", and the wait in seconds. */
export async function expectFailure(
  response: Response,
  status: number,
  code: string,
): Promise<{ readonly message: string; readonly hint: string; readonly retryAfterS: number | undefined }> {
  const { headers } = response
  const body = (await response.json()) as Record<string, unknown>
  const id = headers.get("x-request-id")
  const { error, hint = "", ...rest } = body
  const type = code.split(".").at(-1)
  const expected = { status, code, type, request_id: id, retryable: retryable.has(code) }
  expect<object>({ status: response.status, ...rest }).toEqual(expected)
  expect(error).toMatch(/./)
  expect(hint).toBeString()
  expect(id).toMatch(/^req_[A-Za-z0-9_-]{1,36}$/)
  expect(headers.get("request-id")).toBe(id)
  expect(headers.get("x-error-code")).toBe(code)
  expect(headers.get("x-should-retry")).toBe(retryable.has(code) ? null : "false")
  expect(headers.get("content-type")).toBe("application/json")
  expect(headers.has("x-cost-rp")).toBeFalse()
  const wait = headers.get("retry-after")
  if (wait !== null) expect(wait).toMatch(/^[1-9]\d*$/)
  return { message: String(error), hint: String(hint), retryAfterS: wait === null ? undefined : Number(wait) }
}

/** What the log says of bugs, as opposed to failures that are expected. */
export const bugs = ({ complaints }: { readonly complaints: readonly string[] }): string[] =>
  complaints.filter((line) => /"unhandled"|crashed|fatal/.test(line))
