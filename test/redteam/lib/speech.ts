/**
 * What a backend says in each of the formats, with whatever counts it is told to name. Nothing of the gateway's own
 * writers is used, so that no mistake of theirs is met by the same mistake here.
 */
import type { Endpoint } from "../../crash/asking.ts"

/** Tokens in the four disjoint buckets of a usage record. */
export interface Counts {
  readonly input: number
  readonly output: number
  readonly cacheRead?: number
  readonly cacheWrite?: number
}

export interface Speech {
  readonly format: Endpoint
  readonly model: string
  readonly pieces: number
  readonly piece: string
  readonly choices: number
  /** As the format has it; undefined leaves it out. */
  readonly usage: unknown
  /** Responses: what the request asked, given back in the first and the last event. */
  readonly echo: Readonly<Record<string, unknown>>
}

/** Counts as the format's backends name them. */
export function usageOf(format: Endpoint, { input, output, cacheRead = 0, cacheWrite = 0 }: Counts): object {
  const prompt = input + cacheRead + cacheWrite
  if (format === "messages") {
    return {
      input_tokens: input,
      output_tokens: output,
      cache_read_input_tokens: cacheRead,
      cache_creation_input_tokens: cacheWrite,
    }
  }
  if (format === "embeddings") {
    // One that counts what it did not say.
    return { prompt_tokens: prompt, total_tokens: prompt + output, ...(output > 0 && { completion_tokens: output }) }
  }
  if (format === "chat" || format === "completions") {
    return {
      prompt_tokens: prompt,
      completion_tokens: output,
      total_tokens: prompt + output,
      prompt_tokens_details: { cached_tokens: cacheRead, ...(cacheWrite > 0 && { cache_write_tokens: cacheWrite }) },
    }
  }
  return {
    input_tokens: prompt,
    input_tokens_details: { cached_tokens: cacheRead },
    output_tokens: output,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: prompt + output,
  }
}

/** The answer in one piece. */
export function whole(speech: Speech): object {
  const { format, model, choices, usage } = speech
  const text = speech.piece.repeat(speech.pieces)
  if (format === "chat") {
    const message = { role: "assistant", content: text }
    return {
      id: "chatcmpl-hostile",
      object: "chat.completion",
      created: 1,
      model,
      choices: Array.from({ length: choices }, (_, index) => ({ index, message, finish_reason: "stop" })),
      usage,
    }
  }
  if (format === "completions") {
    const all = Array.from({ length: choices }, (_, index) => ({ index, text, logprobs: null, finish_reason: "stop" }))
    return { ...completion(model), choices: all, usage }
  }
  if (format === "embeddings") {
    const data = Array.from({ length: choices }, (_, index) => ({ object: "embedding", index, embedding: text }))
    return { object: "list", data, model, usage }
  }
  if (format === "messages") {
    const content = [{ type: "text", text }]
    const stop = { stop_reason: "end_turn", stop_sequence: null }
    return { id: "msg_hostile", type: "message", role: "assistant", model, content, ...stop, usage }
  }
  return response(speech, text)
}

/** The answer as a stream: the events before the pieces, one for each piece, and those after. */
export interface Told {
  readonly before: string
  piece(index: number): string
  readonly after: string
}

export function streamed(speech: Speech): Told {
  const { format } = speech
  if (format === "chat") return chatStream(speech)
  if (format === "completions") return completionsStream(speech)
  return format === "messages" ? messagesStream(speech) : responsesStream(speech)
}

const data = (value: object) => `data: ${JSON.stringify(value)}\n\n`
const event = (value: { readonly type: string }) => `event: ${value.type}\n${data(value)}`

function chatStream({ model, piece, choices, usage }: Speech): Told {
  const chunk = (index: number, delta: object, finish: string | null = null) =>
    data({
      id: "chatcmpl-hostile",
      object: "chat.completion.chunk",
      created: 1,
      model,
      choices: [{ index, delta, finish_reason: finish }],
    })
  const all = Array.from({ length: choices }, (_, index) => index)
  const ready = all.map((index) => chunk(index, { content: piece }))
  const last = { id: "chatcmpl-hostile", object: "chat.completion.chunk", created: 1, model, choices: [], usage }
  return {
    before: all.map((index) => chunk(index, { role: "assistant", content: "" })).join(""),
    piece: (index) => ready[index % choices] ?? "",
    after: all.map((index) => chunk(index, {}, "stop")).join("") + data(last) + "data: [DONE]\n\n",
  }
}

const completion = (model: string) => ({ id: "cmpl-hostile", object: "text_completion", created: 1, model })

function completionsStream({ model, piece, choices, usage }: Speech): Told {
  const chunk = (index: number, text: string, finish: string | null = null) =>
    data({ ...completion(model), choices: [{ index, text, logprobs: null, finish_reason: finish }] })
  const all = Array.from({ length: choices }, (_, index) => index)
  const ready = all.map((index) => chunk(index, piece))
  return {
    before: "",
    piece: (index) => ready[index % choices] ?? "",
    after:
      all.map((index) => chunk(index, "", "stop")).join("") +
      data({ ...completion(model), choices: [], usage }) +
      "data: [DONE]\n\n",
  }
}

function messagesStream({ model, piece, usage }: Speech): Told {
  const message = {
    id: "msg_hostile",
    type: "message",
    role: "assistant",
    model,
    content: [],
    stop_reason: null,
    usage,
  }
  const delta = event({ type: "content_block_delta", index: 0, delta: { type: "text_delta", text: piece } } as {
    type: string
  })
  return {
    before:
      event({ type: "message_start", message } as { type: string }) +
      event({ type: "content_block_start", index: 0, content_block: { type: "text", text: "" } } as { type: string }),
    piece: () => delta,
    after:
      event({ type: "content_block_stop", index: 0 } as { type: string }) +
      event({ type: "message_delta", delta: { stop_reason: "end_turn", stop_sequence: null }, usage } as {
        type: string
      }) +
      event({ type: "message_stop" }),
  }
}

const item = (text: string) => ({
  id: "msg_hostile",
  type: "message",
  status: "completed",
  role: "assistant",
  content: [{ type: "output_text", text, annotations: [] }],
})

function response({ model, usage, echo }: Speech, text: string | undefined): object {
  return {
    id: "resp_hostile",
    object: "response",
    created_at: 1,
    status: text === undefined ? "in_progress" : "completed",
    model,
    output: text === undefined ? [] : [item(text)],
    usage: text === undefined ? null : usage,
    ...echo,
  }
}

function responsesStream(speech: Speech): Told {
  const { piece, pieces } = speech
  let sequence = 0
  const tell = (type: string, rest: object) => event({ type, sequence_number: sequence++, ...rest } as { type: string })
  const at = { item_id: "msg_hostile", output_index: 0, content_index: 0 }
  const before =
    tell("response.created", { response: response(speech, undefined) }) +
    tell("response.output_item.added", { output_index: 0, item: { ...item(""), content: [], status: "in_progress" } }) +
    tell("response.content_part.added", { ...at, part: { type: "output_text", text: "", annotations: [] } })
  return {
    before,
    piece: () => tell("response.output_text.delta", { ...at, delta: piece }),
    get after() {
      const text = piece.repeat(pieces)
      return (
        tell("response.output_text.done", { ...at, text }) +
        tell("response.content_part.done", { ...at, part: { type: "output_text", text, annotations: [] } }) +
        tell("response.output_item.done", { output_index: 0, item: item(text) }) +
        tell("response.completed", { response: response(speech, text) })
      )
    },
  }
}
