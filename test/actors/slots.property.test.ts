import { describe, expect, test } from "bun:test"
import * as fc from "fast-check"
import { VirtualClock } from "../kernel/virtual-time.ts"
import { type AcquireReply, type SlotCaller, Slots, type SlotsCommand } from "../../actors/slots.ts"

const WAIT_MS = 5_000
const MINUTE_MS = 60_000

/** Slots, and beside them what they should be: who holds, who waits, and who was there in the last minute. */
class World {
  readonly clock = new VirtualClock()
  readonly held = new Map<string, SlotCaller>()
  readonly waiting = new Map<string, SlotCaller>()
  readonly refused: SlotCaller[] = []
  readonly #asked = new Map<string, number>()
  readonly cap: number
  readonly #slots: Slots
  #calls = 0

  constructor(cap: number) {
    this.cap = cap
    this.#slots = new Slots(this.clock, (command: SlotsCommand) => this.#slots.receive(command), cap)
  }

  ask(account: number, key: number, waitMs = WAIT_MS): SlotCaller {
    const accountId = `account ${account}`
    const caller = { requestId: `call ${++this.#calls}`, accountId, keyId: `key ${key} of ${accountId}` }
    this.#asked.set(accountId, this.clock.monotonic())
    this.waiting.set(caller.requestId, caller)
    const reply = ({ kind }: AcquireReply) => {
      expect(this.waiting.delete(caller.requestId)).toBe(true)
      // Of the last quarter nobody gets one who has his share, also by what he has given back.
      if (kind === "acquired" && this.cap - this.held.size <= Math.floor(this.cap / 4))
        expect(this.count(this.held, accountId)).toBeLessThan(this.share())
      if (kind === "acquired") this.held.set(caller.requestId, caller)
      else this.refused.push(caller)
    }
    this.#slots.receive({ type: "acquire", caller, waitMs, reply })
    return caller
  }

  release(requestId: string): void {
    this.held.delete(requestId)
    this.#slots.receive({ type: "release", requestId })
  }

  count(of: ReadonlyMap<string, SlotCaller>, accountId: string): number {
    return [...of.values()].filter((caller) => caller.accountId === accountId).length
  }

  /** Holds, or asked within a minute. One that held until now may be counted for up to a minute more. */
  share(): number {
    const now = this.clock.monotonic()
    const there = new Set([...this.held.values()].map(({ accountId }) => accountId))
    for (const [accountId, at] of this.#asked) if (now - at < MINUTE_MS) there.add(accountId)
    return Math.max(1, Math.floor(this.cap / there.size))
  }
}

const steps = fc.array(
  fc.record({
    what: fc.constantFrom("ask", "ask", "ask", "release", "wait" as const),
    account: fc.nat(4),
    key: fc.nat(5),
    which: fc.nat(200),
  }),
  { maxLength: 150 },
)
const caps = fc.constantFrom(1, 2, 3, 4, 7, 8, 16)

/** Plays the steps; calls last under a minute in all, so that nobody is forgotten on the way. */
function play(
  world: World,
  all: readonly { what: string; account: number; key: number; which: number }[],
  look: () => void,
) {
  for (const { what, account, key, which } of all) {
    if (what === "ask") world.ask(account, key)
    else if (what === "wait") world.clock.advance(which)
    else {
      const held = [...world.held.keys()]
      const requestId = held[which % Math.max(1, held.length)]
      if (requestId !== undefined) world.release(requestId)
    }
    look()
  }
}

describe("slots", () => {
  test("keep to the cap and the queue's length, and let nobody wait for a slot that is his", () => {
    fc.assert(
      fc.property(caps, steps, (cap, all) => {
        const world = new World(cap)
        play(world, all, () => {
          const free = cap - world.held.size
          expect(free).toBeGreaterThanOrEqual(0)
          expect(world.waiting.size).toBeLessThanOrEqual(4 * cap)
          if (free === 0) return
          // Of what is not the last quarter anybody is served.
          if (world.waiting.size > 0) expect(free).toBeLessThanOrEqual(Math.floor(cap / 4))
          for (const { accountId } of world.waiting.values()) {
            expect(world.count(world.held, accountId)).toBeGreaterThanOrEqual(world.share())
          }
        })
      }),
      { numRuns: 300 },
    )
  })

  test("are given to an account with few before one with its share gets another, whatever the keys", () => {
    fc.assert(
      fc.property(caps, fc.integer({ min: 1, max: 40 }), steps, (cap, keys, all) => {
        const world = new World(cap)
        play(world, all, () => {})
        // An attacker with many keys, and then one call of somebody who holds nothing.
        for (let call = 0; call < 6 * cap; call++) world.ask(9, call % keys)
        // With a call each of as many accounts as may wait there is no place for one more.
        fc.pre(new Set([...world.waiting.values()].map(({ accountId }) => accountId)).size < 4 * cap)
        const { requestId } = world.ask(8, 0)
        const accounts = new Set([...world.waiting.values()].map(({ accountId }) => accountId)).size
        // It is never refused, and behind one call of each account that waits.
        for (let turn = 0; turn < accounts && !world.held.has(requestId); turn++) {
          world.release([...world.held.keys()][0]!)
        }
        expect(world.held.has(requestId)).toBe(true)
      }),
      { numRuns: 200 },
    )
  })

  test("of the last quarter never go to an account with its share, so that a newcomer of the last minute finds room", () => {
    fc.assert(
      fc.property(fc.constantFrom(4, 8, 16, 64), fc.integer({ min: 1, max: 200 }), (cap, keys) => {
        const world = new World(cap)
        world.release(world.ask(0, 0).requestId)
        for (let call = 0; call < 10 * cap; call++) world.ask(1, call % keys)
        const room = Math.floor(cap / 4)
        expect(world.held.size).toBe(cap - room)
        for (let call = 0; call < room; call++) {
          const { requestId } = world.ask(0, call)
          expect(world.held.has(requestId)).toBe(true)
        }
      }),
    )
  })

  test("refuse an account with less than its part of the queue only where nobody has more", () => {
    fc.assert(
      fc.property(caps, steps, (cap, all) => {
        const world = new World(cap)
        for (let call = 0; call < cap; call++) world.ask(7, 0)
        let seen = 0
        play(world, all, () => {
          for (const { accountId } of world.refused.slice(seen)) {
            // Those that gave way, or were refused at the door, were of an account with as many as any, but for the newcomer's one.
            const own = world.count(world.waiting, accountId)
            const most = Math.max(
              ...[...world.waiting.values()].map((each) => world.count(world.waiting, each.accountId)),
            )
            expect(own + 1).toBeGreaterThanOrEqual(most)
          }
          seen = world.refused.length
        })
      }),
      { numRuns: 200 },
    )
  })
})
