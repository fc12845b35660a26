/** `loket migrate`: the schema, brought up to date before a gateway does so at its start; or what that would be. */
import { type Database, openDatabase } from "../store/database.ts"
import { migrate, schemaState } from "../store/migrate.ts"
import { type MigrationPlan, planMigrations, rowsByTable } from "../store/migration-plan.ts"
import { openPlace } from "../store/open.ts"
import { grantToRunningRole } from "../store/running-role.ts"
import { command, CommandFailure, progress } from "./command.ts"
import { configuration } from "./settings.ts"

const REACH_MS = 15_000

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
      const place = await openPlace(config)
      const database = openDatabase({ url: place.servers, connections: 1 })
      try {
        const { pending, foreign } = await database.run(schemaState, { deadlineMs: REACH_MS })
        if (foreign.length > 0)
          throw new CommandFailure(
            `the schema is of another version (${foreign.join(", ")}): run that version, or a newer one`,
          )
        if (pending.length === 0) console.log("the schema is up to date")
        else if (plan === true) {
          const rows = await database.run(rowsByTable, { deadlineMs: REACH_MS })
          const plans = await progress("trying them on an empty database", planMigrations(pending, rows))
          console.log(`to be applied:\n${plans.map(linesOf).join("\n")}`)
        } else {
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
  const unfit = await database.run((sql) => grantToRunningRole(sql, role), { deadlineMs: REACH_MS })
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
