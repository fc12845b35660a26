/**
 * One simulated world: gateway processes on one database, backends, clients, and what befalls them, all under virtual time
 * and from one seed. After so many steps the faults stop, everything must come to rest, and what must hold is checked.
 */
import { runIdOf } from "../../src/gateway/runs.ts"
import { sleep } from "../../actors/kernel/clock.ts"
import { micro, zero } from "../../actors/money/micro.ts"
import type { Catalogue, PriceVersion } from "../../src/catalogue/model.ts"
import { purseOf } from "../../src/store/breakers.ts"
import { type BoundKey, recordOf, unbound } from "./promises-of-bindings.ts"
import { callOnce, type CallStory, CRASH_AFTER_MS, isMissing } from "./client.ts"
import { SimulatedDatabase } from "./database.ts"
import { SimulatedDisk } from "./disk.ts"
import { askDryly, checkForetold } from "./foretold.ts"
import type { Plan, PlannedBound, PlannedCall, PlannedCeiling, PlannedEvent } from "./plan.ts"
import { SimulatedProcess } from "./process.ts"
import {
  audit,
  awaitSuccession,
  checkBooks,
  checkBudgets,
  checkCeilings,
  checkIdle,
  checkSpendable,
  checkUnread,
  type Scene,
} from "./rest.ts"
import { accounts, dearer, hashOf, keys, models, rates, zones } from "./shop.ts"
import { costTerms } from "./shop-costs.ts"
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

/** How long everything may take to come to rest: the longest of the waits that a call has, twice over. */
const REST_MS = 120_000
/** How long it may take until what the database said was read, with a lost statement or two. */
const HEARD_MS = 10_000
/** Of one call with a key. */
const MAX_REPEATS = 3
/** Of one that an SDK makes. */
const MAX_RETRIES = 3
/** Steps between two looks at the books while all is under way. */
const CHECKED_EVERY = 100
/** When each model's price versions begin; each costs more than the one before. */
const PRICES_AFTER_MS = [0, 3_000, 9_000]

const ownerOfCeiling = ({ account, key }: PlannedCeiling): [accountId: string, keyId: string | undefined] => [
  accounts[account]!.accountId,
  key === undefined ? undefined : keys[key]!.keyId,
]

interface Terms {
  readonly keepTrace?: boolean
  /** It is known what backends cost, which no customer may notice. */
  readonly hasCosts?: boolean
}

export function simulate(plan: Plan, { keepTrace = false, hasCosts = true }: Terms = {}): Result {
  const world = new World(plan, keepTrace, hasCosts)
  world.run()
  return world.result()
}

class World {
  readonly #plan: Plan
  readonly #hasCosts: boolean
  readonly #stage: Stage
  readonly #database: SimulatedDatabase
  readonly #disk: SimulatedDisk
  readonly #processes: SimulatedProcess[] = []
  readonly #all: SimulatedProcess[] = []
  readonly #stories: CallStory[] = []
  /** What each key was bound to, one after the other. */
  readonly #bounds = new Map<number, readonly BoundKey[]>()
  #catalogue: Catalogue | undefined
  #movedAt = -Infinity
  #requests = 0
  #waiting = 0
  #replacing = 0
  #eventsLeft: number

  constructor(plan: Plan, keepTrace: boolean, hasCosts: boolean) {
    this.#plan = plan
    this.#hasCosts = hasCosts
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
      if (stage.steps % CHECKED_EVERY === 0) this.#look()
    this.#rest()
  }

  #look(): void {
    this.#do(checkBooks(this.#scene, false))
    checkUnread(this.#scene)
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

  get #scene(): Scene {
    return {
      stage: this.#stage,
      database: this.#database,
      processes: this.#all,
      stories: this.#stories,
      costs: this.#catalogue!,
      bounds: this.#bounds,
      limitsStay: !this.#plan.events.some(({ type }) => type === "budget"),
      clockGoesOn: !this.#plan.events.some(({ type }) => type === "jump"),
      isReplacing: () => this.#replacing > 0,
    }
  }

