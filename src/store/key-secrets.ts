/** A key's secrets: another takes the place of the one in use, which works for a while beside it. May be sent twice. */
import type { Database } from "./database.ts"
import { type ChangeName, taking } from "./idempotency-keys.ts"

export interface KeyName {
  readonly accountId: string
  readonly keyId: string
  /** Where it is said, only if it is a child of this key. */
  readonly childOf?: string | undefined
}

export interface NewSecret {
  readonly keyHash: Uint8Array
  readonly prefix: string
  readonly last4: string
  readonly overlapS: number
}

/** A key's record has all its secrets, and is read with each change. */
export const SECRETS_A_DAY = 100

/**
 * Those before it work for so many seconds more, or as long as they would have. Undefined when there is no such key. A change that
 * was carried out before, with another secret, is "done before".
 */
export async function replaceSecret(
  database: Database,
  key: KeyName,
  { keyHash, prefix, last4, overlapS }: NewSecret,
  change?: ChangeName,
): Promise<"replaced" | "revoked" | "frozen" | "too often" | "done before" | undefined> {
  // What is not inserted for the first time was there before this was sent.
  const [row] = await database.run(
    (sql) => sql<{ revoked: boolean; frozen: boolean; too_often: boolean; ours: boolean }[]>`
      with found as (
        select k.id, k.key_hash, k.revoked_at is not null as revoked, a.frozen_at is not null as frozen,
          (select count(*) from key_secrets s where s.key_id = k.id and s.secret_hash <> ${keyHash}
            and s.created_at > now() - interval '1 day') >= ${SECRETS_A_DAY} as too_often
        from api_keys k join accounts a on a.id = k.account_id
        where k.id = ${key.keyId} and k.account_id = ${key.accountId} for update of k
      ), ${taking(sql, change, key.keyId, sql`exists (select from found where not revoked and not frozen and not too_often)`)},
      fresh as (
        insert into key_secrets (secret_hash, key_id)
        select ${keyHash}, id from found, taken where not revoked and not frozen and not too_often
        on conflict do nothing returning key_id
      ), first as (
        insert into key_secrets (secret_hash, key_id, expires_at)
        select key_hash, id, now() + make_interval(secs => ${overlapS}) from found
        where exists (select from fresh)
        on conflict do nothing
      ), ending as (
        update key_secrets s set expires_at = least(coalesce(s.expires_at, 'infinity'), now() + make_interval(secs => ${overlapS}))
        from fresh f where s.key_id = f.key_id and s.secret_hash <> ${keyHash}
      ), forgotten as (
        -- The first one stays: without its row it would be one that was never replaced.
        delete from key_secrets s using found f
        where s.key_id = f.id and s.secret_hash <> f.key_hash and s.expires_at < now() - interval '7 days'
      ), shown as (
        update api_keys k set prefix = ${prefix}, last4 = ${last4} from fresh f where k.id = f.key_id
      )
      select revoked, frozen, too_often,
        exists (select from fresh) or exists (select from key_secrets where secret_hash = ${keyHash}) as ours
      from found`,
    { deadlineMs: 5_000, retry: true },
  )
  if (row === undefined) return undefined
  if (row.revoked) return "revoked"
  if (row.frozen) return "frozen"
  if (row.too_often) return "too often"
  return row.ours ? "replaced" : "done before"
}
