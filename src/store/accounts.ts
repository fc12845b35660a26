/**
 * Accounts as rows. Each function is one autocommit statement that may be sent twice with the effect of once, because a
 * connection that dies leaves nobody knowing whether its last statement was committed.
 */
import { type Micro, micro } from "../../actors/money/micro.ts"
import {
  type Language,
  type OwnedKey,
  type OwnedKeyRow,
  type SettingsStore,
  settingsStore,
  toOwnedKey,
} from "./account-settings.ts"
import type { Database, Sql } from "./database.ts"
import { type Act, signature, signatureColumns } from "./operator/audit.ts"
import { rememberNetwork } from "./account-networks.ts"
import { SESSION_DAYS } from "./session-days.ts"

export interface Account {
  readonly id: string
  readonly email: string
  readonly role: "customer" | "operator"
  /** The posted balance, and what calls under way hold of it (decisions §12.17). */
  readonly balanceMicro: Micro
  readonly heldMicro: Micro
  readonly timeZone: string
  readonly language: Language
  /** Where to write, and below which balance. */
  readonly lowBalanceEmail: string | undefined
  readonly lowBalanceThresholdMicro: Micro | undefined
  readonly frozen: boolean
  readonly createdAt: Date
}

export interface StoredCredentials {
  readonly id: string
  readonly email: string
  readonly passwordHash: string
  /** Somebody has signed in from the network that was asked about. */
  readonly isKnownNetwork: boolean
}

export interface FirstSteps {
  readonly toppedUp: boolean
  readonly keyMade: boolean
  readonly callMade: boolean
}

/** From where a session is used: a network address, and what the browser calls itself. */
export interface Whereabouts {
  readonly address: string
  readonly userAgent: string
}

export interface NewAccount {
  readonly id: string
  readonly email: string
  readonly passwordHash: string
  /** Of the session that the sign-up opens. */
  readonly sessionHash: Uint8Array
  readonly from: Whereabouts
  readonly network: string
}

export interface PasswordChange {
  /** Hashes. */
  readonly from: string
  readonly to: string
  /** From which it is changed. */
  readonly network: string
}

export interface AccountStore extends SettingsStore {
  /** Undefined when the address is taken. */
  create(account: NewAccount): Promise<Account | undefined>
  read(id: string): Promise<Account | undefined>
  /** What an account has done of what everybody does first. */
  firstSteps(id: string): Promise<FirstSteps>
  credentialsOf(email: string, network: string): Promise<StoredCredentials | undefined>
  credentialsById(id: string, network: string): Promise<StoredCredentials | undefined>
  /** False when the password is no longer the one that was confirmed. Ends all sessions, and forgets all other networks. */
  changePassword(id: string, change: PasswordChange): Promise<boolean>
  /** Ends all sessions, and returns the keys that die with the account. */
  delete(id: string): Promise<readonly OwnedKey[]>
  /** Returns the account's keys, which make no more calls. A frozen account stays frozen for its first reason. */
  freeze(id: string, reason: string, act?: Act): Promise<readonly OwnedKey[]>
  unfreeze(id: string, by?: { readonly act: Act; readonly reason: string }): Promise<readonly OwnedKey[]>
}

const once = { deadlineMs: 5_000, retry: true } as const

