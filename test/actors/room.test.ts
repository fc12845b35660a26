import { expect, test } from "bun:test"
import { Capacity } from "../../actors/backend.ts"

test("a room has as many calls at once as its limit says, and this process its share of them", () => {
  const room = new Capacity({ maxConcurrency: 3 })
  const enters = () => {
    const has = room.hasRoomFor(1, 0)
    if (has) room.enter(1, 0)
    return has
  }
  expect([enters(), enters(), enters(), enters()]).toEqual([true, true, true, false])
  room.leave()
  expect(enters()).toBeTrue()
  room.setLimits({ maxConcurrency: 3 }, { index: 1, count: 2 })
  expect(room.inFlight).toBe(3)
  room.leave()
  room.leave()
  expect(enters()).toBeFalse()
  room.leave()
  expect(enters()).toBeTrue()
})

test("requests and tokens are counted over a sliding minute, and what was counted outlives a change of limits", () => {
  const room = new Capacity({ requestsPerMinute: 2, tokensPerMinute: 100 })
  room.enter(60, 0)
  expect([room.hasRoomFor(40, 1), room.hasRoomFor(41, 1)]).toEqual([true, false])
  room.correctTokens(-30, 0, 1)
  expect(room.hasRoomFor(41, 2)).toBeTrue()
  room.enter(1, 3)
  expect(room.hasRoomFor(1, 4)).toBeFalse()
  room.setLimits({ requestsPerMinute: 3, tokensPerMinute: 100 }, { index: 0, count: 1 })
  expect([room.hasRoomFor(69, 5), room.hasRoomFor(70, 5)]).toEqual([true, false])
  expect(room.hasRoomFor(100, 61_000)).toBeTrue()
})

test("what an answer that ran for over a minute came to beyond its estimate counts from its end", () => {
  const room = new Capacity({ tokensPerMinute: 100 })
  room.enter(20, 0)
  room.correctTokens(30, 0, 59_999)
  expect([room.hasRoomFor(50, 59_999), room.hasRoomFor(51, 59_999)]).toEqual([true, false])
  room.enter(20, 100_000)
  room.correctTokens(70, 100_000, 160_000)
  expect([room.hasRoomFor(30, 160_000), room.hasRoomFor(31, 219_999)]).toEqual([true, false])
  expect(room.hasRoomFor(100, 220_000)).toBeTrue()
  // What comes to less has left the minute already.
  room.enter(60, 300_000)
  room.enter(40, 350_000)
  room.correctTokens(-50, 300_000, 360_000)
  expect(room.hasRoomFor(61, 360_000)).toBeFalse()
})

test("a call that is larger than the minute goes when nothing else does", () => {
  const room = new Capacity({ tokensPerMinute: 100 })
  expect(room.hasRoomFor(1_000, 0)).toBeTrue()
  room.enter(1, 0)
  expect(room.hasRoomFor(1_000, 1)).toBeFalse()
  expect(room.hasRoomFor(1_000, 60_001)).toBeTrue()
})
