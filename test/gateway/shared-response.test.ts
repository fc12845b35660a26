/** What is kept of an answer that may be asked for again: text as long as it is written, bytes for whoever asks, and no more room than that. */
import { expect, test } from "bun:test"
import { VirtualClock } from "../kernel/virtual-time.ts"
import { Failure } from "../../src/failure/failure.ts"
import { type Answer, CHUNK_BYTES, UnreadBytes } from "../../src/gateway/outbox.ts"
import { ResponseWriter, type ResponseWriterParts } from "../../src/gateway/response-writer.ts"
import { SharedResponse } from "../../src/gateway/shared-response.ts"

function world({ room = Infinity, delivered }: { room?: number; delivered?: () => unknown } = {}) {
  let held = 0
  const storage = {
    reserve(bytes: number) {
      if (held + bytes > room) return false
      held += bytes
      return true
    },
    isKeptOnDelivery: delivered === undefined,
    onDelivered: () => delivered?.(),
  }
  const limits = { heartbeatMs: 8_000, readerStallMs: 300_000 }
  const clock = new VirtualClock()
  const ports = { clock, limits, unread: new UnreadBytes(2 ** 30) }
  const answer = new SharedResponse(ports, storage, undefined)
  answer.begin({ onIdle: () => {}, onLeave: () => {} })
  return { answer, held: () => held, clock, ports }
}

const textOf = (stream: ReadableStream<Uint8Array>) => new Response(stream).text()

/** So many events, of characters of one to four bytes. */
const events = (count: number) => Array.from({ length: count }, (_, n) => `data: ${n} é 港 🚢\n\n`)

for (const [count, much] of [
  [10, "little text"],
  [64, "as many texts as are kept as such"],
  [65, "one more"],
  [3_000, "several pieces"],
] as const) {
  test(`whoever joins in the middle or after the end has every byte: ${much}`, async () => {
    const { answer, held } = world()
    const first = textOf(answer.stream())
    const all = events(count)
    const half = count >> 1
    for (const event of all.slice(0, half)) answer.write(event)
    const second = textOf(answer.join(undefined).stream())
    for (const event of all.slice(half)) answer.write(event)
    answer.end()
    const third = textOf(answer.join(undefined).stream())
    const whole = all.join("")
    expect([await first, await second, await third]).toEqual([whole, whole, whole])
    expect(held()).toBe(Buffer.byteLength(whole))
  })
}

test("a text larger than a piece is kept in pieces", async () => {
  const { answer, held } = world()
  const text = "港".repeat(CHUNK_BYTES)
  answer.leave()
  answer.write(text)
  answer.end()
  expect(held()).toBe(Buffer.byteLength(text))
  expect(await textOf(answer.join(undefined).stream())).toBe(text)
})

test("an answer has one piece of room for its text, and exactly its bytes once nobody reads it", () => {
  const { answer, held } = world()
  answer.write("a")
  answer.write("b".repeat(CHUNK_BYTES - 2))
  expect(held()).toBe(CHUNK_BYTES)
  answer.write("c")
  expect(held()).toBe(2 * CHUNK_BYTES)
  answer.end()
  expect(held()).toBe(2 * CHUNK_BYTES)
  answer.leave()
  expect(held()).toBe(CHUNK_BYTES)
  expect(answer.inOnePiece(answer.join(undefined))?.length).toBe(CHUNK_BYTES)
})

test("of short texts 63 wait beside each other in that room; with the next one they are bytes, which are counted", () => {
  const { answer, held } = world()
  for (let n = 0; n < 63; n++) answer.write("a")
  expect(held()).toBe(CHUNK_BYTES)
  answer.write("a")
  expect(held()).toBe(CHUNK_BYTES + 64)
})

test("without room for another piece it is lost, holds nothing, and goes on for whoever reads it", async () => {
  const { answer, held } = world({ room: 2 * CHUNK_BYTES - 1 })
  const first = textOf(answer.stream())
  answer.write("a".repeat(CHUNK_BYTES - 1))
  expect([answer.isDiscarded, answer.acceptsReaders]).toEqual([false, true])
  answer.write("b")
  expect([answer.isDiscarded, answer.acceptsReaders, held()]).toEqual([true, false, 0])
  answer.write("c")
  answer.end()
  expect((await first).length).toBe(CHUNK_BYTES + 1)
  expect(held()).toBe(0)
})

test("of an answer that came through nothing is made into bytes, and nothing is held", async () => {
  const delivered: number[] = []
  const { answer, held } = world({
    delivered: () => {
      delivered.push(held())
      answer.discard()
    },
  })
  const first = textOf(answer.stream())
  for (const event of events(10)) answer.write(event)
  answer.end()
  expect(await first).toBe(events(10).join(""))
  expect([delivered, held(), answer.isDiscarded]).toEqual([[CHUNK_BYTES], 0, true])
})

