/**
 * What the actor runtime costs, in nanoseconds for one message: best of five runs after a warm-up, beside a plain async
 * function in the same run. The goal is about a microsecond for an ask that finds its actor idle.
 */
import { Actor, type Behaviour, type Reply, type Runtime } from "../actors/kernel/actor.ts"
import { systemClock } from "../actors/kernel/clock.ts"
import { Registry } from "../actors/kernel/registry.ts"
import { InlineScheduler } from "../actors/kernel/turns.ts"

type Command = { readonly type: "add"; readonly by: number } | { readonly type: "sum"; readonly reply: Reply<number> }

const RUNS = 5
const MESSAGES = 200_000

const fail = (cause: unknown): never => {
  throw cause instanceof Error ? cause : new Error(String(cause))
}
const runtime: Runtime = {
  clock: systemClock,
  random: Math.random,
  scheduler: new InlineScheduler(),
  fatal: (_, cause) => fail(cause),
  crashed: (_, cause) => fail(cause),
}

function adder(): Behaviour<Command> {
  let sum = 0
  return {
    receive(command) {
      if (command.type === "add") sum += command.by
      else command.reply(sum)
    },
    idle: () => true,
  }
}

const actor = new Actor<Command>(runtime, {
  name: "adder",
  mailboxLimit: 1_000,
  start: adder,
  supervise: () => "restart",
})
const registry = new Registry<Command>(runtime, {
  kind: "adder",
  mailboxLimit: 1_000,
  askDeadlineMs: 5_000,
  idleMs: 60_000,
  intensity: { restarts: 1, withinMs: 1_000 },
  start: adder,
})
const ids = Array.from({ length: 1_000 }, (_, index) => `account-${index}`)
let sum = 0
// oxlint-disable-next-line typescript/require-await -- the baseline is what an async function costs by itself.
const plain = async (): Promise<number> => sum++

const sumOf = (reply: Reply<number>): Command => ({ type: "sum", reply })
const cases: Readonly<Record<string, (index: number) => Promise<unknown> | object | undefined>> = {
  "await of an async function": () => plain(),
  tell: () => {
    actor.tell({ type: "add", by: 1 })
    return undefined
  },
  "ask of an idle actor": () => actor.ask<number>(sumOf, 5_000),
  "ask through a registry of 1,000": (index) => registry.ask<number>(ids[index % ids.length] ?? "", sumOf),
}

console.log(`${"ns for one".padEnd(34)}${"best".padStart(8)}${"× baseline".padStart(12)}`)
let baseline: number | undefined
for (const [name, send] of Object.entries(cases)) {
  let best = Number.POSITIVE_INFINITY
  for (let run = 0; run < RUNS; run++) {
    const start = Bun.nanoseconds()
    for (let index = 0; index < MESSAGES; index++) {
      const sent = send(index)
      if (sent instanceof Promise) await sent
    }
    best = Math.min(best, (Bun.nanoseconds() - start) / MESSAGES)
  }
  baseline ??= best
  console.log(`${name.padEnd(34)}${best.toFixed(0).padStart(8)}${(best / baseline).toFixed(1).padStart(12)}`)
}
await registry.stop()
