/**
 * One gateway process of a simulated world: the product's own `Gateway`, begun and ended as `src/server` and
 * `src/store` do it, on a clock that stops with the process. Times in milliseconds.
 */
import { sleep } from "../../actors/kernel/clock.ts"
import { type Batch, type Committed, RowsLocked } from "../../actors/ledger.ts"
import { InlineBodyExecutor, LargeBodies } from "../../src/bodies/bodies.ts"
import { type Catalogue, LiveCatalogue } from "../../src/catalogue/model.ts"
import { Failure } from "../../src/failure/failure.ts"
import { affordabilityByBalance } from "../../src/gateway/plan-call.ts"
import { authenticateDryRun, forecast } from "../../src/gateway/dry-run.ts"
import { call } from "../../src/gateway/call.ts"
import { Gateway } from "../../src/gateway/gateway.ts"
import type { StreamConnection } from "../../src/gateway/outbox.ts"
import type { Log } from "../../src/log.ts"
import type { ActorStore } from "../../src/store/leases.ts"
import { findOrOpenRun } from "../../src/store/runs.ts"
import { growBudget } from "../../src/store/budget-leases.ts"
import { DatabaseUnavailable } from "../../src/store/database.ts"
import { loadKey } from "../../src/store/live-keys.ts"
import { closeProcess, findSurelyDead } from "../../src/store/processes.ts"
import type { Notice } from "../../src/store/notices.ts"
import type { ClientSide } from "../../src/wire/format.ts"
import { fetchFor } from "./backend.ts"
import type { SimulatedDatabase } from "./database.ts"
import type { SimulatedDisk } from "./disk.ts"
import { standstill, TROUBLE_LASTS_MS } from "./faults.ts"
import { limits } from "./limits.ts"
import { arrival, ProcessClock } from "./process-clock.ts"
import { type RemoteBooks, remoteBooks, remoteCallKeys } from "./remote-books.ts"
import { SessionLock } from "./session-lock.ts"
import { measurePdf } from "../../src/pdf/measure.ts"
import { backends } from "./shop.ts"
import type { Stage } from "./stage.ts"
import { Statements } from "./statements.ts"
import { tracing } from "./traces.ts"

const POISON = "poison"
/** What throws in the turn of the actor that reads it. */
const poison = new Proxy({} as never, {
  get: () => {
    throw new Error(POISON)
  },
})

const SUCCESSION_EVERY_MS = 4_000
const silent: Log = { debug() {}, info() {}, warn() {}, error() {} }

/** What all processes of a world share. */
export interface ProcessParts {
  readonly stage: Stage
  readonly database: SimulatedDatabase
  readonly disk: SimulatedDisk
  readonly catalogue: Catalogue
}

export class SimulatedProcess {
  readonly id: string
  readonly clock: ProcessClock
  /** Resolves when it is gone, and all its connections with it. */
  readonly gone: Promise<void>
  /** Responses that are not read to their end. */
  responding = 0
  gateway: Gateway | undefined
  deaf = false
  crashed = false
  /** Calls that are told nothing yet, also those whose client has left. */
  calls = 0
  /** By request id: when something last had gone wrong until the call was settled. */
  readonly troubles = new Map<string, number>()
  /** The server has seen that it is gone, if it is. */
  missed = true
  /** When it was told to end, on the monotonic clock. */
  drainsSince = Infinity
  /** When one of its actors last crashed, or it heard that another has closed it; on the monotonic clock. */
  #upsetAt = -Infinity
  /** By account: when its rows were last locked by somebody else. */
  readonly #lockedAt = new Map<string, number>()
  readonly #stage: Stage
  readonly #database: SimulatedDatabase
  readonly #statements: Statements
  readonly #books: RemoteBooks
  readonly #lock: SessionLock
  readonly #disk: SimulatedDisk
  readonly #catalogue: Catalogue
  readonly #end: () => void
  /** Actors that were sent what no actor can read. */
  readonly #poisoned = new Set<string>()
  #serving = false

