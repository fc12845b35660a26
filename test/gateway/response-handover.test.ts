/** What one process hands to another: the very bytes, and nothing that broke off is taken for an end. */
import { expect, test } from "bun:test"
import { VirtualClock } from "../kernel/virtual-time.ts"
import { Failure } from "../../src/failure/failure.ts"
import {
  encodeFrame,
  FRAME,
  FrameReader,
  serveHandover,
  encodeHead,
  type Neighbours,
  requestHandover,
} from "../../src/gateway/response-handover.ts"
import { type Answer, UnreadBytes } from "../../src/gateway/outbox.ts"

const text = (bytes: string) => new TextEncoder().encode(bytes)
const streamOf = (...pieces: Uint8Array[]) =>
  new ReadableStream<Uint8Array>({
    start(controller) {
      for (const piece of pieces) controller.enqueue(piece)
      controller.close()
    },
  })
const call = { keyHash: "00", fingerprint: "00" }
const headers = { "Content-Type": "text/event-stream" }

async function receive(stream: ReadableStream<Uint8Array> | undefined, clock = new VirtualClock()) {
  const unread = new UnreadBytes(2 ** 20)
  const neighbours: Neighbours = { ask: async () => stream }
  const { signal } = new AbortController()
  const limits = { heartbeatMs: 8_000, readerStallMs: 300_000 }
  const parts = { clock, limits, unread, connection: undefined, signal }
  return await requestHandover(neighbours, "prc_1", call, parts)
}
const shown = async (answer: Answer | Failure | undefined) => {
  if (answer === undefined || answer instanceof Failure) return answer
  return { headers: answer.headers, text: await new Response(answer.body).text().catch(() => "broken") }
}

test("frames are read however their bytes are cut, and what is not whole is none", async () => {
  const bytes = Buffer.concat([
    encodeFrame(FRAME.alive),
    encodeHead({ headers, whole: false }),
    encodeFrame(FRAME.bytes, text("é")),
  ])
  for (const size of [1, 2, 3, 7, bytes.length]) {
    const pieces = Array.from({ length: Math.ceil(bytes.length / size) }, (_, n) =>
      bytes.subarray(n * size, (n + 1) * size),
    )
    const frames = new FrameReader(streamOf(...pieces))
    expect((await frames.next())?.kind).toBe(FRAME.alive)
    expect((await frames.next())?.kind).toBe(FRAME.head)
    expect(await frames.next()).toEqual({ kind: FRAME.bytes, bytes: text("é") })
    expect(await frames.next()).toBeUndefined()
  }
  for (const wrong of [
    [9, 0, 0, 0, 0],
    [2, 0, 1, 0, 1, 0],
    [2, 255, 255, 255, 255],
    [2, 0, 0],
  ])
    expect(await new FrameReader(streamOf(new Uint8Array(wrong))).next()).toBeUndefined()
  for (const [size, isRead] of [
    [65_536, true],
    [65_537, false],
  ] as const) {
    const frame = await new FrameReader(streamOf(encodeFrame(FRAME.bytes, new Uint8Array(size)))).next()
    expect(frame?.bytes.length).toBe(isRead ? size : undefined)
  }
})

const answers: readonly (readonly [string, Answer])[] = [
  ["one piece", { headers, body: new Uint8Array(text("all of it")) }],
  ["a stream", { headers, body: streamOf(text("all "), text("of it")) }],
]
test.each(answers)("what is handed over arrives as it is: %s", async (_, answer) => {
  const clock = new VirtualClock()
  const handed = serveHandover(Promise.resolve(answer), clock)
  expect(await shown(await receive(handed, clock))).toEqual({ headers, text: "all of it" })
})

test("a failure arrives with what it says; of a call that is not known nothing does", async () => {
  const clock = new VirtualClock()
  const failure = new Failure("idempotency.in_progress", { retryAfterS: 1, headers: { "X-A": "b" } })
  expect(await receive(serveHandover(Promise.resolve(failure), clock), clock)).toEqual(failure)
  expect(await receive(serveHandover(undefined, clock), clock)).toBeUndefined()
  const unknown = encodeHead({ failure: { code: "of.another_version", detail: {} } })
  expect(await receive(streamOf(unknown))).toBeUndefined()
})