  /** Clients that are not told yet, or are gone and not missed, and calls that go on without theirs. */
  get #busy(): boolean {
    return (
      this.#waiting > 0 ||
      this.#stories.some((story) => story.told === undefined || isMissing(story)) ||
      this.#all.some(({ alive, calls, gateway }) => alive && calls + (gateway?.ports.inFlight.size ?? 0) > 0)
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
    const terms = this.#hasCosts ? costTerms(this.#stage.clock.now()) : { costs: [], exchangeRates: [] }
    this.#catalogue = { models, prices, aliases: [], members: [], ...terms }
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
    await this.#setCeilings()
    for (const bound of this.#plan.bounds) await this.#bind(bound, [])
  }

  /** From now on, as processes hear of it. */
  async #bind(planned: PlannedBound, before = this.#bounds.get(planned.key) ?? [unbound]): Promise<void> {
    const { key, expiresInMs } = planned
    const expiresAt = expiresInMs === undefined ? undefined : this.#stage.clock.now() + expiresInMs
    if (expiresAt !== undefined) this.#stage.count("key expires")
    const bound: BoundKey = { ...planned, expiresAt }
    this.#bounds.set(key, [...before, bound])
    await this.#database.books.bindKey(keys[key]!.keyId, recordOf(bound))
  }

  async #setCeilings(): Promise<void> {
    for (const ceiling of this.#plan.ceilings) {
      const { micro: amount, pauseMinutes } = ceiling
      const breaker = { ceilingMicro: micro(BigInt(amount)), stops: true, pauseMinutes }
      await this.#database.books.setBreaker(...ownerOfCeiling(ceiling), breaker)
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
        if (event.sdk !== undefined) return void this.#callOfSdk(event)
        return void (event.keyed === undefined ? this.#call(event) : this.#callKeyed(event))
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
        const { secret, accountId, keyId } = keys[event.key]!
        const run = runIdOf(keyId, `r${event.key % 3}`)
        const id = { key: hashOf(secret), account: accountId, run, breaker: purseOf(accountId, keyId) }[event.kind]
        return this.#processes[event.process]?.poison(event.kind, id)
      }
      case "deafen":
        stage.count("process is deaf to its neighbours")
        return this.#processes[event.process]?.deafen(event.forMs)
      case "stand":
        stage.count("process stands still")
        return this.#processes[event.process]?.stand(event.forMs, event.losesLock)
      case "outage":
        stage.count("database is away")
        return this.#database.goAway(event.forMs)
      case "jump":
        stage.count("wall clock jumps")
        return stage.clock.shiftWall(event.byMs)
      case "day":
        if (!this.#isHeard) return
        stage.count("a day goes by")
        return stage.clock.shiftWall(event.byMs)
      case "minutes":
        stage.count("minutes go by")
        return this.#database.minutesGoBy(event.byMs)
      case "resume": {
        const ceiling = this.#plan.ceilings[event.ceiling]
        if (ceiling === undefined) return
        stage.count("owner resumes what was paused")
        return this.#tell(books.resumeBreaker(...ownerOfCeiling(ceiling)))
      }
      case "bind":
        stage.count("binding of a key is changed")
        return this.#tell(this.#bind(event.bound))
      case "revoke":
        stage.count("key is revoked")
        return this.#tell(books.revokeKey(keys[event.key]!.keyId))
      case "move":
        stage.count("time zone changes")
        this.#movedAt = stage.clock.monotonic()
        return this.#tell(
          books.changeTimeZone(accounts[event.account]!.accountId, zones[event.zone]!, stage.clock.now()),
        )
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

  /** Every process has heard of the last change of a time zone: a day takes longer than that. */
  get #isHeard(): boolean {
    const deaf = this.#all.some(({ alive, deaf: isDeaf, clock }) => alive && (isDeaf || clock.stands))
    return !deaf && !this.#database.away && this.#stage.clock.monotonic() - this.#movedAt > HEARD_MS
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

  /** One that carries a key is sent until it has its answer, or is told what became of it. */
  async #callKeyed(planned: PlannedCall): Promise<void> {
    const stage = this.#stage
    this.#waiting++
    const { manners, ...repeat } = planned
    const isTwice = planned.keyed === "client asks twice at once with the same key"
    if (isTwice) void this.#call({ ...repeat, manners: undefined })
    await this.#call(planned)
    for (let tries = 1; tries <= MAX_REPEATS && !stage.calm; tries++) {
      if (planned.keyed !== undefined) stage.count(planned.keyed)
      await sleep(stage.clock, stage.delay(4_000))
      await this.#call({ ...repeat, manners: stage.random() < 0.3 ? manners : undefined })
    }
    this.#waiting--
  }

