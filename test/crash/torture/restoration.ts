/**
 * A backup that is made under load, and later restored under load, as an operator does it: by the commands, with all gateways
 * stopped while the clients go on asking. Times in milliseconds of `performance.now()`.
 */
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { Random } from "../../../actors/kernel/clock.ts"
import type { House } from "../child.ts"
import type { Slot } from "./slot.ts"

/** What came after the backup was begun and before the restored database was served is there whole, or not at all. */
export interface Restoration {
  readonly begunMs: number
  readonly endedMs: number
}

export interface RestorationTerms {
  readonly house: House
  readonly slots: readonly Slot[]
  readonly random: Random
  readonly longestMs: number
  /** Takes the database away: its place is empty then. */
  readonly lose: () => Promise<void>
  readonly restorations: Restoration[]
}

/** False when no backup came of it: the gateway that has the database was killed meanwhile. */
export async function restore(terms: RestorationTerms): Promise<boolean> {
  const { house, slots, random, longestMs, lose, restorations } = terms
  const directory = mkdtempSync(join(tmpdir(), "loket-torture-backup-"))
  const backup = join(directory, "backup")
  try {
    const begunMs = performance.now()
    if ((await house.command("backup", backup)).code !== 0) return false
    // What is written now is lost.
    await Bun.sleep(longestMs * random())
    await Promise.all(slots.map((slot) => slot.hold()))
    await lose()
    const { code, said } = await house.command("restore", backup)
    // It ends with 0 only when the books agree.
    if (code !== 0) throw new Error(`restore ended with ${code}: ${said}`)
    restorations.push({ begunMs, endedMs: performance.now() })
    return true
  } finally {
    for (const slot of slots) slot.release()
    rmSync(directory, { recursive: true, force: true })
  }
}

/** How long before its backup a call may have ended for its client of which more was to be written. */
const AFTER_MS = 10_000

/** Whether something may have been lost with what came after a backup. `isWhole`: all of it was on the disk when it ended. */
export const mayBeLost = (
  { begunMs, endedMs }: { readonly begunMs: number; readonly endedMs: number },
  restorations: readonly Restoration[],
  isWhole: boolean,
): boolean => restorations.some((each) => begunMs < each.endedMs && endedMs > each.begunMs - (isWhole ? 0 : AFTER_MS))
