/** Management tokens: what makes children of one key. Of a secret only its hash is here; a token that is revoked is removed. */
import type { Database } from "./database.ts"
import { type ChangeName, taking } from "./idempotency-keys.ts"
import type { KeyName } from "./account-settings.ts"

export interface ManagementToken {
  readonly id: string
  readonly name: string
  readonly prefix: string
  readonly last4: string
  readonly createdAt: Date
}

export interface NewToken extends Omit<ManagementToken, "createdAt"> {
  readonly hash: Uint8Array
}

/** Whoever comes with a token, and the key that it is of. */
export interface TokenHolder {
  readonly tokenId: string
  readonly accountId: string
  readonly keyId: string
  readonly isRevoked: boolean
  readonly isExpired: boolean
  readonly isAccountDeleted: boolean
  readonly isAccountFrozen: boolean
}

export interface ManagementTokenStore {
  /** The newest first. */
  list(key: KeyName): Promise<readonly ManagementToken[]>
  /** `"done before"` when the change was carried out before: with another secret, that nobody has any more. */
  create(
    key: KeyName,
    token: NewToken,
    change?: ChangeName,
  ): Promise<ManagementToken | "no key" | "child" | "revoked" | "frozen" | "too many" | "done before">
  /** False when there is none. */
  revoke(key: KeyName, tokenId: string): Promise<boolean>
  /** By the hash of its secret. */
  find(hash: Uint8Array): Promise<TokenHolder | undefined>
}

/** Of one key. */
export const MAX_TOKENS = 5

interface TokenRow {
  id: string
  name: string
  prefix: string
  last4: string
  created_at: Date
}

interface HolderRow {
  id: string
  account_id: string
  key_id: string
  revoked: boolean
  expired: boolean
  deleted: boolean
  frozen: boolean
}

const once = { deadlineMs: 5_000, retry: true } as const

const toToken = ({ created_at: createdAt, ...row }: TokenRow): ManagementToken => ({ ...row, createdAt })

export function managementTokenStore(database: Database): ManagementTokenStore {
  const list: ManagementTokenStore["list"] = async ({ accountId, keyId }) => {
    const rows = await database.run(
      (sql) => sql<TokenRow[]>`
        select id, name, prefix, last4, created_at from management_tokens
        where key_id = ${keyId} and account_id = ${accountId} order by created_at desc, id`,
      once,
    )
    return rows.map(toToken)
  }
  return {
    list,

    async create(key, { id, name, hash, prefix, last4 }, change) {
      const { accountId, keyId } = key
      const [row] = await database.run(
        (sql) => sql<
          {
            refusal: "made before" | "no key" | "child" | "revoked" | "frozen" | "too many" | null
            taken: boolean
          }[]
        >`
          with asked as materialized (
            select token_refusal_1(${accountId}, ${keyId}, ${id}, ${MAX_TOKENS}::integer) as refusal
          ), ${taking(sql, change, id, sql`exists (select from asked where refusal is null)`)},
          made as (
            insert into management_tokens (id, account_id, key_id, name, token_hash, prefix, last4)
            select ${id}, ${accountId}, ${keyId}, ${name}, ${hash}, ${prefix}, ${last4}
            from asked, taken where refusal is null
          )
          select refusal, exists (select from taken) as taken from asked`,
        once,
      )
      const refusal = row?.refusal ?? undefined
      if (refusal !== undefined && refusal !== "made before") return refusal
      if (refusal === undefined && row?.taken === false) return "done before"
      const made = (await list(key)).find((token) => token.id === id)
      if (made === undefined) throw new Error(`the token ${id} was made and is not there`)
      return made
    },

    async revoke({ accountId, keyId }, tokenId) {
      const rows = await database.run(
        (sql) => sql`
          delete from management_tokens where id = ${tokenId} and key_id = ${keyId} and account_id = ${accountId} returning id`,
        once,
      )
      return rows.length > 0
    },

    async find(hash) {
      const [row] = await database.run(
        (sql) => sql<HolderRow[]>`
          select t.id, t.account_id, t.key_id, k.revoked_at is not null as revoked,
            k.expires_at is not null and k.expires_at <= now() as expired,
            a.deleted_at is not null as deleted, a.frozen_at is not null as frozen
          from management_tokens t join api_keys k on k.id = t.key_id join accounts a on a.id = t.account_id
          where t.token_hash = ${hash}`,
        once,
      )
      return (
        row && {
          tokenId: row.id,
          accountId: row.account_id,
          keyId: row.key_id,
          isRevoked: row.revoked,
          isExpired: row.expired,
          isAccountDeleted: row.deleted,
          isAccountFrozen: row.frozen,
        }
      )
    },
  }
}
