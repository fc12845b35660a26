import { describe, expect, test } from "bun:test"
import { FrameReader } from "../../src/upstream/bedrock.ts"
import { event, frame } from "./frames.ts"

const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes)
const read = (pieces: readonly Uint8Array[]) => {
  const reader = new FrameReader()
  return pieces
    .flatMap((piece) => [...reader.push(piece)])
    .map(({ headers, payload }) => [headers.get(":event-type"), text(payload)])
}
const joined = (...frames: Uint8Array[]) => new Uint8Array(Buffer.concat(frames))

/** The first bytes of a frame that says it is so long. */
const prelude = (length: number) => {
  const bytes = new DataView(new ArrayBuffer(12))
  bytes.setUint32(0, length)
  bytes.setUint32(8, Bun.hash.crc32(new Uint8Array(bytes.buffer, 0, 8)))
  return new Uint8Array(bytes.buffer)
}

const frames = [
  event("messageStart", { role: "assistant" }),
  event("contentBlockDelta", { delta: { text: "☀️" } }),
  event("messageStop", {}),
]
const expected = [
  ["messageStart", '{"role":"assistant"}'],
  ["contentBlockDelta", '{"delta":{"text":"☀️"}}'],
  ["messageStop", "{}"],
]

describe("frames of an event stream", () => {
  test("come whole from one piece, and from one byte at a time", () => {
    const bytes = joined(...frames)
    expect(read([bytes])).toEqual(expected)
    expect(read([...bytes].map((byte) => Uint8Array.of(byte)))).toEqual(expected)
  })

  test("come whole however the bytes are cut in two", () => {
    const bytes = joined(...frames)
    for (let at = 0; at <= bytes.length; at++)
      expect(read([bytes.subarray(0, at), bytes.subarray(at)])).toEqual(expected)
  })

  test("are read from a view into a larger buffer", () => {
    const padded = joined(Uint8Array.of(1, 2, 3), ...frames)
    expect(read([padded.subarray(3)])).toEqual(expected)
  })

  // awslabs/aws-c-event-stream, encoded/positive: what the vendor's other codecs are tested against.
  test("of the vendor's own examples are read", () => {
    const empty = Buffer.from("000000100000000005c248eb7d98c8ff", "hex")
    expect([...new FrameReader().push(empty)]).toEqual([{ headers: new Map(), payload: new Uint8Array() }])
    const noHeaders = Buffer.from("0000001d00000000fd528c5a7b27666f6f273a27626172277dc3653936", "hex")
    const [read] = [...new FrameReader().push(noHeaders)]
    expect(text(read?.payload ?? new Uint8Array())).toBe("{'foo':'bar'}")
  })

  test("with one wrong bit anywhere are refused", () => {
    const good = event("messageStop", { stopReason: "end_turn" })
    for (let at = 0; at < good.length; at++) {
      const bad = good.slice()
      bad[at] = (bad[at] ?? 0) ^ 1
      expect(() => [...new FrameReader().push(bad)]).toThrow()
    }
  })

  test("before a damaged one are handed out all the same", () => {
    const [first, second] = [event("messageStart", {}), event("messageStop", {})]
    const reading = new FrameReader().push(
      joined(
        first,
        second.map((byte, at) => (at === 20 ? byte ^ 1 : byte)),
      ),
    )
    const { value } = reading.next()
    expect(value?.headers.get(":event-type")).toBe("messageStart")
    expect(() => reading.next()).toThrow()
  })

  test("of an impossible length are refused at their first bytes", () => {
    expect(() => [...new FrameReader().push(prelude(15))]).toThrow("15 bytes")
    expect(() => [...new FrameReader().push(prelude(4_294_967_295))]).toThrow("4294967295 bytes")
  })

  test("that are cut off are not handed out", () => {
    const bytes = joined(...frames)
    expect(read([bytes.subarray(0, -1)])).toEqual(expected.slice(0, -1))
  })

  test("may be long and come in many pieces", () => {
    const long = "x".repeat(1_000_000)
    const bytes = frame({ ":event-type": "long" }, long)
    const pieces = Array.from({ length: Math.ceil(bytes.length / 1_000) }, (_, index) =>
      bytes.subarray(index * 1_000, (index + 1) * 1_000),
    )
    expect(read(pieces)).toEqual([["long", long]])
  })
})
