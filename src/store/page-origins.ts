/** Which origins any key is for that works now, for answers to pre-flights, which carry no key. */
import type { Database } from "./database.ts"

export interface PageOriginStore {
  read(): Promise<readonly string[]>
}

/** Nobody's list keeps another account's from being read. */
const MOST_OF_AN_ACCOUNT = 200
/** About 100 bytes each. */
const MOST = 50_000

export const pageOriginStore = (database: Database): PageOriginStore => ({
  async read() {
    const rows = await database.run(
      (sql) => sql<{ origin: string }[]>`
        select distinct origin from (
          select listed.origin, row_number() over (partition by k.account_id order by k.created_at, listed.origin) as place
          from api_keys k join accounts a on a.id = k.account_id cross join lateral unnest(k.origins) as listed (origin)
          where k.origins is not null and k.revoked_at is null and (k.expires_at is null or k.expires_at > now())
            and a.frozen_at is null and a.deleted_at is null
        ) ranked where place <= ${MOST_OF_AN_ACCOUNT} limit ${MOST}`,
      { deadlineMs: 5_000, retry: true },
    )
    return rows.map(({ origin }) => origin)
  },
})
