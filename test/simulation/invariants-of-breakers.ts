/** What must be true of ceilings of ten minutes: of the books' rows, and of what was charged when. Micro-rupiah, milliseconds. */
import { ownerOf } from "../../src/store/breakers.ts"
import type { Dump } from "./dump.ts"
import type { Circumstances, Claim, Row } from "./invariants.ts"
import type { PurseCharge } from "./model-tables.ts"

const TEN_MINUTES_MS = 600_000

export const claimsOfBreakers: readonly (readonly [string, Claim])[] = [
  ["what is spent under a ceiling is what its calls are charged", pursesAreCharges],
  ["what is leased under a ceiling is no more than it", leasesAreUnderCeilings],
]

/** A child's calls are under its parent's ceiling too. */
function* pursesAreCharges({ breakers, keys, keySpend, usage }: Dump, { ceilingsStay }: Circumstances): Iterable<Row> {
  if (ceilingsStay !== true) return
  for (const { purse, stops } of breakers) {
    if (!stops) continue
    const { accountId, keyId } = ownerOf(purse)
    const own = keys.filter((key) => keyId === undefined || key.keyId === keyId || key.parentId === keyId)
    const names = new Set(own.map((key) => key.keyId))
    let charges = 0n
    for (const row of usage) if (row.accountId === accountId && names.has(row.keyId)) charges += row.charge
    const spent = keySpend.find((row) => row.keyId === purse)?.spent ?? 0n
    if (spent !== charges) yield { purse, spent, charges }
  }
}

function* leasesAreUnderCeilings({ breakers, keySpend }: Dump, { ceilingsStay }: Circumstances): Iterable<Row> {
  if (ceilingsStay !== true) return
  for (const { purse, ceiling, stops } of breakers) {
    const leased = keySpend.find((row) => row.keyId === purse)?.leased ?? 0n
    if (stops && ceiling !== undefined && leased > ceiling) yield { purse, ceiling, leased }
  }
}

/**
 * Where more was charged within any ten minutes than the ceiling, or is charged of the last ten and may still be. What was taken
 * back counts less at the time of its charge. `charges` of each purse are since it was last resumed.
 */
export function ceilingsPassed(
  { breakers, keySpend }: Pick<Dump, "breakers" | "keySpend">,
  charges: ReadonlyMap<string, readonly PurseCharge[]>,
  now: number,
): string[] {
  return breakers.flatMap(({ purse, ceiling, stops }) => {
    if (ceiling === undefined || !stops) return []
    const all = charges.get(purse) ?? []
    const since = (from: number, to: number) =>
      all.reduce((sum, { at, amount }) => (at > from && at <= to ? sum + amount : sum), 0n)
    const passed = all.find(({ at }) => since(at - TEN_MINUTES_MS, at) > ceiling)
    if (passed !== undefined) return [`under ${purse} more than ${ceiling} is charged within ten minutes`]
    const lately = since(now - TEN_MINUTES_MS, now)
    const leased = keySpend.find(({ keyId }) => keyId === purse)?.leased ?? 0n
    return lately + leased > ceiling
      ? [`under ${purse} ${lately} is charged of ten minutes, and ${leased} may be, which is more than ${ceiling}`]
      : []
  })
}
