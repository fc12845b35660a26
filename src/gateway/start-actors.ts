/**
 * Starts the actors on their durable state. An actor that is started again must not miss what it sent to the ledger and
 * is not written yet, so each start waits for the ledger first.
 */
import { Account, type AccountCommand } from "../../actors/account.ts"
import { Actor, type Behaviour, type Runtime } from "../../actors/kernel/actor.ts"
import { Registry } from "../../actors/kernel/registry.ts"
import { supervisor } from "../../actors/kernel/supervision.ts"
import { Key, type KeyCommand } from "../../actors/key.ts"
import { Ledger, type LedgerCommand, type LedgerStore } from "../../actors/ledger.ts"
import { Slots, type SlotsCommand } from "../../actors/slots.ts"
import type { LiveCatalogue } from "../catalogue/live.ts"
import type { Log } from "../log.ts"
import { type Database, DatabaseUnavailable } from "../store/database.ts"
import { growLease } from "../store/leases.ts"
import { loadKey } from "../store/live-keys.ts"
import type { Actors } from "./actors.ts"

export interface ActorsParts {
  readonly runtime: Runtime
  readonly database: Database
  readonly ledgerStore: LedgerStore
  readonly processId: string
  readonly catalogue: LiveCatalogue
  readonly log: Log
  readonly maxConcurrency: number
  readonly capacityWaitMs: number
}

/** The most asks that wait for one actor; a turn takes microseconds. */
const MAILBOX_LIMIT = 10_000
const ASK_DEADLINE_MS = 5_000
/** Longer than a window of 60 s, which must be empty before a key is put away. */
const IDLE_MS = 90_000
const INTENSITY = { restarts: 10, withinMs: 60_000 }
/** How long a starting actor waits for the ledger to have written what was sent before. */
const BARRIER_MS = 5_000

export function startActors(parts: ActorsParts): Actors {
  const { runtime, database, processId, log } = parts
  const { clock } = runtime
  const single = <Command>(name: string, start: (self: Actor<Command>) => Behaviour<Command>) =>
    new Actor<Command>(runtime, {
      name,
      mailboxLimit: MAILBOX_LIMIT,
      start,
      supervise: supervisor(clock, { restarts: 0, withinMs: 1 }, (cause) => runtime.fatal(name, cause)),
    })

  const ledger = single<LedgerCommand>(
    "ledger",
    (self) =>
      new Ledger({
        clock,
        store: parts.ledgerStore,
        self: (command) => self.tell(command),
        failed: (cause) => log.warn("ledger commit failed", { error: String(cause) }),
      }),
  )
  const gate = single<SlotsCommand>(
    "gate",
    (self) => new Slots(clock, (command) => self.tell(command), parts.maxConcurrency),
  )
  const common = { mailboxLimit: MAILBOX_LIMIT, askDeadlineMs: ASK_DEADLINE_MS, idleMs: IDLE_MS, intensity: INTENSITY }

  const written = async () => {
    const barrier = await ledger.ask<"durable">((reply) => ({ type: "barrier", reply }), BARRIER_MS)
    if (barrier.kind !== "ok") throw new DatabaseUnavailable("the ledger is behind")
  }

  const keys = new Registry<KeyCommand>(runtime, {
    ...common,
    kind: "key",
    start: async (keyHash, self) => {
      await written()
      const read = () => loadKey(database, keyHash, clock.now())
      const load = () => {
        read().then(
          (loaded) => self({ type: "loaded", loaded }),
          (error: unknown) => {
            log.warn("key not read again", { error: String(error) })
            self({ type: "not-loaded" })
          },
        )
      }
      return new Key({ clock, self, load }, await read())
    },
  })
  const accounts = new Registry<AccountCommand>(runtime, {
    ...common,
    kind: "account",
    start: async (accountId, tell) => {
      await written()
      const lease = await growLease(database, processId, accountId)
      if (lease === undefined) throw new Error(`no lease on ${accountId} can be had by ${processId}`)
      const grow = () => {
        growLease(database, processId, accountId).then(
          (grown) => tell(grown === undefined ? { type: "lease-not-grown" } : { type: "lease-grown", lease: grown }),
          () => tell({ type: "lease-not-grown" }),
        )
      }
      return new Account({ clock, growLease: grow }, lease)
    },
  })
  const models = new Registry<SlotsCommand>(runtime, {
    ...common,
    kind: "model",
    askDeadlineMs: parts.capacityWaitMs + ASK_DEADLINE_MS,
    start: (id, tell) => new Slots(clock, tell, parts.catalogue.find(id, clock.now())?.model.maxConcurrency ?? 1),
  })
  return { keys, accounts, models, gate, ledger }
}
