/**
 * Starts the actors on their durable state. An actor that is started again must not miss what it sent to the ledger and
 * is not written yet, so each start waits for the ledger first.
 */
import type { AccountCommand } from "../../actors/account.ts"
import { Actor, type Behaviour, type Runtime } from "../../actors/kernel/actor.ts"
import { Registry, supervisor } from "../../actors/kernel/registry.ts"
import type { Budget } from "../../actors/key-limits.ts"
import { Key } from "../../actors/key.ts"
import type { KeyCommand } from "../../actors/key-record.ts"
import { Ledger, type LedgerCommand, type LedgerStore } from "../../actors/ledger.ts"
import type { LeaseDriver, Share } from "../../actors/lease.ts"
import type { Micro } from "../../actors/money/micro.ts"
import { Run, type RunRequest, type RunCommand } from "../../actors/run.ts"
import { Slots, type SlotsCommand } from "../../actors/slots.ts"
import type { WindowCounts } from "../../actors/window.ts"
import type { LiveCatalogue, Model } from "../catalogue/model.ts"
import { Failure } from "../failure/failure.ts"
import type { Log } from "../log.ts"
import type { ActorStore } from "../store/leases.ts"
import { DatabaseUnavailable } from "../store/database.ts"
import { type Actors, GateActor, LedgerActor, ModelActors } from "./actors.ts"
import { lookUpsOf } from "./authenticate.ts"
import { AccountActors, BreakerActors, KeyActors, RunActors } from "./leasing-actors.ts"
import {
  leaseDriver,
  type LeaseStatements,
  type Restart,
  Restarts,
  startAccount,
  startBreaker,
  startingAgain,
} from "./lease-driver.ts"

export interface ActorsParts {
  readonly runtime: Runtime
  readonly store: ActorStore
  readonly ledgerStore: LedgerStore
  readonly catalogue: LiveCatalogue
  readonly log: Log
  readonly maxConcurrency: number
  /** Of a model, with all its pool. */
  readonly capOf: (model: Model) => number
  readonly capacityWaitMs: number
  readonly settleDeadlineMs: number
  /** After so long without use an actor that holds nothing is put away. */
  readonly idleMs: number
  /** Of rate windows and model caps, as it is now; when it changes the actors are told. */
  readonly share: () => Share
  /** Counts keys' windows for all processes; undefined where each has its share. */
  readonly counts: WindowCounts | undefined
}

/** What an actor needs to begin on what is durable. */
interface Started extends ActorsParts {
  /** Resolves when all is durable that was sent to the ledger of an account; rejects when that takes too long. */
  readonly written: (accountId: string) => Promise<void>
}

/** The most asks that wait for one actor; a turn takes microseconds. */
const MAILBOX_LIMIT = 10_000
const ASK_DEADLINE_MS = 5_000
const INTENSITY = { restarts: 10, withinMs: 60_000 }
/** How long a starting actor waits for the ledger to have written what was sent before. */
const BARRIER_MS = 5_000

