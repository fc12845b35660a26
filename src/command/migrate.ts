/** `loket migrate`: the schema, brought up to date before a gateway does so at its start; or what that would be. */
import { migrate, pendingMigrations } from "../store/migrate.ts"
import { openPlace } from "../store/open.ts"
import { command, CommandFailure } from "./command.ts"
import { progress } from "./progress.ts"
import { configuration } from "./settings.ts"

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
      try {
        const pending = await pendingMigrations(place.servers)
        if (pending.length === 0) return console.log("the schema is up to date")
        if (plan === true) return console.log(`to be applied:\n${pending.map(({ name }) => `  ${name}`).join("\n")}`)
        if (!place.isOurs)
          throw new CommandFailure("a running gateway of another version has the embedded database: stop it first")
        const applied = await progress("migrating", migrate(place.servers))
        return console.log(`applied:\n${applied.map((name) => `  ${name}`).join("\n")}`)
      } finally {
        await place.close()
      }
    })
