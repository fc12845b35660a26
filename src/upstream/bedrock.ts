/** Bedrock on the wire: how a call is signed, and its stream of binary frames as server-sent events. */
import { EventStreamCodec } from "@smithy/eventstream-codec"
import { AwsV4Signer } from "aws4fetch"
import { isObject, type Json, type JsonObject } from "../language/json.ts"
import { encodeSse } from "../wire/sse.ts"

/** The operator's credentials for a provider whose calls are signed. */
export interface SigningKey {
  readonly accessKeyId: string
  readonly secretAccessKey: string
  /** Only temporary credentials have one. */
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

/** Signing keys by secret, day and region, which save four hashes a call. Old days are few and small. */
const dayKeys = new Map<string, ArrayBuffer>()

/**
 * The call's headers with a signature (AWS Signature Version 4). A model's id may hold `:` and `/`. The path has them escaped already,
 * and is escaped once more for the signature, as for every service but one.
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
 * A Bedrock stream is converted to server-sent events right after the call, so that the same readers can read it. A `chunk` carries
 * one event of the model vendor's own stream. Every other frame is an event of ConverseStream, named by its header. An exception
 * becomes the error event that the readers classify.
 */
export const EVENT_STREAM_TYPE = "application/vnd.amazon.eventstream"

/** Bedrock's own metrics in the last event of a chunked stream. Usage has been sent by then, and clients do not know this field. */
const METRICS = "amazon-bedrock-invocationMetrics"

/** The response with a body of server-sent events. */
export function decodeEventStream(response: Response): Response {
  const { headers, status } = response
  // Reading `body` creates a stream.
  if (headers.get("content-type")?.startsWith(EVENT_STREAM_TYPE) !== true || response.body === null) return response
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
          text += toSse(frame)
        }
      } catch {
        // An error event is sent, because aborting the stream would lose what came before the damage.
        controller.enqueue(encoder.encode(text + errorEvent("damaged", "")))
        return controller.terminate()
      }
      if (text !== "") controller.enqueue(encoder.encode(text))
    },
    flush(controller) {
      // An answer is complete with its messageStop. If the counts never came, it is an answer without counts, not a broken one.
      if (last === "messageStop") controller.enqueue(encoder.encode(encodeSse("metadata", "{}")))
    },
  }
}

function toSse({ headers, payload }: Frame): string {
  const text = new TextDecoder().decode(payload)
  const kind = headers.get(":message-type")
  if (kind === "exception") return errorEvent(headers.get(":exception-type") ?? "", parsed(text)["message"])
  if (kind === "error") return errorEvent(headers.get(":error-code") ?? "", headers.get(":error-message"))
  const event = headers.get(":event-type") ?? ""
  return event === "chunk" ? encodeSse("", chunk(text)) : encodeSse(event, text)
}

const errorEvent = (type: string, message: JsonObject[string]): string =>
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
  /** The text headers, among them the three that identify the frame. */
  readonly headers: ReadonlyMap<string, string>
  readonly payload: Uint8Array
}

/** The format bounds a payload to 16 MiB. A longer frame is broken. */
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
 * Splits Amazon's binary event stream (application/vnd.amazon.eventstream) into frames: a length, typed headers, a payload, and a
 * checksum of each half. The vendor's codec decodes a frame; this class finds where one ends. Sizes in bytes.
 */
export class FrameReader {
  /** Chunks of an incomplete frame. They are joined only when it is complete, because long frames come in many chunks. */
  #pending: Uint8Array[] = []
  #size = 0
  /** The frame's length, once its first bytes are there. */
  #frameBytes: number | undefined;

  /**
   * Yields the frames that these bytes complete. Throws at a wrong length or checksum, after the frames before it were yielded.
   * Nothing after it can be read.
   */
  *push(bytes: Uint8Array): Generator<Frame, void> {
    this.#pending.push(bytes)
    this.#size += bytes.byteLength
    while (this.#size >= (this.#frameBytes ?? PRELUDE_BYTES)) {
      const whole = this.#joinPending()
      const length = this.#frameBytes ?? frameLength(whole)
      if (whole.byteLength < length) {
        this.#frameBytes = length
        break
      }
      this.#frameBytes = undefined
      this.#setPending(whole.subarray(length))
      yield decodeFrame(whole.subarray(0, length))
    }
  }

  #joinPending(): Uint8Array {
    const [first, ...others] = this.#pending
    const whole = first !== undefined && others.length === 0 ? first : new Uint8Array(Buffer.concat(this.#pending))
    this.#setPending(whole)
    return whole
  }

  #setPending(rest: Uint8Array): void {
    this.#pending = rest.byteLength === 0 ? [] : [rest]
    this.#size = rest.byteLength
  }
}

/** The length is checked as soon as it is there. A damaged one would be waited for until the stream ends. */
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

/**
 * A Bedrock error in the form of other backends' errors (Bedrock API reference, "Common errors"; InvokeModel, "Errors"). Its kind
 * stands in a header or in `__type`. Its status does not always tell whose fault it is.
 */
interface NormalizedError {
  readonly status: number
  readonly body: JsonObject
}

/** Status and name of kinds whose own status would be misleading. */
const KINDS: Readonly<Record<string, readonly [status: number, name: string]>> = {
  throttlingexception: [429, "rate_limit_error"],
  toomanyrequestsexception: [429, "rate_limit_error"],
  // A quota of the operator's account. Bedrock sends a 400.
  servicequotaexceededexception: [429, "insufficient_quota"],
  // The model is loading, which is temporary. Bedrock sends a 429.
  modelnotreadyexception: [503, "overloaded_error"],
  // The model failed, not the request. Bedrock sends a 424.
  modelerrorexception: [500, "api_error"],
  modelstreamerrorexception: [500, "api_error"],
  accessdeniedexception: [403, "permission_error"],
  unrecognizedclientexception: [403, "authentication_error"],
  invalidsignatureexception: [403, "authentication_error"],
  incompletesignature: [403, "authentication_error"],
  missingauthenticationtokenexception: [403, "authentication_error"],
  expiredtokenexception: [403, "authentication_error"],
  resourcenotfoundexception: [404, "model_not_found"],
}

/** A ValidationException that the catalogue causes: the model's name, or how it may be called. */
const misconfigured =
  /model identifier is invalid|on-demand throughput|inference profile|not authorized to perform|access to (?:this|the) model|end of (?:its|it's) life|marked by provider as legacy/i

export function bedrockError(status: number, body: Json | undefined, headers: Pick<Headers, "get">): NormalizedError {
  const received: JsonObject = isObject(body) ? body : {}
  const text = [received["message"], received["Message"], body].find((value) => typeof value === "string") ?? ""
  const kind = kindOf(headers.get("x-amzn-errortype") ?? received["__type"])
  const [mappedStatus, name] =
    KINDS[kind] ?? (status === 400 && misconfigured.test(text) ? [404, "model_not_found"] : [status, kind])
  return { status: mappedStatus, body: { error: { type: name, message: text } } }
}

/** From `com.amazon.coral.service#AccessDeniedException` and `ThrottlingException:http://…`. */
const kindOf = (value: Json | undefined): string =>
  typeof value === "string" ? (value.split(":")[0]?.split("#").at(-1) ?? "").toLowerCase() : ""
