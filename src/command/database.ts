/** Commands on the whole database: `loket migrate`, `loket archive`, `loket move` and `loket reconcile`. */
import { existsSync } from "node:fs"
import { cp } from "node:fs/promises"
import { join, resolve } from "node:path"
import type { Config } from "../config.ts"
import { firstRequestId } from "../http/edge.ts"
import { reconcileBooks } from "../reconcile.ts"
import {
  archiveMonth,
  archivesIn,
  damagedArchives,
  monthsBefore,
  obstacle,
  BESIDE_DATABASE,
} from "../store/archives.ts"
import { NotArchived } from "../store/archive-file.ts"
import type { Connection } from "../store/connection.ts"
import { type Database, isLost, notReached, openDatabase } from "../store/database.ts"
import { hostName, hostsOf } from "../store/hosts.ts"
import { migrate, refusalOf, schemaState } from "../store/migrate.ts"
import { grantToRunningRole } from "../store/rights.ts"
import { type MigrationPlan, planMigrations, rowsByTable } from "../store/migration-plan.ts"
import { type Migration, migrations } from "../store/migrations/index.ts"
import { isUnmade, mustExist, openPlace, type Place } from "../store/open.ts"
import { copyWhole, isUnused, livingProcesses, type Whole } from "../store/whole.ts"
import { command, CommandFailure, configuration, path, progress } from "./command.ts"

const REACH_MS = 15_000

/** The schema, brought up to date before a gateway does so at its start; or what that would be. */
export const migrateCommand = () =>
  command("migrate", {
    summary: "Bring the database's schema up to date; `start` does so too",
    examples: [
      ["migrate --plan", "what would run, what it locks and for how long; changes nothing"],
      ["migrate", "runs it"],
      ["migrate --grant loket_run", "runs it, and gives that role what a gateway needs, and no more"],
    ],
  })
    .option("--plan", "show what would run, and change nothing")
    .option("--grant <role>", "let that role run a gateway: it can add to the books, and not change them")
    .action(async ({ plan, grant }) => {
      const config = configuration()
      if (grant !== undefined && config.DATABASE_URL === undefined)
        throw new CommandFailure("the embedded database has one user: --grant needs DATABASE_URL", 2)
      // Who only asks is not left with an empty database, into which no backup can be restored.
      if (plan === true && isUnmade(config)) return await printPlan(migrations, new Map())
      const place = await openPlace(config)
      const database = openDatabase({ url: place.servers, connections: 1 })
      try {
        const { pending, ...others } = await database.run(schemaState, { deadlineMs: REACH_MS })
        const refusal = refusalOf(others)
        if (refusal !== undefined) throw new CommandFailure(refusal)
        if (pending.length === 0) console.log("the schema is up to date")
        else if (plan === true) await printPlan(pending, await database.run(rowsByTable, { deadlineMs: REACH_MS }))
        else {
          if (!place.isOurs)
            throw new CommandFailure("a running gateway of another version has the embedded database: stop it first")
          const applied = await progress("migrating", migrate(place.servers))
          console.log(`applied:\n${applied.map((name) => `  ${name}`).join("\n")}`)
        }
        if (grant !== undefined && plan !== true) await grantTo(database, grant)
      } finally {
        await database.close()
        await place.close()
      }
    })

async function grantTo(database: Database, role: string): Promise<void> {
  const granting = database.run((sql) => grantToRunningRole(sql, role), { deadlineMs: REACH_MS })
  const unfit = await granting.catch((error: unknown) => {
    throw asOwner(error)
  })
  if (unfit === "unknown")
    throw new CommandFailure(`there is no role ${role}: \`create role ${role} login password '…'\``)
  if (unfit === "owner")
    throw new CommandFailure(
      `${role} owns the tables or is a superuser, and nothing can be kept from it: make another role for the gateway`,
    )
  console.log(
    `${role} may run a gateway: it adds to transfers, charges, audit log and documents, and changes none of them`,
  )
}

const INSUFFICIENT_PRIVILEGE = "42501"

/** What only the owner of the tables may do, and the role that runs gateways may not. */
const asOwner = (error: unknown): unknown =>
  error instanceof Error && "code" in error && error.code === INSUFFICIENT_PRIVILEGE
    ? new CommandFailure(`run it as the owner of the tables, which DATABASE_URL is to name: ${error.message}`)
    : error

async function printPlan(pending: readonly Migration[], rows: ReadonlyMap<string, number>): Promise<void> {
  const plans = await progress("trying them on an empty database", planMigrations(pending, rows))
  console.log(`to be applied:\n${plans.map(linesOf).join("\n")}`)
}

