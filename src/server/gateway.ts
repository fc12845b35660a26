/** Builds the gateway of a process with the machine's resources: threads, memory, the disk and the configuration's limits. */
import type { PasswordCost } from "../accounts/fields.ts"
import { availableParallelism, totalmem } from "node:os"
import { join } from "node:path"
import type { Runtime } from "../../actors/kernel/actor.ts"
import { sleep, systemClock } from "../../actors/kernel/clock.ts"
import { InlineScheduler } from "../../actors/kernel/turns.ts"
import { LargeBodies } from "../bodies/bodies.ts"
import { BodyWorkers } from "../bodies/workers.ts"
import type { LiveCatalogue } from "../catalogue/model.ts"
import type { CatalogueFile } from "../catalogue/schema.ts"
import { type Config, workersOf } from "../config.ts"
import { Gateway, type GatewayParts } from "../gateway/gateway.ts"
import type { CallLimits } from "../gateway/ports.ts"
import type { Log } from "../log.ts"
import type { LegalTexts } from "../legal/texts.ts"
import { startHttpThread } from "../own-process.ts"
import { PdfWorker } from "../pdf/reader.ts"
import { RedisCounts, type RedisWaits } from "../redis/counts.ts"
import { searx } from "../search/searx.ts"
import { actorStore } from "../store/leases.ts"
import { callKeyStatements } from "../store/call-keys.ts"
import { estimateFactorStore } from "../store/costs.ts"
import { installationName, installationSecret } from "../store/processes.ts"
import { ledgerStore } from "../store/ledger.ts"
import type { Store, StoreParts } from "../store/open.ts"
import { WithdrawalFiles } from "../store/withdrawals.ts"
import { batchRequests } from "../upstream/client.ts"
import type { Backends } from "../upstream/providers.ts"
import { sendsMail } from "./accounts.ts"
import { NeighbourSockets } from "./sockets.ts"

export interface ServerOptions {
  readonly config: Config
  readonly log: Log
  /** The catalogue that seeds an empty database. */
  readonly catalogueFile: CatalogueFile
  readonly backends: Backends
  readonly legal: LegalTexts
  /** Called when the process cannot continue, because restarts of its actors do not help. */
  readonly fatal: (reason: string) => void
  /** Shorter waits for tests. They cannot be configured. */
  readonly limits?: Partial<Pick<CallLimits, "readerStallMs">>
  readonly redisWaits?: RedisWaits | undefined
  /** A cheaper password hash for tests. */
  readonly passwordCost?: PasswordCost
  readonly ownSessions?: NonNullable<StoreParts["ownSessions"]>
}

/** Long enough for a laptop that sleeps briefly (decisions §6). */
const READER_STALL_MS = 300_000
const MAX_BODY_WORKERS = 2
const MIN_BODY_MEMORY_BYTES = 256 * 1024 * 1024
/** Longer than a window of 60 s, which must be empty before a key's actor is passivated. */
const IDLE_MS = 90_000

interface OpenGateway {
  readonly gateway: Gateway
  readonly withdrawals: WithdrawalFiles
  /** Undefined without Redis. */
  readonly counts: RedisCounts | undefined
  readonly stop: () => Promise<void>
}

/** Opens a gateway: it withdraws calls that earlier processes could not withdraw, and is then ready for its first call. */
export async function openGateway(
  options: ServerOptions,
  store: Store,
  catalogue: LiveCatalogue,
  listeners: Pick<GatewayParts, "admitted" | "finished" | "refused" | "alerted" | "tracing" | "history">,
): Promise<OpenGateway> {
  const { config, log, backends, fatal } = options
  const { database, process } = store
  await startHttpThread()
  const pdfs = new PdfWorker(systemClock)
  const bodyWorkers = new BodyWorkers({
    log,
    workers: Math.min(MAX_BODY_WORKERS, Math.max(1, Math.floor((availableParallelism() - 1) / workersOf(config)))),
    waitMs: config.CAPACITY_WAIT_MS,
  })
  const runtime: Runtime = {
    clock: systemClock,
    random: Math.random,
    scheduler: new InlineScheduler(),
    fatal: (actor, cause) => fatal(`the ${actor} actor does not recover: ${String(cause)}`),
    crashed: (actor, cause) => log.error("actor crashed", { actor, error: stackOf(cause) }),
  }
  const secret = await installationSecret(database, "end-users")
  const withdrawals = new WithdrawalFiles(join(config.DATA_DIR, "withdrawals"), installationName(secret), log)
  // The embedded database has one process.
  const neighbours =
    config.DATABASE_URL === undefined
      ? undefined
      : NeighbourSockets.open({
          dataDir: config.DATA_DIR,
          processId: process.id,
          log,
          handOver: (call, signal) => gateway.ports.deduplication.handOver(call, signal),
        })
  const { REDIS_URL: url, REDIS_PREFIX: prefix } = config
  const counts =
    url === undefined
      ? undefined
      : new RedisCounts({ url, prefix, clock: systemClock, random: Math.random, log, waits: options.redisWaits })
  const gateway: Gateway = new Gateway({
    largeBodies: new LargeBodies(bodyWorkers),
    runtime,
    processId: process.id,
    store: actorStore(database, process.id, sendsMail(config)),
    // The embedded database has one process, so nothing is shared.
    ...(config.DATABASE_URL !== undefined && { share: () => process.share() }),
    counts,
    ledgerStore: ledgerStore({
      database: store.ledgerDatabase,
      processId: process.id,
      fenced: (ids) => {
        log.error("settled without a lease", { request_ids: ids.join(" ") })
        process.leaseUnknown()
      },
      archived: (ids) => log.error("settled after archiving", { request_ids: ids.join(" ") }),
    }),
    withdrawals,
    catalogue,
    backends,
    fetch: batchRequests(fetch),
    endUserSecret: secret,
    pdfs,
    factorStore: estimateFactorStore(database),
    callKeys: callKeyStatements(database),
    neighbours,
    search:
      config.SEARCH_URL === undefined
        ? undefined
        : searx({ baseUrl: config.SEARCH_URL, failed: (status) => log.warn("web search failed", { status }) }),
    limits: { ...limitsOf(config), ...options.limits },
    log,
    ...listeners,
    crashed: (requestId, error) => log.error("call crashed", { request_id: requestId, error: stackOf(error) }),
  })
  const withdrawn = await gateway.recover()
  if (withdrawn > 0) log.warn("took back calls of a dead process", { calls: withdrawn })
  counts?.start(() => gateway.ports.actors.keys.tellCounts())
  return {
    gateway,
    withdrawals,
    counts,
    async stop() {
      await neighbours?.stop()
      await gateway.stop()
      counts?.stop()
      pdfs[Symbol.dispose]()
      bodyWorkers.stop()
    },
  }
}

