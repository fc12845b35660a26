/** `loket migrate`: the schema, brought up to date before a gateway does so at its start; or what that would be. */
import { openDatabase } from "../store/database.ts"
import { migrate, schemaState } from "../store/migrate.ts"
import { openPlace } from "../store/open.ts"
import { command, CommandFailure } from "./command.ts"
import { progress } from "./progress.ts"
import { configuration } from "./settings.ts"

const REACH_MS = 15_000

export const migrateCommand = () =>
  command("migrate", {
    summary: "Bring the database's schema up to date; `start` does so too",
    examples: [
      ["migrate --plan", "what would run; changes nothing"],
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
        if (plan === true) return console.log(`to be applied:\n${pending.map(({ name }) => `  ${name}`).join("\n")}`)
        if (!place.isOurs)
          throw new CommandFailure("a running gateway of another version has the embedded database: stop it first")
        const applied = await progress("migrating", migrate(place.servers))
        return console.log(`applied:\n${applied.map((name) => `  ${name}`).join("\n")}`)
      } finally {
        await database.close()
        await place.close()
      }
    })
