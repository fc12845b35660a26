/** `/healthz`: the process lives. `/readyz`: the database and the ledger answer, and the gateway takes calls (decisions §11). */
import { Elysia } from "elysia"
import { edge } from "./edge.ts"

export interface Readiness {
  readonly draining: () => boolean
  readonly database: () => Promise<boolean>
  /** How long the ledger's commit under way has been tried, in milliseconds. */
  readonly ledgerLagMs: () => Promise<number>
}

const LAG_LIMIT_MS = 2_000

export const healthController = (readiness: Readiness) =>
  new Elysia({ name: "health" })
    .use(edge)
    .get("/healthz", () => ({ status: "ok" }))
    .get("/readyz", async ({ set }) => {
      const database = await readiness.database()
      const ledger = (await readiness.ledgerLagMs()) <= LAG_LIMIT_MS
      const draining = readiness.draining()
      const ready = database && ledger && !draining
      if (!ready) set.status = 503
      return { status: ready ? "ready" : "not ready", database, ledger, draining }
    })
