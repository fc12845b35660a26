/**
 * Opens the store: the embedded database or a server's, migrated, with this process registered and the dead ones closed.
 */
import { existsSync, statSync } from "node:fs"
import { join } from "node:path"
import type { Config } from "../config.ts"
import type { Log } from "../log.ts"
import type { Blocker } from "./gate.ts"
import { type Database, openDatabase } from "./database.ts"
import { DataDirectoryInUse, OfAnotherUser } from "./embedded/database-files.ts"
import { embeddedAddress, openEmbedded } from "./embedded/open.ts"
import { APART_AT_ONCE } from "../../actors/ledger.ts"
import { migrate, schemaState } from "./migrate.ts"
import { deniedOf, tableRights } from "./rights.ts"
import { proveSessions } from "./session-lock.ts"
import { type RegisteredProcess, registerProcess } from "./processes.ts"
import { Servers } from "./servers.ts"
import { Timelines } from "./hosts.ts"

export interface StoreParts {
  readonly config: Pick<Config, "DATABASE_URL" | "DATA_DIR" | "DATABASE_CONNECTIONS" | "EMBEDDED_SYNC">
  readonly log: Log
  readonly fatal: (reason: string) => void
  /** Each connection of `DATABASE_URL` has a session of its own, which is proved. False for tests on an embedded database. */
  readonly ownSessions?: boolean
}

export interface Store {
  /** For a connection of one's own. */
  readonly servers: Servers
  readonly database: Database
  /** The ledger's own connections, so that no crowd of readers delays a commit. */
  readonly ledgerDatabase: Database
  readonly process: RegisteredProcess
  /** Gives back what dead processes leased, and ends their calls. Never throws; it is tried again. */
  closeDeadProcesses(): Promise<void>
  /** The gateway serves: from now on statements have their usual deadlines. */
  started(): void
  close(): Promise<void>
}

/** One that was given up may still be closing beside the one that is in use. */
const LEDGER_CONNECTIONS = 2 + APART_AT_ONCE

/**
 * While a process starts on the embedded database. That has one session: what is given up there still runs, and the next attempt
 * stands behind it, so that on a slow machine none would be in time.
 */
const STARTING_PATIENCE = 6

/** How many tables a line of the log names. */
const MAX_NAMED = 10

