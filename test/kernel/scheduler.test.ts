import { expect, test } from "bun:test"
import { Actor, type Reply, type Runtime } from "../../actors/kernel/actor.ts"
import { SeededScheduler, VirtualClock, seededRandom } from "./virtual-time.ts"
import { InlineScheduler, type Runnable } from "../../actors/kernel/turns.ts"

const runtime = (scheduler: Runtime["scheduler"]): Runtime => ({
  clock: new VirtualClock(),
  random: seededRandom(1),
  scheduler,
  crashed: () => {},
  fatal: () => {},
})
const always = { mailboxLimit: 10, supervise: () => "restart" as const }

test("inline, an ask of an idle actor is answered before it returns", () => {
  const actor = new Actor<Reply<number>>(runtime(new InlineScheduler()), {
    ...always,
    name: "one",
    start: () => ({ receive: (reply) => reply(1) }),
  })
  expect(actor.ask<number>((reply) => reply, 100)).toEqual({ kind: "ok", value: 1 })
})

test("inline turns never nest, however actors send to each other and to themselves", () => {
  const on = runtime(new InlineScheduler())
  let depth = 0
  let deepest = 0
  const order: string[] = []
  const actors: Actor<number>[] = ["a", "b"].map(
    (name, index) =>
      new Actor<number>(on, {
        ...always,
        name,
        start: () => ({
          receive(left) {
            deepest = Math.max(deepest, ++depth)
            order.push(`${name}${left}`)
            if (left > 0) for (const actor of [actors[1 - index], actors[index]]) actor?.tell(left - 1)
            order.push(`${name}${left} ends`)
            depth--
          },
        }),
      }),
  )
  actors[0]?.tell(3)
  expect(deepest).toBe(1)
  expect(order.length).toBe(2 * (1 + 2 + 4 + 8))
  for (let index = 0; index < order.length; index += 2) expect(order[index + 1]).toBe(`${order[index]} ends`)
})

test("inline, a turn that throws does not keep the others from theirs", () => {
  const scheduler = new InlineScheduler()
  const taken: string[] = []
  const second: Runnable = { turn: () => void taken.push("second") }
  const first: Runnable = {
    turn() {
      scheduler.ready(second)
      throw new Error("a bug of the kernel")
    },
  }
  expect(() => scheduler.ready(first)).toThrow("a bug of the kernel")
  scheduler.ready({ turn: () => void taken.push("third") })
  expect(taken).toEqual(["second", "third"])
})

function orderOf(seed: number): string {
  const scheduler = new SeededScheduler(seededRandom(seed))
  const order: number[] = []
  for (let name = 0; name < 8; name++) scheduler.ready({ turn: () => void order.push(name) })
  scheduler.drain()
  return order.join("")
}

test("a seed decides the order of turns, and the same seed decides the same", () => {
  expect(orderOf(1)).toBe(orderOf(1))
  expect(new Set([1, 2, 3, 4, 5].map(orderOf)).size).toBeGreaterThan(1)
  expect(orderOf(9).split("").sort().join("")).toBe("01234567")
})