test("before its head and after it, what breaks off is not taken for an answer", async () => {
  const whole = [encodeHead({ headers, whole: true }), encodeFrame(FRAME.bytes, text("all")), encodeFrame(FRAME.end)]
  const parts = [encodeHead({ headers, whole: false }), encodeFrame(FRAME.bytes, text("a part"))]
  expect(await shown(await receive(streamOf(...whole)))).toEqual({ headers, text: "all" })
  for (const length of [0, 1, 2]) expect(await receive(streamOf(...whole.slice(0, length)))).toBeUndefined()
  expect(await receive(undefined)).toBeUndefined()
  expect(await receive(streamOf(encodeFrame(FRAME.alive), encodeFrame(FRAME.end)))).toBeUndefined()
  expect(await receive(streamOf(encodeFrame(FRAME.head, text("{"))))).toBeUndefined()
  expect(await receive(streamOf(encodeFrame(FRAME.head, text("{}"))))).toBeUndefined()
  expect(await shown(await receive(streamOf(...parts)))).toEqual({ headers, text: "broken" })
  expect(await shown(await receive(streamOf(...parts, encodeFrame(FRAME.end))))).toEqual({ headers, text: "a part" })
})

/** A process that stands still after it has said this much; its connection is broken by whoever waits. */
function silentAfter(...pieces: Uint8Array[]): Neighbours {
  return {
    ask: async (_, __, signal) =>
      new ReadableStream<Uint8Array>({
        start(controller) {
          for (const piece of pieces) controller.enqueue(piece)
          signal.addEventListener("abort", () => controller.error(new Error("aborted")))
        },
      }),
  }
}

test.each([
  ["nothing", [], 2_000],
  ["a sign of life", [encodeFrame(FRAME.alive)], 10_000],
])("a process that has said %s is waited for so long, and no longer", async (_, pieces, limitMs) => {
  const clock = new VirtualClock()
  const { signal } = new AbortController()
  const unread = new UnreadBytes(2 ** 20)
  const limits = { heartbeatMs: 8_000, readerStallMs: 300_000 }
  const parts = { clock, limits, unread, connection: undefined, signal }
  let answer: unknown = "waiting"
  const waiting = requestHandover(silentAfter(...pieces), "prc_1", call, parts).then((told) => (answer = told))
  await Bun.sleep(0)
  clock.advance(limitMs - 1)
  await Bun.sleep(0)
  expect(answer).toBe("waiting")
  clock.advance(1)
  await waiting
  expect(answer).toBeUndefined()
})

test("until its head an answer says that it is coming", async () => {
  const clock = new VirtualClock()
  const { promise, resolve } = Promise.withResolvers<Answer>()
  const frames = new FrameReader(serveHandover(promise, clock))
  expect((await frames.next())?.kind).toBe(FRAME.alive)
  for (let n = 0; n < 3; n++) {
    const next = frames.next()
    await Bun.sleep(0)
    clock.advance(2_000)
    expect((await next)?.kind).toBe(FRAME.alive)
  }
  resolve({ headers, body: new Uint8Array(text("x")) })
  const kinds = [await frames.next(), await frames.next(), await frames.next(), await frames.next()]
  expect(kinds.map((each) => each?.kind)).toEqual([FRAME.head, FRAME.bytes, FRAME.end, undefined])
})

test("a body that breaks off ends the handover and its keepalives", async () => {
  const clock = new VirtualClock()
  const { promise: broken, reject } = Promise.withResolvers<void>()
  const body = new ReadableStream<Uint8Array>({ pull: () => broken })
  const frames = new FrameReader(serveHandover(Promise.resolve({ headers, body }), clock))
  expect([await frames.next(), await frames.next()].map((each) => each?.kind)).toEqual([FRAME.alive, FRAME.head])
  const next = frames.next()
  reject(new Error("the client took nothing for too long"))
  expect(await next).toBeUndefined()
  expect(clock.runNext()).toBeFalse()
})
