/** What was learnt of accounts whose calls cost the house more than was estimated (src/gateway/estimate-factors.ts). */
import type { Database } from "./database.ts"

interface FactorRow {
  readonly accountId: string
  readonly model: string
  readonly part: "texts" | "documents"
  readonly factor: number
  readonly learntAt: number
}

/** Calls wait for a reading. */
const READ_MS = 1_000
const WRITE_MS = 5_000

export const estimateFactorStore = (database: Database) => ({
  async read(accountId: string): Promise<readonly FactorRow[]> {
    const rows = await database.run(
      (sql) => sql<{ model: string; part: FactorRow["part"]; factor: number; learnt_at: Date }[]>`
        select model, part, factor, learnt_at from estimate_factors where account_id = ${accountId}`,
      { deadlineMs: READ_MS },
    )
    return rows.map(({ model, part, factor, learnt_at: at }) => ({
      accountId,
      model,
      part,
      factor,
      learntAt: at.getTime(),
    }))
  },

  async write({ accountId, model, part, factor, learntAt }: FactorRow): Promise<void> {
    await database.run(
      (sql) => sql`
        insert into estimate_factors (account_id, model, part, factor, learnt_at)
        values (${accountId}, ${model}, ${part}, ${factor}, ${new Date(learntAt)})
        on conflict (account_id, model, part) do update set factor = excluded.factor, learnt_at = excluded.learnt_at`,
      { deadlineMs: WRITE_MS, retry: true },
    )
  },
})
