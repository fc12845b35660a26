/**
 * The one writer of a process: gathers openings and settlements into batches, commits one batch at a time, and tells
 * each caller when its own is durable (group commit). Money in micro-rupiah, times in milliseconds.
 *
 * An account whose rows others have locked is left out and tried again: mostly another process books it (ledger-lane.ts). One whose
 * rows stay locked is set apart: its entries are committed on their own, in their order, until none is left.
 */
import {
  accountOf,
  answer,
  barriersOf,
  type Barrier,
  BatchRefused,
  type Batch,
  type Committed,
  entriesOf,
  type Entry,
  isFor,
  type LedgerStore,
  type LedgerView,
  type Opening,
  RowsLocked,
  type Settled,
  type Settlement,
  voidOf,
} from "./batch.ts"
import type { Behaviour, Reply } from "./kernel/actor.ts"
import type { Clock, Timer } from "./kernel/clock.ts"
import { Lane } from "./ledger-lane.ts"
import { unreachable } from "./unreachable.ts"

export {
  type Batch,
  BatchRefused,
  type Committed,
  type LedgerStore,
  type LedgerView,
  type Opening,
  type PayingParent,
  RowsLocked,
  type Settled,
  type Settlement,
  type UsageRecord,
  type UsageStatus,
} from "./batch.ts"

/** The account that is set apart; undefined of all the others. */
type LaneName = string | undefined

export type LedgerCommand =
  | { readonly type: "open"; readonly opening: Opening; readonly reply: Reply<"durable"> }
  | { readonly type: "settle"; readonly settlement: Settlement; readonly reply: Reply<Settled> }
  /** The caller was told that nothing is charged: whatever was or will be booked of this settlement must not stand. */
  | { readonly type: "void"; readonly settlement: Settlement }
  /** Replies when all that was sent before is durable: of the account, or of all where none is named. */
  | { readonly type: "barrier"; readonly accountId: string | undefined; readonly reply: Reply<"durable"> }
  | { readonly type: "committed"; readonly lane: LaneName; readonly committed: Committed }
  | { readonly type: "failed"; readonly lane: LaneName; readonly cause: unknown }
  | { readonly type: "retry"; readonly lane: LaneName }
  /** The main lane has waited long enough. */
  | { readonly type: "due" }
  | { readonly type: "probe" }
  /** Of an account that is set apart, `lagMs` counts from the commit that did not get its rows. */
  | { readonly type: "view"; readonly accountId: string | undefined; readonly reply: Reply<LedgerView> }

export interface LedgerPorts {
  readonly clock: Clock
  readonly store: LedgerStore
  readonly self: (command: LedgerCommand) => void
  /** A commit failed and will be tried again. */
  readonly failed: (cause: unknown) => void
}

interface Apart {
  readonly lane: Lane
  readonly since: number
}

/** An idle ledger asks this often whether the store is there, so that admission knows before money is at stake. */
const PROBE_MS = 1_000
/** So many accounts that are set apart are committed at once; each may wait for its rows. */
export const APART_AT_ONCE = 3

/**
 * An opening waits so long for its settlement, so that a quick call is written once. Nobody waits for the opening of an answer
 * that comes whole, because its head comes with its settlement. The head of a stream does.
 */
const OPENING_WAITS_MS = 20
const STREAM_OPENING_WAITS_MS = 5

export class Ledger implements Behaviour<LedgerCommand> {
  readonly #ports: LedgerPorts
  readonly #main: Lane
  /** In the order in which they are committed. */
  readonly #apart = new Map<string, Apart>()
  /** Runs while the main lane waits. */
  #wait: { readonly until: number; readonly timer: Timer } | undefined

  constructor(ports: LedgerPorts) {
    this.#ports = ports
    this.#main = this.#lane(undefined)
    this.#probeLater()
  }

