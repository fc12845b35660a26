/**
 * A small gateway under a seed: callers that hold, call and settle as the real ones do (src/gateway/admit, settle), on
 * the real actors, with a store that is slow, fails, and sometimes commits without saying so. Time, turns and faults come
 * from the seed alone, so a failing seed fails again.
 */
import { Account, type AccountCommand, type AccountView, type Charged, type HoldReply } from "../../actors/account.ts"
import { Actor, type Outcome } from "../../actors/kernel/actor.ts"
import type { Random } from "../../actors/kernel/random.ts"
import { Registry } from "../../actors/kernel/registry.ts"
import { Key, type KeyCommand, type KeyRecord, type KeyView, type ReserveReply } from "../../actors/key.ts"
import { type Batch, Ledger, type LedgerCommand, type LedgerView, type Settlement } from "../../actors/ledger.ts"
import { type Micro, micro, zero } from "../../actors/money/micro.ts"
import { noTokens } from "../../actors/money/tokens.ts"
import { calendarAt } from "../../actors/period.ts"
import { type AcquireReply, Slots, type SlotsCommand, type SlotsView } from "../../actors/slots.ts"
import { flush, type World, world } from "../kernel/world.ts"

const ACCOUNTS = ["rich", "poor"]
const GRANTED: Readonly<Record<string, bigint>> = { rich: 100_000n, poor: 900n }
const BUDGET = 4_000n
const CAP = 3
const CALLS = 24
const DEADLINE_MS = 400

/** What is durable: charges by request id, as the database has them. */
class ModelStore {
  readonly charges = new Map<string, bigint>()
  readonly opened = new Set<string>()
  readonly #world: World
  constructor(on: World) {
    this.#world = on
  }

  /** Commits late or never, and fails whether or not it has committed. */
  commit(batch: Batch): Promise<void> {
    const { clock, random } = this.#world
    const fate = random()
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    clock.after(random() * (fate < 0.1 ? 600 : 30), () => {
      if (fate > 0.15) this.#apply(batch)
      if (fate > 0.3) resolve()
      else reject(new Error("cut"))
    })
    return promise
  }

  #apply({ openings, settlements }: Batch): void {
    for (const { requestId } of openings) this.opened.add(requestId)
    for (const { opening, records, voided } of settlements) {
      if (voided) this.charges.set(opening.requestId, 0n)
      else if (!this.charges.has(opening.requestId)) this.charges.set(opening.requestId, records[0].charge)
    }
  }
  settledBy(accountId: string): bigint {
    let sum = 0n
    for (const [requestId, charge] of this.charges) if (requestId.startsWith(accountId)) sum += charge
    return sum
  }
}

export interface SimulationResult {
  readonly trace: string
  /** What did not hold, in words. */
  readonly violations: readonly string[]
  readonly ended: ReadonlyMap<string, number>
  readonly kinds: ReadonlySet<string>
}

export async function simulate(seed: number): Promise<SimulationResult> {
  const on = world(seed)
  const simulation = new Simulation(on)
  await simulation.run()
  return simulation.result()
}

class Simulation {
  readonly #on: World
  readonly #random: Random
  readonly #store: ModelStore
  readonly #ledger: Actor<LedgerCommand>
  readonly #slots: Actor<SlotsCommand>
  readonly #keys: Registry<KeyCommand>
  readonly #accounts: Registry<AccountCommand>
  readonly #trace: string[] = []
  readonly #violations: string[] = []
  readonly #ended = new Map<string, number>()
  readonly #kinds = new Set<string>()
  readonly #told = new Map<string, bigint>()
  readonly #costs = new Map<string, { readonly actual: bigint; readonly absorbed: bigint }>()
  #inside = 0

  constructor(on: World) {
    this.#on = on
    this.#random = on.random
    this.#store = new ModelStore(on)
    const always = { mailboxLimit: 12, supervise: () => "stop" as const }
    this.#ledger = new Actor<LedgerCommand>(on, {
      ...always,
      name: "ledger",
      start: (self) =>
        new Ledger({ clock: on.clock, store: this.#store, self: (command) => self.tell(command), failed: () => {} }),
    })
    this.#slots = new Actor<SlotsCommand>(on, {
      ...always,
      name: "slots",
      start: (self) => new Slots(on.clock, (command) => self.tell(command), CAP),
    })
    const common = { mailboxLimit: 6, askDeadlineMs: 100, idleMs: 120_000, intensity: { restarts: 0, withinMs: 1 } }
    this.#accounts = new Registry<AccountCommand>(on, {
      ...common,
      kind: "account",
      start: async (id, tell) => {
        await this.#pause(20)
        const lease = () => ({ id: 1n, granted: micro(GRANTED[id] ?? 0n), settled: micro(this.#store.settledBy(id)) })
        const grow = () =>
          void this.#pause(20).then(() =>
            tell(this.#random() < 0.2 ? { type: "lease-not-grown" } : { type: "lease-grown", lease: lease() }),
          )
        return new Account({ clock: on.clock, growLease: grow }, lease())
      },
    })
    this.#keys = new Registry<KeyCommand>(on, {
      ...common,
      kind: "key",
      start: async (id, self) => {
        await this.#pause(20)
        const { starts } = calendarAt(on.clock.now(), "Asia/Jakarta")
        const loaded = { record: record(id), starts, spent: { daily: zero, monthly: zero, total: zero } }
        return new Key({ clock: on.clock, self, load: () => self({ type: "loaded", loaded }) }, loaded)
      },
    })
  }

  #pause(maxMs: number): Promise<void> {
    return new Promise((resolve) => this.#on.clock.after(this.#random() * maxMs, resolve))
  }

  async run(): Promise<void> {
    let running = CALLS
    for (let call = 0; call < CALLS; call++) {
      const account = ACCOUNTS[call % ACCOUNTS.length] ?? ""
      void this.#call(account, `${account}-${call}`).then(() => running--)
    }
    // Turns and timers in an order drawn from the seed, until everyone has ended and everything is written.
    for (let step = 0; running > 0 || !(await this.#written()); step++) {
      if (step > 100_000) throw new Error("does not come to rest")
      await flush()
      if (this.#random() < 0.8 && this.#on.scheduler.step()) continue
      if (!this.#on.clock.runNext()) throw new Error("nothing will ever happen")
    }
    this.#on.scheduler.drain()
    await this.#check()
  }

  async #written(): Promise<boolean> {
    await flush()
    const view = await this.#look<LedgerView>(this.#ledger, (reply) => ({ type: "view", reply }))
    return view.backlog === 0 && view.lagMs === 0
  }

  /** Asks outside of the story: every turn that is ready is taken until the answer is there. */
  async #look<T>(actor: { insist: Actor<never>["insist"] } | Actor<never>, make: unknown): Promise<T>
  async #look<T>(actor: Actor<never>, make: never): Promise<T> {
    const asked = actor.insist<T>(make, 1_000_000)
    this.#on.scheduler.drain()
    const outcome = await asked
    if (outcome.kind !== "ok") throw new Error(`no view: ${outcome.kind}`)
    return outcome.value
  }
}
