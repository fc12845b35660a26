/** `loket archive`: records of months that are long over, moved from the database into files. */
import { firstRequestId } from "../http/request-id.ts"
import { archiveMonth, archivesIn, damagedArchives, monthsBefore, NotArchived, obstacle } from "../store/archives.ts"
import { migrate } from "../store/migrate.ts"
import { openPlace } from "../store/open.ts"
import { command, CommandFailure, progress } from "./command.ts"
import { configuration } from "./settings.ts"

const REACH_MS = 15_000

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
      if ((before === undefined) === (check === undefined)) throw new CommandFailure("--before <month>, or --check", 2)
      const config = configuration()
      const place = await openPlace(config)
      try {
        if (!place.isOurs) throw new CommandFailure("a running gateway has the embedded database: stop it first")
        await migrate(place.servers)
        const connection = await place.servers.connect({ timeoutMs: REACH_MS, statementTimeoutMs: 0 })
        const { sql } = connection
        const directory = archivesIn(config.DATA_DIR)
        try {
          if (before === undefined) {
            const damaged = await progress("reading the archives", damagedArchives(sql, directory, true))
            if (damaged.length > 0) throw new CommandFailure(damaged.join("\n"))
            return console.log("every archive is as it was written")
          }
          const months = await monthsBefore(sql, firstRequestId(monthMs(before)))
          if (months.length === 0) console.log("nothing to archive")
          for (const month of months) {
            const reason = await obstacle(sql, month, Date.now())
            if (reason !== undefined) throw new CommandFailure(`${month.name} stays: ${reason}`)
            let what = ""
            const archiving = archiveMonth(sql, month, { directory, step: (now) => void (what = now) })
            const { file, records, bytes } = await progress("archiving", archiving, () => what)
            console.log(`${month.name}: ${records} records in ${file}, ${bytes} bytes`)
          }
        } finally {
          connection.discard()
        }
      } catch (error) {
        throw error instanceof NotArchived ? new CommandFailure(error.message) : error
      } finally {
        await place.close()
      }
    })

function monthMs(text: string): number {
  const [, year, month] = /^(\d{4})-(0[1-9]|1[0-2])$/.exec(text) ?? []
  if (year === undefined) throw new CommandFailure(`${text} is no month: write it as 2026-08`, 2)
  return Date.UTC(Number(year), Number(month) - 1)
}
