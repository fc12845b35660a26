/**
 * Opens the store: the embedded database or a server's, migrated, with this process registered and the dead ones closed.
 */
import { existsSync } from "node:fs"
import { join } from "node:path"
import type { Config } from "../config.ts"
import type { Log } from "../log.ts"
import { type Database, openDatabase } from "./database.ts"
import { DataDirectoryInUse } from "./embedded/lock.ts"
import { embeddedAddress, openEmbedded } from "./embedded/open.ts"
import { APART_AT_ONCE } from "../../actors/ledger.ts"
import { migrate } from "./migrate.ts"
import { type RegisteredProcess, registerProcess } from "./processes.ts"

export interface StoreParts {
  readonly config: Pick<Config, "DATABASE_URL" | "DATA_DIR" | "DATABASE_CONNECTIONS" | "EMBEDDED_SYNC">
  readonly log: Log
  readonly fatal: (reason: string) => void
}

export interface Store {
  /** For a connection of one's own. */
  readonly url: string
  readonly database: Database
  /** The ledger's own connections, so that no crowd of readers delays a commit. */
  readonly ledgerDatabase: Database
  readonly process: RegisteredProcess
  /** Gives back what dead processes leased, and ends their calls. Never throws; it is tried again. */
  closeDeadProcesses(): Promise<void>
  close(): Promise<void>
}

/** One that was given up may still be closing beside the one that is in use. */
const LEDGER_CONNECTIONS = 2 + APART_AT_ONCE

export async function openStore({ config, log, fatal }: StoreParts): Promise<Store> {
  const embedded =
    config.DATABASE_URL === undefined
      ? await openEmbedded({
          dataDir: config.DATA_DIR,
          syncsCommits: config.EMBEDDED_SYNC,
          onExit: (error) => fatal(error.message),
          onOpenToOthers: (path) => log.warn("files open to other users", { path }),
          onNoCheckpoint: (error) => log.warn("no checkpoint", { error }),
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
    url,
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

/**
 * The database alone, for a command: nothing is leased or closed. Where a running gateway has the embedded database, it is
 * reached through that gateway, which has migrated it; `DataDirectoryInUse` when that gateway does not answer (yet).
 */
export async function openForCommand(config: StoreParts["config"]): Promise<Pick<Store, "url" | "database" | "close">> {
  const place = await openPlace(config)
  if (place.isOurs) await migrate(place.url)
  const database = openDatabase({ url: place.url, connections: 1 })
  return {
    url: place.url,
    database,
    async close() {
      await database.close()
      await place.close()
    },
  }
}

/** The same, of a database that is there: throws where opening would make an empty one. */
export async function openExisting(config: StoreParts["config"]): ReturnType<typeof openForCommand> {
  const { DATABASE_URL: url, DATA_DIR: dataDir } = config
  if (url === undefined && !existsSync(join(dataDir, "pg")))
    throw new Error(`there is no database in ${dataDir}: set DATA_DIR or DATABASE_URL to where it is`)
  return await openForCommand(config)
}

/** Where the database is, as it is found: not migrated. */
export interface Place {
  readonly url: string
  /** To be migrated by whoever opened it: no running gateway has it. */
  readonly isOurs: boolean
  close(): Promise<void>
}

const nothing = async (): Promise<void> => {}

export async function openPlace({
  DATABASE_URL: url,
  DATA_DIR: dataDir,
  EMBEDDED_SYNC: syncsCommits,
}: StoreParts["config"]): Promise<Place> {
  if (url !== undefined) return { url, isOurs: true, close: nothing }
  try {
    const embedded = await openEmbedded({ dataDir, syncsCommits })
    return { url: embedded.url, isOurs: true, close: () => embedded.close() }
  } catch (error) {
    const address = error instanceof DataDirectoryInUse ? embeddedAddress(dataDir) : undefined
    if (address === undefined) throw error
    const database = openDatabase({ url: address, connections: 1 })
    const answers = await database.ping()
    await database.close()
    if (!answers) throw error
    return { url: address, isOurs: false, close: nothing }
  }
}
