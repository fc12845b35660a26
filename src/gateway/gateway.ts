/**
 * One gateway process, apart from HTTP and Postgres: its actors, what a call needs, what it hears from its neighbours, and
 * how it ends. Whatever talks to the world is handed in, so that a simulation starts and stops what production does.
 */
import type { Runtime } from "../../actors/kernel/actor.ts"
import { sleep } from "../../actors/kernel/clock.ts"
import { RecentUse } from "../bodies/bodies.ts"
import type { LedgerStore } from "../../actors/ledger.ts"
import type { Share } from "../../actors/lease.ts"
import type { WindowCounts } from "../../actors/window.ts"
import type { Catalogue, LiveCatalogue } from "../catalogue/model.ts"
import type { Log } from "../log.ts"
import type { ActorStore } from "../store/leases.ts"
import type { CallKeyStatements } from "../store/call-keys.ts"
import type { Notice } from "../store/notices.ts"
import { BackendHealth } from "./backend-health.ts"
import type { BackendHistory } from "./backend-history.ts"
import { Calibration, EstimateFactors, type EstimateFactorStore } from "./input-estimate.ts"
import type { Neighbours } from "./response-handover.ts"
import { drainLeases, hear, hearAll, Shares, tellShare } from "./actors.ts"
import { UnreadBytes } from "./outbox.ts"
import { Pools } from "./pools.ts"
import { type CallLimits, CallsInFlight, type GatewayPorts } from "./ports.ts"
import { BodyMemory } from "./read-body.ts"
import { CallDeduplication } from "./call-deduplication.ts"
import { withdrawKept } from "./settle.ts"
import { startActors } from "./start-actors.ts"

export interface GatewayParts extends Pick<
  GatewayPorts,
  | "backends"
  | "fetch"
  | "search"
  | "pdfs"
  | "endUserSecret"
  | "largeBodies"
  | "withdrawals"
  | "tracing"
  | "admitted"
  | "finished"
  | "refused"
  | "alerted"
  | "crashed"
> {
  readonly runtime: Runtime
  readonly processId: string
  readonly store: ActorStore
  /** Looks up this process's share of windows and caps; undefined when it takes no calls. Absent where no other process can be. */
  readonly share?: () => Promise<Share | undefined>
  /** Counts keys' windows for all processes; absent where each has its share. */
  readonly counts?: WindowCounts | undefined
  readonly ledgerStore: LedgerStore
  readonly factorStore: EstimateFactorStore
  readonly callKeys: CallKeyStatements
  /** Other processes of this machine, which hand over what repeats ask for. */
  readonly neighbours?: Neighbours | undefined
  readonly catalogue: LiveCatalogue
  readonly log: Log
  readonly history?: Pick<BackendHistory, "occurred" | "tried">
  readonly limits: CallLimits & {
    readonly maxConcurrency: number
    /** What all bodies under way may hold. */
    readonly bodyBytes: number
    /** After so long without use an actor that holds nothing is put away. */
    readonly idleMs: number
    /** How long calls under way may go on once the process is to end. */
    readonly drainMs: number
    /** What clients may leave unread, all streams together. */
    readonly unreadBytes: number
    /** What of answers may be kept for those that ask again. */
    readonly replayBytes: number
  }
}

export class Gateway {
  readonly ports: GatewayPorts
  readonly #parts: GatewayParts
  readonly #draining = new AbortController()
  readonly #shares: Shares

  constructor(parts: GatewayParts) {
    this.#parts = parts
    const { runtime, store, ledgerStore, catalogue, log, limits, backends, fetch, search, pdfs, history } = parts
    const { clock, random } = runtime
    const { maxConcurrency, capacityWaitMs, settleDeadlineMs, idleMs } = limits
    const shares = new Shares({
      clock,
      look: parts.share,
      changed: (now) => {
        log.info("sharing", { ...now })
        tellShare(this.ports.actors, now)
        this.ports.pools.setShare(now)
      },
      failed: (error) => log.warn("share not read", { error: String(error) }),
    })
    this.#shares = shares
    const share = () => shares.current
    const unread = new UnreadBytes(limits.unreadBytes)
    const pools = new Pools({
      backends,
      clock,
      share,
      setting: (member) => catalogue.member(member),
      onOccurrence: (one) => history?.occurred(one),
    })
    this.ports = {
      actors: startActors({
        runtime,
        store,
        ledgerStore,
        catalogue,
        log,
        maxConcurrency,
        capacityWaitMs,
        settleDeadlineMs,
        idleMs,
        share,
        counts: parts.counts,
        capOf: (model) => pools.capOf(model),
      }),
      catalogue,
      backends,
      pools,
      limits,
      largeBodies: parts.largeBodies,
      threadTime: new RecentUse(clock),
      refusals: new RecentUse(clock),
      bodies: new BodyMemory(limits.bodyBytes),
      search,
      unread,
      deduplication: new CallDeduplication({
        clock,
        store: parts.callKeys,
        processId: parts.processId,
        limits,
        unread,
        neighbours: parts.neighbours,
        onError: (error) => log.warn("call's key not freed", { error: String(error) }),
      }),
      endUserSecret: parts.endUserSecret,
      calibration: new Calibration(),
      factors: new EstimateFactors(clock, parts.factorStore),
      pdfs,
      health: new BackendHealth(clock, (...ended) => history?.tried(...ended)),
      random,
      clock,
      fetch,
      withdrawals: parts.withdrawals,
      tracing: parts.tracing,
      admitted: parts.admitted,
      finished: parts.finished,
      refused: parts.refused,
      alerted: parts.alerted,
      crashed: parts.crashed,
      draining: this.#draining.signal,
      inFlight: new CallsInFlight(),
    }
  }

  /** This process's part of what all processes on the database keep together. */
  get share(): Share {
    return this.#shares.current
  }

  get isDraining(): boolean {
    return this.#draining.signal.aborted
  }

  /** Before the first call. Resolves with how many calls of processes before this one had to be taken back. */
  async recover(): Promise<number> {
    return await withdrawKept(this.ports.actors, this.ports.withdrawals)
  }

  /** What another process said. */
  hear(notice: Exclude<Notice, { readonly about: "catalogue" | "origins" }>): void {
    if (notice.about === "processes") void this.#shares.look()
    else hear(this.ports.actors, this.#parts.processId, notice)
  }

  /** Some of what others said was missed. */
  hearAll(): Promise<unknown> {
    void this.#shares.look()
    return hearAll(this.ports.actors)
  }

  /** From now on its share is that of one among those that take calls. */
  followShare(): Promise<void> {
    return this.#shares.follow()
  }

  replaceCatalogue(loaded: Catalogue): void {
    const { actors, health, pools } = this.ports
    this.#parts.catalogue.replace(loaded)
    pools.replace(loaded.models)
    health.replace(loaded.models.flatMap((model) => pools.all(model)))
    for (const model of loaded.models) actors.models.setCap(model.id, pools.capOf(model))
  }

  /** Takes no new calls; resolves when those under way have been settled, which it hurries in the end. */
  async drain(): Promise<void> {
    const { actors, clock, inFlight } = this.ports
    this.#draining.abort()
    this.#shares.stop()
    drainLeases(actors)
    await Promise.race([inFlight.ended(), sleep(clock, this.#parts.limits.drainMs)])
    inFlight.stop()
    await inFlight.ended()
  }

  /** Writes what is to be written and gives the leases back. After it nothing more may be asked of the actors. */
  stop(): Promise<void> {
    this.ports.deduplication.stop()
    return this.ports.actors.stop()
  }
}
