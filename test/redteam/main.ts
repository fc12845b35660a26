/**
 * `bun run redteam`: plays every attack that ever worked, and cheap ones that never did, against a gateway as in production,
 * and says of each what was tried, what was seen, and whether it held. Exit code 1 when one did not.
 *   --only M7,D2    only these rows
 *   --full          the sizes of the first attacks; minutes
 *   --gateway DIR   another checkout's gateway, to see what a row makes of an older one
 */
import { parseArgs } from "node:util"
import { join } from "node:path"
import { ensureRuntimeSettings } from "../../src/own-process.ts"
import { Arena } from "./lib/arena.ts"
import { campaign } from "./campaign.ts"
import { rows } from "./table.ts"

ensureRuntimeSettings()
const { values } = parseArgs({
  options: {
    only: { type: "string" },
    full: { type: "boolean", default: false },
    gateway: { type: "string", default: join(import.meta.dir, "../..") },
  },
})
const abandon = async () => {
  await Promise.all([...Arena.living].map((arena) => arena[Symbol.asyncDispose]()))
  process.exit(130)
}
process.on("SIGTERM", () => void abandon())
process.on("SIGINT", () => void abandon())
const only = values.only?.toUpperCase().split(",")
const chosen = rows.filter((row) => (only === undefined ? values.full || row.long !== true : only.includes(row.id)))
if (chosen.length === 0) {
  console.error(`there is no row ${values.only}; there are ${[...new Set(rows.map(({ id }) => id))].join(" ")}`)
  process.exit(2)
}
const holes = await campaign(chosen, { full: values.full, root: values.gateway, say: (line) => console.log(line) })
process.exit(holes === 0 ? 0 : 1)
