/**
 * What it costs to choose a member of a pool, in nanoseconds for one call: best of five runs after a warm-up, of 60 where a seat is taken. The goal is at most
 * 3 µs among 16 members, also where the conversation's own has no room.
 */
import { systemClock } from "../actors/kernel/clock.ts"
import { hashOf, type PoolStatus, Ranking } from "../actors/pool.ts"
import { whole } from "../actors/lease.ts"
import { type BackendLimits, type Model, soleCredential } from "../src/catalogue/model.ts"
import { Pools } from "../src/gateway/pools.ts"
import { MemberSelector, Seat } from "../src/gateway/member-selector.ts"
import type { Exchange } from "../src/wire/exchange.ts"

const RUNS = 5
const CALLS = 200_000
/** Short ones, so that one of them has the machine for itself. */
const SEATED_RUNS = 60
const SEATED_CALLS = 5_000

const members = Array.from({ length: 16 }, (_, index) => ({
  id: `provider/key-${index}/a-model`,
  priority: 0,
  weight: 1 + (index % 3),
}))
const ranking = new Ranking(members)
const conversations = Uint32Array.from({ length: 1_024 }, (_, index) => hashOf(`conversation ${index}`))

const moment = (given: Partial<PoolStatus> = {}): PoolStatus => ({
  isEligible: () => true,
  isHealthy: () => true,
  hasCapacity: () => true,
  inFlight: (index) => index,
  reopensAt: (index) => index,
  ...given,
})

function measured(now: PoolStatus): number {
  let best = Infinity
  for (let run = 0; run <= RUNS; run++) {
    const before = performance.now()
    for (let call = 0; call < CALLS; call++) ranking.choose(conversations[call & 1_023] ?? 0, now)
    const ns = ((performance.now() - before) * 1e6) / CALLS
    if (run > 0) best = Math.min(best, ns)
  }
  return best
}

const rows: readonly [name: string, now: PoolStatus][] = [
  ["all are well and have room", moment()],
  ["half of them have no room", moment({ hasCapacity: (index) => index % 2 === 0 })],
  ["only one has room", moment({ hasCapacity: (index) => index === 15 })],
  ["half of them are ill", moment({ isHealthy: (index) => index % 2 === 0 })],
  ["none is well", moment({ isHealthy: () => false })],
]
const limits = { maxConcurrency: 1_000, requestsPerMinute: 1e9, tokensPerMinute: 1e12 }
const upstream = { provider: "p", format: "chat", model: "m", priority: 0, weight: 1 } as const

/** A model of one member for each key, with limits or without. */
function poolOf(keys: readonly string[], given: BackendLimits) {
  const credentials = keys.map((name) => ({ ...soleCredential("KEY"), name, ...given }))
  const provider = { id: "p", label: "", baseUrl: "", headers: {}, credentials: [soleCredential("KEY")] as const }
  const backends = new Map([["p", credentials.map((one) => ({ provider, credential: one, apiKey: one.name }))]])
  const model = { id: "m", maxConcurrency: 1_000, upstreams: [{ ...upstream, ...given }] } as unknown as Model
  const pools = new Pools({ backends, clock: systemClock, share: () => whole, setting: () => undefined })
  return { pools, pool: pools.of(model) }
}

/** From the call's arrival to its last byte: a member is chosen, a seat is taken, and left. */
function seated({ pools, pool }: ReturnType<typeof poolOf>): number {
  const exchange = { backend: "chat" } as unknown as Exchange
  let best = Infinity
  for (let run = 0; run < SEATED_RUNS; run++) {
    const before = performance.now()
    for (let call = 0; call < SEATED_CALLS; call++) {
      const conversation = conversations[call & 1_023] ?? 0
      const tries = new MemberSelector({ pools, pool, conversation, serves: undefined, exchange: () => exchange })
      void tries.firstExchange()
      const seat = tries.acquire(100, 0, () => false)
      if (!(seat instanceof Seat)) throw new Error("no seat")
      seat.requestSent()
      seat.onContent()
      seat.onSuccess(90)
      seat.release()
    }
    const ns = ((performance.now() - before) * 1e6) / SEATED_CALLS
    best = Math.min(best, ns)
  }
  return best
}

const ids = members.map(({ id }) => id)
const print = (name: string, ns: number) => console.log(`${name.padEnd(40)} ${ns.toFixed(0).padStart(6)} ns`)
for (const [name, now] of rows) print(name, measured(now))
const alone = seated(poolOf(["one"], {}))
print("a whole call, of one member", alone)
print("a whole call, of 16", seated(poolOf(ids, {})))
const limited = seated(poolOf(ids, limits))
print("a whole call, of 16 with all limits", limited)
print("what 16 with all limits add (goal 3,000)", limited - alone)
