import { describe, expect, test } from "bun:test"
import { Actor, type ActorOptions, type Behaviour, type Outcome, type Reply } from "../../actors/kernel/actor.ts"
import { insist, quiesce, world, type World } from "./world.ts"

type Command =
  | { readonly type: "echo"; readonly value: number; readonly reply: Reply<number> }
  | { readonly type: "keep"; readonly reply: Reply<number> }
  | { readonly type: "answer"; readonly value: number }
  | { readonly type: "note"; readonly value: number }
  | { readonly type: "throw" }

/** Echoes, notes what it is told, and keeps replies for later. */
class Probe implements Behaviour<Command> {
  readonly seen: number[]
  readonly kept: Reply<number>[] = []
  isIdle = true

  constructor(seen: number[] = []) {
    this.seen = seen
  }
  idle(): boolean {
    return this.isIdle
  }
  receive(command: Command): void {
    switch (command.type) {
      case "echo":
        this.seen.push(command.value)
        return command.reply(command.value)
      case "keep":
        this.kept.push(command.reply)
        return
      case "answer":
        for (const reply of this.kept.splice(0)) reply(command.value)
        return
      case "note":
        this.seen.push(command.value)
        return
      case "throw":
        throw new Error("a bug")
    }
  }
}

function probe(on: World, options: Partial<ActorOptions<Command>> = {}): { actor: Actor<Command>; seen: number[] } {
  const seen: number[] = []
  const actor = new Actor<Command>(on, {
    name: "probe",
    mailboxLimit: 3,
    start: () => new Probe(seen),
    supervise: () => "restart",
    ...options,
  })
  return { actor, seen }
}

const echo =
  (value: number) =>
  (reply: Reply<number>): Command => ({ type: "echo", value, reply })
const keep = (reply: Reply<number>): Command => ({ type: "keep", reply })

/** What a promise has come to, without waiting for it. */
function watch<T>(promise: Promise<T>): { value: T | undefined } {
  const watched: { value: T | undefined } = { value: undefined }
  void promise.then((value) => (watched.value = value))
  return watched
}

const ok = (value: number): Outcome<number> => ({ kind: "ok", value })

describe("asks", () => {
  test("are taken in the order in which they were sent, tells among them", async () => {
    const on = world()
    const { actor, seen } = probe(on)
    const first = actor.ask(echo(1), 100)
    actor.tell({ type: "note", value: 2 })
    const third = actor.ask(echo(3), 100)
    await quiesce(on)
    expect(await Promise.all([first, third])).toEqual([ok(1), ok(3)])
    expect(seen).toEqual([1, 2, 3])
  })

  test("beyond the mailbox's bound are refused, and neither tells nor insistent asks are", async () => {
    const on = world()
    const { actor, seen } = probe(on)
    const asks = [1, 2, 3, 4].map((value) => actor.ask(echo(value), 100))
    expect(actor.tell({ type: "note", value: 5 })).toBe(true)
    const insistent = insist(actor, echo(6), 100)
    expect(await asks[3]).toEqual({ kind: "refused", reason: "full" })
    await quiesce(on)
    expect(await insistent).toEqual(ok(6))
    expect(seen).toEqual([1, 2, 3, 5, 6])
  })

  test("that wait in the mailbox until their deadline are refused, and never handled", async () => {
    const on = world()
    const { actor, seen } = probe(on)
    const ask = actor.ask(echo(1), 100)
    on.clock.advance(100)
    expect(await ask).toEqual({ kind: "refused", reason: "late" })
    actor.tell({ type: "note", value: 2 })
    await quiesce(on)
    expect(seen).toEqual([2])
  })

  test("that were handled and not answered by their deadline have an unknown outcome", async () => {
    const on = world()
    const { actor } = probe(on)
    const ask = actor.ask(keep, 100)
    await quiesce(on)
    on.clock.advance(99)
    const watched = watch(Promise.resolve(ask))
    await quiesce(on)
    expect(watched.value).toBeUndefined()
    on.clock.advance(1)
    expect(await ask).toEqual({ kind: "unknown", reason: "deadline" })
    // A reply that comes after all is heard by nobody.
    actor.tell({ type: "answer", value: 7 })
    await quiesce(on)
    expect(on.crashes).toEqual([])
  })

  test("may be answered in a later turn", async () => {
    const on = world()
    const { actor } = probe(on)
    const ask = actor.ask(keep, 100)
    actor.tell({ type: "answer", value: 9 })
    await quiesce(on)
    expect(await ask).toEqual(ok(9))
  })
})