export function startActors(parts: ActorsParts): Actors {
  const { log } = parts
  const { clock } = parts.runtime
  const restarts = new Restarts(parts.runtime)
  const { runtime } = restarts
  const single = <Command>(name: string, start: (self: Actor<Command>) => Behaviour<Command>) =>
    new Actor<Command>(runtime, {
      name,
      mailboxLimit: MAILBOX_LIMIT,
      start,
      supervise: supervisor(clock, { restarts: 0, withinMs: 1 }, (cause) => runtime.fatal(name, cause)),
    })
  const ledgerActor = single<LedgerCommand>(
    "ledger",
    (self) =>
      new Ledger({
        clock,
        store: parts.ledgerStore,
        self: (command) => self.tell(command),
        failed: (cause) => log.warn("ledger commit failed", { error: String(cause) }),
      }),
  )
  const gateActor = single<SlotsCommand>(
    "gate",
    (self) => new Slots(clock, (command) => self.tell(command), parts.maxConcurrency),
  )
  const ledger = new LedgerActor(ledgerActor, parts.settleDeadlineMs)
  const written = async (accountId: string) => {
    const barrier = await ledger.barrier(accountId, BARRIER_MS)
    if (barrier instanceof Failure) throw new DatabaseUnavailable("the ledger is behind")
  }

  const common = {
    mailboxLimit: MAILBOX_LIMIT,
    askDeadlineMs: ASK_DEADLINE_MS,
    idleMs: parts.idleMs,
    intensity: INTENSITY,
  }
  const slotsDeadlineMs = parts.capacityWaitMs + ASK_DEADLINE_MS
  const keys: Registry<KeyCommand> = new Registry<KeyCommand>(runtime, {
    ...common,
    kind: "key",
    start: restarts.of("key", startKey({ ...parts, written }), (id) => void keyActors.view(id)),
  })
  const runs: Registry<RunCommand> = new Registry<RunCommand>(runtime, {
    ...common,
    kind: "run",
    start: restarts.of(
      "run",
      startRun({ ...parts, written }),
      (id) => void runs.ask(id, (reply) => ({ type: "view", reply })),
    ),
  })
  const accounts: Registry<AccountCommand> = new Registry<AccountCommand>(runtime, {
    ...common,
    kind: "account",
    start: startAccount({
      clock,
      store: parts.store,
      written,
      failed: leaseNotMoved(log),
      startAgain: startingAgain(clock, (id) => void accountActors.view(id)),
    }),
  })
  const accountActors = new AccountActors(accounts)
  const purses = parts.store.breakers
  const breakers: Registry<AccountCommand> = new Registry<AccountCommand>(runtime, {
    ...common,
    kind: "breaker",
    start: startBreaker({
      clock,
      purses,
      written,
      failed: leaseNotMoved(log),
      startAgain: startingAgain(clock, (id) => void breakerActors.view(id)),
    }),
  })
  const keyActors = new KeyActors(keys, clock)
  const trip = async (purse: string, least: Micro) => {
    try {
      const paused = await purses.trip(purse, least)
      if (paused === undefined) return "crowded"
      log.warn("breaker tripped", { purse })
      // One that has not heard in time refuses by the purse.
      await keyActors.inForce(paused)
      return "paused"
    } catch (error) {
      log.warn("breaker not tripped", { purse, error: String(error) })
      return "unavailable"
    }
  }
  const breakerActors = new BreakerActors(breakers, { trip, look: (purse) => purses.look(purse) })
  const models = new Registry<SlotsCommand>(runtime, {
    ...common,
    kind: "model",
    askDeadlineMs: slotsDeadlineMs,
    start: (id, tell) => {
      const offer = parts.catalogue.find(id, clock.now())
      return new Slots(clock, tell, offer === undefined ? 1 : parts.capOf(offer.model), parts.share())
    },
  })
  const registries = [keys, runs, accounts, breakers, models]
  const singles = [gateActor, ledgerActor]
  return {
    keys: keyActors,
    lookUps: lookUpsOf(clock),
    runs: new RunActors(runs, (accountId) => parts.store.mayOpenRun(accountId, clock.now())),
    accounts: accountActors,
    breakers: breakerActors,
    models: new ModelActors(models),
    gate: new GateActor(gateActor, slotsDeadlineMs),
    ledger,
    mailboxes: () => [
      ...registries.map((registry) => ({ kind: registry.kind, ...registry.metrics() })),
      ...singles.map(({ name, depth, ageMs }) => ({ kind: name, actors: undefined, depth, oldestMs: ageMs })),
    ],
    async stop() {
      await ledger.barrier()
      await Promise.all(registries.map((registry) => registry.stop()))
      await ledgerActor.stop()
    },
  }
}

const leaseNotMoved = (log: Log) => (what: string, error: unknown) =>
  log.warn("lease not moved", { what, error: String(error) })

function startKey({ runtime: { clock }, store, log, share, counts, written }: Started): Restart<KeyCommand> {
  return async (keyHash, self, isRestarted) => {
    const read = (until?: typeof written) => store.loadKey(keyHash, clock.now(), until)
    const load = () => {
      read().then(
        (loaded) => self({ type: "loaded", loaded }),
        (error: unknown) => {
          log.warn("key not read again", { error: String(error) })
          self({ type: "not-loaded" })
        },
      )
    }
    const loaded = await read(written)
    const driverOf = (budget: Budget) =>
      budgetDriver(
        { store, log, budget },
        {
          written: async () => loaded && (await written(loaded.record.accountId)),
          tell: (news) => self({ type: "budget", budget, news }),
        },
      )
    return new Key({ clock, self, load, driverOf, counts }, loaded, share(), isRestarted)
  }
}

/** Of a run that is not known nothing is leased, so its first record says whose it is. */
function startRun({ runtime: { clock }, store, log, written }: Started): Restart<RunCommand> {
  return async (runId, self, isRestarted) => {
    let known = await store.findRun(runId)
    const find = (request: RunRequest) => {
      store.findOrOpenRun(request, clock.now()).then(
        (lookup) => {
          if (typeof lookup === "object") known = lookup
          return self({ type: "found", lookup })
        },
        (error: unknown) => {
          log.warn("run not found out", { error: String(error) })
          self({ type: "not-found-out" })
        },
      )
    }
    const driverOf = (budget: Budget) =>
      budgetDriver(
        { store, log, budget },
        {
          written: async () => known && (await written(known.accountId)),
          tell: (news) => self({ type: "lease", news }),
        },
      )
    return new Run({ clock, self, find, driverOf }, known, isRestarted)
  }
}

/** `written` resolves when all is durable that was sent to the ledger of the budget's account. */
function budgetDriver(
  { store, log, budget }: Pick<Started, "store" | "log"> & { readonly budget: Budget },
  { written, tell }: Pick<LeaseStatements, "written" | "tell">,
): LeaseDriver {
  return leaseDriver({
    what: "budget",
    async grow(short, version) {
      if (!budget.opened) await written()
      const grown = await store.growBudget(budget, short, version)
      if (grown === undefined) throw new Error("this process was closed by another")
      return grown
    },
    giveBack: (returned) => store.returnBudget(budget, returned),
    written,
    tell,
    failed: leaseNotMoved(log),
  })
}