/** As long as a change may take to be in force in every process (decisions §13.8). */
const STOOD_STILL_MS = 1_000
const LOOK_MS = 250
const CATCH_UP_MS = 2_000

export interface Standstills {
  /** What a request waits for before it is answered; undefined when there is nothing. */
  readonly caughtUp: () => Promise<void> | undefined
  readonly stop: () => void
}

/**
 * A process that stood still, as on a machine that slept, finds the requests of that time in its sockets, and behind them what other
 * processes have changed. It reads that before it answers any: a key that was revoked meanwhile must not pay, and a price that has
 * begun must hold. Where the database does not answer within two seconds, it goes on with what it knew. `readAnew` never rejects.
 */
export function watchForStandstills(readAnew: () => Promise<unknown>): Standstills {
  let seenAt = systemClock.monotonic()
  let reading: Promise<void> | undefined
  let readings = 0
  const read = async () => {
    const own = ++readings
    await Promise.race([readAnew(), sleep(systemClock, CATCH_UP_MS)])
    if (own === readings) reading = undefined
  }
  const look = () => {
    const now = systemClock.monotonic()
    const stoodStill = now - seenAt >= STOOD_STILL_MS
    seenAt = now
    if (stoodStill) reading = read()
    return reading
  }
  const timer = setInterval(() => void look(), LOOK_MS)
  timer.unref()
  return { caughtUp: look, stop: () => clearInterval(timer) }
}

function limitsOf(config: Config): GatewayParts["limits"] {
  const memory = Math.floor(memoryBytes() / workersOf(config))
  return {
    maxBodyBytes: config.MAX_BODY_BYTES,
    bodyIdleMs: config.BODY_IDLE_TIMEOUT_MS,
    bodyBytes: config.BODY_MEMORY_BYTES ?? bodyBytesOf(memory, config.MAX_BODY_BYTES),
    maxConcurrency: config.MAX_CONCURRENCY,
    capacityWaitMs: config.CAPACITY_WAIT_MS,
    heartbeatMs: config.HEARTBEAT_MS,
    settleDeadlineMs: config.SETTLE_DEADLINE_MS,
    upstreamStartMs: config.UPSTREAM_START_TIMEOUT_MS,
    upstreamIdleMs: config.UPSTREAM_IDLE_TIMEOUT_MS,
    drainMs: config.DRAIN_MS,
    idleMs: IDLE_MS,
    upstreamAnswerMs: config.UPSTREAM_ANSWER_TIMEOUT_MS,
    drainLeftMs: config.DRAIN_LEFT_MS,
    unreadBytes: config.MAX_UNREAD_BYTES ?? unreadBytesOf(memory),
    replayBytes: replayBytesOf(memory),
    readerStallMs: READER_STALL_MS,
  }
}

/** Unread responses may take an eighth of the memory, and at least 64 MiB. */
const unreadBytesOf = (memory: number): number => Math.max(64 * 1024 * 1024, Math.floor(memory / 8))

/** Responses that can be replayed may take a thirty-second part of the memory, and at least 64 MiB. */
const replayBytesOf = (memory: number): number => Math.max(64 * 1024 * 1024, Math.floor(memory / 32))

/** Request bodies may take another eighth. A parsed body takes more than its bytes. */
const bodyBytesOf = (memory: number, largest: number): number =>
  Math.max(MIN_BODY_MEMORY_BYTES, 4 * largest, Math.floor(memory / 8))

/** The memory of the machine, or the limit of the container. */
const memoryBytes = (): number => {
  const constrained = process.constrainedMemory()
  return constrained > 0 ? Math.min(constrained, totalmem()) : totalmem()
}

const stackOf = (error: unknown): string => (error instanceof Error ? (error.stack ?? error.message) : String(error))
