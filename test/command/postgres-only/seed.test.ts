/** The catalogue file is applied while an operator changes a model. */
import { expect, test } from "bun:test"
import { readCatalogueFile } from "../../../src/catalogue/seed-files.ts"
import { applyCatalogue } from "../../../src/command/set-up.ts"
import type { Database } from "../../../src/store/database.ts"
import { modelStore, type ModelStore } from "../../../src/store/operator/models.ts"
import { directConnection, openTestDatabase } from "../../store/harness.ts"

const act = () => ({ requestId: crypto.randomUUID(), operatorId: undefined, address: undefined })
const changes: [string, string, (models: ModelStore, model: string, other: string) => Promise<unknown>][] = [
  ["changes", "display_name", (models, model) => models.change(model, { display_name: "An operator's" }, act())],
  [
    "retires",
    "target",
    (models, model, target) => models.retire(model, { target, until: new Date(Date.now() + 86_400_000) }, act()),
  ],
]

test.each(changes)("what an operator %s of a model while the file is applied is kept", async (_, column, change) => {
  await using target = await openTestDatabase()
  const file = await readCatalogueFile()
  if (!("models" in file)) throw new Error("no catalogue")
  const [model, other] = file.models.map(({ model: id }) => id)
  await applyCatalogue(target.db, file, false)
  const holder = directConnection(target.url)
  await holder.sql`begin`
  const here: Database = { ...target.db, run: async (statement) => await statement(holder.sql) }
  await change(modelStore(here), model!, other!)
  const value = async (database: Database) => {
    const row = (await modelStore(database).list()).find(({ model: id }) => id === model)
    return String(row?.[column as "display_name" | "target"])
  }
  const set = await value(here)
  const renamed = { ...file, models: file.models.map((each) => ({ ...each, display_name: "The file's" })) }
  const applying = applyCatalogue(target.db, renamed, false)
  const waiting = () =>
    target.sql`select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
  while ((await waiting()).length === 0) await Bun.sleep(10)
  await holder.sql`commit`
  await holder.end()
  const { kept, modelsChanged } = await applying
  expect(kept.passedOver).toHaveLength(1)
  expect(modelsChanged).toBe(file.models.length - 1)
  expect(await value(target.db)).toBe(set)
})
