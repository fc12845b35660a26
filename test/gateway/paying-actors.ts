/**
 * What a call pays with, as actors on a clock of the test's: its key and its account, and where it has them its key's parent, a run and
 * ceilings, each of which has so much. Then a ledger whose commits end when the test says so, and a disk of withdrawals.
 */
import { expect } from "bun:test"
import * as fc from "fast-check"
import { Account, type AccountCommand } from "../../actors/account.ts"
import { Key } from "../../actors/key.ts"
import type { KeyCommand, KeyRecord } from "../../actors/key-record.ts"
import { Actor, type Behaviour, type MaybePromise, type Runtime } from "../../actors/kernel/actor.ts"
import { VirtualClock, seededRandom } from "../kernel/virtual-time.ts"
import { Registry } from "../../actors/kernel/registry.ts"
import { InlineScheduler } from "../../actors/kernel/turns.ts"
import { type LeaseNews, whole } from "../../actors/lease.ts"
import { type Committed, Ledger, type LedgerCommand, type Settlement } from "../../actors/ledger.ts"
import { micro, zero } from "../../actors/money/micro.ts"
import { noTokens } from "../../actors/money/price.ts"
import { calendarAt } from "../../actors/period.ts"
import { Run, type RunCommand } from "../../actors/run.ts"
import { Failure } from "../../src/failure/failure.ts"
import { type Actors, LedgerActor } from "../../src/gateway/actors.ts"
import type { Admission } from "../../src/gateway/admit.ts"
import type { AnsweredEnd } from "../../src/gateway/attempt.ts"
import {
  AccountActors,
  BreakerActors,
  KeyActors,
  RunActors,
  type TripOutcome,
} from "../../src/gateway/leasing-actors.ts"
import { holdOfBreakers, reserveOfKeys } from "../../src/gateway/purses.ts"
import type { BilledCall } from "../../src/gateway/settle.ts"
import { DatabaseUnavailable } from "../../src/store/database.ts"
import { plain } from "../actors/key-harness.ts"
import { flush } from "../kernel/world.ts"

export const HOLD = 100n
export const RESERVED_TOKENS = 50
const TOKENS_PER_MINUTE = 1_000
export const CALL = { requestId: "req_1", least: micro(1n), target: micro(HOLD) }
export const KEYS = ["key", "parent"] as const
export const CEILINGS = ["brk_acc", "brk_acc.key"] as const
export const PURSES = [...KEYS, "run_1", ...CEILINGS, "acc"] as const
export type Purse = (typeof PURSES)[number]
export type Has = Readonly<Record<Purse, bigint>>

/** What is known now: nobody waits here. */
export function now<T>(value: MaybePromise<T | Failure>): T {
  if (value instanceof Promise || value instanceof Failure)
    throw new Error("there is no answer yet, or none that was expected")
  return value
}

const runtimeOn = (clock: VirtualClock): Runtime => ({
  clock,
  random: seededRandom(1),
  scheduler: new InlineScheduler(),
  fatal: (actor) => {
    throw new Error(`${actor} crashes too often`)
  },
  crashed: () => {},
})

export interface Otherwise {
  /** What is other than usual of keys. */
  readonly records?: Partial<Record<Purse, Partial<KeyRecord>>>
  /** The database does not answer: no lease grows, or not even an actor starts. */
  readonly isAway?: boolean
  readonly neverStarts?: boolean
  readonly trip?: TripOutcome
}