describe("a crash", () => {
  test("leaves the one in its turn and those begun before unknown at once, and keeps the mailbox", async () => {
    const on = world()
    let starts = 0
    const seen: number[] = []
    const { actor } = probe(on, {
      start: () => {
        starts++
        return new Probe(seen)
      },
    })
    const begun = actor.ask(keep, 1_000)
    const crashing = actor.ask(() => ({ type: "throw" }), 1_000)
    const after = actor.ask(echo(1), 1_000)
    await quiesce(on)
    const outcome: Outcome<number> = { kind: "unknown", reason: "crashed" }
    expect(await begun).toEqual(outcome)
    expect(await crashing).toEqual({ kind: "unknown", reason: "crashed" })
    expect(await after).toEqual(ok(1))
    expect(starts).toBe(2)
    expect(on.crashes).toEqual(["probe"])
  })

  test("leaves what waits to the next start, however long that takes", async () => {
    const on = world()
    const seen: number[] = []
    const starts = [Promise.resolve(new Probe(seen)), Promise.withResolvers<Behaviour<Command>>()] as const
    let started = 0
    const { actor } = probe(on, { start: () => (started++ === 0 ? starts[0] : starts[1].promise) })
    await quiesce(on)
    actor.tell({ type: "throw" })
    await quiesce(on)
    expect(actor.passivate(0)).toBe(false)
    actor.tell({ type: "note", value: 1 })
    await quiesce(on)
    expect([on.crashes, seen, started]).toEqual([["probe"], [], 2])
    starts[1].resolve(new Probe(seen))
    await quiesce(on)
    expect(seen).toEqual([1])
  })

  test("that is not restarted refuses those who wait: they were never begun", async () => {
    const on = world()
    const { actor } = probe(on, { supervise: () => "stop" })
    actor.tell({ type: "throw" })
    const waiting = actor.ask(echo(1), 1_000)
    await quiesce(on)
    expect(await waiting).toEqual({ kind: "refused", reason: "stopped" })
    expect(actor.tell({ type: "note", value: 1 })).toBe(false)
    expect(await insist(actor, echo(2), 1_000)).toEqual({ kind: "refused", reason: "stopped" })
  })
})

describe("a start", () => {
  test("that takes its time holds back what is sent, and loses nothing", async () => {
    const on = world()
    const seen: number[] = []
    const started = Promise.withResolvers<Behaviour<Command>>()
    const { actor } = probe(on, { start: () => started.promise })
    actor.tell({ type: "note", value: 1 })
    const ask = actor.ask(echo(2), 100)
    await quiesce(on)
    expect(seen).toEqual([])
    started.resolve(new Probe(seen))
    await quiesce(on)
    expect(await ask).toEqual(ok(2))
    expect(seen).toEqual([1, 2])
  })

  test("that takes longer than an ask's deadline refuses it as unavailable", async () => {
    const on = world()
    const { actor } = probe(on, { start: () => new Promise(() => {}) })
    const ask = actor.ask(echo(1), 100)
    on.clock.advance(100)
    expect(await ask).toEqual({ kind: "refused", reason: "unavailable" })
  })

  test.each(["throws", "rejects"])("that %s refuses everyone who waits, with the cause", async (how) => {
    const on = world()
    const cause = new Error("no database")
    const { actor } = probe(on, {
      start: () => {
        if (how === "throws") throw cause
        return Promise.reject(cause)
      },
    })
    const asks = [actor.ask(echo(1), 100), actor.ask(echo(2), 100)]
    await quiesce(on)
    expect(await Promise.all(asks.map((ask) => Promise.resolve(ask)))).toEqual(
      asks.map(() => ({ kind: "refused", reason: "unavailable", cause })),
    )
    expect(actor.stopped).toBe(true)
  })
})

