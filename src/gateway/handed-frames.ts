/**
 * An answer on its way from the process that makes the call to another one of the same machine, in frames: one byte of kind, four
 * of length (big-endian), and so many bytes. Its end is a frame, so that a connection which breaks is never taken for it.
 */
import { type Static, Type } from "@sinclair/typebox"
import { Value } from "@sinclair/typebox/value"

/** Nothing but a sign of life, what there is to say before the bytes, bytes of the answer, and its end. */
export const FRAME = { alive: 0, head: 1, bytes: 2, end: 3 } as const
type Kind = (typeof FRAME)[keyof typeof FRAME]

export interface Frame {
  readonly kind: Kind
  readonly bytes: Uint8Array
}

/** `none`: no such call is known there. `whole`: the answer is one piece. */
const Head = Type.Union([
  Type.Object({ none: Type.Literal(true) }),
  Type.Object({
    failure: Type.Object({
      code: Type.String(),
      detail: Type.Object({
        message: Type.Optional(Type.String()),
        hint: Type.Optional(Type.String()),
        retryAfterS: Type.Optional(Type.Number()),
        headers: Type.Optional(Type.Record(Type.String(), Type.String())),
      }),
    }),
  }),
  Type.Object({ headers: Type.Record(Type.String(), Type.String()), whole: Type.Boolean() }),
])
export type Head = Static<typeof Head>

const PREFIX_BYTES = 5
/** More than is ever handed over at once. */
const MOST_BYTES = 65_536
const NONE = new Uint8Array()

export function frame(kind: Kind, bytes: Uint8Array = NONE): Uint8Array {
  const framed = new Uint8Array(PREFIX_BYTES + bytes.length)
  framed[0] = kind
  new DataView(framed.buffer).setUint32(1, bytes.length)
  framed.set(bytes, PREFIX_BYTES)
  return framed
}

export const headFrame = (head: Head): Uint8Array => frame(FRAME.head, new TextEncoder().encode(JSON.stringify(head)))

/** Undefined where it is none, as of a process of another version. */
export function readHead({ kind, bytes }: Frame): Head | undefined {
  if (kind !== FRAME.head) return undefined
  try {
    const head: unknown = JSON.parse(new TextDecoder().decode(bytes))
    return Value.Check(Head, head) ? head : undefined
  } catch {
    return undefined
  }
}

/** The frames of a stream, one after the other. */
export class FrameReader {
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>
  #left: Uint8Array = NONE

  constructor(stream: ReadableStream<Uint8Array>) {
    this.#reader = stream.getReader()
  }

  /** Undefined where the stream ends or breaks before the next frame is whole, or has what is none. */
  async next(): Promise<Frame | undefined> {
    const prefix = await this.#take(PREFIX_BYTES)
    if (prefix === undefined) return undefined
    const kind = kindOf(prefix[0])
    const length = new DataView(prefix.buffer, prefix.byteOffset).getUint32(1)
    if (kind === undefined || length > MOST_BYTES) return undefined
    const bytes = await this.#take(length)
    return bytes && { kind, bytes }
  }

  async #take(length: number): Promise<Uint8Array | undefined> {
    while (this.#left.length < length) {
      const read = await this.#reader.read().catch(() => undefined)
      if (read?.value === undefined) return undefined
      this.#left = this.#left.length === 0 ? read.value : Buffer.concat([this.#left, read.value])
    }
    const taken = this.#left.subarray(0, length)
    this.#left = this.#left.subarray(length)
    return taken
  }
}

const kindOf = (byte: number | undefined): Kind | undefined => Object.values(FRAME).find((kind) => kind === byte)
