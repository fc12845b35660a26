/** What operators have set of the catalogue, for the command that applies the catalogue file. */
import { nanoid } from "nanoid"
import { inForce } from "../../../actors/money/price.ts"
import type { Edited } from "../../catalogue/edits.ts"
import type { Database } from "../database.ts"
import { signature, signatureColumns } from "./audit.ts"
import { modelStore } from "./models.ts"

export async function readEdits(database: Database, now: Date): Promise<Edited[]> {
  const store = modelStore(database)
  const [models, prices] = [await store.list(), await store.prices()]
  return models
    .filter(({ edited }) => edited.length > 0)
    .map((row) => ({
      model: row.model,
      fields: row.edited,
      now: { ...row },
      rates: inForce(
        prices.filter(({ model }) => model === row.model),
        now.getTime(),
      )?.rates,
      isRetired: row.target !== null,
    }))
}

/** Forgets what operators have set, so that the file applies whole; written down, as whatever operators do. */
export async function forgetEdits(database: Database): Promise<void> {
  const act = { requestId: `cmd_${nanoid()}`, operatorId: undefined, address: undefined }
  await database.run(
    (sql) => sql`
      with held as materialized (
        select model, edited from models where edited <> '{}' order by model for update
      ), forgotten as (
        update models m set edited = '{}' from held h where m.model = h.model
      )
      insert into audit_log (${signatureColumns(sql)}, action, subject, before)
      select ${signature(sql, act)}, 'catalogue.overwritten', 'catalogue', jsonb_object_agg(model, edited) from held
      having count(*) > 0`,
    { deadlineMs: 5_000 },
  )
}
