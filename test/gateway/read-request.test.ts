import { expect, test } from "bun:test"
import { systemClock } from "../../actors/kernel/clock.ts"
import { VirtualClock } from "../kernel/virtual-time.ts"
import { InlineBodyExecutor, LargeBodies, RecentUse } from "../../src/bodies/bodies.ts"
import { Failure } from "../../src/failure/failure.ts"
import { parseRequestBody } from "../../src/gateway/parse-request.ts"
import { readBody } from "../../src/gateway/read-body.ts"
import { flush } from "../kernel/world.ts"

const saying = (content: string) => JSON.stringify({ model: "m", messages: [{ role: "user", content }] })
/** A chat request of so many bytes. */
const bodyOf = (bytes: number) => new TextEncoder().encode(saying("x".repeat(bytes - saying("").length)))

/** Whether it is worked on elsewhere. */
async function isSentAway(bytes: number, usedMs: number): Promise<boolean> {
  const clerk = new InlineBodyExecutor()
  let asked = false
  const watching = {
    ask: (question: Parameters<InlineBodyExecutor["ask"]>[0]) => {
      asked = true
      return clerk.ask(question)
    },
    free: (id: number) => clerk.free(id),
  }
  const threadTime = new RecentUse(new VirtualClock())
  threadTime.add("acc_1", usedMs)
  const ports = { largeBodies: new LargeBodies(watching), threadTime, clock: systemClock }
  const read = await parseRequestBody(bodyOf(bytes), "chat", ports, "acc_1")
  if (read instanceof Failure) throw new Error(read.message)
  return asked
}

test("a body goes elsewhere for its size, or where its account has used much of the thread lately and it is not small", async () => {
  expect(await isSentAway(262_144, 700)).toBeFalse()
  expect(await isSentAway(262_145, 0)).toBeTrue()
  expect(await isSentAway(65_537, 701)).toBeTrue()
  expect(await isSentAway(65_537, 700)).toBeFalse()
  expect(await isSentAway(65_536, 701)).toBeFalse()
})

test("what a body that is not small costs here counts for its account", async () => {
  const threadTime = new RecentUse(systemClock)
  const ports = { largeBodies: new LargeBodies(new InlineBodyExecutor()), threadTime, clock: systemClock }
  for (let n = 0; n < 20; n++) {
    const read = await parseRequestBody(bodyOf(250_000), "chat", ports, "acc_1")
    if (read instanceof Failure) throw new Error(read.message)
    await read.decode({})
    await parseRequestBody(bodyOf(16_384), "chat", ports, "acc_2")
  }
  expect(threadTime.by("acc_1")).toBeGreaterThan(0)
  expect(threadTime.by("acc_2")).toBe(0)
})

test("what is used little by little adds up", () => {
  const threadTime = new RecentUse(new VirtualClock())
  for (let n = 0; n < 100; n++) threadTime.add("acc_1", 0.3)
  expect(threadTime.by("acc_1")).toBeCloseTo(30)
})

/** A body that comes in pieces, announced with its length or not. */
function slowly(length?: number) {
  const clock = new VirtualClock()
  const sent = Promise.withResolvers<ReadableStreamDefaultController<Uint8Array>>()
  const body = new ReadableStream<Uint8Array>({ start: sent.resolve })
  const headers = length === undefined ? {} : { "content-length": String(length) }
  const heard: (number | string)[] = []
  void readBody(new Request("http://loket", { method: "POST", body, headers }), { maxBytes: 2 ** 30, clock }).then(
    (read) => heard.push(read instanceof Failure ? read.message : read.length),
  )
  return {
    heard,
    async send(bytes: number) {
      ;(await sent.promise).enqueue(new Uint8Array(bytes))
      await flush()
    },
    async end() {
      ;(await sent.promise).close()
      await flush()
    },
    async pass(ms: number) {
      clock.advance(ms)
      await flush()
    },
  }
}
const LATE = "The request body did not come in time."

test("a small body has half a minute, and a millisecond more for each 16 bytes that it announces", async () => {
  const late = slowly(1_600)
  await late.send(1_599)
  await late.pass(30_099)
  expect(late.heard).toEqual([])
  await late.pass(1)
  expect(late.heard).toEqual([LATE])
  const inTime = slowly(1_600)
  await inTime.pass(30_099)
  await inTime.send(1_600)
  await inTime.end()
  expect(inTime.heard).toEqual([1_600])
})

test.each([
  ["with a length", 10_000_001],
  ["without one", undefined],
])("a large body %s is waited for half a minute at each silence", async (_, length) => {
  const body = slowly(length)
  await body.pass(29_998)
  await body.send(50_000)
  // More than came in time by its rate, so that its silence alone ends it.
  await body.send(10_000_000 - 50_000)
  await body.pass(29_998)
  expect(body.heard).toEqual([])
  await body.pass(2)
  expect(body.heard).toEqual([LATE])
})

test("a large body that is never silent is read for as long as 16 KB of it come in a second", async () => {
  const bodies = { enough: slowly(), slow: slowly(), drop: slowly() }
  for (let seconds = 10; seconds <= 300; seconds += 10) {
    await bodies.enough.send(160_000)
    await bodies.slow.send(80_000)
    await bodies.drop.send(1)
    for (const body of Object.values(bodies)) await body.pass(10_000)
    const heard = Object.values(bodies).map((body) => body.heard)
    expect([seconds, heard]).toEqual([seconds, [[], seconds < 60 ? [] : [LATE], seconds < 30 ? [] : [LATE]]])
  }
  await bodies.enough.end()
  expect(bodies.enough.heard).toEqual([30 * 160_000])
})
