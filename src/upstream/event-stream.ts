/**
 * Amazon's binary event stream (application/vnd.amazon.eventstream), cut into its frames: a length, typed headers, a
 * payload, and a checksum of each half. The codec is the vendor's own; here is only what it leaves to its caller, which
 * is where one frame ends and the next begins. Sizes in bytes.
 */
import { EventStreamCodec } from "@smithy/eventstream-codec"

export interface Frame {
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
