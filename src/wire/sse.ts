/**
 * Server-sent events, as the three formats use them (WHATWG HTML, section 9.2.6). `data` is the data lines joined with
 * a line feed; `event` is empty where the stream names none.
 */
export interface SseEvent {
  readonly event: string
  readonly data: string
}
