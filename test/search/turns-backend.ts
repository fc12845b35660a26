/**
 * A messages backend for tests whose answer to each call is written out: what the simulator's scripts, which are the same
 * for all turns of a call, cannot say.
 */
import { type Provider, soleCredential } from "../../src/catalogue/model.ts"
import type { Backend } from "../../src/upstream/providers.ts"
import { backendOf } from "../gateway/harness.ts"

type Json = Readonly<Record<string, unknown>>

/** One answer: its content blocks and counts; or a status; or a stream that breaks off after its blocks. */
export interface TurnAnswer {
  readonly blocks?: readonly Json[]
  readonly usage?: Json
  readonly stop?: string
  readonly status?: number
  readonly breaks?: boolean
  /** Said after the blocks of a stream, which it ends. */
  readonly error?: Json
  readonly wait?: Promise<unknown>
}

export interface TurnsBackend extends AsyncDisposable {
  readonly backend: Backend
  /** What it was sent. */
  readonly asked: Record<string, unknown>[]
  /** The answers to the next calls, in order. */
  turns: TurnAnswer[]
}

export const text = (said: string, citations?: readonly Json[]): Json => ({
  type: "text",
  text: said,
  ...(citations && { citations }),
})
/** An input of text is JSON as it is written in a stream. */
export const call = (id: string, name: string, input: Json | string): Json => ({ type: "tool_use", id, name, input })
export const search = (id: string, query: string): Json => call(id, "web_search", { query })
export const counts = (input: number, output: number, cacheRead = 0, cacheWrite = 0): Json => ({
  input_tokens: input,
  cache_read_input_tokens: cacheRead,
  cache_creation_input_tokens: cacheWrite,
  output_tokens: output,
})

export function startTurnsBackend(id = "turns"): TurnsBackend {
  const asked: Record<string, unknown>[] = []
  const state: Pick<TurnsBackend, "turns"> = { turns: [] }
  const server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    idleTimeout: 0,
    async fetch(request) {
      const body = (await request.json()) as Record<string, unknown>
      asked.push(body)
      const turn = state.turns.shift() ?? { status: 500 }
      await turn.wait
      if (turn.status !== undefined) return Response.json({ type: "error", error: {} }, { status: turn.status })
      const { blocks = [], usage = counts(10, 5), breaks = false, error } = turn
      const calls = blocks.some(({ type }) => type === "tool_use")
      const stop = turn.stop ?? (calls ? "tool_use" : "end_turn")
      const message = { id: `msg_${asked.length}`, type: "message", role: "assistant", model: "scripted" }
      if (body["stream"] !== true)
        return Response.json({ ...message, content: blocks, stop_reason: stop, stop_sequence: null, usage })
      const events = [
        { type: "message_start", message: { ...message, content: [], stop_reason: null, usage } },
        ...blocks.flatMap((block, index) => blockEvents(block, index)),
        ...(breaks || error !== undefined
          ? [{ type: "error", error }].slice(breaks ? 1 : 0)
          : [
              { type: "message_delta", delta: { stop_reason: stop, stop_sequence: null }, usage },
              { type: "message_stop" },
            ]),
      ]
      const bytes = events.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`).join("")
      return new Response(bytes, { headers: { "Content-Type": "text/event-stream" } })
    },
  })
  const provider: Provider = {
    id,
    label: "Turns",
    baseUrl: `http://127.0.0.1:${server.port}`,
    credentials: [soleCredential("X")],
    headers: {},
  }
  return Object.assign(state, {
    backend: backendOf(provider, "secret"),
    asked,
    [Symbol.asyncDispose]: () => server.stop(true),
  })
}

function blockEvents(block: Json, index: number): { type: string; [key: string]: unknown }[] {
  const delta = (value: Json) => ({ type: "content_block_delta", index, delta: value })
  const start = (value: Json) => ({ type: "content_block_start", index, content_block: value })
  const stop = { type: "content_block_stop", index }
  const citations = Array.isArray(block["citations"]) ? (block["citations"] as Json[]) : []
  switch (block["type"]) {
    case "text":
      return [
        start({ type: "text", text: "" }),
        ...citations.map((citation) => delta({ type: "citations_delta", citation })),
        delta({ type: "text_delta", text: block["text"] }),
        stop,
      ]
    case "thinking":
      return [
        start({ type: "thinking", thinking: "", signature: "" }),
        delta({ type: "thinking_delta", thinking: block["thinking"] }),
        delta({ type: "signature_delta", signature: block["signature"] }),
        stop,
      ]
    default: {
      const json = typeof block["input"] === "string" ? block["input"] : JSON.stringify(block["input"])
      return [
        start({ ...block, input: {} }),
        delta({ type: "input_json_delta", partial_json: json.slice(0, 5) }),
        delta({ type: "input_json_delta", partial_json: json.slice(5) }),
        stop,
      ]
    }
  }
}
