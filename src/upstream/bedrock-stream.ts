/**
 * A Bedrock stream as server-sent events, right behind the call, so that whatever reads a backend's stream reads this
 * one too. A `chunk` carries one event of the model vendor's own stream; every other frame is an event of ConverseStream,
 * named by its header; an exception becomes the error event that the readers classify.
 */
import { type JsonObject, isObject } from "../language/json.ts"
import { encodeSse } from "../wire/sse.ts"
import { type Frame, FrameReader } from "./event-stream.ts"

export const FRAMED = "application/vnd.amazon.eventstream"

/** Bedrock's own count of a chunked stream, in its last event. Usage has been told by then, and clients know no such field. */
const METRICS = "amazon-bedrock-invocationMetrics"

/** The same answer with a body of server-sent events. */
export function unframed(response: Response): Response {
  const { headers, status } = response
  // Whoever looks at `body` makes a stream of it.
  if (headers.get("content-type")?.startsWith(FRAMED) !== true || response.body === null) return response
  const { body } = response
  return new Response(body.pipeThrough(new TransformStream(unframer())), { status, headers })
}

function unframer(): Transformer<Uint8Array, Uint8Array> {
  const frames = new FrameReader()
  const encoder = new TextEncoder()
  let last = ""
  return {
    transform(bytes, controller) {
      let text = ""
      try {
        for (const frame of frames.push(bytes)) {
          last = frame.headers.get(":event-type") ?? ""
          text += sse(frame)
        }
      } catch {
        // Told as an event, and not by breaking the stream off, which would take what came before the damage with it.
        controller.enqueue(encoder.encode(text + failed("damaged", "")))
        return controller.terminate()
      }
      if (text !== "") controller.enqueue(encoder.encode(text))
    },
    flush(controller) {
      // An answer is whole with its messageStop: one whose counts never came is an answer without counts, not a broken one.
      if (last === "messageStop") controller.enqueue(encoder.encode(encodeSse("metadata", "{}")))
    },
  }
}

function sse({ headers, payload }: Frame): string {
  const text = new TextDecoder().decode(payload)
  const kind = headers.get(":message-type")
  if (kind === "exception") return failed(headers.get(":exception-type") ?? "", parsed(text)["message"])
  if (kind === "error") return failed(headers.get(":error-code") ?? "", headers.get(":error-message"))
  const event = headers.get(":event-type") ?? ""
  return event === "chunk" ? encodeSse("", chunk(text)) : encodeSse(event, text)
}

const failed = (type: string, message: JsonObject[string]): string =>
  encodeSse(
    "error",
    JSON.stringify({ type: "error", error: { type, message: typeof message === "string" ? message : "" } }),
  )

function chunk(text: string): string {
  const { bytes } = parsed(text)
  if (typeof bytes !== "string") return ""
  const event = Buffer.from(bytes, "base64").toString("utf8")
  if (!event.includes(METRICS)) return event
  const { [METRICS]: _, ...rest } = parsed(event)
  return JSON.stringify(rest)
}

function parsed(text: string): JsonObject {
  const value: unknown = JSON.parse(text)
  return isObject(value) ? value : {}
}