  /** One that its SDK sends again by itself, where its connection breaks or it is told to. */
  async #callOfSdk(planned: PlannedCall): Promise<void> {
    const stage = this.#stage
    const { sdk } = planned
    this.#waiting++
    if (sdk !== undefined) stage.count(sdk)
    if (sdk === "SDK sends two equal calls at once") void this.#sendAgain(planned)
    if (sdk === "SDK sends another call as if it were a repeat")
      void this.#call({ ...planned, asksOther: true, manners: undefined }, 1)
    await this.#sendAgain(planned)
    this.#waiting--
  }

  async #sendAgain(planned: PlannedCall): Promise<void> {
    const stage = this.#stage
    this.#waiting++
    const { manners, ...again } = planned
    let told = await this.#call(planned, 0)
    for (let retries = 1; retries <= MAX_RETRIES && !stage.calm; retries++) {
      const isBroken = told?.kind === "left" || told?.kind === "broken"
      const isRefused = told?.kind === "failure" && told.retryable
      // Somebody else's software may count what it sends in another way.
      if (!isBroken && !isRefused && stage.random() < 0.8) break
      await sleep(stage.clock, stage.delay(3_000))
      told = await this.#call({ ...again, manners: stage.random() < 0.3 ? manners : undefined }, retries)
    }
    this.#waiting--
  }

  /** What it was told at last. */
  async #call(planned: PlannedCall, retries?: number): Promise<CallStory["told"]> {
    const stage = this.#stage
    let last: CallStory["told"]
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
      const story = this.#story(planned, process, retries)
      if (planned.asksFirst === true && keys[planned.key]?.parentId === undefined)
        await askDryly(stage, planned, process, story.requestId)
      await callOnce(stage, story)
      const again = planned.manners === "client calls again after a failure" && tries < 3 && !stage.calm
      const { told } = story as { told: CallStory["told"] }
      last = told
      if (!again || told?.kind !== "failure" || !told.retryable) break
      stage.count("client calls again after a failure")
      await sleep(stage.clock, stage.delay(2_000))
    }
    this.#waiting--
    return last
  }

  #story(planned: PlannedCall, process: SimulatedProcess, retries?: number): CallStory {
    const story: CallStory = {
      requestId: `req_${++this.#requests}`,
      planned,
      process,
      retries,
      told: undefined,
      text: "",
      wasHandedOver: false,
      goneAt: Infinity,
      toldAt: Infinity,
      begunAt: this.#stage.clock.monotonic(),
      begunOn: this.#stage.clock.now(),
      toldOn: Infinity,
      sawHead: false,
      original: undefined,
      undisturbed: false,
    }
    this.#stories.push(story)
    return story
  }

  /** At rest, by a process that serves, if there is one. */
  #foretell(): void {
    const process = this.#all.find(({ serving }) => serving)
    if (process === undefined) return
    const calls = this.#stories.map(({ planned }) => planned)
    const story = (planned: PlannedCall) => this.#story(planned, process)
    this.#do(checkForetold({ stage: this.#stage, books: this.#database.books, process, story }, calls))
  }

  // ---- How it ends ----

  #rest(): void {
    const stage = this.#stage
    stage.stopFaults()
    stage.trace("faults stop")
    this.#database.comeBack()
    for (const { clock } of this.#all) clock.goOn()
    if (!this.#until(() => !this.#busy, REST_MS)) {
      const open = this.#stories.filter(({ told }) => told === undefined).map(({ requestId }) => requestId)
      const underWay = this.#processes.flatMap(({ gateway }) => [...(gateway?.ports.inFlight.requestIds() ?? [])])
      stage.violate(`no rest within ${REST_MS} ms: untold ${open.join(" ")}; under way ${underWay.join(" ")}`)
      return
    }
    // A crash that was to come just after an answer comes now.
    this.#until(() => false, CRASH_AFTER_MS)
    this.#do(awaitSuccession(this.#scene))
    for (const process of this.#all) if (process.serving) this.#do(checkIdle(this.#scene, process))
    this.#foretell()
    this.#do(checkSpendable(this.#scene))
    this.#do(checkCeilings(this.#scene))
    this.#do(checkBudgets(this.#scene))
    for (const process of this.#all) void process.stop()
    if (!this.#until(() => this.#all.every(({ alive }) => !alive), REST_MS)) {
      const left = this.#all.filter(({ alive }) => alive).map(({ id }) => id)
      return stage.violate(`processes do not stop: ${left.join(" ")}`)
    }
    const auditor = this.#process("prc_auditor")
    this.#until(() => auditor.serving, REST_MS)
    this.#do(audit(this.#scene))
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
