/** The windows as Redis counts them (src/redis/connection.ts). */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test"
import * as fc from "fast-check"
import { SlidingWindow } from "../../actors/window.ts"
import { RedisConnection } from "../../src/redis/connection.ts"
import { noRedis, startRedis, type TestRedis } from "./server.ts"

let redis: TestRedis
let connection: RedisConnection
let epoch = ""
let key = ""
let keys = 0

beforeAll(async () => {
  if (noRedis !== undefined) return
  redis = await startRedis()
  connection = await RedisConnection.open(redis.url, 1_000)
  const beat = await connection.script(["test:epoch"], ["beat", "first"])
  epoch = String((beat as unknown[])[0])
})
beforeEach(() => {
  key = `test:${++keys}`
})
afterAll(async () => {
  connection?.close()
  await redis?.[Symbol.asyncDispose]()
})

/** Nobody has given up waiting. */
const LATER = "9000000000000"

interface Answer {
  readonly nowMs: number
  readonly fits: boolean
  readonly used: number
  readonly emptyMs: number
  readonly waitMs: number
}

async function run(...args: readonly (string | number)[]): Promise<Answer> {
  const [what, ...rest] = args.map(String)
  const reply = (await connection.script(["test:epoch", key], [what!, epoch, LATER, ...rest])) as [string, ...number[]]
  expect(reply[0]).toBe(epoch)
  const [, nowMs, fits, used, emptyMs, waitMs] = reply
  return { nowMs: nowMs!, fits: fits === 1, used: used!, emptyMs: emptyMs!, waitMs: waitMs! }
}
const take = (amount: number, limit: number) => run("take", amount, limit)
const look = (amount: number, limit: number) => run("look", amount, limit)
/** Adds so much as if it had come so many milliseconds ago. */
const addAt = (atMs: number, by: number) => run("add", Math.floor(atMs / 1_000), atMs % 1_000, by)
const serverMs = async () => (await look(0, 1)).nowMs

