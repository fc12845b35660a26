/** Frames of Amazon's event stream, written by the vendor's own codec. */
import { EventStreamCodec } from "@smithy/eventstream-codec"

const encoder = new TextEncoder()
const decoder = new TextDecoder()
const codec = new EventStreamCodec(
  (bytes) => (typeof bytes === "string" ? bytes : decoder.decode(bytes)),
  (text) => encoder.encode(text),
)

export const frame = (headers: Readonly<Record<string, string>>, payload: unknown): Uint8Array =>
  codec.encode({
    headers: Object.fromEntries(
      Object.entries(headers).map(([name, value]) => [name, { type: "string" as const, value }]),
    ),
    body: encoder.encode(typeof payload === "string" ? payload : JSON.stringify(payload)),
  })

/** An event of ConverseStream. */
export const event = (type: string, payload: unknown): Uint8Array =>
  frame({ ":message-type": "event", ":event-type": type, ":content-type": "application/json" }, payload)

/** An event of the model's own stream, as InvokeModelWithResponseStream wraps it; `p` is padding. */
export const chunk = (payload: unknown): Uint8Array =>
  event("chunk", { bytes: Buffer.from(JSON.stringify(payload)).toString("base64"), p: "abcdefgh" })

export const exception = (type: string, message: string): Uint8Array =>
  frame({ ":message-type": "exception", ":exception-type": type, ":content-type": "application/json" }, { message })