export function actorsWith(
  has: Has,
  { records = {}, isAway = false, neverStarts = false, trip = "crowded" }: Otherwise = {},
) {
  const clock = new VirtualClock()
  const crashes = new Set<string>()
  const runtime = runtimeOn(clock)
  const lease = (id: string) => ({
    id: 1n,
    granted: micro(has[id as Purse]),
    returned: zero,
    settled: zero,
    version: 1,
  })
  const grown = (id: string): LeaseNews =>
    isAway ? { type: "not-grown" } : { type: "grown", lease: lease(id), more: false, elsewhere: zero }
  const registry = <Command extends { readonly type: string }>(
    kind: string,
    make: (id: string, tell: (command: Command) => void) => Behaviour<Command>,
  ) =>
    new Registry<Command>(runtime, {
      kind,
      mailboxLimit: 10,
      askDeadlineMs: 1_000,
      idleMs: 90_000,
      intensity: { restarts: 5, withinMs: 1_000 },
      start: (id, tell) => {
        if (neverStarts) throw new DatabaseUnavailable("cut")
        const behaviour = make(id, tell)
        return {
          receive: (command) => {
            if (command.type === "settle" && crashes.delete(id)) throw new Error("a bug")
            behaviour.receive(command)
          },
        }
      },
    })
  const purse = (id: string, tell: (command: AccountCommand) => void) =>
    new Account(
      {
        clock,
        self: (news) => tell({ type: "lease", news }),
        grow: () => tell({ type: "lease", news: { type: "not-grown" } }),
        giveBack: () => {},
      },
      lease(id),
      isAway,
    )
  const keys = registry<KeyCommand>("key", (id, tell) => {
    const record = {
      ...plain,
      keyId: id,
      tokensPerMinute: TOKENS_PER_MINUTE,
      budget: { limit: micro(has[id as Purse]), period: "total" as const },
      ...records[id as Purse],
    }
    const spent = { daily: zero, monthly: zero, total: zero }
    const starts = calendarAt(clock.now(), plain.timeZone).starts
    return new Key(
      {
        clock,
        self: tell,
        load: () => {},
        counts: undefined,
        driverOf: (budget) => ({
          grow: () => tell({ type: "budget", budget, news: grown(id) }),
          giveBack: () => {},
        }),
      },
      { record, starts, spent },
      whole,
    )
  })
  const runs = registry<RunCommand>("run", (id, tell) => {
    const endsAt = clock.now() + 1_000_000
    const record = {
      runId: id,
      accountId: "acc",
      keyId: "key",
      name: "r",
      budget: micro(has.run_1),
      endsAt,
      spent: zero,
    }
    const driverOf = () => ({ grow: () => tell({ type: "lease", news: grown(id) }), giveBack: () => {} })
    return new Run({ clock, self: tell, find: () => {}, driverOf }, record)
  })
  const actors = {
    keys: new KeyActors(keys, clock),
    runs: new RunActors(runs, async () => true),
    accounts: new AccountActors(registry("account", purse)),
    breakers: new BreakerActors(registry("breaker", purse), {
      look: async (id) =>
        id === "brk_acc"
          ? undefined
          : { ceiling: micro(100n), spent: micro(70n), held: micro(has[id as Purse]), resetS: 0 },
      trip: async () => trip,
    }),
  } as unknown as Actors
  const ofAccounts = (id: Purse, view: { readonly available: bigint; readonly held: bigint }) =>
    [id, [has[id] - view.available, view.held]] as const
  /** Of each purse what is charged or held, and what is held. */
  const taken = async () => {
    const ofKeys = KEYS.map((id) => [id, [now(actors.keys.view(id)).budget?.usage]] as const)
    const run = (await actors.runs.viewIfActive("run_1")) ?? { usage: zero, held: zero }
    const ceilings = CEILINGS.map((id) => ofAccounts(id, now(actors.breakers.view(id))))
    return Object.fromEntries([
      ...ofKeys,
      ["run_1", [run.usage, run.held]] as const,
      ...ceilings,
      ofAccounts("acc", now(actors.accounts.view("acc"))),
    ])
  }
  const tokens = () => KEYS.map((id) => TOKENS_PER_MINUTE - (now(actors.keys.view(id)).tokens?.remaining ?? 0))
  return { actors, crashes, taken, tokens }
}