describe.skipIf(noRedis !== undefined)("a window in Redis", () => {
  test("takes up to its limit and nothing more, whoever asks at once", async () => {
    const taken = await Promise.all(Array.from({ length: 40 }, () => take(1, 10)))
    expect(taken.filter(({ fits }) => fits)).toHaveLength(10)
    expect(taken.filter(({ fits }) => !fits).every(({ used }) => used === 10)).toBe(true)
    expect(await redis.send("PTTL", key)).toBeWithin(1, 62_001)
  })

  test("takes what fills it exactly, and not one more; nothing of what is refused is counted", async () => {
    expect(await take(70, 100)).toMatchObject({ fits: true, used: 70 })
    expect(await take(31, 100)).toMatchObject({ fits: false, used: 70 })
    expect(await take(30, 100)).toMatchObject({ fits: true, used: 100 })
    expect(await take(1, 100)).toMatchObject({ fits: false, used: 100 })
  })

  test("says never of what is over the limit, and counts nothing when it is looked at", async () => {
    expect(await take(101, 100)).toMatchObject({ fits: false, waitMs: -1 })
    expect(await look(100, 100)).toMatchObject({ fits: true, used: 0, emptyMs: 0 })
    expect(await redis.send("EXISTS", key)).toBe(0)
  })

  test("counts a call until its bucket's last is 60 seconds past: the 61st bucket still counts", async () => {
    let looked: Answer
    let endsMs: number
    // In the oldest second of 61, for as long as it is: the machine may be slow.
    do {
      key = `test:${++keys}`
      const second = Math.floor((await serverMs()) / 1_000) - 60
      endsMs = (second + 60) * 1_000 + 999
      await run("add", second, 999, 3)
      looked = await look(1, 3)
    } while (looked.nowMs >= endsMs)
    expect(looked).toMatchObject({
      fits: false,
      used: 3,
      waitMs: endsMs - looked.nowMs,
      emptyMs: endsMs - looked.nowMs,
    })
    const { waitMs } = looked
    await Bun.sleep(waitMs + 5)
    expect(await take(3, 3)).toMatchObject({ fits: true, used: 3 })
    expect(await redis.send("HLEN", key)).toBe(1)
    await addAt((await serverMs()) - 60_001, 5)
    expect(await look(0, 3)).toMatchObject({ used: 3 })
  })

  test("is corrected either way in its own second, never below nothing, and without lengthening it", async () => {
    const { nowMs } = await take(50, 100)
    const second = Math.floor(nowMs / 1_000)
    const before = await look(0, 100)
    expect(await run("add", second, 0, -20)).toMatchObject({ used: 30 })
    expect(await run("add", second, 0, 25)).toMatchObject({ used: 55 })
    const after = await run("add", second, 0, -90)
    expect(after).toMatchObject({ used: 0, emptyMs: 0 })
    const again = await run("add", second, 0, 1)
    expect(again.nowMs + again.emptyMs).toBe(before.nowMs + before.emptyMs)
  })

  test("over its limit by what was told takes nothing until enough of it is past", async () => {
    const now = await serverMs()
    await addAt(now - 50_000, 8)
    await addAt(now - 20_000, 8)
    const { fits, waitMs } = await take(3, 10)
    expect(fits).toBe(false)
    // Once the first eight are gone there is room for two, and for three only when the others are.
    expect(waitMs).toBeWithin(20_001, 40_001)
    expect((await take(2, 10)).waitMs).toBeWithin(1, 10_001)
  })

  test("takes what is ahead of its clock as of just now: a clock set back opens nothing", async () => {
    const now = await serverMs()
    const ahead = Math.floor(now / 1_000) + 3_600
    await redis.send("HSET", key, String(ahead), String(7 * 1_000 + 500))
    const looked = await take(1, 8)
    expect(looked).toMatchObject({ fits: true, used: 8 })
    expect(looked.emptyMs).toBeWithin(50_000, 60_001)
    expect(await redis.send("HEXISTS", key, String(ahead))).toBe(0)
  })

  test("of another epoch than the asker knows counts nothing, and says which one there is", async () => {
    const reply = (await connection.script(["test:epoch", key], ["take", "another", LATER, "1", "10"])) as unknown[]
    expect(reply).toHaveLength(2)
    expect(reply[0]).toBe(epoch)
    expect(await redis.send("EXISTS", key)).toBe(0)
  })

  test("counts nothing for whoever has given up waiting", async () => {
    const until = await serverMs()
    await Bun.sleep(2)
    for (const rest of [
      ["take", "1", "10"],
      ["add", String(Math.floor(until / 1_000)), "0", "1"],
    ]) {
      const [what, ...more] = rest
      const reply = await connection.script(["test:epoch", key], [what!, epoch, String(until), ...more])
      expect(reply).toEqual([epoch, expect.any(Number)])
    }
    expect(await redis.send("EXISTS", key)).toBe(0)
  })

  test("goes on when the server has forgotten the script", async () => {
    await take(1, 10)
    await redis.send("SCRIPT", "FLUSH")
    const [one, two] = await Promise.all([take(1, 10), take(1, 10)])
    expect(new Set([one.used, two.used])).toEqual(new Set([2, 3]))
  })

  test("says what the window in the process says", async () => {
    const steps = fc.array(
      fc.record({ ageMs: fc.integer({ min: 0, max: 59_000 }), count: fc.integer({ min: 1, max: 100 }) }),
      { maxLength: 30 },
    )
    await fc.assert(
      fc.asyncProperty(steps, fc.integer({ min: 1, max: 100 }), async (adds, amount) => {
        key = `test:${++keys}`
        const now = await serverMs()
        const limit = 1_000
        const own = new SlidingWindow(limit)
        // In the order of time, as it would have come.
        for (const { ageMs, count } of adds.toSorted((a, b) => b.ageMs - a.ageMs)) {
          own.add(count, now - ageMs)
          await addAt(now - ageMs, count)
        }
        const said = await look(amount, limit)
        expect(said.used).toBe(own.used(said.nowMs))
        expect(said.fits).toBe(own.fits(amount, said.nowMs))
        expect(Math.ceil(said.emptyMs / 1_000)).toBe(own.resetS(said.nowMs))
        if (!said.fits) expect(Math.max(1, Math.ceil(said.waitMs / 1_000))).toBe(own.waitS(amount, said.nowMs)!)
      }),
      { numRuns: 50 },
    )
  })
})
