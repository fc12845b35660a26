import { expect, test } from "bun:test"
import type { Behaviour, Reply } from "../../actors/kernel/actor.ts"
import { Registry, type RegistryOptions } from "../../actors/kernel/registry.ts"
import { insistOn, quiesce, world, type World } from "./world.ts"

type Command = { readonly type: "add"; readonly reply: Reply<number> } | { readonly type: "note" | "throw" }

const IDLE_MS = 1_000

/** Counters that start on a promise, as one that is loaded does. */
function counters(on: World, options: Partial<RegistryOptions<Command>> = {}) {
  const starts: string[] = []
  const loads: PromiseWithResolvers<void>[] = []
  const registry = new Registry<Command>(on, {
    kind: "counter",
    mailboxLimit: 2,
    askDeadlineMs: 100,
    idleMs: IDLE_MS,
    intensity: { restarts: 2, withinMs: 1_000 },
    async start(id): Promise<Behaviour<Command>> {
      starts.push(id)
      const load = Promise.withResolvers<void>()
      loads.push(load)
      await load.promise
      let count = 0
      return {
        idle: () => true,
        receive(command) {
          if (command.type === "throw") throw new Error("a bug")
          count++
          if (command.type === "add") command.reply(count)
        },
      }
    },
    ...options,
  })
  const loaded = async () => {
    for (const load of loads.splice(0)) load.resolve()
    await quiesce(on)
  }
  return { registry, starts, loads, loaded }
}

const add = (reply: Reply<number>): Command => ({ type: "add", reply })

test("everyone who asks while an actor starts waits for that one start", async () => {
  const on = world()
  const { registry, starts, loaded } = counters(on)
  const asks = [registry.ask("a", add), registry.ask("a", add), registry.ask("b", add)]
  expect(starts).toEqual(["a", "b"])
  await loaded()
  expect(await Promise.all(asks.map((ask) => Promise.resolve(ask)))).toEqual(
    [1, 2, 1].map((value) => ({ kind: "ok", value })),
  )
  expect(starts).toEqual(["a", "b"])
})

test("a start that fails refuses everyone who waited, and the next ask starts anew", async () => {
  const on = world()
  const { registry, starts, loads, loaded } = counters(on)
  const cause = new Error("no database")
  const asks = [registry.ask("a", add), registry.ask("a", add)]
  loads.splice(0).forEach((load) => load.reject(cause))
  await quiesce(on)
  expect(await Promise.all(asks.map((ask) => Promise.resolve(ask)))).toEqual(
    asks.map(() => ({ kind: "refused", reason: "unavailable", cause })),
  )
  const next = registry.ask("a", add)
  await loaded()
  expect(await next).toEqual({ kind: "ok", value: 1 })
  expect(starts).toEqual(["a", "a"])
  expect(on.fatals).toEqual([])
})

test("of an id whose actor could not start, or came to its end, nothing is kept", async () => {
  const on = world()
  const { registry, loads, loaded } = counters(on, { intensity: { restarts: 0, withinMs: 1_000 } })
  // Whoever guesses keys while the database is away names a new one each time.
  const asks = Array.from({ length: 100 }, (_, n) => registry.ask(`guess ${n}`, add))
  for (const load of loads.splice(0)) load.reject(new Error("the database is away"))
  await quiesce(on)
  const outcomes = await Promise.all(asks.map((ask) => Promise.resolve(ask)))
  expect(outcomes.every(({ kind }) => kind === "refused")).toBeTrue()
  expect([registry.ids, registry.metrics().actors]).toEqual([[], 0])
  void registry.ask("a", add)
  void registry.ask("b", add)
  await loaded()
  registry.tellIfActive("a", { type: "throw" })
  await quiesce(on)
  expect(registry.ids).toEqual(["b"])
})

test("news starts nobody, and reaches an actor that is starting", async () => {
  const on = world()
  const { registry, starts, loaded } = counters(on, { mailboxLimit: 3 })
  registry.tellIfActive("a", { type: "note" })
  expect(starts).toEqual([])
  const ask = registry.ask("a", add)
  registry.tellIfActive("a", { type: "note" })
  const last = registry.ask("a", add)
  await loaded()
  expect([await ask, await last]).toEqual([
    { kind: "ok", value: 1 },
    { kind: "ok", value: 3 },
  ])
})