export function accountStore(database: Database, now: () => number = Date.now): AccountStore {
  const read = async (id: string): Promise<Account | undefined> => {
    const [row] = await database.run(
      (sql) => sql<AccountRow[]>`
        select a.id, a.email, a.role, a.time_zone, a.language, a.low_balance_email, a.low_balance_threshold_micro,
          a.frozen_at is not null as frozen, a.created_at, coalesce(b.posted_micro, 0) as posted_micro,
          (select coalesce(sum(o.hold_micro), 0)::bigint from openings o where o.account_id = a.id) as held_micro
        from accounts a left join balances b on b.account_id = a.id
        where a.id = ${id} and a.deleted_at is null`,
      once,
    )
    return row === undefined ? undefined : toAccount(row)
  }

  return {
    ...settingsStore(database, now),
    read,

    async create({ id, email, passwordHash, sessionHash, from, network }) {
      // `opened` comes first by its own id on a second sending, when the address is taken by this very account.
      const [row] = await database.run(
        (sql) => sql<{ id: string }[]>`
          with account as (
            insert into accounts (id, email, password_hash) values (${id}, ${email}, ${passwordHash})
            on conflict do nothing returning id
          ), balance as (
            insert into balances (account_id) select id from account
          ), session as (
            insert into sessions (token_hash, account_id, expires_at, address, user_agent)
            select ${sessionHash}, id, now() + make_interval(days => ${SESSION_DAYS}), ${from.address}, ${from.userAgent}
            from account
          ), ${rememberNetwork(sql, sql`account`, network)}
          select id from account union select id from accounts where id = ${id}`,
        once,
      )
      return row === undefined ? undefined : await read(id)
    },

    async firstSteps(id) {
      const [row] = await database.run(
        (sql) => sql<{ topped_up: boolean; key_made: boolean; call_made: boolean }[]>`
          select exists (select from top_ups where account_id = ${id} and status = 'paid') as topped_up,
            exists (select from api_keys where account_id = ${id}) as key_made,
            exists (select from usage_hours where account_id = ${id} and calls > 0) as call_made`,
        once,
      )
      return {
        toppedUp: row?.topped_up === true,
        keyMade: row?.key_made === true,
        callMade: row?.call_made === true,
      }
    },

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
          )
          select id from changed`,
        once,
      )
      return rows.length === 1
    },

    async delete(id) {
      const rows = await database.run(
        (sql) => sql<OwnedKeyRow[]>`
          with deleted as (
            update accounts set deleted_at = coalesce(deleted_at, now()) where id = ${id} returning id
          ), ended as (
            delete from sessions where account_id = ${id}
          ), forgotten as (
            delete from account_networks where account_id = ${id}
          )
          select k.id, k.key_hash from api_keys k join deleted on deleted.id = k.account_id where k.revoked_at is null`,
        once,
      )
      return rows.map(toOwnedKey)
    },

    async freeze(id, reason, act) {
      const rows = await database.run(
        (sql) => sql<OwnedKeyRow[]>`
          with frozen as (
            update accounts set frozen_at = now(), frozen_reason = ${reason} where id = ${id} and frozen_at is null
            returning id
          )${
            act === undefined
              ? sql``
              : sql`, logged as (
            insert into audit_log (${signatureColumns(sql)}, action, subject, before, after, reason)
            select ${signature(sql, act)}, 'account.frozen', id, '{"frozen":false}', '{"frozen":true}', ${reason} from frozen
          )`
          }
          select id, key_hash from api_keys where account_id = ${id} and revoked_at is null`,
        once,
      )
      return rows.map(toOwnedKey)
    },

    async unfreeze(id, by) {
      const rows = await database.run(
        (sql) => sql<OwnedKeyRow[]>`
          with unfrozen as (
            update accounts set frozen_at = null, frozen_reason = null where id = ${id} and frozen_at is not null
            returning id
          )${
            by === undefined
              ? sql``
              : sql`, logged as (
            insert into audit_log (${signatureColumns(sql)}, action, subject, before, after, reason)
            select ${signature(sql, by.act)}, 'account.unfrozen', id, '{"frozen":true}', '{"frozen":false}', ${by.reason}
            from unfrozen
          )`
          }
          select id, key_hash from api_keys where account_id = ${id} and revoked_at is null`,
        once,
      )
      return rows.map(toOwnedKey)
    },
  }
}

interface CredentialsRow {
  id: string
  email: string
  password_hash: string
  is_known_network: boolean
}
interface AccountRow {
  id: string
  email: string
  role: "customer" | "operator"
  time_zone: string
  language: Language
  low_balance_email: string | null
  low_balance_threshold_micro: bigint | null
  frozen: boolean
  created_at: Date
  posted_micro: bigint
  held_micro: bigint
}

/** A network is known for a season. */
const selectCredentials = (sql: Sql, network: string) => sql`
  select a.id, a.email, a.password_hash, exists (select from account_networks n
    where n.account_id = a.id and n.network = ${network} and n.signed_in_at > now() - interval '90 days') as is_known_network
  from accounts a`

const toCredentials = (row: CredentialsRow): StoredCredentials => ({
  id: row.id,
  email: row.email,
  passwordHash: row.password_hash,
  isKnownNetwork: row.is_known_network,
})

const toAccount = (row: AccountRow): Account => ({
  id: row.id,
  email: row.email,
  role: row.role,
  balanceMicro: micro(row.posted_micro),
  heldMicro: micro(row.held_micro),
  timeZone: row.time_zone,
  language: row.language,
  lowBalanceEmail: row.low_balance_email ?? undefined,
  lowBalanceThresholdMicro:
    row.low_balance_threshold_micro === null ? undefined : micro(row.low_balance_threshold_micro),
  frozen: row.frozen,
  createdAt: row.created_at,
})