/** A call that has taken what it may of those that pay, and has been forwarded. */
export async function callOf(has: Has, paying: readonly Purse[] = PURSES) {
  const world = actorsWith(has)
  const { actors } = world
  const parent = paying.includes("parent") ? { keyId: "parent", keyHash: "parent" } : undefined
  const runId = paying.includes("run_1") ? "run_1" : undefined
  const breakers = CEILINGS.filter((ceiling) => paying.includes(ceiling))
  const reservation = { ...CALL, tokens: RESERVED_TOKENS, worst: CALL.target }
  const reserved = now(reserveOfKeys(actors, { keyHash: "key", record: { parent } }, reservation))
  if (runId !== undefined) expect(now(actors.runs.hold(runId, CALL))).toBe(micro(HOLD))
  expect(now(holdOfBreakers(actors, breakers, CALL))).toBe(micro(HOLD))
  expect(now(actors.accounts.hold("acc", CALL))).toMatchObject({ kind: "held", hold: micro(HOLD) })
  const opening = {
    requestId: CALL.requestId,
    accountId: "acc",
    keyId: "key",
    leaseId: 1n,
    model: "m",
    endpoint: "chat",
    streamed: false,
    hold: micro(HOLD),
    priceId: 1n,
    openedAt: 0,
    starts: reserved.starts,
    parent: reserved.parent,
    breakers,
    runId,
  }
  let seats = 1
  const one = micro(1n)
  const admission = {
    hold: micro(HOLD),
    reservedTokens: RESERVED_TOKENS,
    offer: {
      model: { id: "m" },
      price: { id: 1n, rates: { input: one, output: one, cacheRead: one, cacheWrite: one } },
    },
    seat: { member: { id: "p" } },
    settled: () => void seats--,
  }
  const call: BilledCall = {
    keyHash: "key",
    opening,
    admission: admission as unknown as Admission,
    markers: [],
    attempts: 3,
    firstTokenMs: 1,
    durationMs: 2,
    costs: { final: micro(7n), parts: [] },
  }
  return { ...world, call, admission, seats: () => seats }
}

export const answered = (cost: bigint | undefined, excess = 0n): AnsweredEnd => ({
  kind: "answered",
  tokens: cost === undefined ? undefined : { ...noTokens, output: Number(cost) },
  excess: micro(excess),
  last: "",
  turns: 2,
})

export const all = (amount: bigint, paying: readonly Purse[] = PURSES) =>
  Object.fromEntries(
    PURSES.map((id) => {
      const taken = paying.includes(id) ? micro(amount) : zero
      return [id, KEYS.includes(id as never) ? [taken] : [taken, zero]]
    }),
  )

/** Each has an amount of its own. */
export const pursesWith = (amount: fc.Arbitrary<bigint>): fc.Arbitrary<Has> =>
  fc.record({ key: amount, parent: amount, run_1: amount, brk_acc: amount, "brk_acc.key": amount, acc: amount })

export const FULL: Has = { key: 300n, parent: 300n, run_1: 300n, brk_acc: 300n, "brk_acc.key": 300n, acc: 300n }

/** A ledger whose commits end when the test says so, and a disk of withdrawals; both say what they were told. */
export function withdrawing(kept: readonly Settlement[]) {
  const said: string[] = []
  const sent: Settlement[] = []
  const ends: ((committed: Committed) => void)[] = []
  const clock = new VirtualClock()
  const actor = new Actor<LedgerCommand>(runtimeOn(clock), {
    name: "ledger",
    mailboxLimit: 10,
    supervise: () => "stop",
    start: (self) =>
      new Ledger({
        clock,
        self: (command) => void self.tell(command),
        failed: () => {},
        store: {
          commit: ({ settlements }) => {
            const { promise, resolve } = Promise.withResolvers<Committed>()
            ends.push(resolve)
            sent.push(...settlements)
            said.push(...settlements.map(({ opening, voided }) => `${voided ? "void" : "settle"} ${opening.requestId}`))
            return promise
          },
        },
      }),
  })
  const withdrawals = {
    kept: async () => kept,
    keep: async ({ opening }: Settlement) => void said.push(`keep ${opening.requestId}`),
    forget: (requestId: string) => void said.push(`forget ${requestId}`),
  }
  const committed = async () => {
    ends.at(-1)?.({ fenced: [], locked: [] })
    await flush()
  }
  return {
    actors: { ledger: new LedgerActor(actor, 1_000) } as Actors,
    withdrawals,
    said,
    settlements: sent,
    committed,
    clock,
  }
}
