/**
 * What it costs to choose a member of a pool, in nanoseconds for one call: best of five runs after a warm-up. The goal is at most
 * 3 µs among 16 members, also where the conversation's own has no room.
 */
import { hashOf, type Moment, Ranking } from "../actors/pool.ts"

const RUNS = 5
const CALLS = 200_000

const members = Array.from({ length: 16 }, (_, index) => ({
  id: `provider/key-${index}/a-model`,
  priority: 0,
  weight: 1 + (index % 3),
}))
const ranking = new Ranking(members)
const conversations = Uint32Array.from({ length: 1_024 }, (_, index) => hashOf(`conversation ${index}`))

const moment = (given: Partial<Moment> = {}): Moment => ({
  mayAsk: () => true,
  isWell: () => true,
  hasRoom: () => true,
  underWay: (index) => index,
  illness: (index) => index,
  ...given,
})

function measured(now: Moment): number {
  let best = Infinity
  for (let run = 0; run <= RUNS; run++) {
    const before = performance.now()
    for (let call = 0; call < CALLS; call++) ranking.choose(conversations[call & 1_023] ?? 0, now)
    const ns = ((performance.now() - before) * 1e6) / CALLS
    if (run > 0) best = Math.min(best, ns)
  }
  return best
}

const rows: readonly [name: string, now: Moment][] = [
  ["all are well and have room", moment()],
  ["half of them have no room", moment({ hasRoom: (index) => index % 2 === 0 })],
  ["only one has room", moment({ hasRoom: (index) => index === 15 })],
  ["half of them are ill", moment({ isWell: (index) => index % 2 === 0 })],
  ["none is well", moment({ isWell: () => false })],
]
for (const [name, now] of rows) console.log(`${name.padEnd(28)} ${measured(now).toFixed(0).padStart(6)} ns`)
