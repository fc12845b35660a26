import { expect, test } from "bun:test"
import { systemClock, VirtualClock } from "../../actors/kernel/clock.ts"
import { InlineBodyExecutor, LargeBodies, RecentUse } from "../../src/bodies/bodies.ts"
import { Failure } from "../../src/failure/failure.ts"
import { parseRequestBody } from "../../src/gateway/parse-request.ts"

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
