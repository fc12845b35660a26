/**
 * Starts the actors on their durable state. An actor that is started again must not miss what it sent to the ledger and
 * is not written yet, so each start waits for the ledger first.
 */
import { Account, type AccountCommand } from "../../actors/account.ts"
import type { Budget } from "../../actors/budget.ts"
import { Actor, type Behaviour, type Runtime } from "../../actors/kernel/actor.ts"
import { Registry } from "../../actors/kernel/registry.ts"
import { supervisor } from "../../actors/kernel/supervision.ts"
import { Key, type KeyCommand } from "../../actors/key.ts"
import { Ledger, type LedgerCommand, type LedgerStore } from "../../actors/ledger.ts"
import type { LeaseNews } from "../../actors/lease.ts"
import { type Micro, zero } from "../../actors/money/micro.ts"
import type { Share } from "../../actors/share.ts"
import { Slots, type SlotsCommand } from "../../actors/slots.ts"
import type { LiveCatalogue } from "../catalogue/live.ts"
import type { Log } from "../log.ts"
import type { ActorStore } from "../store/actor-store.ts"
import { DatabaseUnavailable } from "../store/database.ts"
import { AccountActors, type Actors, GateActor, KeyActors, LedgerActor, ModelActors } from "./actors.ts"
import { Failure } from "../failure/failure.ts"

export interface ActorsParts {
  readonly runtime: Runtime
  readonly store: ActorStore
  readonly ledgerStore: LedgerStore
  readonly catalogue: LiveCatalogue
  readonly log: Log
  readonly maxConcurrency: number
  readonly capacityWaitMs: number
  readonly settleDeadlineMs: number
  /** After so long without use an actor that holds nothing is put away. */
  readonly idleMs: number
  /** Of rate windows and model caps, as it is now; when it changes the actors are told. */
  readonly share: () => Share
}

/** The most asks that wait for one actor; a turn takes microseconds. */
const MAILBOX_LIMIT = 10_000
const ASK_DEADLINE_MS = 5_000
const INTENSITY = { restarts: 10, withinMs: 60_000 }
/** How long a starting actor waits for the ledger to have written what was sent before. */
const BARRIER_MS = 5_000
/** When an account whose actor could not start, because the database was away, is looked after again. */
const START_AGAIN_MS = 1_000

