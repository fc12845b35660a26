import { describe, expect, test } from "bun:test"
import { BodyMemory } from "../../src/gateway/read-body.ts"

const TOTAL = 6_400
const LITTLE = TOTAL / 64
/** All but the eighth that is left for those that hold little. */
const SHARED = (TOTAL * 7) / 8

describe("request bodies", () => {
  test("of an account alone may take half of what is shared, to the byte, and what is given back may be held again", () => {
    const bodies = new BodyMemory(TOTAL)
    using first = bodies.reservationFor("a")
    using second = bodies.reservationFor("a")
    expect(first.reserve(300)).toBeTrue()
    expect(second.reserve(SHARED / 2 - 299)).toBeFalse()
    expect(second.reserve(SHARED / 2 - 300)).toBeTrue()
    expect(bodies.held).toBe(SHARED / 2)
    expect(first.reserve(299)).toBeTrue()
    expect(second.reserve(SHARED / 2 - 299)).toBeTrue()
  })

  test("of accounts that take all they can leave room for little of others, and never take more than there is", () => {
    const bodies = new BodyMemory(TOTAL)
    const greedy = Array.from({ length: 12 }, (_, account) => bodies.reservationFor(`a${account}`))
    for (const share of greedy) {
      let took = 0
      while (share.reserve(took + 1)) took++
      expect(took).toBeGreaterThan(0)
    }
    expect(bodies.held).toBeLessThanOrEqual(TOTAL)
    for (const share of greedy) share[Symbol.dispose]()
    expect([bodies.held, bodies.heldBy("a0")]).toEqual([0, 0])
  })

  test("of those who take all that is shared leave every eighth byte to those who hold little", () => {
    const bodies = new BodyMemory(TOTAL)
    for (let account = 0; account < 6; account++) {
      const share = bodies.reservationFor(`a${account}`)
      // As much as the rule for many lets it have, and nothing of what is left for little.
      let took = LITTLE
      while (share.reserve(took + 1)) took++
    }
    expect(bodies.held).toBeLessThanOrEqual(SHARED)
    for (let account = 0; account < 8; account++)
      expect(bodies.reservationFor(`b${account}`).reserve(LITTLE)).toBeTrue()
    expect(bodies.reservationFor("c").reserve(TOTAL)).toBeFalse()
  })

  test("tell whether an account holds little, to the byte", () => {
    const bodies = new BodyMemory(TOTAL)
    using one = bodies.reservationFor("a")
    using other = bodies.reservationFor("a")
    expect([one.isSmall(LITTLE), one.isSmall(LITTLE + 1)]).toEqual([true, false])
    one.reserve(40)
    expect([other.isSmall(LITTLE - 40), other.isSmall(LITTLE - 39)]).toEqual([true, false])
    expect([one.isSmall(LITTLE), one.isSmall(LITTLE + 1)]).toEqual([true, false])
  })

  test("are little up to 1 MiB, however much there is for all", () => {
    const [least, more] = [64 * 2 ** 20, 2 ** 40].map((total) => new BodyMemory(total).reservationFor("a"))
    for (const one of [least, more]) expect([one!.isSmall(2 ** 20), one!.isSmall(2 ** 20 + 1)]).toEqual([true, false])
  })
})
