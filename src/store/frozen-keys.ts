/**
 * Keys that were taken back beside the gateway, for a process on the embedded database: there a command or a person with SQL
 * writes beside it, and no notice comes of it, as it does from a server.
 */
import type { Database } from "./database.ts"

/** Hashes of the keys of frozen accounts, and of those that were revoked a moment ago, as hex. */
export async function frozenKeys(database: Database): Promise<ReadonlySet<string>> {
  const rows = await database.run(
    (sql) => sql<{ hash: string }[]>`
      select encode(k.key_hash, 'hex') as hash from accounts a join api_keys k on k.account_id = a.id
      where a.frozen_at is not null or k.revoked_at > now() - interval '1 minute'`,
  )
  return new Set(rows.map(({ hash }) => hash))
}
