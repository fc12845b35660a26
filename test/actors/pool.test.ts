import { describe, expect, test } from "bun:test"
import * as fc from "fast-check"
import { type PoolEntry, hashOf, type PoolStatus, Ranking } from "../../actors/pool.ts"

const member = (id: string, weight = 1, priority = 0): PoolEntry => ({ id, weight, priority })

/** Everybody may be asked, is well and has room, but for what is given. */
const moment = (given: Partial<PoolStatus> = {}): PoolStatus => ({
  isEligible: () => true,
  isHealthy: () => true,
  hasCapacity: () => true,
  inFlight: () => 0,
  reopensAt: () => 0,
  ...given,
})
const conversations = Array.from({ length: 40_000 }, (_, n) => hashOf(`conversation ${n}`))
const pool = fc
  .array(fc.record({ weight: fc.nat(5), priority: fc.nat(2) }), { minLength: 1, maxLength: 16 })
  .map((all) => all.map(({ weight, priority }, index) => member(`provider/key-${index}/m`, weight, priority)))
const subset = (bits: number) => (index: number) => ((bits >> index) & 1) === 1

test("shares follow the weights within 3 %, whatever the members are called", () => {
  const ids = ["first/a/claude", "first/b/claude", "first/c/claude", "bedrock/default/anthropic.claude-v1:0"]
  const weights = [1, 2, 3, 10]
  const ranking = new Ranking(ids.map((id, index) => member(id, weights[index])))
  const counts = [0, 0, 0, 0]
  for (const conversation of conversations) {
    const choice = Number(ranking.choose(conversation, moment()))
    counts[choice] = (counts[choice] ?? 0) + 1
  }
  for (const [index, weight] of weights.entries())
    expect(Math.abs((counts[index] ?? 0) / conversations.length - weight / 16)).toBeLessThan(0.03 / 4)
})

test("a member that goes moves its own conversations alone, and they spread over all the others by weight", () => {
  const ranking = new Ranking(Array.from({ length: 8 }, (_, index) => member(`p/k${index}/m`)))
  const gone = 3
  const moved = new Map<unknown, number>()
  for (const conversation of conversations) {
    const before = ranking.choose(conversation, moment())
    const after = ranking.choose(conversation, moment({ isHealthy: (index) => index !== gone }))
    if (before === gone) moved.set(after, (moved.get(after) ?? 0) + 1)
    else expect(after).toBe(before)
  }
  expect(moved.size).toBe(7)
  for (const count of moved.values()) expect(count).toBeWithin(500, 950)
})

test("the order of the file has no part in it, so that processes with older files mostly agree", () => {
  const members = Array.from({ length: 5 }, (_, index) => member(`p/k${index}/m`, index + 1))
  const one = new Ranking(members)
  const other = new Ranking([...members].reverse())
  for (const conversation of conversations.slice(0, 1_000))
    expect(Number(other.choose(conversation, moment()))).toBe(4 - Number(one.choose(conversation, moment())))
})

test("property: one that may not be asked never is; one that is ill or full is not while another is well and has room", () => {
  const bits = fc.nat(0xffff)
  fc.assert(
    fc.property(pool, fc.integer(), bits, bits, bits, (members, conversation, may, well, room) => {
      const now = moment({ isEligible: subset(may), isHealthy: subset(well), hasCapacity: subset(room) })
      const choice = new Ranking(members).choose(conversation, now)
      const all = members.map((_, index) => index)
      const able = all.filter((index) => now.isEligible(index) && now.isHealthy(index) && now.hasCapacity(index))
      if (able.length > 0) {
        const rankOf = (index: number) => (members[index]?.weight === 0 ? -1 : members[index]?.priority)
        const highest = Math.max(...able.map((index) => rankOf(index) ?? -1))
        return able.includes(Number(choice)) && rankOf(Number(choice)) === highest
      }
      if (all.some((index) => now.isEligible(index) && now.isHealthy(index))) return choice === "full"
      const ill = all.filter((index) => now.isEligible(index))
      if (ill.length === 0) return choice === "none"
      return ill.some((index) => now.hasCapacity(index))
        ? ill.includes(Number(choice)) && now.hasCapacity(Number(choice))
        : choice === "full"
    }),
    { numRuns: 2_000 },
  )
})

describe("what overflows", () => {
  const members = [1, 1, 4, 4].map((weight, index) => member(`p/k${index}/m`, weight))

  test("is only what has no room: a conversation stays at its member, however busy that is", () => {
    const ranking = new Ranking(members)
    for (const conversation of conversations.slice(0, 100)) {
      const own = ranking.choose(conversation, moment())
      expect(ranking.choose(conversation, moment({ inFlight: (index) => (index === own ? 1_000 : 0) }))).toBe(own)
    }
  })

  test("goes to one of the same two others, and there to the one with fewer calls for its weight", () => {
    const ranking = new Ranking(members)
    for (const conversation of conversations.slice(0, 500)) {
      const own = Number(ranking.choose(conversation, moment()))
      const full = (load: readonly number[]) =>
        Number(
          ranking.choose(
            conversation,
            moment({ hasCapacity: (index) => index !== own, inFlight: (index) => load[index] ?? 0 }),
          ),
        )
      const seen = new Set(members.map((_, busy) => full(members.map((__, index) => (index === busy ? 1_000 : index)))))
      expect(seen.has(own)).toBeFalse()
      expect(seen.size).toBe(2)
      const [one = 0, other = 0] = seen
      const weightOf = (index: number) => members[index]?.weight ?? 0
      const loads = members.map((_, index) => (index === one ? 3 * weightOf(one) : 2 * weightOf(other)))
      expect(full(loads)).toBe(other)
    }
  })

  test("falls to a lower priority when the higher one is full, and waits when all are", () => {
    const ranking = new Ranking([member("a", 1, 9), member("b", 1, 9), member("c", 1, 1), member("d", 0, 100)])
    const withRoom = (...able: number[]) => ranking.choose(7, moment({ hasCapacity: (index) => able.includes(index) }))
    expect(withRoom(2, 3)).toBe(2)
    expect(withRoom(3)).toBe(3)
    expect(withRoom()).toBe("full")
  })
})

test("where none is well the least ill one is asked, without weight too", () => {
  const ranking = new Ranking([member("a"), member("b"), member("c", 0)])
  const ill = (illness: readonly number[]) =>
    ranking.choose(1, moment({ isHealthy: () => false, reopensAt: (index) => illness[index] ?? 0 }))
  expect(ill([3, 1, 2])).toBe(1)
  expect(ill([3, 2, 1])).toBe(2)
})

test("every release sends a conversation to the same member: what backends keep of it would be read anew else", () => {
  const ranking = new Ranking([1, 2, 3, 10].map((weight, index) => member(`first/key-${index}/model`, weight)))
  const choices = conversations.slice(0, 40).map((conversation) => ranking.choose(conversation, moment()))
  expect(hashOf("conversation 0")).toBe(791_951_700)
  expect(choices.join("")).toBe("3233323233333133331312033032320013332333")
})