export async function openStore({ config, log, fatal, ownSessions = true }: StoreParts): Promise<Store> {
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
  const servers = new Servers(embedded?.url ?? config.DATABASE_URL ?? "", {
    timelines: embedded ? new Timelines() : timelinesIn(config.DATA_DIR, log),
    log,
  })
  if (embedded === undefined && ownSessions)
    await proveSessions(servers, (because) => log.warn("waits for the database", { servers: servers.names, because }))
  const applied = await migrate(servers)
  if (applied.length > 0) log.info("migrated", { migrations: applied.join(" ") })
  const onBlocked = ({ pid, user, application, address, state, transactionS }: Blocker) =>
    log.warn("waits for a lock", { blocked_by: pid, user, application, address, state, transaction_s: transactionS })
  // The embedded database has one session, which never waits for itself.
  const blocked = embedded ? {} : { onBlocked }
  let patience = embedded === undefined && ownSessions ? 1 : STARTING_PATIENCE
  const shared = { url: servers, patience: () => patience, ...blocked }
  const database = openDatabase({ connections: config.DATABASE_CONNECTIONS, ...shared })
  const ledgerDatabase = openDatabase({ connections: LEDGER_CONNECTIONS, ...shared })
  const denied = deniedOf(await database.run(tableRights, { retry: true }))
  if (denied.length > 0)
    log.error("rights missing", { tables: denied.slice(0, MAX_NAMED).join(" "), count: denied.length })
  const process = await registerProcess({
    db: database,
    lockOn: embedded ? undefined : servers,
    ownSessions,
    onFenced: fatal,
    onLost: () => log.warn("session lock lost"),
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
    servers,
    database,
    ledgerDatabase,
    process,
    closeDeadProcesses,
    started() {
      patience = 1
    },
    async close() {
      await process.close().catch((error: unknown) => log.warn("leases not given back", { error: String(error) }))
      await ledgerDatabase.close()
      await database.close()
      await servers.close()
      await embedded?.close()
    },
  }
}

/**
 * The database alone, for a command: nothing is leased or closed. Where a running gateway has the embedded database, it is
 * reached through that gateway, which has migrated it; `DataDirectoryInUse` when that gateway does not answer (yet). `isMade`: throws
 * where nothing was ever migrated.
 */
export async function openForCommand(
  config: StoreParts["config"],
  isMade = false,
): Promise<Pick<Store, "servers" | "database" | "close">> {
  const place = await openPlace(config)
  const { servers } = place
  const database = openDatabase({ url: servers, connections: 1 })
  const close = async () => {
    await database.close()
    await place.close()
  }
  try {
    if (isMade) await mustHaveTables(database)
    if (place.isOurs) await migrate(servers)
    else await mustBeOfThisVersion(database)
  } catch (error) {
    await close()
    throw error
  }
  return { servers, database, close }
}

const REACH_MS = 15_000

/** In another database of the same server a command would make them, find nothing, and say that all agrees. */
async function mustHaveTables(database: Database): Promise<void> {
  const [found] = await database.run(
    (sql) => sql<{ there: boolean }[]>`select to_regclass('schema_migrations') is not null as there`,
    { deadlineMs: REACH_MS, retry: true },
  )
  if (found?.there !== true)
    throw new Error(
      "the database has no tables of a gateway's: set DATABASE_URL to one that has, or `loket migrate` it",
    )
}

/** Of a running gateway's database, which nobody else may migrate. */
async function mustBeOfThisVersion(database: Database): Promise<void> {
  const { pending, foreign } = await database.run((sql) => schemaState(sql), { retry: true })
  if (pending.length + foreign.length > 0)
    throw new Error("a running gateway of another version has the embedded database: stop it, or use its own program")
}

/** The same, of a database that is there: throws where opening would make an empty one. */
export async function openExisting(config: StoreParts["config"]): ReturnType<typeof openForCommand> {
  mustExist(config)
  return await openForCommand(config, true)
}

/** Whether opening it would make an empty one. A server's database is made by nobody here. Throws where this user cannot look. */
export function isUnmade({ DATABASE_URL: url, DATA_DIR: dataDir }: StoreParts["config"]): boolean {
  if (url !== undefined) return false
  try {
    return statSync(join(dataDir, "pg"), { throwIfNoEntry: false }) === undefined
  } catch (error) {
    const why = error instanceof Error && "code" in error ? String(error.code) : String(error)
    throw new Error(
      `${dataDir} cannot be looked into (${why}): run this as the gateway's user, with a directory in DATA_DIR`,
      { cause: error },
    )
  }
}

/** Throws where opening would make an empty one. */
export function mustExist(config: StoreParts["config"]): void {
  if (isUnmade(config))
    throw new Error(`there is no database in ${config.DATA_DIR}: set DATA_DIR or DATABASE_URL to where it is`)
}

/** Where the database is, as it is found: not migrated. */
export interface Place {
  readonly servers: Servers
  /** To be migrated by whoever opened it: no running gateway has it. */
  readonly isOurs: boolean
  close(): Promise<void>
}

export async function openPlace({
  DATABASE_URL: url,
  DATA_DIR: dataDir,
  EMBEDDED_SYNC: syncsCommits,
}: StoreParts["config"]): Promise<Place> {
  if (url !== undefined) {
    // A directory is not made for a command.
    const timelines = existsSync(dataDir) ? timelinesIn(dataDir) : new Timelines()
    const servers = new Servers(url, { timelines })
    return { servers, isOurs: true, close: () => servers.close() }
  }
  try {
    const embedded = await openEmbedded({ dataDir, syncsCommits })
    return { servers: new Servers(embedded.url), isOurs: true, close: () => embedded.close() }
  } catch (error) {
    const isTaken = error instanceof DataDirectoryInUse || error instanceof OfAnotherUser
    const address = isTaken ? embeddedAddress(dataDir) : undefined
    if (address === undefined) throw error
    const servers = new Servers(address)
    const database = openDatabase({ url: servers, connections: 1 })
    const answers = await database.ping()
    await database.close()
    if (!answers) throw error
    return { servers, isOurs: false, close: () => servers.close() }
  }
}

const timelinesIn = (dataDir: string, log?: Log): Timelines =>
  new Timelines(join(dataDir, "timelines"), (error) => log?.warn("timeline not kept", { error: String(error) }))