export function startActors(parts: ActorsParts): Actors {
  const { runtime, store, log } = parts
  const { clock } = runtime
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
  const ledger = new LedgerActor(ledgerActor, parts.settleDeadlineMs)
  const gateActor = single<SlotsCommand>(
    "gate",
    (self) => new Slots(clock, (command) => self.tell(command), parts.maxConcurrency),
  )
  const common = {
    mailboxLimit: MAILBOX_LIMIT,
    askDeadlineMs: ASK_DEADLINE_MS,
    idleMs: parts.idleMs,
    intensity: INTENSITY,
  }

  const written = async () => {
    const barrier = await ledger.barrier(BARRIER_MS)
    if (barrier instanceof Failure) throw new DatabaseUnavailable("the ledger is behind")
  }

  const failed = (what: string, tell: () => void) => (error: unknown) => {
    log.warn("lease not moved", { what, error: String(error) })
    tell()
  }

  const keyRegistry = new Registry<KeyCommand>(runtime, {
    ...common,
    kind: "key",
    start: async (keyHash, self) => {
      await written()
      const read = () => store.loadKey(keyHash, clock.now())
      const load = () => {
        read().then(
          (loaded) => self({ type: "loaded", loaded }),
          (error: unknown) => {
            log.warn("key not read again", { error: String(error) })
            self({ type: "not-loaded" })
          },
        )
      }
      const heard = (budget: Budget, news: LeaseNews, elsewhere?: Micro) =>
        self({ type: "budget", budget, news, ...(elsewhere !== undefined && { elsewhere }) })
      const grow = async (budget: Budget, short: Micro, version: number) => {
        if (!budget.opened) await written()
        const grown = await store.growBudget(budget, short, version)
        if (grown === undefined) throw new Error("this process was closed by another")
        heard(budget, { type: "grown", lease: grown.lease, more: grown.more }, grown.elsewhere)
      }
      const giveBack = async (budget: Budget, returned: Micro, recount: boolean) => {
        if (recount) await written()
        const lease = await store.returnBudget(budget, returned)
        // Not there any more: it was given back whole, with the process.
        heard(budget, lease === undefined ? { type: "not-returned" } : { type: "returned", lease })
      }
      const growBudgetOf = (budget: Budget, short: Micro, version: number) =>
        void grow(budget, short, version).catch(failed("budget not grown", () => heard(budget, { type: "not-grown" })))
      const returnBudgetOf = (budget: Budget, returned: Micro, recount: boolean) =>
        void giveBack(budget, returned, recount).catch(
          failed("budget not given back", () => heard(budget, { type: "not-returned" })),
        )
      const ports = { clock, self, load, growBudget: growBudgetOf, returnBudget: returnBudgetOf }
      const loaded = await read()
      return new Key(ports, loaded, parts.share())
    },
  })
  const openLease = async (accountId: string) => {
    await written()
    // Of a lease that is open already this reads what there is.
    return await store.growLease(accountId, zero, 0)
  }
  // A lease that an actor left when it crashed, or that was opened and not heard of, is in nobody's hands: no neighbour gets
  // anything of it before an actor knows it again.
  const startAgain = (accountId: string) => clock.after(START_AGAIN_MS, () => void accounts.view(accountId))
  const accountRegistry: Registry<AccountCommand> = new Registry(runtime, {
    ...common,
    kind: "account",
    start: async (accountId, tell) => {
      const opened = await openLease(accountId).catch((error: unknown) => {
        startAgain(accountId)
        throw error
      })
      if (opened === undefined) throw new Error(`no lease on ${accountId} can be had`)
      const { id } = opened.lease
      const self = (news: LeaseNews) => tell({ type: "lease", news })
      const grow = async (short: Micro, version: number) => {
        const grown = await store.growLease(accountId, short, version)
        // Charges are booked under the lease that this actor began with; another one is not its own.
        if (grown?.lease.id !== id) throw new Error(`the lease ${id} is not open any more`)
        self({ type: "grown", ...grown })
      }
      const giveBack = async (returned: Micro, recount: boolean) => {
        if (recount) await written()
        const lease = await store.returnLease(id, returned)
        // Not open any more: it was given back whole, with the process.
        self(lease === undefined ? { type: "not-returned" } : { type: "returned", lease })
      }
      const ports = {
        clock,
        self,
        grow: (short: Micro, version: number) =>
          void grow(short, version).catch(failed("account not grown", () => self({ type: "not-grown" }))),
        giveBack: (returned: Micro, recount: boolean) =>
          void giveBack(returned, recount).catch(
            failed("account not given back", () => self({ type: "not-returned" })),
          ),
      }
      return new Account(ports, opened.lease, opened.more)
    },
  })
  const accounts = new AccountActors(accountRegistry)
  const modelRegistry = new Registry<SlotsCommand>(runtime, {
    ...common,
    kind: "model",
    askDeadlineMs: parts.capacityWaitMs + ASK_DEADLINE_MS,
    start: (id, tell) =>
      new Slots(clock, tell, parts.catalogue.find(id, clock.now())?.model.maxConcurrency ?? 1, parts.share()),
  })
  const registries = [keyRegistry, accountRegistry, modelRegistry]
  return {
    keys: new KeyActors(keyRegistry),
    accounts,
    models: new ModelActors(modelRegistry),
    gate: new GateActor(gateActor, parts.capacityWaitMs + ASK_DEADLINE_MS),
    ledger,
    mailboxes: () => [
      ...registries.map((registry) => ({ kind: registry.kind, ...registry.metrics() })),
      ...[gateActor, ledgerActor].map(({ name, depth, ageMs }) => ({
        kind: name,
        actors: undefined,
        depth,
        oldestMs: ageMs,
      })),
    ],
    async stop() {
      await ledger.barrier()
      await Promise.all(registries.map((registry) => registry.stop()))
      await ledgerActor.stop()
    },
  }
}
