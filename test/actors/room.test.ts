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
  room.correctTokens(-30, 0)
  expect(room.hasRoomFor(41, 2)).toBeTrue()
  room.enter(1, 3)
  expect(room.hasRoomFor(1, 4)).toBeFalse()
  room.setLimits({ requestsPerMinute: 3, tokensPerMinute: 100 }, { index: 0, count: 1 })
  expect([room.hasRoomFor(69, 5), room.hasRoomFor(70, 5)]).toEqual([true, false])
  expect(room.hasRoomFor(100, 61_000)).toBeTrue()
})

test("a call that is larger than the minute goes when nothing else does", () => {
  const room = new Capacity({ tokensPerMinute: 100 })
  expect(room.hasRoomFor(1_000, 0)).toBeTrue()
  room.enter(1, 0)
  expect(room.hasRoomFor(1_000, 1)).toBeFalse()
  expect(room.hasRoomFor(1_000, 60_001)).toBeTrue()
})