  constructor({ stage, database, disk, catalogue }: ProcessParts, id: string) {
    this.id = id
    this.#stage = stage
    this.#database = database
    this.#disk = disk
    this.#catalogue = catalogue
    this.clock = new ProcessClock(stage)
    this.#statements = new Statements(stage, this.clock, database, id)
    this.#books = remoteBooks(database.books, this.#statements)
    this.#lock = new SessionLock({ stage, clock: this.clock, database, processId: id, fenced: () => this.#fenced() })
    const { promise, resolve } = Promise.withResolvers<void>()
    this.gone = promise
    this.#end = resolve
    this.#start().catch((error: unknown) => {
      if (!(error instanceof DatabaseUnavailable)) stage.violate(`a process does not start: ${String(error)}`)
      this.crash()
    })
  }

  get alive(): boolean {
    return this.clock.alive
  }
  /** It takes calls. */
  get serving(): boolean {
    return this.#serving && this.alive
  }

  /** When something that a call of the account may wait for last went wrong: the database, an actor, its being closed by another. */
  troubledAt(accountId: string): number {
    const lockedAt = this.#lockedAt.get(accountId) ?? -Infinity
    return Math.max(this.#statements.troubledAt, this.#upsetAt, this.#lock.lackedAt, lockedAt)
  }

  get locked(): boolean {
    return this.#lock.held
  }

  loseLock(): void {
    this.#lock.lose()
  }

  /** Nothing of it runs for so long. */
  stand(forMs: number, losesLock: boolean): void {
    if (!this.serving || !this.clock.stand(forMs)) return
    this.#stage.trace(`${this.id} stands still for ${forMs} ms`)
    // What was felt when it stood still is felt when it goes on: it has not run since.
    const now = this.clock.monotonic()
    if (now - this.#statements.troubledAt < TROUBLE_LASTS_MS) this.#upsetAt = now + forMs
    if (losesLock) this.loseLock()
  }

  /** All its memory is lost at once. The server notices some time later. */
  crash(): void {
    if (!this.alive) return
    this.#stage.trace(`${this.id} crashes`)
    this.crashed = true
    this.#leave()
    this.missed = false
    this.#stage.clock.after(this.#stage.delay(6_000), () => {
      this.missed = true
      void this.#database.books.dropLock(this.id)
    })
  }

  /** Takes no more calls, ends those under way, and gives everything back. */
  async stop(): Promise<void> {
    if (this.gateway === undefined || !this.#serving) return
    if (this.clock.stands) await this.clock.heard()
    this.#stage.trace(`${this.id} drains`)
    this.drainsSince = this.clock.monotonic()
    this.#serving = false
    const told = this.#books.drain(this.id).catch(() => {})
    await this.gateway.drain()
    const until = this.clock.monotonic() + limits.capacityWaitMs + 1_000
    while (this.responding > 0 && this.clock.monotonic() < until) await sleep(this.clock, 10)
    await this.gateway.stop()
    await told
    this.#database.listeners.delete(this.#hear)
    await this.#lock.release()
    await closeProcess(this.#books, this.id, false).catch(() => {})
    this.#stage.trace(`${this.id} has stopped`)
    this.#leave()
  }

  /** What HTTP hands to a call; what HTTP does of an escaped error. */
  async call(
    format: ClientSide,
    request: Request,
    requestId: string,
    connection: StreamConnection,
  ): Promise<Response | Failure> {
    if (this.gateway === undefined) throw new Error("this process does not serve yet")
    this.calls++
    using _ended = { [Symbol.dispose]: () => this.calls-- }
    try {
      if (this.clock.stands) await this.clock.heard()
      return await call(this.gateway.ports, format, request, { requestId, connection, address: "192.0.2.1" })
    } catch (error) {
      if (error instanceof DatabaseUnavailable) return new Failure("dependency.database_unavailable")
      this.#stage.violate(`a call threw: ${stackOf(error)}`)
      return new Failure("internal.panic")
    }
  }

  /** What HTTP hands to a dry run: the refusal that it foretells, or `passes`. */
  async dryRun(format: ClientSide, request: Request): Promise<Failure | "passes"> {
    if (this.gateway === undefined) throw new Error("this process does not serve yet")
    this.calls++
    using _ended = { [Symbol.dispose]: () => this.calls-- }
    try {
      if (this.clock.stands) await this.clock.heard()
      const { ports } = this.gateway
      const origin = { requestId: "dry", connection: undefined, address: "192.0.2.1" }
      const caller = await authenticateDryRun(ports.actors, request.headers, origin)
      if (caller instanceof Failure) return caller
      const { accountId } = caller.record
      const available = await this.#statements.run("reads what is available", () =>
        this.#database.books.available(accountId),
      )
      const affordability = affordabilityByBalance(ports, available)
      const met = await forecast({ ports, format, request, caller, available, affordability, model: undefined })
      return met instanceof Failure ? met : (met.refusal ?? "passes")
    } catch (error) {
      if (error instanceof DatabaseUnavailable) return new Failure("dependency.database_unavailable")
      this.#stage.violate(`a dry run threw: ${stackOf(error)}`)
      return new Failure("internal.panic")
    }
  }

  /** A bug of ours in the turn of an actor: it starts again from what is durable. */
  poison(kind: "key" | "account" | "run" | "breaker", id: string): void {
    if (!this.serving || this.gateway === undefined || this.#poisoned.has(`${kind}:${id}`)) return
    const { keys, accounts, runs, breakers } = this.gateway.ports.actors
    const actor = `${kind}:${id}`
    this.#poisoned.add(actor)
    // It reaches nobody where the actor is not there.
    this.clock.after(10_000, () => this.#poisoned.delete(actor))
    this.clock.arrive(() => {
      if (kind === "key") keys.tellSettled(id, poison)
      else if (kind === "run") runs.unsettle(id, poison)
      else if (kind === "breaker") breakers.unsettle(id, poison)
      else accounts.unsettle(id, poison)
    })
  }

  deafen(forMs: number): void {
    this.deaf = true
    this.clock.after(forMs, () => {
      this.deaf = false
      void this.gateway?.hearAll()
    })
  }

  async #start(): Promise<void> {
    if (!(await this.#lock.take())) throw new DatabaseUnavailable("the lock could not be taken")
    await this.#books.registerProcess(this.id)
    await this.#closeDead()
    this.gateway = new Gateway({
      largeBodies: new LargeBodies(new InlineBodyExecutor()),
      runtime: {
        clock: this.clock,
        random: this.#stage.random,
        scheduler: this.#stage.scheduler,
        fatal: (actor, cause) => this.#fatal(actor, cause),
        crashed: (actor, cause) => {
          this.#poisoned.delete(actor)
          this.#upsetAt = this.clock.monotonic()
          if (!isPoison(cause)) this.#stage.violate(`an actor crashed: ${actor}: ${stackOf(cause)}`)
        },
      },
      processId: this.id,
      store: this.#store(),
      share: () => this.#books.share(this.id),
      tracing,
      withdrawals: this.#disk.withdrawals(this.clock),
      ledgerStore: { commit: (batch, patient) => this.#commit(batch, patient) },
      catalogue: new LiveCatalogue(this.#catalogue),
      backends,
      fetch: fetchFor(this.#stage, this.clock),
      pdfs: {
        read: async (file) => measurePdf(Buffer.from(typeof file === "string" ? file : await file.text(), "base64")),
      },
      callKeys: remoteCallKeys(this.#database.books.callKeys, this.#statements),
      factorStore: { read: async () => [], write: async () => {} },
      search: async () => {
        await arrival(this.clock, 1 + this.#stage.delay(50))
        return [{ url: "http://found.invalid/", title: "found", snippet: "something", published: undefined }]
      },
      endUserSecret: new Uint8Array(32),
      log: silent,
      limits: { ...limits, replayBytes: this.#stage.replayBytes },
      admitted: () => {},
      finished: ({ requestId, accountId, record, durable }) => {
        this.troubles.set(requestId, this.troubledAt(accountId))
        this.#stage.count(`record ${record.status}${durable ? "" : ", not durable"}`)
      },
      refused: () => this.#stage.count("refused before it was forwarded"),
      alerted: () => this.#stage.count("operator alerted"),
      crashed: (_, error) => this.#stage.violate(`a call crashed: ${stackOf(error)}`),
    })
    await this.gateway.recover()
    this.#database.listeners.add(this.#hear)
    await this.#books.serve(this.id)
    await this.gateway.followShare()
    this.#serving = true
    this.#stage.trace(`${this.id} serves`)
    this.#succeed()
  }

  #succeed(): void {
    this.clock.after(SUCCESSION_EVERY_MS, () => {
      void this.#closeDead()
      this.#succeed()
    })
  }

  async #closeDead(): Promise<void> {
    if (this.#lock.inReprieve) return
    try {
      const dead = await findSurelyDead(this.#books, this.id, this.clock)
      if (this.#lock.inReprieve) return
      for (const id of dead) await closeProcess(this.#books, id, true)
    } catch {
      // It is tried again.
    }
  }

  readonly #hear = (notice: Notice): void => {
    this.clock.io(this.#stage.delay(5), () => {
      if (!this.deaf && notice.about !== "catalogue" && notice.about !== "origins") this.gateway?.hear(notice)
    })
  }

  /** The process ends. That is right where an actor crashed again and again, and a bug where it was not made to. */
  #fatal(actor: string, cause: unknown): void {
    if (isPoison(cause)) this.#stage.count("process ended by its supervisor")
    else this.#stage.violate(`the ${actor} actor does not recover: ${stackOf(cause)}`)
    this.clock.after(0, () => this.crash())
  }

  #fenced(): void {
    this.#stage.count("process fenced while it lives")
    this.crash()
  }

  #leave(): void {
    this.#serving = false
    this.clock.alive = false
    this.#database.listeners.delete(this.#hear)
    this.#end()
  }

  #store(): ActorStore {
    const books = this.#books
    return {
      loadKey: (keyHash, nowMs, written) => loadKey(books, keyHash, nowMs, written),
      findRun: (runId) => books.findRun(runId),
      findOrOpenRun: (asked, nowMs) => findOrOpenRun(books, asked, nowMs),
      mayOpenRun: (accountId, nowMs) => books.mayOpenRun(accountId, nowMs),
      growLease: (accountId, short, version) => books.growLease(this.id, accountId, short, version),
      returnLease: (leaseId, returned) => books.returnLease(leaseId, returned),
      growBudget: (of, short, version) => growBudget(books, this.id, of, short, version),
      returnBudget: (of, returned) => books.returnBudget(this.id, of, returned),
      breakers: {
        look: (purse) => books.lookBreaker(purse),
        grow: (purse, short, version) => books.growBreaker(this.id, purse, short, version),
        giveBack: async (purse, returned) => {
          const lease = await books.returnBudget(this.id, { keyId: purse, period: "total", start: 0 }, returned)
          return lease && { ...lease, id: 0n }
        },
        trip: (purse, least) => books.tripBreaker(purse, least),
      },
    }
  }

  async #commit(batch: Batch, patient: boolean): Promise<Committed> {
    if (batch.openings.length + batch.settlements.length === 0) {
      await this.#books.ping()
      return { fenced: [], locked: [] }
    }
    const { accountId } = batch.settlements[0]?.opening ?? {}
    if (accountId !== undefined && this.#stage.fails("rows of an account are locked")) {
      return await this.#commitWithout(accountId, batch, patient)
    }
    const settles = batch.settlements.length > 0 && this.#stage.fails("process stands still as it settles")
    const committing = this.#books.commit(this.id, batch)
    if (settles) this.stand(standstill(this.#stage.random), this.#stage.random() < 0.2)
    const fenced = await committing
    if (fenced.length > 0) this.#upsetAt = this.clock.monotonic()
    for (const _ of fenced) this.#stage.count("call settled without a lease")
    return { fenced, locked: [] }
  }

  /** Somebody else has locked the rows of an account: a patient commit waits for them in vain, another leaves it out. */
  async #commitWithout(accountId: string, { openings, settlements }: Batch, patient: boolean): Promise<Committed> {
    this.#lockedAt.set(accountId, this.clock.monotonic())
    if (patient) {
      await arrival(this.clock, 1_000)
      this.#lockedAt.set(accountId, this.clock.monotonic())
      throw new RowsLocked("locked by somebody")
    }
    const { fenced } = await this.#commit(
      {
        openings: openings.filter((opening) => opening.accountId !== accountId),
        settlements: settlements.filter(({ opening }) => opening.accountId !== accountId),
      },
      true,
    )
    return { fenced, locked: [accountId] }
  }
}

const isPoison = (cause: unknown): boolean => String(cause).includes(POISON)

const stackOf = (error: unknown): string => (error instanceof Error ? (error.stack ?? error.message) : String(error))
