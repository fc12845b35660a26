/** What a client of any format says and hears, as the tests of kills and outages need it. */
export const formats = ["chat", "messages", "responses"] as const
export type Format = (typeof formats)[number]

export const paths = { chat: "/v1/chat/completions", messages: "/v1/messages", responses: "/v1/responses" }
/** What a whole stream ends with. On chat a failed one does, too. */
export const terminals = {
  chat: "data: [DONE]",
  messages: "event: message_stop",
  responses: "event: response.completed",
}
/** What a stream that failed tells. */
export const failures = {
  chat: 'data: {"error":',
  messages: "event: error",
  responses: "event: response.failed",
}

export const hello = [{ role: "user", content: "Hello" }]

export const bodyOf = (format: Format, model: string, stream: boolean) => ({
  model,
  stream,
  ...(format === "responses" ? { input: "Hello" } : { messages: hello, max_tokens: 100 }),
})

/** The counts that every scripted backend of these tests gives. */
export const COUNTS = "input=30&output=20"
