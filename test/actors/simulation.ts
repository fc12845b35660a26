/**
 * A small gateway under a seed: callers that hold, call and settle as the real ones do (src/gateway/admit, settle), on
 * the real actors, with a store that is slow, fails, and sometimes commits without saying so. Time, turns and faults come
 * from the seed alone, so a failing seed fails again.
 */
import { Account, type AccountCommand, type AccountView, type Charged, type HoldReply } from "../../actors/account.ts"
import { Actor, type Outcome, type MaybePromise, type Reply } from "../../actors/kernel/actor.ts"
import type { Random } from "../../actors/kernel/clock.ts"
import { Registry } from "../../actors/kernel/registry.ts"
import { Key } from "../../actors/key.ts"
import type { KeyCommand, KeyRecord, KeyView, ReserveReply } from "../../actors/key-record.ts"
import {
  type Batch,
  type Committed,
  Ledger,
  type LedgerCommand,
  type LedgerView,
  type Settled,
  type Settlement,
} from "../../actors/ledger.ts"
import type { Budget } from "../../actors/key-limits.ts"
import { type LeaseDriver, type LeaseNews, type VersionedLease, whole } from "../../actors/lease.ts"
import { type Micro, micro, minus, smaller, zero } from "../../actors/money/micro.ts"
import { noTokens } from "../../actors/money/price.ts"
import { calendarAt } from "../../actors/period.ts"
import { type AcquireReply, Slots, type SlotsCommand, type SlotsView } from "../../actors/slots.ts"
import { flush, insist, insistOn, type World, world } from "../kernel/world.ts"

