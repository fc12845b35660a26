/** Bedrock on the wire: how a call is signed, and its stream of binary frames as server-sent events. */
import { EventStreamCodec } from "@smithy/eventstream-codec"
import { AwsV4Signer } from "aws4fetch"
import { isObject, type JsonObject } from "../language/json.ts"
import { encodeSse } from "../wire/sse.ts"

/** The operator's credentials for a provider whose calls are signed. */
export interface SigningKey {
  readonly accessKeyId: string
  readonly secretAccessKey: string
  /** Of temporary credentials. */
  readonly sessionToken: string | undefined
  readonly region: string
}

export interface SignedCall {
  readonly url: string
  readonly headers: Headers
  readonly body: string
  readonly key: SigningKey
  readonly now: Date
  readonly service?: string
}

/** Day keys by secret, day and region: four hashes less a call. Old days are few and small. */
const dayKeys = new Map<string, ArrayBuffer>()

/**
 * The headers to send in place of the call's own, signed the way Amazon's services ask for it (Signature Version 4). A model's id
 * may hold `:` and `/`; the path has them escaped already, and is escaped once more for the signature, as for every service but
 * one.
 */
export async function signedHeaders({ key, now, service = "bedrock", ...call }: SignedCall): Promise<Headers> {
  const { sessionToken, ...credentials } = key
  const signer = new AwsV4Signer({
    ...call,
    ...credentials,
    ...(sessionToken !== undefined && { sessionToken }),
    method: "POST",
    service,
    cache: dayKeys,
    datetime: now.toISOString().replace(/[:-]|\.\d{3}/g, ""),
  })
  return (await signer.sign()).headers
}

/**
 * A Bedrock stream as server-sent events, right behind the call, so that whatever reads a backend's stream reads this
 * one too. A `chunk` carries one event of the model vendor's own stream; every other frame is an event of
 * ConverseStream, named by its header; an exception becomes the error event that the readers classify.
 */
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

interface Frame {
  /** The headers that are texts, as the three that say what the frame is. */
  readonly headers: ReadonlyMap<string, string>
  readonly payload: Uint8Array
}

/** The format's own bound on a payload is 16 MiB; what says more of itself is broken. */
const LONGEST_FRAME = 17 * 1024 * 1024
const SHORTEST_FRAME = 16
/** Two lengths, and a checksum of them. */
const PRELUDE_BYTES = 12

const encoder = new TextEncoder()
const decoder = new TextDecoder()
const codec = new EventStreamCodec(
  (bytes) => (typeof bytes === "string" ? bytes : decoder.decode(bytes)),
  (text) => encoder.encode(text),
)

/**
 * Amazon's binary event stream (application/vnd.amazon.eventstream), cut into its frames: a length, typed headers, a
 * payload, and a checksum of each half. The codec is the vendor's own; here is only what it leaves to its caller,
 * which is where one frame ends and the next begins. Sizes in bytes.
 */
export class FrameReader {
  /** What has come of a frame that is not whole, put together only when it is: long frames come in many pieces. */
  #pieces: Uint8Array[] = []
  #size = 0
  /** The frame's own length, once its first bytes are there. */
  #wanted: number | undefined;

  /**
   * The frames that these bytes complete, one after the other. Throws where a length or a checksum is wrong, when the
   * frames before it have been handed out: nothing after it is to be read.
   */
  *push(bytes: Uint8Array): Generator<Frame, void> {
    this.#pieces.push(bytes)
    this.#size += bytes.byteLength
    while (this.#size >= (this.#wanted ?? PRELUDE_BYTES)) {
      const whole = this.#joined()
      const wanted = this.#wanted ?? frameLength(whole)
      if (whole.byteLength < wanted) {
        this.#wanted = wanted
        break
      }
      this.#wanted = undefined
      this.#keep(whole.subarray(wanted))
      yield decodeFrame(whole.subarray(0, wanted))
    }
  }

  #joined(): Uint8Array {
    const [first, ...others] = this.#pieces
    const whole = first !== undefined && others.length === 0 ? first : new Uint8Array(Buffer.concat(this.#pieces))
    this.#keep(whole)
    return whole
  }

  #keep(rest: Uint8Array): void {
    this.#pieces = rest.byteLength === 0 ? [] : [rest]
    this.#size = rest.byteLength
  }
}

/** Checked as soon as it is there: a damaged length would be waited for until the stream ends. */
function frameLength(bytes: Uint8Array): number {
  const prelude = new DataView(bytes.buffer, bytes.byteOffset, PRELUDE_BYTES)
  const length = prelude.getUint32(0)
  if (Bun.hash.crc32(bytes.subarray(0, 8)) !== prelude.getUint32(8)) throw new Error("a damaged prelude")
  if (length < SHORTEST_FRAME || length > LONGEST_FRAME) throw new Error(`a frame of ${length} bytes`)
  return length
}

function decodeFrame(bytes: Uint8Array): Frame {
  const { headers, body } = codec.decode(bytes)
  const texts = new Map<string, string>()
  for (const [name, { value }] of Object.entries(headers)) if (typeof value === "string") texts.set(name, value)
  return { headers: texts, payload: body }
}