describe("stop", () => {
  test("ends an idle actor", async () => {
    const on = world()
    const { actor } = probe(on)
    const stopped = watch(actor.stop().then(() => true))
    await quiesce(on)
    expect(stopped.value).toBe(true)
    await actor.stop()
  })

  test("lets what was sent before be handled, refuses new asks, and still takes tells", async () => {
    const on = world()
    const { actor, seen } = probe(on)
    const before = actor.ask(echo(1), 100)
    const stopped = actor.stop()
    const asked = actor.ask(echo(2), 100)
    expect(actor.tell({ type: "note", value: 3 })).toBe(true)
    const insisted = insist(actor, echo(4), 100)
    await quiesce(on)
    await stopped
    expect([await before, await asked, await insisted]).toEqual([ok(1), { kind: "refused", reason: "stopped" }, ok(4)])
    expect(seen).toEqual([1, 3, 4])
  })

  test("of an actor that is put away meanwhile ends it once", async () => {
    const on = world()
    let ends = 0
    const { actor } = probe(on, { ended: () => ends++ })
    const stopped = actor.stop()
    expect(actor.passivate(0)).toBe(true)
    await quiesce(on)
    await stopped
    expect(ends).toBe(1)
  })

  test("waits for a start under way, and ends also when that fails", async () => {
    for (const fails of [false, true]) {
      const on = world()
      const started = Promise.withResolvers<Behaviour<Command>>()
      const { actor } = probe(on, { start: () => started.promise })
      const stopped = watch(actor.stop().then(() => true))
      await quiesce(on)
      expect(stopped.value).toBeUndefined()
      if (fails) started.reject(new Error("no database"))
      else started.resolve(new Probe())
      await quiesce(on)
      expect(stopped.value).toBe(true)
    }
  })

  test("tells those who were begun and not answered that it is not known", async () => {
    const on = world()
    const { actor } = probe(on)
    const begun = actor.ask(keep, 1_000)
    const stopped = actor.stop()
    await quiesce(on)
    await stopped
    expect(await begun).toEqual({ kind: "unknown", reason: "stopped" })
  })
})

describe("passivation", () => {
  const idleMs = 1_000

  test("comes after so long without a command, and not sooner", async () => {
    const on = world()
    const { actor } = probe(on)
    on.clock.advance(idleMs)
    void actor.ask(echo(1), 100)
    await quiesce(on)
    on.clock.advance(idleMs - 1)
    expect(actor.passivate(idleMs)).toBe(false)
    on.clock.advance(1)
    expect(actor.passivate(idleMs)).toBe(true)
    expect(actor.stopped).toBe(true)
  })

  test("comes although an ask was answered in a later turn, or not at all by its deadline", async () => {
    for (const isAnswered of [true, false]) {
      const on = world()
      const { actor } = probe(on)
      const ask = actor.ask(keep, 100)
      await quiesce(on)
      if (isAnswered) actor.tell({ type: "answer", value: 1 })
      await quiesce(on)
      on.clock.advance(idleMs)
      await ask
      expect({ isAnswered, isPutAway: actor.passivate(idleMs) }).toEqual({ isAnswered, isPutAway: true })
    }
  })

  test("never comes with something held, waiting in the mailbox, unanswered, or still starting", async () => {
    const on = world()
    const behaviour = new Probe()
    const held = probe(on, { start: () => behaviour }).actor
    behaviour.isIdle = false
    const waiting = probe(on).actor
    const unanswered = probe(on).actor
    const starting = probe(on, { start: () => new Promise(() => {}) }).actor
    void unanswered.ask(keep, 10 * idleMs)
    await quiesce(on)
    on.clock.advance(idleMs)
    waiting.tell({ type: "note", value: 1 })
    for (const actor of [held, waiting, unanswered, starting]) expect(actor.passivate(idleMs)).toBe(false)
  })
})

test("a mailbox tells its depth, and how long its oldest command has waited", async () => {
  const on = world()
  const { actor } = probe(on)
  expect([actor.depth, actor.ageMs]).toEqual([0, 0])
  on.clock.advance(1_000)
  void actor.ask(echo(1), 100)
  on.clock.advance(30)
  actor.tell({ type: "note", value: 2 })
  on.clock.advance(10)
  expect([actor.depth, actor.ageMs]).toEqual([2, 40])
  await quiesce(on)
  expect([actor.depth, actor.ageMs]).toEqual([0, 0])
})
