/** `loket move`: from the embedded database to a server, or back, with the books compared on both sides. */
import { existsSync } from "node:fs"
import { cp } from "node:fs/promises"
import { join, resolve } from "node:path"
import type { Config } from "../config.ts"
import { reconcileBooks } from "../reconcile.ts"
import { BESIDE_DATABASE } from "../store/archives.ts"
import { hostName, hostsOf } from "../store/hosts.ts"
import { migrate } from "../store/migrate.ts"
import { openPlace } from "../store/open.ts"
import { copyWhole, isUnused, livingProcesses, type Whole } from "../store/whole.ts"
import { command, CommandFailure, progress } from "./command.ts"
import { configuration } from "./settings.ts"

const REACH_MS = 15_000

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
    .requiredOption("--to <place>", "the address of an empty database, or a directory for an embedded one")
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
    throw new CommandFailure(
      `${living.length} gateways run on ${nameOf(config)}: stop them first (${living.join(", ")})`,
    )
  await using into = await opened(target)
  // Before it is migrated: what is in use is not to be changed.
  if (!into.isOurs || !(await isUnused(into.connection.sql)))
    throw new CommandFailure(`${nameOf(target)} is in use already: name an empty database, or a directory without one`)
  await progress("making the schema", migrate(into.servers))
  let what = ""
  const copying = copyWhole(from.connection, into.connection, (now) => void (what = now))
  return await progress("copying", copying, () => what)
}

async function opened(config: Config) {
  const place = await openPlace(config)
  try {
    const connection = await place.servers.connect({ timeoutMs: REACH_MS, statementTimeoutMs: 0 })
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
