/** Server-sent events as the formats use them, and the words for a failure inside a stream. */
import { EventStreamParser, type SseEvent } from "../event-stream.ts"
import { Failure } from "../failure/failure.ts"
import { failureRow, type MessagesErrorType, type StreamCode } from "../failure/table.ts"
import { isObject, type JsonObject } from "../language/json.ts"

export type { SseEvent } from "../event-stream.ts"

/** No format's event comes near this; a backend that sends more is broken or hostile. */
const maxEventSize = 8 * 1024 * 1024

/** An event over the limit is a Failure. */
export class SseParser extends EventStreamParser<Failure> {
  constructor(limits: { readonly maxEventSize: number } = { maxEventSize }) {
    super(limits.maxEventSize, () => new Failure("dependency.upstream_unavailable"))
  }
}

/** The events that have come, to be taken off until there is none left. */
export type BufferedEvents = Pick<SseParser, "next" | "ahead" | "place">

/** An event as bytes to send. An empty name is left out. */
export const encodeSse = (event: string, data: string): string => {
  const name = event === "" ? "" : `event: ${event}\n`
  const isOneLine = !data.includes("\n") && !data.includes("\r")
  return `${name}data: ${isOneLine ? data : data.split(/\r\n|\r|\n/).join("\ndata: ")}\n\n`
}

/** The JSON object that an event carries; undefined when it carries anything else. */
export const eventObject = (event: SseEvent): JsonObject | undefined => {
  // Neither has an end mark, and an error is dear.
  if (event.data.startsWith("[")) return undefined
  try {
    const parsed: unknown = JSON.parse(event.data)
    return isObject(parsed) ? parsed : undefined
  } catch {
    return undefined
  }
}

/** What kind of event it is: by its data, and where that does not say, by its name. */
export const eventType = ({ event }: SseEvent, { type }: JsonObject): string =>
  typeof type === "string" ? type : event

/** With the name that the SDKs go by, which some compatible backends leave out. */
export const withEventName = (event: SseEvent, body: JsonObject): SseEvent =>
  event.event === "" ? { event: eventType(event, body), data: event.data } : event

/*
 * A failure inside a committed response has no status and no hint field (gateway-api.md, "Events" 4 and "Events" 5). Its message is the
 * failure's fixed text with the hint appended.
 */

/** The error types that the SDKs of chat and responses know. */
type OpenErrorType = "server_error" | "invalid_request_error" | "rate_limit_error"

export const messageWithHint = ({ message, hint }: Failure): string =>
  hint === undefined ? message : `${message}${/[.!?]$/.test(message) ? "" : "."} ${hint}`

export const streamCode = (failure: Failure): StreamCode => failure.detail.stream ?? failureRow(failure.code).stream

export const messagesErrorType = (failure: Failure): MessagesErrorType => failureRow(failure.code).messagesType

export const openErrorType = (failure: Failure): OpenErrorType => {
  const type = messagesErrorType(failure)
  return type === "api_error" || type === "overloaded_error" ? "server_error" : type
}