const ACCOUNTS = ["rich", "poor"]
const GRANTED: Readonly<Record<string, bigint>> = { rich: 100_000n, poor: 900n }
const BUDGET = 1_000n
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
  commit(batch: Batch): Promise<Committed> {
    const { clock, random } = this.#world
    const fate = random()
    const { promise, resolve, reject } = Promise.withResolvers<Committed>()
    clock.after(random() * (fate < 0.1 ? 600 : 30), () => {
      if (fate > 0.15) this.#apply(batch)
      if (fate > 0.3) resolve({ fenced: [], locked: [] })
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
        const lease = (version: number) => this.#lease(GRANTED[id] ?? 0n, id, version)
        const self = (news: LeaseNews) => tell({ type: "lease", news })
        const grow = (_: Micro, version: number) =>
          void this.#pause(20).then(() =>
            self(
              this.#random() < 0.2 ? { type: "not-grown" } : { type: "grown", lease: lease(version + 1), more: false },
            ),
          )
        return new Account({ clock: on.clock, self, grow, giveBack: () => {} }, { id: 1n, ...lease(0) }, false)
      },
    })
    this.#keys = new Registry<KeyCommand>(on, {
      ...common,
      kind: "key",
      start: async (id, self) => {
        await this.#pause(20)
        const { starts } = calendarAt(on.clock.now(), "Asia/Jakarta")
        const account = id.slice("key-".length)
        const total = micro(this.#store.settledBy(account))
        const loaded = { record: record(id), starts, spent: { daily: zero, monthly: zero, total } }
        const load = () => self({ type: "loaded", loaded })
        const grown = (version: number): LeaseNews =>
          this.#random() < 0.2
            ? { type: "not-grown" }
            : { type: "grown", lease: this.#lease(BUDGET, account, version + 1), more: false, elsewhere: zero }
        const driverOf = (budget: Budget): LeaseDriver => ({
          grow: (_, version) => void this.#pause(20).then(() => self({ type: "budget", budget, news: grown(version) })),
          giveBack: () => {},
        })
        return new Key({ clock: on.clock, self, load, driverOf }, loaded, whole)
      },
    })
  }

  #lease(granted: bigint, account: string, version: number): VersionedLease {
    return { granted: micro(granted), returned: zero, settled: micro(this.#store.settledBy(account)), version }
  }

  #pause(maxMs: number): Promise<void> {
    return new Promise((resolve) => this.#on.clock.after(this.#random() * maxMs, resolve))
  }

  async run(): Promise<void> {
    for (let call = 0; call < CALLS; call++) {
      const account = ACCOUNTS[call % ACCOUNTS.length] ?? ""
      void this.#call(account, `${account}-${call}`)
    }
    // Turns and timers in an order drawn from the seed, until everyone has ended and everything is written.
    for (let step = 0; this.#ended.size < CALLS || !(await this.#written()); step++) {
      if (step > 100_000) throw new Error("does not come to rest")
      await flush()
      if (this.#random() < 0.8 && this.#on.scheduler.step()) continue
      this.#on.clock.runNext()
    }
    await this.#check()
  }

  async #written(): Promise<boolean> {
    const { backlog, lagMs } = await this.#look(insist(this.#ledger, viewLedger, DEADLINE_MS))
    return backlog === 0 && lagMs === 0
  }

  /** Waits for an answer outside of the story: everyone takes the turns that are ready, then time moves on. */
  async #look<T>(asked: MaybePromise<Outcome<T>>): Promise<T> {
    const heard: Outcome<T>[] = []
    void Promise.resolve(asked).then((ended) => heard.push(ended))
    for (await flush(); heard.length === 0; await flush()) if (!this.#on.scheduler.step()) this.#on.clock.runNext()
    const outcome = await asked
    if (outcome.kind !== "ok") throw new Error("not to be seen", { cause: outcome })
    return outcome.value
  }

  /** One call's money, as src/gateway tells it. */
  async #call(account: string, requestId: string): Promise<void> {
    await this.#pause(200)
    const key = `key-${account}`
    const least = micro(BigInt(Math.floor(this.#random() * 50)))
    const worst = micro(least + BigInt(Math.floor(this.#random() * 400)))
    const giveUp = (kind: string) => {
      this.#accounts.tellIfActive(account, { type: "release", requestId })
      this.#keys.tellIfActive(key, { type: "release", requestId })
      this.#end(requestId, kind)
    }
    const reservation = { requestId, tokens: 1, least, worst }
    const reserved = await this.#keys.ask<ReserveReply>(key, (reply) => ({ type: "reserve", reservation, reply }))
    if (reserved.kind !== "ok" || reserved.value.kind !== "reserved") return giveUp(`key ${said(reserved)}`)
    const { starts, hold: budgeted } = reserved.value
    const terms = { requestId, least, target: budgeted ?? worst }
    const held = await this.#accounts.ask<HoldReply>(account, (reply) => ({ type: "hold", terms, reply }))
    if (held.kind !== "ok" || held.value.kind !== "held") return giveUp(`account ${said(held)}`)
    const { hold, leaseId } = held.value
    this.#keys.tellIfActive(key, { type: "trim", requestId, hold })
    const slot = await this.#slots.ask<AcquireReply>(
      (reply) => ({ type: "acquire", caller: { requestId, accountId: key, keyId: key }, waitMs: 60, reply }),
      100,
    )
    const free = () => this.#slots.tell({ type: "release", requestId })
    if (slot.kind !== "ok" || slot.value.kind !== "acquired") {
      free()
      return giveUp(`slots ${said(slot)}`)
    }
    this.#must(++this.#inside <= CAP, `${this.#inside} calls are in ${CAP} slots`)
    const common = { requestId, accountId: account, keyId: key, leaseId, hold, starts, priceId: 1n, openedAt: 0 }
    const opening = { ...common, model: "m", endpoint: "chat", streamed: false }
    void this.#open(opening)
    await this.#pause(300)

    const failed = this.#random() < 0.15
    const over = this.#random() < 0.2 ? 3 : 1
    const actual = failed ? zero : micro((hold * BigInt(Math.floor(this.#random() * 100)) * BigInt(over)) / 100n)
    const usage = { requestId, tokens: 1, actual, starts }
    const paid = await insistOn<Micro, KeyCommand>(this.#keys, key, (reply) => ({ type: "settle", usage, reply }))
    const payable = paid.kind === "ok" ? paid.value : smaller(actual, hold)
    if (paid.kind !== "ok") {
      this.#keys.tellIfActive(key, { type: "settle", usage: { ...usage, actual: payable }, reply: () => {} })
    }
    const settled = await insistOn<Charged, AccountCommand>(this.#accounts, account, (reply) => ({
      type: "settle",
      requestId,
      actual: payable,
      reply,
    }))
    if (settled.kind !== "ok") this.#accounts.tellIfActive(account, { type: "release", requestId })
    const charge = settled.kind === "ok" ? settled.value.charge : zero
    const absorbed = settled.kind === "ok" ? minus(actual, charge) : zero
    this.#must(charge >= 0n && absorbed >= 0n, `${requestId} is charged ${charge}, ${absorbed} absorbed`)
    this.#must(actual > hold || settled.kind !== "ok" || charge === actual, `${requestId} held ${hold} for ${actual}`)
    this.#keys.tellIfActive(key, { type: "unsettle", charge: minus(payable, charge), starts })
    this.#inside--
    free()

    const settlement = settlementOf(opening, charge, absorbed)
    const settle = (reply: Reply<Settled>) => ({ type: "settle" as const, settlement, reply })
    const durable = await insist(this.#ledger, settle, DEADLINE_MS)
    if (durable.kind === "ok") {
      this.#must(this.#store.charges.get(requestId) === charge, `${requestId} was told ${charge} before it was durable`)
      this.#told.set(requestId, charge)
      return this.#end(requestId, "charged")
    }
    this.#ledger.tell({ type: "void", settlement })
    if (settled.kind === "ok") this.#accounts.tellIfActive(account, { type: "unsettle", charged: settled.value })
    this.#keys.tellIfActive(key, { type: "unsettle", charge, starts })
    this.#told.set(requestId, 0n)
    this.#end(requestId, "voided")
  }

  async #open(opening: Settlement["opening"]): Promise<void> {
    const { requestId } = opening
    const opened = await this.#ledger.ask<"durable">((reply) => ({ type: "open", opening, reply }), DEADLINE_MS)
    const there = this.#store.opened.has(requestId) || this.#store.charges.has(requestId)
    this.#must(opened.kind !== "ok" || there, `${requestId} was told that its opening is durable`)
  }

  #end(requestId: string, kind: string): void {
    this.#ended.set(requestId, (this.#ended.get(requestId) ?? 0) + 1)
    this.#kinds.add(kind)
    this.#trace.push(`${this.#on.clock.monotonic()} ${requestId} ${kind} ${this.#told.get(requestId) ?? "-"}`)
  }

  #must(holds: boolean, otherwise: string): void {
    if (!holds) this.#violations.push(otherwise)
  }

  /** At rest: nothing held, nobody waiting, and purse, budget, store and what was told agree. */
  async #check(): Promise<void> {
    for (const account of ACCOUNTS) {
      const settled = this.#store.settledBy(account)
      const purse = await this.#look(
        insistOn<AccountView, AccountCommand>(this.#accounts, account, (reply) => ({ type: "view", reply })),
      )
      const left = (GRANTED[account] ?? 0n) - settled
      this.#must(purse.held === 0n, `${account} still holds ${purse.held}`)
      this.#must(purse.available === left && left >= 0n, `${account} has ${purse.available}, its books say ${left}`)
      const key = await this.#look(
        insistOn<KeyView, KeyCommand>(this.#keys, `key-${account}`, (reply) => ({ type: "view", reply })),
      )
      this.#must(key.budget?.usage === settled, `the key of ${account} used ${key.budget?.usage} of ${settled}`)
      this.#must(settled <= BUDGET, `the key of ${account} spent ${settled} of ${BUDGET}`)
    }
    const { taken, waiting } = await this.#look(
      insist<SlotsView, SlotsCommand>(this.#slots, (reply) => ({ type: "view", reply }), DEADLINE_MS),
    )
    this.#must(taken === 0 && waiting === 0, `${taken} slots are taken, ${waiting} wait`)
    for (const [requestId, charge] of this.#told) {
      const booked = this.#store.charges.get(requestId)
      this.#must(booked === charge, `${requestId} was told ${charge}, and ${booked} is booked`)
    }
    for (const requestId of this.#store.charges.keys())
      this.#must(this.#told.has(requestId), `${requestId} was charged and never told`)
    for (const [requestId, times] of this.#ended) this.#must(times === 1, `${requestId} ended ${times} times`)
    this.#must(this.#ended.size === CALLS, `${this.#ended.size} of ${CALLS} calls ended`)
    for (const actor of [...this.#on.crashes, ...this.#on.fatals]) this.#violations.push(`${actor} crashed`)
  }

  result(): SimulationResult {
    const trace = new Bun.CryptoHasher("sha256").update(this.#trace.join("\n")).digest("hex")
    return { trace, violations: this.#violations, kinds: this.#kinds }
  }
}

const viewLedger = (reply: Reply<LedgerView>) => ({ type: "view" as const, accountId: undefined, reply })

const said = (outcome: Outcome<{ readonly kind: string }>): string =>
  outcome.kind === "ok" ? outcome.value.kind : `${outcome.kind} ${outcome.reason}`

const record = (keyId: string): KeyRecord => ({
  keyId,
  accountId: keyId,
  revoked: false,
  accountDeleted: false,
  accountFrozen: false,
  timeZone: "Asia/Jakarta",
  requestsPerMinute: undefined,
  tokensPerMinute: undefined,
  budget: { limit: micro(BUDGET), period: "total" },
  fallback: "never_dearer",
})

const settlementOf = (opening: Settlement["opening"], charge: Micro, absorbed: Micro): Settlement => ({
  opening,
  records: [
    {
      part: 0,
      model: "m",
      priceId: 1n,
      status: "ok",
      tokens: noTokens,
      charge,
      absorbed,
      excess: zero,
      turns: 1,
      attempts: 1,
      errorCode: undefined,
      flagged: false,
      firstTokenMs: undefined,
      durationMs: 1,
      member: undefined,
      cost: undefined,
    },
  ],
  voided: false,
})
