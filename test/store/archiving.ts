/** `bun archiving.ts <place as JSON> <data directory> <first id that stays> <step>`: archives, and dies at that step as in a power cut. */
import { archiveMonth, archivesIn, monthsBefore } from "../../src/store/archives.ts"
import { openPlace } from "../../src/store/open.ts"

const [where = "{}", directory = "", before = "", killedAt = ""] = process.argv.slice(2)
const config: { DATABASE_URL?: string } = JSON.parse(where)
const place = await openPlace({
  DATABASE_URL: config.DATABASE_URL,
  DATA_DIR: directory,
  DATABASE_CONNECTIONS: 1,
  EMBEDDED_SYNC: true,
})
const { sql } = await place.servers.connect({ timeoutMs: 15_000, statementTimeoutMs: 0 })
for (const month of await monthsBefore(sql, before)) {
  await archiveMonth(sql, month, {
    directory: archivesIn(directory),
    step: (what) => {
      if (what.includes(killedAt)) process.kill(process.pid, "SIGKILL")
    },
  })
}