test.each([0, 1])("a failure in place of the answer ends its heartbeats: %d read along", async (others) => {
  const { answer, clock, ports } = world()
  const parts = { ports, requestId: "req", plan: { request: { stream: true } }, shared: answer }
  const writer = new ResponseWriter(parts as unknown as ResponseWriterParts, { receive: () => {} })
  for (let n = 0; n < others; n++) answer.join(undefined)
  writer.outbox.watchIdle()
  writer.sendFailure(new Failure("upstream.invalid_request"))
  expect(await writer.answer).toBeInstanceOf(Failure)
  // Its timer would keep the call and its request in memory for as long as the process lives.
  clock.advance(8_000)
  expect(clock.runNext()).toBeFalse()
})

test("an answer that breaks off ends cleanly for nobody who reads along, and is not kept", async () => {
  const { answer, held, ports } = world()
  const parts = { ports, requestId: "req", format: {}, plan: { request: { stream: true } }, shared: answer }
  const writer = new ResponseWriter(parts as unknown as ResponseWriterParts, { receive: () => {} })
  writer.outbox.write("a".repeat(CHUNK_BYTES + 1))
  writer.sendHead(undefined)
  const first = (await writer.answer) as Answer
  const readers = [first.body as ReadableStream<Uint8Array>, answer.join(undefined).stream()].map((stream) =>
    textOf(stream).then(
      () => "a clean end",
      () => "broken off",
    ),
  )
  writer.sendFailure(new Failure("internal.panic"))
  expect(await Promise.all(readers)).toEqual(["broken off", "broken off"])
  expect([answer.acceptsReaders, held()]).toEqual([false, 0])
})

const BEAT = ": heartbeat\n"

/** A response whose idle client is sent heartbeats, as a call does it. */
function beating() {
  const heard = { beats: 0, left: 0 }
  const one = world()
  const { answer } = one
  answer.begin({
    onIdle() {
      heard.beats++
      answer.heartbeat(BEAT)
    },
    onLeave: () => void heard.left++,
  })
  return { ...one, heard }
}

test("heartbeats come after each silence, to those who read along, and are not kept", async () => {
  const { answer, clock, heard } = beating()
  const first = textOf(answer.stream())
  answer.watchIdle()
  clock.advance(8_000)
  expect([heard.beats, answer.hasBegun]).toEqual([1, true])
  clock.advance(8_000)
  expect(heard.beats).toBe(2)
  clock.advance(7_000)
  answer.write("all")
  clock.advance(7_000)
  expect(heard.beats).toBe(2)
  clock.advance(1_000)
  expect(heard.beats).toBe(3)
  answer.end()
  answer.watchIdle()
  clock.advance(60_000)
  expect(heard.beats).toBe(3)
  answer.write("late")
  const later = textOf(answer.join(undefined).stream())
  expect(await later).toBe("all")
  expect((await first).replaceAll(BEAT, "")).toBe("all")
})

test("its call hears that the client has left when the last reader has", () => {
  const { answer, heard } = beating()
  const other = answer.join(undefined)
  answer.leave()
  expect([heard.left, answer.hasLeft]).toEqual([0, false])
  other.leave()
  expect([heard.left, answer.hasLeft]).toEqual([1, true])
})

test("what its first client had in one piece is kept once, and given in one piece", async () => {
  for (const isStream of [true, false]) {
    const { answer, ports } = world()
    if (isStream) {
      answer.write("all")
      answer.end()
      expect(answer.takeWhole()).toBe("all")
      expect(answer.hasLeft).toBeTrue()
    }
    answer.deliveredWhole("all")
    expect([answer.hasEnded, answer.hasLeft]).toEqual([true, true])
    expect(await textOf(answer.join(undefined).stream())).toBe("all")
    const piece = answer.inOnePiece(answer.join(undefined))
    expect(new TextDecoder().decode(piece)).toBe("all")
    expect([answer.hasLeft, ports.unread.total]).toEqual([true, 0])
  }
})

test("a client that has a stream in one piece has the whole response", () => {
  let delivered = 0
  const { answer } = world({ delivered: () => delivered++ })
  answer.write("all")
  answer.end()
  expect(answer.takeWhole()).toBe("all")
  expect(delivered).toBe(1)
})

test("a response that made room by giving itself up holds nothing", () => {
  let held = 0
  const storage = {
    reserve(bytes: number) {
      held += bytes
      if (bytes > 0) answer.discard()
      return true
    },
    isKeptOnDelivery: true,
    onDelivered: () => {},
  }
  const answer: SharedResponse = new SharedResponse(world().ports, storage, undefined)
  answer.write("all")
  expect([held, answer.isDiscarded, answer.acceptsReaders]).toEqual([0, true, false])
})

test("four read along at the most", () => {
  const { answer } = world()
  for (let readers = 1; readers < 4; readers++) {
    expect(answer.acceptsReaders).toBeTrue()
    answer.join(undefined)
  }
  expect(answer.acceptsReaders).toBeFalse()
  answer.leave()
  expect(answer.acceptsReaders).toBeTrue()
})
