/** Plays rows: one gateway for those that want the usual one, another for those that want short timeouts, and the sums in the end. */
import { Arena } from "./lib/arena.ts"
import { sums } from "./lib/books.ts"
import { type Finding, NotPlayed, type Row, type Size } from "./lib/row.ts"
import { HASTY, USUAL } from "./lib/environment.ts"

interface Terms extends Size {
  readonly root: string
  readonly say: (line: string) => void
}

const ROW_MS = 240_000

/** How many findings were holes. */
export async function campaign(rows: readonly Row[], terms: Terms): Promise<number> {
  const startedAt = performance.now()
  const tally = { pass: 0, fail: 0, left: 0 }
  const tell = (row: Pick<Row, "id" | "wanted">, findings: readonly Finding[], seconds: number) => {
    for (const { tried, seen, held } of findings) {
      tally[held ? "pass" : "fail"]++
      const verdict = held ? "ok  " : "HOLE"
      terms.say(
        `${verdict} ${row.id.padEnd(5)} ${tried}\n           seen: ${seen}${held ? "" : `\n         wanted: ${row.wanted}`}`,
      )
    }
    terms.say(`           (${row.id}: ${seconds.toFixed(1)} s)`)
  }
  const playOne = async (row: Row, arena: Arena) => {
    const at = performance.now()
    const findings = await bounded(row, arena, terms, () => tally.left++)
    tell(row, findings, (performance.now() - at) / 1_000)
  }
  for (const [place, env] of [
    ["usual", USUAL],
    ["hasty", HASTY],
  ] as const) {
    const here = rows.filter((row) => (row.place ?? "usual") === place)
    if (here.length === 0) continue
    await using arena = await Arena.open({ root: terms.root, env })
    terms.say(`== a gateway on ${arena.place.kind}${place === "usual" ? "" : `, ${place}`}`)
    const beside = here.filter((row) => row.beside === true).map((row) => playOne(row, arena))
    for (const row of here) if (row.beside !== true) await playOne(row, arena)
    await Promise.all(beside)
    tell({ id: "Σ", wanted: "paid + absorbed = counted, and the books agree" }, await sums(arena), 0)
  }
  terms.say(`\n${((performance.now() - startedAt) / 1_000).toFixed(0)} s`)
  if (tally.left > 0) terms.say(`${tally.left} left out`)
  terms.say(` ${tally.pass} pass\n ${tally.fail} fail`)
  return tally.fail
}

async function bounded(row: Row, arena: Arena, terms: Terms, leftOut: () => void): Promise<readonly Finding[]> {
  const { promise, resolve } = Promise.withResolvers<readonly Finding[]>()
  const timer = setTimeout(
    () => resolve([{ tried: "the row", seen: `not over after ${ROW_MS / 1_000} s`, held: false }]),
    ROW_MS,
  )
  try {
    return await Promise.race([row.play(arena, terms), promise])
  } catch (error) {
    if (error instanceof NotPlayed) {
      terms.say(`left ${row.id.padEnd(5)} ${error.message}`)
      leftOut()
      return []
    }
    return [
      { tried: "the row", seen: `it broke: ${error instanceof Error ? error.message : String(error)}`, held: false },
    ]
  } finally {
    clearTimeout(timer)
  }
}
