/** What a client of any format says and hears, as the tests of kills and outages need it. */
export const formats = ["chat", "messages", "responses"] as const
export type Format = (typeof formats)[number]

/** Also those that are there where the catalogue has a model for them. */
export const endpoints = [...formats, "completions", "embeddings"] as const
export type Endpoint = (typeof endpoints)[number]

export const paths = {
  chat: "/v1/chat/completions",
  messages: "/v1/messages",
  responses: "/v1/responses",
  completions: "/v1/completions",
  embeddings: "/v1/embeddings",
}
/** What a whole stream ends with. On chat and completions a failed one does, too. Embeddings have no stream. */
export const terminals = {
  chat: "data: [DONE]",
  completions: "data: [DONE]",
  messages: "event: message_stop",
  responses: "event: response.completed",
}
/** What a stream that failed tells. */
export const failures = {
  chat: 'data: {"error":',
  completions: 'data: {"error":',
  messages: "event: error",
  responses: "event: response.failed",
}

export const hello = [{ role: "user", content: "Hello" }]

const asked: Readonly<Record<Endpoint, object>> = {
  chat: { messages: hello, max_tokens: 100 },
  messages: { messages: hello, max_tokens: 100 },
  responses: { input: "Hello" },
  completions: { prompt: "Hello", max_tokens: 100 },
  embeddings: { input: "Hello" },
}

export const bodyOf = (endpoint: Endpoint, model: string, stream: boolean) => ({
  model,
  ...(endpoint !== "embeddings" && { stream }),
  ...asked[endpoint],
})

/** The counts that every scripted backend of these tests gives. */
export const COUNTS = "input=30&output=20"