/** A lock that is shorter than this is not felt. */
const MOMENT_MS = 100

function linesOf({ name, takesMs, locks }: MigrationPlan): string {
  const felt = locks.filter(({ forMs }) => forMs >= MOMENT_MS)
  const lines = felt.map(
    ({ table, rows, keepsFrom, forMs }) =>
      `    ${table} (${Math.round(rows).toLocaleString("en")} rows): others cannot ${keepsFrom} for up to ${seconds(forMs)}`,
  )
  return [`  ${name}: up to ${seconds(takesMs)}${felt.length === 0 ? "; nobody waits" : ""}`, ...lines].join("\n")
}

const seconds = (ms: number): string => `${(ms / 1_000).toFixed(1)} s`

/** Records of months that are long over, moved from the database into files. */
export const archiveCommand = () =>
  command("archive", {
    summary: "Move the records of calls of old months into files",
    details:
      "As the owner of the tables, in a month that was over at least 93 days ago, after `loket reconcile`. The files are in DATA_DIR/archives of this machine: copy them to that of every gateway, where `GET /usage/{id}` finds a call. Balances, sums and the books' comparison stay as they are. Broken off at any point it can be run again.",
    examples: [
      ["archive --before 2026-08", "all months until July 2026"],
      ["archive --check", "reads each file and compares its checksum"],
    ],
  })
    .option("--before <month>", "the first month that stays, as 2026-08")
    .option("--check", "read what is archived, and change nothing")
    .action(async ({ before, check }) => {
      if ((before === undefined) === (check === undefined))
        throw new CommandFailure("say one of --before <month> and --check", 2)
      const until = before === undefined ? undefined : monthMs(before)
      const config = configuration()
      mustExist(config)
      const place = await openPlace(config)
      try {
        if (!place.isOurs) throw new CommandFailure("a running gateway has the embedded database: stop it first")
        if (until !== undefined) await migrate(place.servers)
        const connection = await connected(place)
        const { sql } = connection
        const directory = archivesIn(config.DATA_DIR)
        try {
          if (until === undefined) {
            const { pending, foreign } = await schemaState(sql)
            if (pending.length + foreign.length > 0)
              throw new CommandFailure("the schema is of another version: read the archives with the gateways' own")
            const damaged = await progress("reading the archives", damagedArchives(sql, directory, true))
            if (damaged.length > 0) throw new CommandFailure(damaged.join("\n"))
            return console.log("every archive is as it was written")
          }
          const months = await monthsBefore(sql, firstRequestId(until))
          if (months.length === 0) console.log("nothing to archive")
          for (const month of months) {
            const reason = await obstacle(sql, month, Date.now())
            if (reason !== undefined) throw new CommandFailure(`${month.name} stays: ${reason}`)
            let what = ""
            const archiving = archiveMonth(sql, month, { directory, step: (now) => void (what = now) })
            const { file, records, bytes } = await progress("archiving", archiving, () => what)
            console.log(`${month.name}: ${records} ${records === 1 ? "record" : "records"} in ${file}, ${bytes} bytes`)
          }
        } finally {
          connection.discard()
        }
      } catch (error) {
        throw error instanceof NotArchived ? new CommandFailure(error.message) : asOwner(error)
      } finally {
        await place.close()
      }
    })

function monthMs(text: string): number {
  const [, year, month] = /^(\d{4})-(0[1-9]|1[0-2])$/.exec(text) ?? []
  if (year === undefined) throw new CommandFailure(`${text} is no month: write it as 2026-08`, 2)
  return Date.UTC(Number(year), Number(month) - 1)
}

/** From the embedded database to a server, or back, with the books compared on both sides. */
export const moveCommand = () =>
  command("move", {
    summary: "Copy everything to another database: embedded to server, or back",
    details:
      "Stop the gateways first. The books are compared before and after, and every table row by row; the other database has all of it or nothing. What is there now stays as it is.",
    examples: [
      ["move --to postgres://loket@db.internal/loket", "to a server's empty database"],
      ["move --to /var/lib/loket", "to an embedded database in this directory"],
    ],
  })
    .requiredOption("--to <place>", "the address of an empty database, or a directory for an embedded one", path)
    .action(async ({ to }) => {
      const config = { ...configuration(), RECONCILE_TOP_UP_DAYS: 0 }
      const isServer = /^postgres(?:ql)?:\/\//.test(to)
      if (!isServer && to.includes("://"))
        throw new CommandFailure(`${to.split("://")[0]}:// is no PostgreSQL server`, 2)
      const target: Config = isServer
        ? { ...config, DATABASE_URL: to }
        : { ...config, DATABASE_URL: undefined, DATA_DIR: to }
      await compared("here", config)
      const { tables, rows } = await copied(config, target)
      if (!isServer) await copyBeside(config.DATA_DIR, to)
      await compared("there", target)
      console.log(`\nmoved: ${rows} rows of ${tables} tables to ${nameOf(target)}
Start the gateways with ${isServer ? "DATABASE_URL set to it" : `DATA_DIR=${to} and no DATABASE_URL`}, and never again on ${nameOf(config)}:
two databases would each sell the same balance. It was left as it was.`)
    })

