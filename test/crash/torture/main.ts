/**
 * `bun run torture [--seed n] [--kills n] [--faults n] [--only embedded|postgres|pair]`: kills and database faults by the
 * hundred, on the embedded database, on a PostgreSQL server of its own, and on two that change places. Ends with 1 if
 * anything that must hold did not.
 */
import { parseArgs } from "node:util"
import type { Figures } from "./campaign.ts"
import { tortureEmbedded } from "./embedded.ts"
import { torturePair } from "./pair.ts"
import { torturePostgres } from "./postgres.ts"

const { values } = parseArgs({
  options: {
    seed: { type: "string" },
    kills: { type: "string", default: "200" },
    faults: { type: "string", default: "50" },
    only: { type: "string" },
  },
})
const seed = Number(values.seed ?? Math.floor(Math.random() * 1e9))
const kills = Number(values.kills)
const faults = Number(values.faults)
if (![seed, kills, faults].every(Number.isSafeInteger))
  throw new Error("--seed, --kills and --faults are whole numbers")

const since = performance.now()
const say = (line: string) => console.log(line)
say(`seed ${seed}`)

/** Longer than every deadline of a statement, a lock and a settlement. */
const longestMs = 4_500
const stack = new AsyncDisposableStack()
for (const signal of ["SIGINT", "SIGTERM"])
  process.on(signal, () => void stack.disposeAsync().then(() => process.exit(1)))

/** Of the kills and faults, how many are for the embedded database and for two servers. */
const embedded = { kills: Math.round(kills * 0.3), faults: Math.round(faults * 0.1) }
const pair = { kills: Math.round(kills * 0.1), faults: Math.round(faults * 0.3) }
const server = { kills: kills - embedded.kills - pair.kills, faults: faults - embedded.faults - pair.faults }
const rounds = (each: { kills: number; faults: number }) => Math.max(1, Math.ceil(each.kills / 6))

const all: [string, Figures][] = []
if (values.only === undefined || values.only === "embedded") {
  say("\nembedded database, one process")
  all.push(["embedded", await tortureEmbedded({ seed, ...embedded, rounds: rounds(embedded), longestMs, say, stack })])
}
if (values.only === undefined || values.only === "postgres") {
  say("\nPostgreSQL server, two processes")
  const figures = await torturePostgres({ seed, ...server, rounds: rounds(server), longestMs, say, stack })
  if (figures !== undefined) all.push(["PostgreSQL", figures])
}
if (values.only === undefined || values.only === "pair") {
  say("\ntwo PostgreSQL servers that change places, two processes, one behind poolers on a machine of its own")
  const figures = await torturePair({ seed, ...pair, rounds: rounds(pair), longestMs, say, stack })
  if (figures !== undefined) all.push(["primary and standby", figures])
}

await stack.disposeAsync()
say(`\nseed ${seed}, ${Math.round((performance.now() - since) / 1_000)} s`)
for (const [name, figures] of all) {
  const struck = [...figures.faults.values()].reduce((sum, count) => sum + count, 0)
  say(
    `${name}: ${figures.kills} kills, ${struck} database faults, ${figures.calls} calls, ${figures.answers} answers that ended, ` +
      `${figures.topUps} top-ups, ${figures.violations.length} violations`,
  )
  for (const [fault, count] of figures.faults) say(`  ${fault}: ${count}`)
}
process.exit(all.some(([, { violations }]) => violations.length > 0) ? 1 : 0)
