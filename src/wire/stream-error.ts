/**
 * A failure inside a committed answer, where there is no status and no hint field (gateway-api.md, "Events" 4 and "Events" 5).
 * The message is the failure's fixed text with its guidance appended.
 */
import type { Failure } from "../failure/failure.ts"
import { failureRow, type MessagesErrorType, type StreamCode } from "../failure/table.ts"

/** The error types that the SDKs of chat and responses know. */
type OpenErrorType = "server_error" | "invalid_request_error" | "rate_limit_error"

export const toldMessage = ({ message, hint }: Failure): string =>
  hint === undefined ? message : `${message}${/[.!?]$/.test(message) ? "" : "."} ${hint}`

export const streamCode = (failure: Failure): StreamCode => failure.detail.stream ?? failureRow(failure.code).stream

export const messagesErrorType = (failure: Failure): MessagesErrorType => failureRow(failure.code).messagesType

export const openErrorType = (failure: Failure): OpenErrorType => {
  const type = messagesErrorType(failure)
  return type === "api_error" || type === "overloaded_error" ? "server_error" : type
}