  receive(command: LedgerCommand): void {
    switch (command.type) {
      case "open":
        return this.#onOpen(command.opening, command.reply)
      case "settle":
        return this.#add(
          { kind: "settle", settlement: command.settlement, reply: command.reply },
          command.settlement.opening.accountId,
        )
      case "void":
        return this.#onVoid(voidOf(command.settlement))
      case "barrier":
        return this.#onBarrier(command.accountId, command.reply)
      case "committed":
        return command.lane === undefined
          ? this.#onCommitted(command.committed)
          : this.#onApartCommitted(command.lane, command.committed)
      case "failed":
        return this.#onFailed(command.lane, command.cause)
      case "retry":
        return this.#laneOf(command.lane).retry()
      case "due":
        return this.#onDue()
      case "probe":
        return this.#onProbe()
      case "view":
        return command.reply(this.#view(command.accountId))
      default:
        return unreachable(command)
    }
  }

  #lane(name: LaneName): Lane {
    const { clock, self, store } = this.#ports
    const commit = (batch: Batch) =>
      void store.commit(batch, name !== undefined).then(
        (committed) => self({ type: "committed", lane: name, committed }),
        (cause: unknown) => self({ type: "failed", lane: name, cause }),
      )
    return new Lane({ clock, commit, retry: () => self({ type: "retry", lane: name }) })
  }

  #laneOf(name: LaneName): Lane {
    return (name === undefined ? undefined : this.#apart.get(name)?.lane) ?? this.#main
  }

  /** The backend does not wait for it. */
  #onOpen(opening: Opening, reply: Reply<"durable">): void {
    const waitMs = opening.streamed ? STREAM_OPENING_WAITS_MS : OPENING_WAITS_MS
    const dueAt = this.#ports.clock.running() + waitMs
    this.#add({ kind: "open", opening, dueAt, reply }, opening.accountId)
  }

  #add(entry: Entry, accountId: string): void {
    this.#laneOf(accountId).add(entry)
    this.#proceed()
  }

  /** One that may have been sent is followed by its reversal. */
  #onVoid(voided: Settlement): void {
    const { accountId } = voided.opening
    if (this.#laneOf(accountId).replace(voided)) return
    this.#add({ kind: "settle", settlement: voided, reply: () => {} }, accountId)
  }

  #onBarrier(accountId: string | undefined, reply: Reply<"durable">): void {
    const barrier: Barrier = { kind: "barrier", accountId, waits: 0, reply }
    const lanes = [this.#main, ...[...this.#apart.values()].map(({ lane }) => lane)]
    for (const lane of accountId === undefined ? lanes : [this.#laneOf(accountId)]) lane.addBarrier(barrier)
    if (barrier.waits === 0) reply("durable")
    this.#proceed()
  }

  #onCommitted({ fenced, locked }: Committed): void {
    const done = this.#main.take(locked)
    const barriers = [...barriersOf(done), ...this.#main.queuedBarriers]
    const putOff = locked.filter((accountId) => this.#main.putOff(accountId, entriesOf(accountId, done)))
    // Those in the queue are behind what was put off anyway.
    for (const barrier of barriersOf(done))
      if (putOff.some((accountId) => isFor(barrier, accountId))) this.#main.addBarrier(barrier)
    for (const accountId of locked)
      if (!putOff.includes(accountId)) this.#setApart(accountId, entriesOf(accountId, done), barriers)
    this.#proceed()
    const isWritten = (entry: Entry) => entry.kind === "barrier" || !locked.includes(accountOf(entry) ?? "")
    answer(done.filter(isWritten), fenced)
  }

  /** What waits for the account waits for its own lane from now on, too. */
  #setApart(accountId: string, entries: readonly Entry[], barriers: readonly Barrier[]): void {
    const lane = this.#lane(accountId)
    for (const entry of [...entries, ...this.#main.takeQueued(accountId)]) lane.add(entry)
    for (const barrier of barriers) if (isFor(barrier, accountId)) lane.addBarrier(barrier)
    this.#apart.set(accountId, { lane, since: this.#main.beganAt })
  }

  #onApartCommitted(accountId: string, { fenced }: Committed): void {
    const { lane } = this.#apart.get(accountId) ?? {}
    if (lane === undefined) throw new Error("a commit ended of an account that is not set apart")
    const done = lane.take()
    if (lane.waiting === 0) this.#apart.delete(accountId)
    this.#proceed()
    answer(done, fenced)
  }

  #onFailed(name: LaneName, cause: unknown): void {
    this.#ports.failed(cause)
    const lane = this.#laneOf(name)
    if (cause instanceof RowsLocked) return name === undefined ? this.#onAllLocked() : this.#onStillLocked(name)
    if (!(cause instanceof BatchRefused)) return lane.failed()
    lane.refused()
    if (name !== undefined && lane.waiting === 0) this.#apart.delete(name)
    this.#proceed()
  }

  /** Whose rows they are is not known, so each account of the batch goes its own way. */
  #onAllLocked(): void {
    const accounts = this.#main.sent.flatMap((entry) => (entry.kind === "barrier" ? [] : (accountOf(entry) ?? [])))
    const done = this.#main.take()
    const barriers = [...barriersOf(done), ...this.#main.queuedBarriers]
    for (const accountId of new Set(accounts)) this.#setApart(accountId, entriesOf(accountId, done), barriers)
    this.#proceed()
    answer(barriersOf(done), [])
  }

  /** Others that are set apart come first. */
  #onStillLocked(accountId: string): void {
    const apart = this.#apart.get(accountId)
    if (apart === undefined) throw new Error("a commit failed of an account that is not set apart")
    apart.lane.putBack()
    this.#apart.delete(accountId)
    this.#apart.set(accountId, apart)
    this.#proceed()
  }

  /** Begins what can be begun. */
  #proceed(): void {
    if (!this.#main.busy) this.#beginWhenDue()
    if (this.#apart.size > 0) this.#beginApart()
  }

  #beginApart(): void {
    const lanes = [...this.#apart.values()].map(({ lane }) => lane)
    let running = lanes.filter((lane) => lane.busy).length
    for (const lane of lanes) {
      if (running === APART_AT_ONCE) return
      if (lane.busy) continue
      lane.next("all")
      running++
    }
  }

  /** The next commit of the main lane. */
  #beginWhenDue(): void {
    const { beginsAt } = this.#main
    const waitMs = beginsAt - this.#ports.clock.running()
    if (waitMs <= 0) return this.#begin()
    if (beginsAt >= (this.#wait?.until ?? Number.POSITIVE_INFINITY)) return
    this.#waitUntil(beginsAt, waitMs)
  }

  #waitUntil(beginsAt: number, waitMs: number): void {
    this.#wait?.timer.cancel()
    const timer = this.#ports.clock.after(waitMs, () => this.#ports.self({ type: "due" }))
    this.#wait = { until: beginsAt, timer }
  }

  #begin(): void {
    this.#wait?.timer.cancel()
    this.#wait = undefined
    this.#main.next("due")
  }

  #onDue(): void {
    this.#wait = undefined
    this.#proceed()
  }

  #onProbe(): void {
    if (!this.#main.busy) this.#begin()
    this.#probeLater()
  }

  #probeLater(): void {
    this.#ports.clock.after(PROBE_MS, () => this.#ports.self({ type: "probe" }))
  }

  #view(accountId: string | undefined): LedgerView {
    if (this.#apart.size === 0) return { backlog: this.#main.backlog, lagMs: this.#main.lagMs }
    const apart = accountId === undefined ? undefined : this.#apart.get(accountId)
    const backlogs = [...this.#apart.values()].map(({ lane }) => lane.backlog)
    return {
      backlog: backlogs.reduce((sum, backlog) => sum + backlog, this.#main.backlog),
      lagMs: Math.max(this.#main.lagMs, apart === undefined ? 0 : this.#ports.clock.running() - apart.since),
    }
  }
}
