/** `loket backup`: everything that is needed to begin again, also while gateways run. */
import { existsSync, statfsSync } from "node:fs"
import { cp, stat } from "node:fs/promises"
import { dirname, join, resolve } from "node:path"
import { BESIDE_DATABASE } from "../../store/archives.ts"
import { copyDatabase } from "../../store/embedded/copy.ts"
import { command, progress } from "../command.ts"
import { configuration } from "../settings.ts"
import { bytesOf, dumpTo, makeBackup, mib } from "./manifest.ts"

export const backupCommand = () =>
  command("backup", {
    summary: "Back the database up into a new directory, also while gateways run",
    details:
      "The embedded database: its files, DATA_DIR/withdrawals and DATA_DIR/archives. A server: a dump by pg_dump. Either with a manifest that has the checksum of every file. It names every customer: keep it as you keep the database.",
    examples: [["backup /var/backups/loket-monday", "makes the directory once all of it is on the disk"]],
  })
    .argument("<directory>", "where it is to be; must not be there")
    .action(async (directory) => {
      const { DATABASE_URL: url, DATA_DIR: dataDir } = configuration()
      const began = performance.now()
      let pausedMs = 0
      const made =
        url === undefined
          ? await makeBackup(directory, "files", async (into) => {
              let bytes = 0
              const copying = copyDatabase(dataDir, join(into, "pg"), (copied) => void (bytes = copied))
              pausedMs = (await progress("copying the database", copying, () => mib(bytes))).pausedMs
              for (const name of BESIDE_DATABASE) {
                const files = join(resolve(dataDir), name)
                if (existsSync(files)) await cp(files, join(into, name), { recursive: true })
              }
            })
          : await makeBackup(directory, "dump", async (into) => {
              const file = join(into, "database.dump")
              let bytes = 0
              const look = setInterval(
                () =>
                  void stat(file).then(
                    ({ size }) => (bytes = size),
                    () => {},
                  ),
                250,
              )
              try {
                await progress("dumping the database", dumpTo(url, file), () => mib(bytes))
              } finally {
                clearInterval(look)
              }
            })
      const took = `${((performance.now() - began) / 1_000).toFixed(1)} s`
      const paused = pausedMs === 0 ? "" : `; calls waited for ${(pausedMs / 1_000).toFixed(2)} s`
      console.log(`${resolve(directory)}: ${mib(bytesOf(made))} in ${took}${paused}`)
      const { bavail, bsize } = statfsSync(dirname(resolve(directory)))
      if (bavail * bsize < bytesOf(made))
        console.error(`there is no room there for another one: ${mib(bavail * bsize)} are free`)
    })