test("all that are there hear what all are told, and nobody is started to be asked whether he is there", async () => {
  const on = world()
  const { registry, starts, loaded } = counters(on)
  expect(await registry.askIfActive("a", add)).toBeUndefined()
  expect(registry.tellIfActive("a", { type: "note" })).toBe(false)
  void registry.ask("a", add)
  void registry.ask("b", add)
  registry.tellAll({ type: "note" })
  expect(registry.tellIfActive("a", { type: "note" })).toBe(true)
  await loaded()
  const asked = [registry.askIfActive("a", add), registry.askIfActive("b", add)]
  await quiesce(on)
  expect(await Promise.all(asked)).toEqual([
    { kind: "ok", value: 4 },
    { kind: "ok", value: 3 },
  ])
  expect(starts).toEqual(["a", "b"])
})

test("an actor that was not used is put away, and the next ask starts it from durable state", async () => {
  const on = world()
  const { registry, starts, loaded } = counters(on)
  void registry.ask("a", add)
  await loaded()
  on.clock.advance(2 * IDLE_MS)
  expect(registry.metrics().actors).toBe(0)
  const next = registry.ask("a", add)
  await loaded()
  expect(await next).toEqual({ kind: "ok", value: 1 })
  expect(starts).toEqual(["a", "a"])
})

test("an actor in use is not put away", async () => {
  const on = world()
  const { registry, starts, loaded } = counters(on)
  void registry.ask("a", add)
  await loaded()
  for (let round = 0; round < 10; round++) {
    on.clock.advance(IDLE_MS / 2)
    registry.tellIfActive("a", { type: "note" })
    await quiesce(on)
  }
  expect(starts).toEqual(["a"])
})

test("more crashes of a kind than its intensity allows end the process", async () => {
  const on = world()
  const { registry, loaded } = counters(on)
  on.clock.advance(10_000)
  for (const id of ["a", "b", "c"]) {
    expect(on.fatals).toEqual([])
    void registry.ask(id, () => ({ type: "throw" }))
    await loaded()
    await loaded()
  }
  expect(on.fatals).toEqual(["counter"])
  expect(on.crashes).toEqual(["counter:a", "counter:b", "counter:c"])
})

test("crashes that are far apart are restarted for ever", async () => {
  const on = world()
  const { registry, loaded } = counters(on)
  for (let crash = 0; crash < 10; crash++) {
    void registry.ask("a", () => ({ type: "throw" }))
    await loaded()
    await loaded()
    on.clock.advance(600)
  }
  expect(on.crashes.length).toBe(10)
  expect(on.fatals).toEqual([])
})

test("stop waits for all actors, those that are starting too, and refuses who asks later", async () => {
  const on = world()
  const { registry, loaded } = counters(on)
  void registry.ask("a", add)
  await loaded()
  const starting = registry.ask("b", add)
  let stopped = false
  const stop = registry.stop().then(() => (stopped = true))
  await quiesce(on)
  expect(stopped).toBe(false)
  await loaded()
  await stop
  expect(await starting).toEqual({ kind: "ok", value: 1 })
  for (const id of ["a", "c"]) expect(await registry.ask(id, add)).toEqual({ kind: "refused", reason: "stopped" })
  expect(await insistOn(registry, "a", add)).toEqual({ kind: "refused", reason: "stopped" })
  expect(on.clock.runNext()).toBe(false)
})

test("the metrics say how many actors there are, and how full and how old their mailboxes", async () => {
  const on = world()
  const { registry, loaded } = counters(on)
  void registry.ask("a", add)
  void registry.ask("a", add)
  on.clock.advance(40)
  void registry.ask("b", add)
  expect(registry.metrics()).toEqual({ actors: 2, depth: 3, oldestMs: 40 })
  await loaded()
  expect(registry.metrics()).toEqual({ actors: 2, depth: 0, oldestMs: 0 })
})

test("an actor that holds nothing can be put away at once, and the next ask starts it anew", async () => {
  const on = world()
  const { registry, starts, loaded } = counters(on)
  const first = registry.ask("a", add)
  await loaded()
  expect(await first).toEqual({ kind: "ok", value: 1 })
  registry.passivate("a")
  expect(registry.metrics().actors).toBe(0)
  const second = registry.ask("a", add)
  await loaded()
  expect(await second).toEqual({ kind: "ok", value: 1 })
  expect(starts).toEqual(["a", "a"])
})
