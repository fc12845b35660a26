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
const LENGTH_BYTES = 4

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
    while (this.#size >= (this.#wanted ?? LENGTH_BYTES)) {
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

function frameLength(bytes: Uint8Array): number {
  const length = new DataView(bytes.buffer, bytes.byteOffset, LENGTH_BYTES).getUint32(0)
  if (length < SHORTEST_FRAME || length > LONGEST_FRAME) throw new Error(`a frame of ${length} bytes`)
  return length
}

function decodeFrame(bytes: Uint8Array): Frame {
  const { headers, body } = codec.decode(bytes)
  const texts = new Map<string, string>()
  for (const [name, { value }] of Object.entries(headers)) if (typeof value === "string") texts.set(name, value)
  return { headers: texts, payload: body }
}
