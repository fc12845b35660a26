/**
 * One call of `/v1/chat/completions`, as an application makes it: with a key and without the session. The answer arrives in
 * pieces. A failure, before the stream or in it, is thrown as an ApiFailure (gateway-api.md, "Events").
 */
import { EventStreamParser } from "../../../event-stream.ts"
import { ApiFailure, failureOf } from "../../api/client.ts"

/** An event of the gateway is far smaller, in UTF-16 units. */
const MAX_EVENT_SIZE = 8 * 1024 * 1024

type Part =
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "image_url"; readonly image_url: { readonly url: string } }

export interface Message {
  readonly role: "system" | "user" | "assistant"
  readonly content: string | readonly Part[]
}

/** What a person sends: words, and images as `data:` addresses. */
export interface Words {
  readonly question: string
  readonly images: readonly string[]
}

export const messageOf = ({ question, images }: Words): Message => ({
  role: "user",
  content:
    images.length === 0
      ? question
      : [
          ...(question === "" ? [] : [{ type: "text" as const, text: question }]),
          ...images.map((url) => ({ type: "image_url" as const, image_url: { url } })),
        ],
})

/** How a model is to answer. What is undefined is left to the model. */
export interface Sampling {
  /** Tokens. */
  readonly limit: number
  readonly temperature: number | undefined
  readonly topP: number | undefined
}

export interface Asked extends Sampling {
  readonly key: string
  readonly model: string
  readonly messages: readonly Message[]
}

export interface Question extends Asked {
  readonly signal: AbortSignal
}

/** The body of the request, which the code to copy has as well. */
export const bodyOf = ({ model, messages, limit, temperature, topP }: Omit<Asked, "key">) => ({
  model,
  messages,
  max_completion_tokens: limit,
  ...(temperature !== undefined && { temperature }),
  ...(topP !== undefined && { top_p: topP }),
  stream: true,
})

export const requestOf = ({ key, ...asked }: Asked) =>
  ({
    method: "POST",
    credentials: "omit",
    headers: { Authorization: `Bearer ${key}`, "Content-Type": "application/json" },
    body: JSON.stringify(bodyOf(asked)),
  }) as const

export type Piece =
  | { readonly type: "begun"; readonly requestId: string }
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "thinking"; readonly text: string }
  /** `cutOff`: the answer reached its limit. */
  | { readonly type: "finished"; readonly cutOff: boolean }

export async function* answerTo({ signal, ...asked }: Question): AsyncGenerator<Piece, void> {
  const response = await reached(fetch("/v1/chat/completions", { ...requestOf(asked), signal }), signal)
  if (!response.ok || response.body === null) throw await failureOf(response)
  yield { type: "begun", requestId: response.headers.get("x-request-id") ?? "" }
  const parser = new EventStreamParser(MAX_EVENT_SIZE, () => new ApiFailure(undefined, 0))
  const reader = response.body.getReader()
  for (;;) {
    const { done, value } = await reached(reader.read(), signal)
    // A stream that ends without `[DONE]` was cut off.
    if (done) throw new ApiFailure(undefined, 0)
    const events = parser.push(value)
    if (events instanceof ApiFailure) throw events
    for (const { data } of events) {
      if (data === "[DONE]") return
      yield* piecesOf(JSON.parse(data) as Chunk)
    }
  }
}

interface Chunk {
  readonly error?: {
    readonly message: string
    readonly code: string
    readonly type: string
    readonly request_id: string
  }
  readonly choices?: readonly {
    readonly delta?: { readonly content?: string | null; readonly reasoning_content?: string | null }
    readonly finish_reason?: string | null
  }[]
}

function* piecesOf({ error, choices = [] }: Chunk): Generator<Piece, void> {
  if (error !== undefined) {
    const { message, code, type, request_id } = error
    throw new ApiFailure({ error: message, code, type, request_id, retryable: true }, 200)
  }
  for (const { delta, finish_reason: reason } of choices) {
    if (delta?.reasoning_content) yield { type: "thinking", text: delta.reasoning_content }
    if (delta?.content) yield { type: "text", text: delta.content }
    if (reason) yield { type: "finished", cutOff: reason === "length" }
  }
}

/** A failed connection becomes an ApiFailure, unless the person stopped the answer. */
async function reached<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return await work.catch((error: unknown) => {
    throw signal.aborted ? error : new ApiFailure(undefined, 0)
  })
}
