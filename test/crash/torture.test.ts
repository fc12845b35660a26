/** The short form of `bun run torture`, on the kind of database that the suite runs on. `LOKET_TEST_SEED` makes another plan. */
import { expect, test } from "bun:test"
import { onPostgres } from "../store/harness.ts"
import { tortureEmbedded } from "./torture/embedded.ts"
import { faultNames } from "./torture/faults.ts"
import { pairFaultNames, torturePair } from "./torture/pair.ts"
import { torturePostgres } from "./torture/postgres.ts"

const seed = Number(Bun.env["LOKET_TEST_SEED"] ?? 1)
const said: string[] = []
const say = (line: string) => void said.push(line)
const tellWhatIsLeftOut = () =>
  said.filter((line) => line.startsWith("left out")).forEach((line) => process.stderr.write(`${line}\n`))
const LIMIT_MS = 300_000

test.skipIf(onPostgres)(
  "gateways that are killed on the embedded database leave books that agree with what clients were told",
  async () => {
    await using stack = new AsyncDisposableStack()
    const figures = await tortureEmbedded({ seed, rounds: 2, kills: 6, faults: 2, longestMs: 2_000, say, stack })
    tellWhatIsLeftOut()
    expect(figures.violations).toEqual([])
    expect(figures.kills).toBe(6)
    expect([...figures.faults.keys()]).toContain("restored in mid-load (embedded)")
    expect(figures.answers).toBeGreaterThan(0)
  },
  LIMIT_MS,
)

test.skipIf(!onPostgres)(
  "two gateways that are killed on a server that is broken in every way leave books that agree with what clients were told",
  async () => {
    await using stack = new AsyncDisposableStack()
    const faults = faultNames.length
    const figures = await torturePostgres({ seed, rounds: 2, kills: 8, faults, longestMs: 2_000, say, stack })
    tellWhatIsLeftOut()
    if (figures === undefined) return
    expect(figures.violations).toEqual([])
    expect(figures.kills).toBeGreaterThanOrEqual(8)
    expect(figures.answers).toBeGreaterThan(0)
    expect(figures.faults.size).toBeGreaterThan(faults / 2)
  },
  LIMIT_MS,
)

test.skipIf(!onPostgres)(
  "two gateways on servers that change places, one behind poolers on a machine of its own, leave books that agree with what clients were told",
  async () => {
    await using stack = new AsyncDisposableStack()
    const faults = pairFaultNames.length
    const figures = await torturePair({ seed, rounds: 1, kills: 2, faults, longestMs: 1_000, say, stack })
    tellWhatIsLeftOut()
    if (figures === undefined) return
    expect(figures.violations).toEqual([])
    expect(figures.answers).toBeGreaterThan(0)
    // What a machine or a pooler is needed for may be left out.
    const needed = pairFaultNames.filter((name) => !/machine|pooler/.test(name))
    expect([...figures.faults.keys()]).toEqual(expect.arrayContaining(needed))
  },
  LIMIT_MS,
)
