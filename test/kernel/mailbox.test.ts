import { expect, test } from "bun:test"
import * as fc from "fast-check"
import { Mailbox } from "../../actors/kernel/actor.ts"

test("a mailbox gives back what was put in, in order, at any mix of puts and takes", () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: -1_500, max: 1_500 }), { maxLength: 30 }), (steps) => {
      const mailbox = new Mailbox<number>()
      let put = 0
      let taken = 0
      for (const step of steps) {
        for (let count = 0; count < step; count++) mailbox.put(++put)
        for (let count = 0; count > step; count--) {
          expect(mailbox.peek()).toBe(taken < put ? taken + 1 : undefined)
          expect(mailbox.take()).toBe(taken < put ? ++taken : undefined)
        }
        expect(mailbox.size).toBe(put - taken)
      }
    }),
    { numRuns: 30 },
  )
})
