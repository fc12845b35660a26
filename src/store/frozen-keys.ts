/**
 * Keys of frozen accounts, for a process on the embedded database: there a command or a person with SQL writes beside the
 * gateway, and no notice comes of it, as it does from a server.
 */
import type { Database } from "./database.ts"

/** Hashes of the keys, as hex. */
export async function frozenKeys(database: Database): Promise<ReadonlySet<string>> {
  const rows = await database.run(
    (sql) => sql<{ hash: string }[]>`
      select encode(k.key_hash, 'hex') as hash from accounts a join api_keys k on k.account_id = a.id
      where a.frozen_at is not null`,
  )
  return new Set(rows.map(({ hash }) => hash))
}