/** Stops at books that do not agree: they are put right before they are moved. */
async function compared(where: string, config: Config): Promise<void> {
  const lines: string[] = []
  const books = reconcileBooks(config, { json: false, full: true, print: (text) => void lines.push(text) })
  const code = await progress(`comparing the books ${where}`, books)
  if (code === 0) return console.log(`the books ${where}: all agrees`)
  throw new CommandFailure(`${lines.join("\n")}\n\nthe books ${where} do not agree: nothing is to run on the copy`)
}

async function copied(config: Config, target: Config): Promise<Whole> {
  await using from = await opened(config)
  if (!from.isOurs) throw new CommandFailure(`a gateway runs on ${nameOf(config)}: stop it first`)
  const living = await livingProcesses(from.connection.sql)
  if (living.length > 0)
    throw new CommandFailure(`gateways run on ${nameOf(config)}: stop them first (${living.join(", ")})`)
  await using into = await opened(target)
  // Before it is migrated: what is in use is not to be changed.
  if (!into.isOurs || !(await isUnused(into.connection.sql)))
    throw new CommandFailure(`${nameOf(target)} is in use already: name an empty database, or a directory without one`)
  await progress("making the schema", migrate(into.servers))
  let what = ""
  const copying = copyWhole(from.connection, into.connection, (now) => void (what = now))
  return await progress("copying", copying, () => what)
}

/** For statements that take as long as they take. Throws `DatabaseUnavailable`, or what Postgres says of whom it refuses. */
async function connected({ servers }: Place): Promise<Connection> {
  const connecting = servers.connect({ timeoutMs: REACH_MS, statementTimeoutMs: 0 })
  return await connecting.catch((error: unknown) => {
    throw isLost(error) ? notReached(servers, error) : error
  })
}

async function opened(config: Config) {
  const place = await openPlace(config)
  try {
    const connection = await connected(place)
    return {
      ...place,
      connection,
      async [Symbol.asyncDispose]() {
        connection.discard()
        await place.close()
      },
    }
  } catch (error) {
    await place.close()
    throw error
  }
}

/** Withdrawals are of calls whose clients were told that nothing is charged. A server's gateways have them in their DATA_DIR too. */
async function copyBeside(from: string, to: string): Promise<void> {
  for (const name of BESIDE_DATABASE) {
    const [source, target] = [join(resolve(from), name), join(resolve(to), name)]
    if (source !== target && existsSync(source)) await cp(source, target, { recursive: true, force: false })
  }
}

/** Without user and password. */
const nameOf = ({ DATABASE_URL: url, DATA_DIR }: Config): string =>
  url === undefined
    ? resolve(DATA_DIR)
    : hostsOf(url)
        .map((address) => `${hostName(address)}${new URL(address).pathname}`)
        .join(", ")

/** All money, recomputed and compared. */
export const reconcileCommand = () =>
  command("reconcile", {
    summary: "Recompute all money and compare; freezes an account whose books differ",
    details:
      "Reads what is new since all agreed last, and everything once in seven days, or where something differs. Payment problems that wait are printed too, with what to do. Exit codes: 0 when all agrees, 1 when something differs, 2 when it could not be done. May run beside gateways.",
    examples: [
      ["reconcile", "what was compared, and each difference in rupiah"],
      ["reconcile --json", "the same, for machines"],
    ],
  })
    .option("--json", "print JSON")
    .option("--full", "read everything, whatever was found to agree before")
    .action(async ({ json, full }) => {
      let detail = ""
      const terms = {
        json: json === true,
        full: full === true,
        print: console.log,
        progress: (held: number, of: number) => void (detail = `${held} of ${of} claims`),
      }
      try {
        const work = reconcileBooks(configuration(), terms)
        process.exitCode = await progress("comparing the books", work, () => detail)
      } catch (error) {
        throw new CommandFailure(`not reconciled: ${error instanceof Error ? error.message : String(error)}`, 2)
      }
    })
