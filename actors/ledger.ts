/**
 * The one writer of a process: gathers openings and settlements into batches, commits one batch at a time, and tells
 * each caller when its own is durable (group commit). Money in micro-rupiah, times in milliseconds.
 *
 * A commit whose outcome is unknown is sent again until it is known: every row is idempotent. Batches keep the order in
 * which their entries came, so a settlement never overtakes its opening. A batch that can never be committed is halved
 * until the one entry is found that it is for; that one is not charged, and everybody else goes on.
 */
import type { Behaviour, Reply } from "./kernel/actor.ts"
import type { Clock } from "./kernel/clock.ts"
import { type Micro, zero } from "./money/micro.ts"
import type { Tokens } from "./money/tokens.ts"
import type { PeriodStarts } from "./period.ts"
import { unreachable } from "./unreachable.ts"

/** A call that is being forwarded. */
export interface Opening {
  readonly requestId: string
  readonly accountId: string
  readonly keyId: string
  readonly leaseId: bigint
  /** The catalogue's id of the model asked for. */
  readonly model: string
  readonly endpoint: string
  readonly streamed: boolean
  readonly hold: Micro
  readonly priceId: bigint
  /** Wall clock at admission; the spending periods that the charge counts in. */
  readonly openedAt: number
  readonly starts: PeriodStarts
}

/** Usage record status (gateway-api.md, "Usage record status"). */
export type UsageStatus =
  | "ok"
  | "upstream_error"
  | "aborted_stream"
  | "usage_missing"
  | "billing_error"
  | "fallback_429"
  | "fallback_oversize"

/** What became of a call, or of one model of its chain. */
export interface UsageRecord {
  /** 0 is the final record; 1, 2, … are the markers of reroutes. */
  readonly part: number
  readonly model: string
  readonly priceId: bigint
  readonly status: UsageStatus
  readonly tokens: Tokens
  readonly charge: Micro
  /** What the house bears of it. */
  readonly absorbed: Micro
  /** The part of `absorbed` that is not of `tokens`: counts of the backend over their bounds. */
  readonly excess: Micro
  readonly turns: number
  readonly attempts: number
  readonly errorCode: string | undefined
  readonly flagged: boolean
  readonly firstTokenMs: number | undefined
  readonly durationMs: number
}

export interface Settlement {
  readonly opening: Opening
  /** The final record first, then the markers. */
  readonly records: readonly [UsageRecord, ...UsageRecord[]]
  /** Takes back a charge that may have been booked although nobody heard of it. */
  readonly voided: boolean
}

export interface Batch {
  readonly openings: readonly Opening[]
  readonly settlements: readonly Settlement[]
}

export interface LedgerStore {
  /**
   * Resolves once the batch is durable, with the request ids of settlements whose lease was not open any more: the house
   * bears those. Rejects when the outcome is not known, or with `BatchRefused`. An empty batch asks whether the store is
   * there.
   */
  commit(batch: Batch): Promise<readonly string[]>
}

/** The store says of the batch's own values that it will never take them. Nothing of it was booked. */
export class BatchRefused extends Error {
  override readonly name = "BatchRefused"
}

/** `fenced`: written, but not charged, because this process had been taken for dead and closed. */
export type Settled = "durable" | "fenced"

export interface LedgerView {
  /** Entries that are not durable yet. */
  readonly backlog: number
  /** How long the commit under way has been tried, in running time; 0 when none is. */
  readonly lagMs: number
}

export type LedgerCommand =
  | { readonly type: "open"; readonly opening: Opening; readonly reply: Reply<"durable"> }
  | { readonly type: "settle"; readonly settlement: Settlement; readonly reply: Reply<Settled> }
  /** The caller was told that nothing is charged: whatever was or will be booked of this settlement must not stand. */
  | { readonly type: "void"; readonly settlement: Settlement }
  /** Replies when all that was sent before is durable. */
  | { readonly type: "barrier"; readonly reply: Reply<"durable"> }
  | { readonly type: "committed"; readonly fenced: readonly string[] }
  | { readonly type: "failed"; readonly cause: unknown }
  | { readonly type: "retry" }
  | { readonly type: "probe" }
  | { readonly type: "view"; readonly reply: Reply<LedgerView> }

export interface LedgerPorts {
  readonly clock: Clock
  readonly store: LedgerStore
  readonly self: (command: LedgerCommand) => void
  /** A commit failed and will be tried again. */
  readonly failed: (cause: unknown) => void
}

interface SettleEntry {
  readonly kind: "settle"
  /** Replaced by its reversal when it is voided before it was sent. */
  settlement: Settlement
  readonly reply: Reply<Settled>
}

type Entry =
  | { readonly kind: "open"; readonly opening: Opening; readonly reply: Reply<"durable"> }
  | SettleEntry
  | { readonly kind: "barrier"; readonly reply: Reply<"durable"> }

const BATCH_LIMIT = 1_000
const RETRY_FIRST_MS = 20
const RETRY_LAST_MS = 500
/** An idle ledger asks this often whether the store is there, so that admission knows before money is at stake. */
const PROBE_MS = 1_000

export class Ledger implements Behaviour<LedgerCommand> {
  readonly #ports: LedgerPorts
  #queue: Entry[] = []
  /** How many entries the next batch may have; few while a bad one is looked for. */
  #batchLimit = BATCH_LIMIT
  #inFlight: { readonly entries: Entry[]; readonly since: number } | undefined
  #retries = 0

  constructor(ports: LedgerPorts) {
    this.#ports = ports
    this.#probeLater()
  }

