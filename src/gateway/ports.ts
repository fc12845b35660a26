/** What a call needs of the rest of the gateway, and what it tells it. */
import type { Clock } from "../../actors/kernel/clock.ts"
import type { Random } from "../../actors/kernel/random.ts"
import type { LiveCatalogue } from "../catalogue/live.ts"
import type { Search } from "../search/searx.ts"
import type { Fetch } from "../upstream/client.ts"
import type { Withdrawals } from "../store/withdrawals.ts"
import type { Backend } from "../upstream/providers.ts"
import type { Actors } from "./actors.ts"
import type { BackendHealth } from "./backend-health.ts"
import type { Calibration } from "./calibration.ts"
import type { Booked, Ending } from "./settle.ts"

/** Milliseconds and bytes; the variables of decisions §9. */
export interface CallLimits {
  readonly maxBodyBytes: number
  readonly capacityWaitMs: number
  readonly heartbeatMs: number
  readonly settleDeadlineMs: number
  readonly upstreamStartMs: number
  readonly upstreamIdleMs: number
  /** How long the backend of a client that went away is read on (decisions §6). */
  readonly drainLeftMs: number
  /** How long a client may take nothing of its stream before it counts as gone. */
  readonly readerStallMs: number
}

export interface GatewayPorts {
  readonly actors: Actors
  readonly catalogue: LiveCatalogue
  readonly backends: ReadonlyMap<string, Backend>
  readonly limits: CallLimits
  /** Undefined without a search server: then web search on messages is not served. */
  readonly search: Search | undefined
  readonly random: Random
  readonly clock: Clock
  /** The way to the backends. */
  readonly fetch: Fetch
  /** The local disk, for what the database could not be told in time. */
  readonly withdrawals: Withdrawals
  /** What is known of how far estimates are off. */
  readonly calibration: Calibration
  /** How backends have done. */
  readonly health: BackendHealth
  readonly finished: (call: FinishedCall) => void
  /** A backend refused our credentials or our configuration, which no retry mends. */
  readonly alerted: (alert: BackendAlert) => void
  /** A bug ended a call's story. */
  readonly crashed: (requestId: string, error: unknown) => void
  /** Aborts when no new calls are taken. */
  readonly draining: AbortSignal
  /** Calls that are still to be settled, by request id, for a drain to wait for. */
  readonly underWay: Map<string, UnderWay>
}

interface UnderWay {
  readonly ended: Promise<unknown>
  /** Breaks off what is waited for, the backend and the client, and settles. */
  readonly giveUp: () => void
}

export interface BackendAlert {
  readonly requestId: string
  readonly model: string
  readonly provider: string
  /** HTTP status, where one came. */
  readonly status: number | undefined
}

/** One line of the log, and one event of the dashboard. */
export interface FinishedCall {
  readonly requestId: string
  readonly accountId: string
  readonly keyId: string
  readonly model: string
  readonly endpoint: string
  readonly booked: Booked
  readonly ending: Ending
  /** A backend was alerted about on the way. */
  readonly alert: boolean
}
