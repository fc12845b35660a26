/** `loket migrate`: the schema, brought up to date before a gateway does so at its start; or what that would be. */
import { openDatabase } from "../store/database.ts"
import { migrate, schemaState } from "../store/migrate.ts"
import { type MigrationPlan, planMigrations, rowsByTable } from "../store/migration-plan.ts"
import { openPlace } from "../store/open.ts"
import { command, CommandFailure } from "./command.ts"
import { progress } from "./progress.ts"
import { configuration } from "./settings.ts"

const REACH_MS = 15_000

export const migrateCommand = () =>
  command("migrate", {
    summary: "Bring the database's schema up to date; `start` does so too",
    examples: [
      ["migrate --plan", "what would run, what it locks and for how long; changes nothing"],
      ["migrate", "runs it"],
    ],
  })
    .option("--plan", "show what would run, and change nothing")
    .action(async ({ plan }) => {
      const place = await openPlace(configuration())
      const database = openDatabase({ url: place.servers, connections: 1 })
      try {
        const { pending, foreign } = await database.run(schemaState, { deadlineMs: REACH_MS })
        if (foreign.length > 0)
          throw new CommandFailure(
            `the schema is of another version (${foreign.join(", ")}): run that version, or a newer one`,
          )
        if (pending.length === 0) return console.log("the schema is up to date")
        if (plan === true) {
          const rows = await database.run(rowsByTable, { deadlineMs: REACH_MS })
          const plans = await progress("trying them on an empty database", planMigrations(pending, rows))
          return console.log(`to be applied:\n${plans.map(linesOf).join("\n")}`)
        }
        if (!place.isOurs)
          throw new CommandFailure("a running gateway of another version has the embedded database: stop it first")
        const applied = await progress("migrating", migrate(place.servers))
        return console.log(`applied:\n${applied.map((name) => `  ${name}`).join("\n")}`)
      } finally {
        await database.close()
        await place.close()
      }
    })

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
