/**
 * What an account's owner gets in by: the password's hash, whether a second factor is asked for, and from which networks somebody
 * has signed in. Each function is one statement that may be sent twice with the effect of once.
 */
import type { Database, Sql } from "./database.ts"

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
        ), ended as (
          delete from sessions where account_id in (select id from changed)
        ), forgotten as (
          delete from account_networks where account_id in (select id from changed) and network <> ${network}
        ), links as (
          delete from account_mails where account_id in (select id from changed) and kind in ('reset', 'change')
        )
        select id from changed`,
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

/** A network is known for a season. */
const selectCredentials = (sql: Sql, network: string) => sql`
  select a.id, a.email, a.password_hash, exists (select from account_networks n
    where n.account_id = a.id and n.network = ${network} and n.signed_in_at > now() - interval '90 days') as is_known_network,
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
