/** One of two processes on a database: told is in force where it was told at once, and in the other within a second. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { systemClock } from "../../../actors/kernel/clock.ts"
import { startTestGateway, type TestGateway } from "../../gateway/harness.ts"
import { changes, env, playRounds, type ToldWorld, toldWorld } from "../told-in-force.ts"

let gateway: TestGateway
let other: TestGateway
let databaseUrl: string
beforeAll(async () => {
  gateway = await startTestGateway({ env, databaseUrl: (url) => (databaseUrl = url) })
  other = await startTestGateway({ env, databaseUrl: () => databaseUrl })
})
afterAll(async () => {
  await other[Symbol.asyncDispose]()
  await gateway[Symbol.asyncDispose]()
})

test.each(changes)(
  "a call right after the answer about $what is refused, each time",
  async (told) => {
    await playRounds(await toldWorld(gateway), told)
  },
  120_000,
)

test.each(changes)("$what is refused by the other process within a second", async (told) => {
  const world = await toldWorld(gateway)
  const there: ToldWorld = { ...world, gateway: other }
  for (let round = 0; round < 5; round++) {
    const key = await told.key(world)
    expect(await told.call(there, key.key)).toBe(200)
    await told.change(world, key)
    const toldAt = systemClock.running()
    let answer = await told.call(there, key.key)
    while (answer !== told.refusal && systemClock.running() < toldAt + 1_000) answer = await told.call(there, key.key)
    expect(answer).toBe(told.refusal)
    await told.undo?.(world)
    // Also to the other process, before the next round.
    while (told.undo !== undefined && (await told.call(there, key.key)) !== 200) await Bun.sleep(5)
  }
})
