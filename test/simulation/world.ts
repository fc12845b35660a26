/**
 * One simulated world: gateway processes on one database, backends, clients, and what befalls them, all under virtual time
 * and from one seed. After so many steps the faults stop, everything must come to rest, and what must hold is checked.
 */
import { sleep } from "../../actors/kernel/clock.ts"
import type { HoldReply } from "../../actors/account.ts"
import { micro, zero } from "../../actors/money/micro.ts"
import type { Catalogue, PriceVersion } from "../../src/catalogue/model.ts"
import { hashApiKey } from "../../src/accounts/api-key.ts"
import { callOnce, type CallStory, CRASH_AFTER_MS } from "./client.ts"
import { SimulatedDatabase } from "./database.ts"
import { SimulatedDisk } from "./disk.ts"
import { toldOf, violations } from "./invariants.ts"
import { brokenPromises } from "./promises.ts"
import type { Fault } from "./faults.ts"
import type { Plan, PlannedCall, PlannedEvent } from "./plan.ts"
import { SimulatedProcess } from "./process.ts"
import { accounts, dearer, keys, models, rates } from "./shop.ts"
import { Stage } from "./stage.ts"

export interface Result {
  readonly seed: number
  /** The same for the same plan, whatever ran before and wherever. */
  readonly hash: string
  readonly steps: number
  readonly virtualMs: number
  readonly calls: number
  readonly counts: ReadonlyMap<string, number>
  readonly violations: readonly string[]
  readonly trace: readonly string[] | undefined
}

const hashOf = (secret: string): string => Buffer.from(hashApiKey(secret)).toString("hex")

/** How long everything may take to come to rest: the longest of the waits that a call has, twice over. */
const REST_MS = 120_000
/** Steps between two looks at the books while all is under way. */
const CHECKED_EVERY = 100
/** When each model's price versions begin; each costs more than the one before. */
const PRICES_AFTER_MS = [0, 3_000, 9_000]
/** How long until a dead process is closed: the server has to see that it is gone, and a living one to look. */
const SUCCESSION_MS = 15_000

export function simulate(plan: Plan, keepTrace = false): Result {
  const world = new World(plan, keepTrace)
  world.run()
  return world.result()
}

class World {
  readonly #plan: Plan
  readonly #stage: Stage
  readonly #database: SimulatedDatabase
  readonly #disk: SimulatedDisk
  readonly #processes: SimulatedProcess[] = []
  readonly #all: SimulatedProcess[] = []
  readonly #stories: CallStory[] = []
  #catalogue: Catalogue | undefined
  #requests = 0
  #waiting = 0
  #replacing = 0
  #eventsLeft: number

  constructor(plan: Plan, keepTrace: boolean) {
    this.#plan = plan
    this.#stage = new Stage(plan, keepTrace)
    this.#database = new SimulatedDatabase(this.#stage)
    this.#disk = new SimulatedDisk(this.#stage)
    this.#eventsLeft = plan.events.length
  }

  run(): void {
    const stage = this.#stage
    this.#do(this.#open())
    for (let number = 0; number < this.#plan.processes; number++) this.#startProcess(number)
    void this.#happen()
    stage.settle()
    while (stage.steps < this.#plan.steps && (this.#eventsLeft > 0 || this.#busy) && stage.step())
      if (stage.steps % CHECKED_EVERY === 0) this.#do(this.#checkBooks(false))
    this.#rest()
  }

  result(): Result {
    const { steps, hash, counts, violations, lines } = this.#stage
    return {
      seed: this.#plan.seed,
      hash,
      steps,
      virtualMs: this.#stage.clock.monotonic(),
      calls: this.#stories.length,
      counts,
      violations,
      trace: lines,
    }
  }

  /** Clients that are not told yet, and calls that go on without theirs. */
  get #busy(): boolean {
    return (
      this.#waiting > 0 ||
      this.#stories.some(({ told }) => told === undefined) ||
      this.#all.some(({ alive, calls, gateway }) => alive && calls + (gateway?.ports.underWay.size ?? 0) > 0)
    )
  }

  // ---- What there is at the beginning ----

  async #open(): Promise<void> {
    const { books } = this.#database
    const prices: PriceVersion[] = []
    for (const { id } of models) {
      for (const [version, afterMs] of PRICES_AFTER_MS.entries()) {
        const of = dearer(rates[id]!, version)
        const effectiveAt = afterMs === 0 ? 0 : this.#stage.clock.now() + afterMs
        prices.push({ id: await books.addPrice(id, of, effectiveAt), model: id, rates: of, effectiveAt })
      }
    }
    this.#catalogue = { models, prices, aliases: [] }
    for (const { accountId, micro: amount } of accounts) {
      await books.createAccount(accountId, "Asia/Jakarta")
      await this.#credit(`top_${accountId}`, accountId, amount)
    }
    for (const { secret, budget, ...key } of keys) {
      const keyHash = hashOf(secret)
      await books.createKey({
        ...key,
        keyHash,
        ...(budget && { budget: { limit: micro(budget.limit), period: budget.period } }),
      })
    }
  }

