/** What a call needs of the rest of the gateway, and what it tells it. */
import type { Clock, Random } from "../../actors/kernel/clock.ts"
import { DenseSet, type Placed } from "../../actors/kernel/dense-set.ts"
import type { UsageRecord } from "../../actors/ledger.ts"
import type { Tokens } from "../../actors/money/price.ts"
import type { LargeBodies, RecentUse } from "../bodies/bodies.ts"
import type { LiveCatalogue } from "../catalogue/model.ts"
import type { PdfReader } from "../pdf/reader.ts"
import type { Search } from "../search/searx.ts"
import type { Fetch } from "../upstream/client.ts"
import type { RefusedCall } from "../store/refused-calls.ts"
import type { Withdrawals } from "../store/withdrawals.ts"
import type { Tracing } from "../traces/tracing.ts"
import type { Backends } from "../upstream/providers.ts"
import type { Actors } from "./actors.ts"
import type { BackendHealth } from "./backend-health.ts"
import type { Calibration, EstimateFactors } from "./input-estimate.ts"
import type { Pools } from "./pools.ts"
import type { UnreadBytes } from "./outbox.ts"
import type { BodyMemory } from "./read-body.ts"
import type { CallDeduplication } from "./call-deduplication.ts"

/** Milliseconds and bytes; the variables of decisions §9. */
export interface CallLimits {
  readonly maxBodyBytes: number
  /** How long nothing may come of a body that is not whole. */
  readonly bodyIdleMs: number
  readonly capacityWaitMs: number
  readonly heartbeatMs: number
  readonly settleDeadlineMs: number
  readonly upstreamStartMs: number
  readonly upstreamIdleMs: number
  /** For all of a call's backends, from the first byte sent to the last one read. */
  readonly upstreamAnswerMs: number
  /** How long the backend of a client that went away is read on (decisions §6). */
  readonly drainLeftMs: number
  /** How long a client may take nothing of its stream before it counts as gone. */
  readonly readerStallMs: number
}

export interface GatewayPorts {
  readonly actors: Actors
  readonly catalogue: LiveCatalogue
  readonly backends: Backends
  readonly pools: Pools
  readonly limits: CallLimits
  /** Where large bodies are worked on. */
  readonly largeBodies: LargeBodies
  /** What of the thread each account has used by bodies that are not small. */
  readonly threadTime: RecentUse
  /** How often each account's calls found no room. */
  readonly refusals: RecentUse
  /** What is held of bodies, of all calls. */
  readonly bodies: BodyMemory
  /** Undefined without a search server: then web search on messages is not served. */
  readonly search: Search | undefined
  /** Under which accounts are named to backends. */
  readonly endUserSecret: Uint8Array
  readonly random: Random
  readonly clock: Clock
  /** The way to the backends. */
  readonly fetch: Fetch
  /** The local disk, for what the database could not be told in time. */
  readonly withdrawals: Withdrawals
  /** Calls that may be asked for again. */
  readonly deduplication: CallDeduplication
  /** What clients have not taken yet. */
  readonly unread: UnreadBytes
  /** What is known of how far estimates are off. */
  readonly calibration: Calibration
  /** What is known of accounts whose calls the house had to pay for. */
  readonly factors: EstimateFactors
  readonly pdfs: PdfReader
  /** How backends have done. */
  readonly health: BackendHealth
  /** Undefined without a collector of traces. */
  readonly tracing: Tracing | undefined
  /** A call of this account holds money from now on. */
  readonly admitted: (accountId: string) => void
  readonly finished: (call: FinishedCall) => void
  /** Before it was forwarded: it has no usage record. */
  readonly refused: (call: RefusedCall) => void
  /** A backend refused our credentials or our configuration, which no retry mends. */
  readonly alerted: (alert: BackendAlert) => void
  /** A bug ended a call. */
  readonly crashed: (requestId: string, error: unknown) => void
  /** Aborts when no new calls are taken. */
  readonly draining: AbortSignal
  readonly inFlight: CallsInFlight
}

export interface BackendAlert {
  readonly requestId: string
  readonly model: string
  readonly provider: string
  readonly member: string
  /** HTTP status, where one came. */
  readonly status: number | undefined
}

/** One line of the log, and one event of the dashboard. */
export interface FinishedCall {
  readonly requestId: string
  readonly accountId: string
  readonly keyId: string
  readonly endpoint: string
  /** The final record, as it was booked. */
  readonly record: UsageRecord
  readonly tokens: Tokens | undefined
  /** False when the ledger could not say in time that it is durable; then nothing is deducted. */
  readonly durable: boolean
  /** A backend was alerted about on the way. */
  readonly alert: boolean
}

interface InFlightCall extends Placed {
  readonly requestId: string
  /** Ends it soon. */
  stop(): void
}

/** Calls that are still to be settled, for a drain to wait for. */
export class CallsInFlight {
  readonly #calls = new DenseSet<InFlightCall>()
  #drained: (() => void)[] = []

  get size(): number {
    return this.#calls.size
  }

  requestIds(): string[] {
    return this.#calls.all().map(({ requestId }) => requestId)
  }

  add(call: InFlightCall): void {
    this.#calls.add(call)
  }

  remove(call: InFlightCall): void {
    this.#calls.delete(call)
    if (this.#calls.size === 0) for (const resolve of this.#drained.splice(0)) resolve()
  }

  stop(): void {
    for (const call of this.#calls.all()) call.stop()
  }

  /** Resolves when there is none. */
  ended(): Promise<void> {
    return this.#calls.size === 0 ? Promise.resolve() : new Promise((resolve) => this.#drained.push(resolve))
  }
}
