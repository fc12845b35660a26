/** Claims held against books that something is done to, and undone again: of everything, and of what is new since a proof of nothing. */
import { firstRequestId } from "../../src/http/edge.ts"
import type { Finding } from "../../src/reconciliation/claim.ts"
import { claims } from "../../src/reconciliation/claims.ts"
import { claimsSince } from "../../src/reconciliation/claims-since.ts"
import { checkClaim } from "../../src/reconciliation/reconcile.ts"
import { proofPoint, prove } from "../../src/store/reconciliations.ts"
import { type BrokenBooks, openBooks } from "./world.ts"

export type Work = (world: BrokenBooks) => PromiseLike<unknown>

export async function openHeld() {
  const world = await openBooks()
  const { sql } = world
  // Before the world's calls were made.
  const before = await proofPoint(sql, firstRequestId, Date.parse("2026-11-20T02:00:00Z"))
  await prove(sql, before, true)
  const { base } = await proofPoint(sql, firstRequestId, Date.now())
  if (base === undefined) throw new Error("nothing was proven")
  return {
    ...world,
    async found(name: string, work: Work): Promise<Readonly<Record<"all" | "since", Finding>>> {
      const find = async (held: typeof claims): Promise<Finding> => {
        const claim = held.find((one) => one.name === name)
        if (claim === undefined) throw new Error(`no claim that ${name}`)
        await sql.unsafe("begin")
        try {
          await work(world)
          return await checkClaim(sql, claim)
        } finally {
          await sql.unsafe("rollback")
        }
      }
      return { all: await find(claims), since: await find(claimsSince(base)) }
    },
  }
}
