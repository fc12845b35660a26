/** Replays a recorded stream through the parser and a format's reader, as the relay would: bytes in, steps out. */
import { join } from "node:path"
import { Failure } from "../../src/failure/failure.ts"
import { RelayedStream } from "../../src/wire/backend-stream.ts"
import { backendStream as chat } from "../../src/wire/chat/events-in.ts"
import type { BackendStream, ClientView, StreamReader, StreamStep } from "../../src/wire/format.ts"
import { backendStream as messages } from "../../src/wire/messages/events-in.ts"
import { backendStream as responses } from "../../src/wire/responses/events-in.ts"
import { eventObject, type SseEvent, SseParser } from "../../src/wire/sse.ts"

export const readers = {
  chat: (view: ClientView) => new RelayedStream(chat(view)),
  messages: (view: ClientView) => new RelayedStream(messages(view)),
  responses: (view: ClientView) => new RelayedStream(responses(view)),
}
export type Format = keyof typeof readers

export const view: ClientView = {
  model: "catalogue/model",
  includeUsage: false,
}

export const fixture = (path: string): Promise<Uint8Array> => Bun.file(join(import.meta.dir, "fixtures", path)).bytes()

/** The events of these chunks, with what the end cut off. */
export const parse = (chunks: Iterable<Uint8Array>): SseEvent[] => {
  const parser = new SseParser()
  const events: SseEvent[] = []
  for (const chunk of chunks) {
    const found = parser.push(chunk)
    if (found instanceof Failure) throw new Error("the parser refused a fixture")
    events.push(...found)
  }
  parser.end()
  const last = parser.next()
  if (last instanceof Failure) throw new Error("the parser refused a fixture")
  return last === undefined || last.data === "" ? events : [...events, last]
}

export const replay = (
  format: Format,
  chunks: Iterable<Uint8Array>,
  changes: Partial<ClientView> = {},
): { steps: StreamStep[]; reader: StreamReader } => {
  const reader = readers[format]({ ...view, ...changes })
  return { steps: parse(chunks).map((event) => reader.read(event)), reader }
}

export const oneByteEach = (bytes: Uint8Array): Uint8Array[] => Array.from(bytes, (_, at) => bytes.subarray(at, at + 1))

/** The steps as a word of letters: preamble, Content, trailer, Terminal, Failure. */
export const kinds = (steps: readonly StreamStep[]): string =>
  steps.map(({ kind }) => ({ preamble: "p", content: "C", trailer: "t", terminal: "T", failure: "F" })[kind]).join("")

export const sent = (steps: readonly StreamStep[]): string =>
  steps.map((step) => (step.kind === "failure" ? "" : step.bytes)).join("")

export const bytesOf = (text: string): Uint8Array => new TextEncoder().encode(text)

/** What some events say in the neutral language. */
export const decodeAll = (stream: BackendStream, events: readonly SseEvent[]) =>
  events.flatMap((event) => stream.events(event, eventObject(event)))
