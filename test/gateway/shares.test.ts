/** How the share is kept current; what it is of, and that it adds up, is in `test/actors` and `test/money`. */
import { expect, test } from "bun:test"
import { VirtualClock } from "../kernel/virtual-time.ts"
import { type Share, whole } from "../../actors/lease.ts"
import { Shares } from "../../src/gateway/actors.ts"

const clock = new VirtualClock()
const second: Share = { index: 1, count: 2 }

test("a look tells a share that is another, once; a process that takes no calls keeps what it had", async () => {
  const told: Share[] = []
  let there: Share | undefined = whole
  const look = () => Promise.resolve(there)
  const shares = new Shares({ clock, look, changed: (share) => void told.push(share), failed: () => {} })
  await shares.look()
  expect(told).toEqual([])
  there = { ...second }
  await shares.look()
  await shares.look()
  there = undefined
  await shares.look()
  expect(told).toEqual([second])
  expect(shares.current).toEqual(second)
})

test("a notice that comes during a look is looked after when that look has ended", async () => {
  const asked: ((share: Share) => void)[] = []
  const look = () => new Promise<Share>((resolve) => void asked.push(resolve))
  const shares = new Shares({ clock, look, changed: () => {}, failed: () => {} })
  const looking = shares.look()
  await shares.look()
  await shares.look()
  expect(asked.length).toBe(1)
  asked[0]!(second)
  while (asked.length < 2) await Bun.sleep(1)
  asked[1]!({ index: 0, count: 3 })
  await looking
  expect(asked.length).toBe(2)
  expect(shares.current).toEqual({ index: 0, count: 3 })
})

test("a look without an answer changes nothing, and the next one is made", async () => {
  let answers = false
  const failures: unknown[] = []
  const look = () => (answers ? Promise.resolve(second) : Promise.reject(new Error("away")))
  const shares = new Shares({ clock, look, changed: () => {}, failed: (error) => void failures.push(error) })
  await shares.look()
  expect([failures.length, shares.current]).toEqual([1, whole])
  answers = true
  await shares.look()
  expect(shares.current).toEqual(second)
})

test("looks follow each other every two seconds, until they are stopped", async () => {
  const time = new VirtualClock()
  const looks: number[] = []
  const look = () => Promise.resolve(void looks.push(time.monotonic()))
  const shares = new Shares({ clock: time, look, changed: () => {}, failed: () => {} })
  await shares.follow()
  for (const count of [2, 3]) {
    time.advance(2_000)
    await Bun.sleep(1)
    expect(looks.length).toBe(count)
  }
  shares.stop()
  time.advance(10_000)
  await Bun.sleep(1)
  expect(looks).toEqual([0, 2_000, 4_000])
})
