/** Purses whose start failed, and keys whose start takes long: who asks for them meanwhile, and what becomes of them. */
import { expect, test } from "bun:test"
import type { AccountCommand } from "../../actors/account.ts"
import { Registry } from "../../actors/kernel/registry.ts"
import { whole } from "../../actors/lease.ts"
import { micro } from "../../actors/money/micro.ts"
import { Failure } from "../../src/failure/failure.ts"
import { AccountActors } from "../../src/gateway/leasing-actors.ts"
import { START_AGAIN_MS, startBreaker, startingAgain } from "../../src/gateway/lease-driver.ts"
import { startActors } from "../../src/gateway/start-actors.ts"
import { DatabaseUnavailable } from "../../src/store/database.ts"
import { quiesce, world } from "../kernel/world.ts"

test("however often somebody asks meanwhile, it is started again once a second", async () => {
  const runtime = world()
  const { clock } = runtime
  let starts = 0
  const registry: Registry<AccountCommand> = new Registry<AccountCommand>(runtime, {
    kind: "account",
    mailboxLimit: 10,
    askDeadlineMs: 5_000,
    idleMs: 90_000,
    intensity: { restarts: 1, withinMs: 1_000 },
    start: async (id) => {
      starts++
      again(id)
      throw new DatabaseUnavailable("more statements wait than may")
    },
  })
  const accounts = new AccountActors(registry)
  const again = startingAgain(clock, (id) => void accounts.view(id))
  for (let n = 0; n < 100; n++) {
    void accounts.view("acc")
    void accounts.view("other")
    await quiesce(runtime)
    clock.advance(5)
  }
  expect(starts).toBe(200)
  for (let ms = 0; ms < 5 * START_AGAIN_MS; ms += 5) {
    clock.advance(5)
    await quiesce(runtime)
  }
  expect(starts).toBe(200 + 2 * 5)
})

test("a purse whose lease was opened without an answer finds out about it once the database is back", async () => {
  const runtime = world()
  const { clock } = runtime
  const given: bigint[] = []
  let isAway = true
  let starts = 0
  const lease = { id: 0n, granted: micro(100n), returned: micro(0n), settled: micro(0n), version: 1 }
  const registry: Registry<AccountCommand> = new Registry<AccountCommand>(runtime, {
    kind: "breaker",
    mailboxLimit: 10,
    askDeadlineMs: 5_000,
    idleMs: 90_000,
    intensity: { restarts: 1, withinMs: 1_000 },
    start: startBreaker({
      clock,
      purses: {
        look: async () => undefined,
        async grow() {
          starts++
          if (isAway) throw new DatabaseUnavailable("cut")
          return { lease, more: false }
        },
        async giveBack(_, returned) {
          given.push(returned)
          return { ...lease, returned, version: 2 }
        },
        trip: async () => [],
      },
      written: async () => {},
      failed: () => {},
      startAgain: (purse) => clock.after(START_AGAIN_MS, () => void breakers.view(purse)),
    }),
  })
  const breakers = new AccountActors(registry)
  const asked = breakers.view("brk_acc")
  await quiesce(runtime)
  expect(await asked).toMatchObject({ code: "dependency.database_unavailable" })
  for (const [away, many] of [
    [true, 2],
    [false, 3],
  ] as const) {
    isAway = away
    clock.advance(START_AGAIN_MS)
    await quiesce(runtime)
    expect(starts).toBe(many)
  }
  // A neighbour that is short gets it.
  breakers.recalled("brk_acc", micro(100n), false)
  await quiesce(runtime)
  expect(given).toEqual([100n])
  clock.advance(START_AGAIN_MS)
  await quiesce(runtime)
  expect(starts).toBe(3)
})

test("ten thousand wait for a key that is being read, five seconds at most, and one more comes again in a second", async () => {
  const runtime = world()
  const never = new Promise<never>(() => {})
  const actors = startActors({
    runtime,
    store: { loadKey: () => never, breakers: {} },
    ledgerStore: { commit: () => never },
    maxConcurrency: 1,
    idleMs: 90_000,
    share: () => whole,
  } as unknown as Parameters<typeof startActors>[0])
  const heard: unknown[] = []
  const ask = async () => heard.push(await actors.keys.view("key"))
  for (let n = 0; n < 10_001; n++) void ask()
  await quiesce(runtime)
  expect(heard).toEqual([new Failure("gateway.capacity", { retryAfterS: 1 })])
  runtime.clock.advance(4_999)
  await quiesce(runtime)
  expect(heard).toHaveLength(1)
  runtime.clock.advance(1)
  await quiesce(runtime)
  expect([heard.length, heard.at(-1)]).toEqual([10_001, new Failure("dependency.database_unavailable")])
})
