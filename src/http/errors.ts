/** How a failure leaves over HTTP: its body and headers (gateway-api.md, "Errors"; decisions §4). */
import { type Static, Type } from "@sinclair/typebox"
import type { Failure } from "../failure/failure.ts"
import { failureCodes } from "../failure/table.ts"
import { described, flag, oneOf, text } from "./shapes.ts"
import { field } from "./said.ts"

/** gateway-api.md, "Error body". */
export const errorBody = Type.Object(
  {
    error: described(text, field("For people; may change.", "Untuk dibaca orang; dapat berubah.")),
    code: oneOf(failureCodes, field("The contract: branch on this.", "Inilah kontraknya: bercabanglah menurut ini.")),
    type: described(text, field("The part of `code` after its last dot.", "Bagian `code` setelah titik terakhir.")),
    request_id: text,
    retryable: described(
      flag,
      field("Whether the same request may succeed later.", "Apakah permintaan yang sama mungkin berhasil nanti."),
    ),
    hint: Type.Optional(text),
  },
  { $id: "Error" },
)
export type ErrorBody = Static<typeof errorBody>

export function failureResponse(failure: Failure, requestId: string): Response {
  const headers = new Headers(failure.detail.headers)
  headers.set("Content-Type", "application/json")
  headers.set("X-Error-Code", failure.code)
  if (!failure.retryable) headers.set("x-should-retry", "false")
  if (failure.detail.retryAfterS !== undefined) headers.set("Retry-After", String(failure.detail.retryAfterS))
  return new Response(JSON.stringify(failure.body(requestId)), { status: failure.status, headers })
}