  receive(command: LedgerCommand): void {
    switch (command.type) {
      case "open":
        return this.#add({ kind: "open", opening: command.opening, reply: command.reply })
      case "settle":
        return this.#add({ kind: "settle", settlement: command.settlement, reply: command.reply })
      case "void":
        return this.#onVoid(command.settlement)
      case "barrier":
        return this.#onBarrier(command.reply)
      case "committed":
        return this.#onCommitted(command.fenced)
      case "failed":
        return this.#onFailed(command.cause)
      case "retry":
        return this.#commit()
      case "probe":
        return this.#onProbe()
      case "view":
        return command.reply(this.#view())
      default:
        return unreachable(command)
    }
  }

  #add(entry: Entry): void {
    this.#queue.push(entry)
    if (this.#inFlight === undefined) this.#next()
  }

  /** A settlement still in the queue is replaced; one that may have been sent is followed by its reversal. */
  #onVoid(settlement: Settlement): void {
    const voided = voidOf(settlement)
    const { requestId } = settlement.opening
    const isIts = (entry: Entry): entry is SettleEntry =>
      entry.kind === "settle" && entry.settlement.opening.requestId === requestId
    const queued = this.#queue.find(isIts)
    if (queued !== undefined) {
      queued.settlement = voided
      return
    }
    // If the commit under way fails, its next try must not book what the caller was told is not charged.
    const sent = this.#inFlight?.entries.find(isIts)
    if (sent !== undefined) sent.settlement = voided
    this.#add({ kind: "settle", settlement: voided, reply: () => {} })
  }

  /** With nothing queued the commit under way is all there is to wait for; a barrier needs no commit of its own. */
  #onBarrier(reply: Reply<"durable">): void {
    if (this.#inFlight === undefined) return reply("durable")
    const last = this.#queue.length === 0 ? this.#inFlight.entries : this.#queue
    last.push({ kind: "barrier", reply })
  }

  #onCommitted(fenced: readonly string[]): void {
    const done = this.#inFlight
    if (done === undefined) throw new Error("a commit ended that nobody began")
    this.#inFlight = undefined
    this.#retries = 0
    this.#batchLimit = Math.min(BATCH_LIMIT, 2 * this.#batchLimit)
    if (this.#queue.length > 0) this.#next()
    for (const entry of done.entries) {
      if (entry.kind === "settle")
        entry.reply(fenced.includes(entry.settlement.opening.requestId) ? "fenced" : "durable")
      else entry.reply("durable")
    }
  }

  #onFailed(cause: unknown): void {
    this.#ports.failed(cause)
    if (cause instanceof BatchRefused) return this.#onRefused()
    const waitMs = Math.min(RETRY_LAST_MS, RETRY_FIRST_MS * 2 ** this.#retries++)
    this.#ports.clock.after(waitMs, () => this.#ports.self({ type: "retry" }))
  }

  /** Whoever waits for what is given up here is not answered, and so told that nothing is charged. */
  #onRefused(): void {
    const refused = this.#inFlight
    if (refused === undefined) throw new Error("a commit was refused that nobody began")
    this.#inFlight = undefined
    const [only, ...others] = refused.entries.filter((entry) => entry.kind !== "barrier")
    if (only !== undefined && others.length > 0) {
      this.#batchLimit = Math.ceil(refused.entries.length / 2)
      this.#queue.unshift(...refused.entries)
    } else {
      this.#queue.unshift(...refused.entries.filter((entry) => entry.kind === "barrier"))
      if (only?.kind === "settle" && !only.settlement.voided)
        this.#queue.unshift({ kind: "settle", settlement: voidOf(only.settlement), reply: () => {} })
    }
    if (this.#queue.length > 0) this.#next()
  }

  #onProbe(): void {
    if (this.#inFlight === undefined) this.#next()
    this.#probeLater()
  }

  #probeLater(): void {
    this.#ports.clock.after(PROBE_MS, () => this.#ports.self({ type: "probe" }))
  }

  #next(): void {
    const entries = this.#queue.slice(0, this.#batchLimit)
    this.#queue = this.#queue.slice(this.#batchLimit)
    this.#inFlight = { entries, since: this.#ports.clock.running() }
    this.#commit()
  }

  #commit(): void {
    if (this.#inFlight === undefined) throw new Error("there is nothing to commit")
    const { self, store } = this.#ports
    store.commit(batchOf(this.#inFlight.entries)).then(
      (fenced) => self({ type: "committed", fenced }),
      (cause: unknown) => self({ type: "failed", cause }),
    )
  }

  #view(): LedgerView {
    const inFlight = this.#inFlight
    return {
      backlog: this.#queue.length + (inFlight?.entries.length ?? 0),
      lagMs: inFlight === undefined ? 0 : this.#ports.clock.running() - inFlight.since,
    }
  }
}

/** An opening whose settlement is in the same batch need not be written: the record says it all. */
function batchOf(entries: readonly Entry[]): Batch {
  const settlements = new Map<string, Settlement>()
  for (const entry of entries) {
    if (entry.kind === "settle") settlements.set(entry.settlement.opening.requestId, entry.settlement)
  }
  const openings: Opening[] = []
  for (const entry of entries) {
    if (entry.kind === "open" && !settlements.has(entry.opening.requestId)) openings.push(entry.opening)
  }
  return { openings, settlements: [...settlements.values()] }
}

function voidOf(settlement: Settlement): Settlement {
  const [final, ...markers] = settlement.records
  const record: UsageRecord = {
    ...final,
    status: "billing_error",
    charge: zero,
    absorbed: zero,
    excess: zero,
    flagged: true,
  }
  return { opening: settlement.opening, records: [record, ...markers], voided: true }
}
