/**
 * Opens the store: the embedded database or a server's, migrated, with this process registered and the dead ones closed.
 */
import type { Config } from "../config.ts"
import type { Log } from "../log.ts"
import { type Database, openDatabase } from "./database.ts"
import { openEmbedded } from "./embedded/open.ts"
import { migrate } from "./migrate.ts"
import { type RegisteredProcess, registerProcess } from "./processes.ts"

export interface StoreParts {
  readonly config: Pick<Config, "DATABASE_URL" | "DATA_DIR" | "DATABASE_CONNECTIONS">
  readonly log: Log
  readonly fatal: (reason: string) => void
}

export interface Store {
  readonly database: Database
  /** The ledger's own connections, so that no crowd of readers delays a commit. */
  readonly ledgerDatabase: Database
  readonly process: RegisteredProcess
  /** Gives back what dead processes leased, and ends their calls. Never throws; it is tried again. */
  closeDeadProcesses(): Promise<void>
  close(): Promise<void>
}

const LEDGER_CONNECTIONS = 2

export async function openStore({ config, log, fatal }: StoreParts): Promise<Store> {
  const embedded =
    config.DATABASE_URL === undefined
      ? await openEmbedded({
          dataDir: config.DATA_DIR,
          onExit: (error) => fatal(`the embedded database ended: ${error.message}`),
        })
      : undefined
  const url = embedded?.url ?? config.DATABASE_URL ?? ""
  const applied = await migrate(url)
  if (applied.length > 0) log.info("migrated", { migrations: applied.join(" ") })
  const database = openDatabase({ url, connections: config.DATABASE_CONNECTIONS })
  const ledgerDatabase = openDatabase({ url, connections: LEDGER_CONNECTIONS })
  const process = await registerProcess({
    db: database,
    lockUrl: config.DATABASE_URL,
    onFenced: () => fatal("another process took this one for dead and closed it"),
  })

  const closeDeadProcesses = async () => {
    try {
      for (const id of await process.deadProcesses()) {
        const { leases, openings } = await process.closeProcess(id)
        log.warn("closed a dead process", { process_id: id, leases, openings })
      }
    } catch (error) {
      log.warn("dead processes not closed", { error: String(error) })
    }
  }
  await closeDeadProcesses()

  return {
    database,
    ledgerDatabase,
    process,
    closeDeadProcesses,
    async close() {
      await process.close().catch((error: unknown) => log.warn("leases not given back", { error: String(error) }))
      await ledgerDatabase.close()
      await database.close()
      await embedded?.close()
    },
  }
}
