import { expect, test } from "bun:test"
import { Room } from "../../actors/room.ts"

test("a room has as many calls at once as its limit says, and this process its share of them", () => {
  const room = new Room({ maxConcurrency: 3 })
  const enters = () => {
    const has = room.has(1, 0)
    if (has) room.enters(1, 0)
    return has
  }
  expect([enters(), enters(), enters(), enters()]).toEqual([true, true, true, false])
  room.leaves()
  expect(enters()).toBeTrue()
  room.under({ maxConcurrency: 3 }, { index: 1, count: 2 })
  expect(room.underWay).toBe(3)
  room.leaves()
  room.leaves()
  expect(enters()).toBeFalse()
  room.leaves()
  expect(enters()).toBeTrue()
})

test("requests and tokens are counted over a sliding minute, and what was counted outlives a change of limits", () => {
  const room = new Room({ requestsPerMinute: 2, tokensPerMinute: 100 })
  room.enters(60, 0)
  expect([room.has(40, 1), room.has(41, 1)]).toEqual([true, false])
  room.corrected(-30, 0)
  expect(room.has(41, 2)).toBeTrue()
  room.enters(1, 3)
  expect(room.has(1, 4)).toBeFalse()
  room.under({ requestsPerMinute: 3, tokensPerMinute: 100 }, { index: 0, count: 1 })
  expect([room.has(69, 5), room.has(70, 5)]).toEqual([true, false])
  expect(room.has(100, 61_000)).toBeTrue()
})

test("a call that is larger than the minute goes when nothing else does", () => {
  const room = new Room({ tokensPerMinute: 100 })
  expect(room.has(1_000, 0)).toBeTrue()
  room.enters(1, 0)
  expect(room.has(1_000, 1)).toBeFalse()
  expect(room.has(1_000, 60_001)).toBeTrue()
})
