/**
 * What an account's owner gets in by: the password's hash, whether a second factor is asked for, and from which networks somebody
 * has signed in. Each function is one statement that may be sent twice with the effect of once.
 *
 * Then what programs of theirs get in by, management tokens: what makes children of one key. Of a secret only its hash is here; a token
 * that is revoked is removed.
 */
import { type KeyName, tellOwners, type TellKind } from "./account-settings.ts"
import type { Database, Sql } from "./database.ts"
import { type ChangeName, taking } from "./idempotency-keys.ts"

export interface StoredCredentials {
  readonly id: string
  readonly email: string
  readonly passwordHash: string
  /** Somebody has signed in from the network that was asked about. */
  readonly isKnownNetwork: boolean
  /** A second one is asked for at the sign-in. */
  readonly hasFactor: boolean
  readonly hasPasskey: boolean
}

export interface PasswordChange {
  /** Hashes. */
  readonly from: string
  readonly to: string
  /** From which it is changed. */
  readonly network: string
}

export interface CredentialStore {
  credentialsOf(email: string, network: string): Promise<StoredCredentials | undefined>
  credentialsById(id: string, network: string): Promise<StoredCredentials | undefined>
  /**
   * False when the password is no longer the one that was confirmed. Ends all sessions, forgets all other networks, and with them the
   * links for another password or another address, which somebody else may have asked for.
   */
  changePassword(id: string, change: PasswordChange): Promise<boolean>
}

const once = { deadlineMs: 5_000, retry: true } as const

export const credentialStore = (database: Database): CredentialStore => ({
  async credentialsOf(email, network) {
    const [row] = await database.run(
      (sql) => sql<CredentialsRow[]>`
        ${selectCredentials(sql, network)} where lower(a.email) = lower(${email}) and a.deleted_at is null`,
      once,
    )
    return row && toCredentials(row)
  },

  async credentialsById(id, network) {
    const [row] = await database.run(
      (sql) => sql<CredentialsRow[]>`${selectCredentials(sql, network)} where a.id = ${id} and a.deleted_at is null`,
      once,
    )
    return row && toCredentials(row)
  },

  async changePassword(id, { from, to, network }) {
    // Hashes are salted, so finding `to` already there means that this statement was sent before.
    const rows = await database.run(
      (sql) => sql`
        with changed as (
          update accounts set password_hash = ${to}
          where id = ${id} and password_hash in (${from}, ${to}) and deleted_at is null
          returning id
        ), forgotten as (
          delete from account_networks where account_id in (select id from changed) and network <> ${network}
        ), links as (
          delete from account_mails where account_id in (select id from changed) and kind in ('reset', 'change')
        ), notified as (
          ${tellOwners(sql, "password-changed", sql`select a.id from accounts a join changed on changed.id = a.id and a.password_hash = ${from}`)}
        )
        select end_sessions_1(id) from changed`,
      once,
    )
    return rows.length === 1
  },
})

interface CredentialsRow {
  id: string
  email: string
  password_hash: string
  is_known_network: boolean
  has_factor: boolean
  has_passkey: boolean
}
/** Of the account `a`. */
export const hasFactor = (sql: Sql) =>
  sql`(exists (select from second_factors f where f.account_id = a.id and f.confirmed_at is not null) or ${hasPasskey(sql)})`

const hasPasskey = (sql: Sql) => sql`exists (select from passkeys p where p.account_id = a.id)`

/** Parts of a `with`, after `last`, the accounts that lose their last factor: what goes with it, save the session that is excepted. */
export const withLastFactor = (sql: Sql, except: string) => sql`
  codes as (
    delete from recovery_codes where account_id in (select account_id from last)
  ), steps as (
    delete from sign_in_steps where account_id in (select account_id from last)
  ), unshown as (
    update sessions set factor_at = null where account_id in (select account_id from last) and id = ${except}
  )`

/** Part of a `with`, after `removed` and `last`: what the owner is told, which is another thing of the last factor. */
export const notifyOfRemoval = (sql: Sql, kind: TellKind) => sql`
  notified as (
    ${tellOwners(
      sql,
      sql`case when exists (select from last) then 'factor-off' else ${kind} end`,
      sql`select account_id from removed`,
    )}
  )`

/** Of the account `a`. A network is known for a season. */
export const isKnownNetwork = (sql: Sql, network: string) => sql`
  exists (select from account_networks n
    where n.account_id = a.id and n.network = ${network} and n.signed_in_at > now() - interval '90 days')`

const selectCredentials = (sql: Sql, network: string) => sql`
  select a.id, a.email, a.password_hash, ${isKnownNetwork(sql, network)} as is_known_network,
    ${hasFactor(sql)} as has_factor, ${hasPasskey(sql)} as has_passkey
  from accounts a`

const toCredentials = (row: CredentialsRow): StoredCredentials => ({
  id: row.id,
  email: row.email,
  passwordHash: row.password_hash,
  isKnownNetwork: row.is_known_network,
  hasFactor: row.has_factor,
  hasPasskey: row.has_passkey,
})

/** Networks from which an account's owner signs in: only the latest of an account are kept. */
const NETWORKS = 20

/** Parts of a `with`, for a statement in which the password was right: `account` names what has the account's id. */
export const rememberNetwork = (sql: Sql, account: ReturnType<Sql>, network: string) => sql`
  remembered as (
    insert into account_networks (account_id, network) select id, ${network} from ${account}
    on conflict (account_id, network) do update set signed_in_at = now()
  ), outnumbered as (
    delete from account_networks n using ${account} a
    where n.account_id = a.id and n.network in (
      select network from account_networks where account_id = a.id and network <> ${network}
      order by signed_in_at desc, network offset ${NETWORKS - 1}
    )
  )`

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

    async revoke(key, tokenId) {
      // Looked for first: a deletion that is sent again finds nothing, and was done all the same.
      if (!(await list(key)).some(({ id }) => id === tokenId)) return false
      const { accountId, keyId } = key
      await database.run(
        (sql) =>
          sql`delete from management_tokens where id = ${tokenId} and key_id = ${keyId} and account_id = ${accountId}`,
        once,
      )
      return true
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
