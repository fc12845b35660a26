/** The catalogue that a gateway starts with. */
import type { Catalogue } from "../catalogue/model.ts"
import type { CatalogueFile } from "../catalogue/schema.ts"
import { loadCatalogue, seedCatalogue } from "./catalogue.ts"
import type { Database } from "./database.ts"

/** The database's catalogue, filled from the file if it is empty. */
export async function storedCatalogue(database: Database, file: CatalogueFile): Promise<Catalogue> {
  const stored = await database.run((sql) => loadCatalogue(sql), { retry: true })
  if (stored.models.length > 0) return stored
  await database.run((sql) => seedCatalogue(sql, file, new Date()), { retry: true })
  return await database.run((sql) => loadCatalogue(sql), { retry: true })
}