  async #credit(topUpId: string, accountId: string, amount: bigint): Promise<void> {
    if (amount === 0n) return
    const { books } = this.#database
    await books.createTopUp({ topUpId, accountId, balancePurchased: micro(amount), serviceFee: zero })
    await books.credit(topUpId, `topup:simulated:${topUpId}`)
  }

  #process(id: string): SimulatedProcess {
    const parts = { stage: this.#stage, database: this.#database, disk: this.#disk, catalogue: this.#catalogue! }
    return new SimulatedProcess(parts, id)
  }

  #startProcess(number: number): void {
    const id = `prc_${this.#all.length}`
    const process = this.#process(id)
    this.#all.push(process)
    this.#processes[number] = process
    void this.#startAgain(process, number)
  }

  /** Whoever runs processes starts another one when one has crashed. */
  async #startAgain(process: SimulatedProcess, number: number): Promise<void> {
    await process.gone
    if (!process.crashed) return
    await sleep(this.#stage.clock, 10 + this.#stage.delay(3_000))
    if (this.#processes[number] === process && !this.#stage.calm) this.#startProcess(number)
  }

  // ---- What happens ----

  async #happen(): Promise<void> {
    for (const [index, event] of this.#plan.events.entries()) {
      if (event.afterMs > 0) await sleep(this.#stage.clock, event.afterMs)
      if (this.#stage.calm) return
      this.#eventsLeft = this.#plan.events.length - index - 1
      this.#begin(event, index)
    }
  }

  #begin(event: PlannedEvent, index: number): void {
    const stage = this.#stage
    const { books } = this.#database
    if (event.type !== "call") stage.trace(event.type)
    switch (event.type) {
      case "call":
        return void this.#call(event)
      case "crash":
        stage.count("process crashes")
        return this.#processes[event.process]?.crash()
      case "replace":
        stage.count("process is replaced by a new one")
        return void this.#replace(event.process)
      case "lose-lock":
        stage.count("process loses its session lock")
        return this.#processes[event.process]?.loseLock()
      case "poison": {
        stage.count("actor crashes")
        const { secret, accountId } = keys[event.key]!
        return this.#processes[event.process]?.poison(event.kind, event.kind === "key" ? hashOf(secret) : accountId)
      }
      case "deafen":
        stage.count("process is deaf to its neighbours")
        return this.#processes[event.process]?.deafen(event.forMs)
      case "outage":
        stage.count("database is away")
        return this.#database.goAway(event.forMs)
      case "jump":
        stage.count("wall clock jumps")
        return stage.clock.shiftWall(event.byMs)
      case "revoke":
        stage.count("key is revoked")
        return this.#tell(books.revokeKey(keys[event.key]!.keyId))
      case "budget": {
        stage.count("budget is changed")
        const period = (["daily", "monthly", "total"] as const)[event.period]!
        const budget = event.micro === undefined ? undefined : { limit: micro(BigInt(event.micro)), period }
        return this.#tell(books.changeBudget(keys[event.key]!.keyId, budget))
      }
      case "top-up": {
        stage.count("top-up")
        const { accountId } = accounts[event.account]!
        this.#tell(this.#credit(`top_${index}`, accountId, BigInt(event.micro)))
        if (!event.twice) return
        stage.count("top-up is told twice")
        stage.clock.after(stage.delay(2_000), () =>
          this.#tell(this.#credit(`top_${index}`, accountId, BigInt(event.micro))),
        )
      }
    }
  }

  /** What was done reaches the database whatever befalls the processes: it is somebody else's. */
  #tell(done: Promise<void>): void {
    void done.then(() => this.#database.done())
  }

  /** A rolling deploy: the old one drains once the new one serves. */
  async #replace(number: number): Promise<void> {
    const old = this.#processes[number]
    if (old?.serving !== true) return
    this.#replacing++
    this.#startProcess(number)
    const next = this.#processes[number]!
    while (!next.serving && next.alive) await sleep(this.#stage.clock, 20)
    await Promise.race([old.stop(), old.gone])
    this.#replacing--
  }

  async #call(planned: PlannedCall): Promise<void> {
    const stage = this.#stage
    this.#waiting++
    for (let tries = 1; ; tries++) {
      const serving = this.#all.filter((process) => process.serving)
      const process = serving[Math.floor(stage.random() * serving.length)]
      if (process === undefined) {
        if (tries > 20 || stage.calm) break
        stage.count("no process takes the call")
        await sleep(stage.clock, 50 + stage.delay(500))
        continue
      }
      const story: CallStory = {
        requestId: `req_${++this.#requests}`,
        planned,
        process,
        told: undefined,
        sawHead: false,
      }
      this.#stories.push(story)
      await callOnce(stage, story)
      const again = planned.manners === "client calls again after a failure" && tries < 3 && !stage.calm
      const { told } = story as { told: CallStory["told"] }
      if (!again || told?.kind !== "failure" || !told.retryable) break
      stage.count("client calls again after a failure")
      await sleep(stage.clock, stage.delay(2_000))
    }
    this.#waiting--
  }

  // ---- How it ends ----

  #rest(): void {
    const stage = this.#stage
    stage.stopFaults()
    stage.trace("faults stop")
    this.#database.comeBack()
    if (!this.#until(() => !this.#busy, REST_MS)) {
      const open = this.#stories.filter(({ told }) => told === undefined).map(({ requestId }) => requestId)
      const underWay = this.#processes.flatMap(({ gateway }) => [...(gateway?.ports.underWay.keys() ?? [])])
      stage.violate(`no rest within ${REST_MS} ms: untold ${open.join(" ")}; under way ${underWay.join(" ")}`)
      return
    }
    // A crash that was to come just after an answer comes now.
    this.#until(() => false, CRASH_AFTER_MS)
    this.#do(this.#checkSuccession())
    for (const process of this.#all) if (process.serving) this.#do(this.#checkIdle(process))
    this.#do(this.#checkSpendable())
    for (const process of this.#all) void process.stop()
    if (!this.#until(() => this.#all.every(({ alive }) => !alive), REST_MS)) {
      const left = this.#all.filter(({ alive }) => alive).map(({ id }) => id)
      return stage.violate(`processes do not stop: ${left.join(" ")}`)
    }
    const auditor = this.#process("prc_auditor")
    this.#until(() => auditor.serving, REST_MS)
    this.#do(this.#audit())
  }

  /** Who is starting or stopping has done so; who is gone is closed by one who lives, and who is closed has seen it. */
  async #checkSuccession(): Promise<void> {
    const { clock } = this.#stage
    const until = clock.monotonic() + SUCCESSION_MS
    for (;;) {
      const restless = await this.#restless()
      if (restless.length === 0) return
      // With nobody there who could close them they are the auditor's to close, once the server knows.
      if (this.#all.every(({ alive }) => !alive)) return await sleep(clock, SUCCESSION_MS)
      if (clock.monotonic() > until)
        return this.#stage.violate(`not at rest after ${SUCCESSION_MS} ms: ${restless.join(", ")}`)
      await sleep(clock, 200)
    }
  }

  async #restless(): Promise<string[]> {
    if (this.#replacing > 0) return ["a process is being replaced"]
    if (this.#database.onTheirWay > 0) return ["a statement is on its way"]
    const { processes, openings, leases, budgetLeases } = await this.#database.books.dump()
    const left = [...openings, ...budgetLeases, ...leases.filter((lease) => !lease.closed)]
    const open = new Set(left.map(({ processId }) => processId))
    const closed = new Map(processes.map((row) => [row.processId, row.closed]))
    return this.#all.flatMap(({ id, alive, serving, missed, locked }) => {
      if (!missed) return [`${id} is gone and not missed`]
      if (alive && closed.get(id) === true) return [`${id} was closed and does not know it`]
      if (alive && !locked) return [`${id} has lost its lock and not taken it again`]
      if (alive && !serving) return [`${id} neither serves nor is gone`]
      return !alive && (closed.get(id) === false || open.has(id)) ? [`${id} is gone and was not closed`] : []
    })
  }

  /** Nothing is held, nobody waits. */
  async #checkIdle({ id, gateway }: SimulatedProcess): Promise<void> {
    if (gateway === undefined) return
    const { actors } = gateway.ports
    const gate = await actors.gate.ask<{ taken: number; waiting: number }>((reply) => ({ type: "view", reply }), 1_000)
    if (gate.kind !== "ok" || gate.value.taken > 0 || gate.value.waiting > 0)
      this.#stage.violate(`at rest the gate of ${id} is not empty: ${JSON.stringify(gate)}`)
    for (const model of models) {
      const slots = await actors.models.ask<{ taken: number; waiting: number }>(model.id, (reply) => ({
        type: "view",
        reply,
      }))
      if (slots.kind !== "ok" || slots.value.taken > 0 || slots.value.waiting > 0)
        this.#stage.violate(`at rest the slots of ${model.id} in ${id} are not empty: ${JSON.stringify(slots)}`)
    }
    const used = new Set(
      this.#stories.filter(({ process }) => process.id === id).map(({ planned }) => keys[planned.key]!.accountId),
    )
    for (const accountId of used) {
      const look = () => actors.accounts.ask<{ held: bigint }>(accountId, (reply) => ({ type: "view", reply }))
      let view = await look()
      // A start that fails refuses everyone who waits, and the next ask starts anew.
      for (let tries = 1; view.kind === "refused" && tries < 5; tries++) {
        await sleep(this.#stage.clock, 500)
        view = await look()
      }
      if (view.kind !== "ok")
        this.#stage.violate(`at rest ${accountId} of ${id} does not answer: ${view.kind} ${view.reason}`)
      else if (view.value.held !== 0n)
        this.#stage.violate(`at rest ${view.value.held} is held of ${accountId} in ${id}`)
    }
  }

  /** All that is left of an account can be held by one call, whoever leased it before. */
  async #checkSpendable(): Promise<void> {
    const { balances } = await this.#database.books.dump()
    const process = this.#all.find(({ serving }) => serving)
    const accountsOf = process?.gateway?.ports.actors.accounts
    if (accountsOf === undefined) return
    for (const { accountId, posted } of balances) {
      if (posted <= 0n) continue
      const requestId = `last_${accountId}`
      const terms = { requestId, least: micro(posted), target: micro(posted) }
      for (let tries = 1; ; tries++) {
        const held = await accountsOf.ask<HoldReply>(accountId, (reply) => ({ type: "hold", terms, reply }))
        if (held.kind === "ok" && held.value.kind === "held") break
        const answer = held.kind === "ok" ? held.value.kind : held.reason
        if (tries === 5) return this.#stage.violate(`the last ${posted} of ${accountId} cannot be held: ${answer}`)
        await sleep(this.#stage.clock, 500)
      }
      accountsOf.tellIfActive(accountId, { type: "release", requestId })
    }
  }

  /** What is left can be spent to the last rupiah, and the books are as they must be. */
  async #audit(): Promise<void> {
    const { books } = this.#database
    await this.#checkBooks(true)
    const before = await books.dump()
    for (const { accountId, posted, leased } of before.balances) {
      if (leased !== 0n) this.#stage.violate(`with all processes stopped ${leased} of ${accountId} is leased`)
      const grown = await books.growLease("prc_auditor", accountId, micro(posted), 0)
      const free = grown === undefined ? undefined : grown.lease.granted
      if (free !== posted) this.#stage.violate(`of the ${posted} of ${accountId} only ${free} can be spent`)
    }
    const { said, counts } = this.#stage
    const holdsLast = !counts.has("actor crashes" satisfies Fault)
    for (const broken of brokenPromises(before, this.#stories, { said, holdsLast })) this.#stage.violate(broken)
  }

  async #checkBooks(quiet: boolean): Promise<void> {
    const limitsStay = !this.#plan.events.some(({ type }) => type === "budget")
    for (const found of violations(await this.#database.books.dump(), { quiet, limitsStay }))
      this.#stage.violate(toldOf(found))
  }

  #until(done: () => boolean, withinMs: number): boolean {
    const until = this.#stage.clock.monotonic() + withinMs
    while (!done()) if (this.#stage.clock.monotonic() >= until || !this.#stage.step()) return false
    return true
  }

  /** Runs what needs no more than a while. */
  #do(work: Promise<void>): void {
    let ended = false
    work.then(
      () => (ended = true),
      (error: unknown) => {
        ended = true
        this.#stage.violate(`the simulation itself failed: ${error instanceof Error ? error.stack : String(error)}`)
      },
    )
    this.#stage.settle()
    this.#until(() => ended, REST_MS)
  }
}
