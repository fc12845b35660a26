/**
 * Accounts as rows, and their freezes: a frozen account's keys are refused until an operator has looked at it. Each function is one
 * autocommit statement that may be sent twice with the effect of once, because a connection that dies leaves nobody knowing
 * whether its last statement was committed.
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
import { type CredentialStore, credentialStore, rememberNetwork } from "./credentials.ts"
import type { Database, Sql } from "./database.ts"
import { type Act, signature, signatureColumns } from "./operator/audit.ts"
import { type OperatorRole, type Role, lockedOwners, operatorRole } from "./operator/role.ts"

/** How long a session lasts, for its row and for the cookie that carries its token (decisions §10). */
export const SESSION_DAYS = 30

export interface Account {
  readonly id: string
  readonly email: string
  /** A mail has shown that it reaches its owner, or none is asked for (decisions §13.16). */
  readonly emailProved: boolean
  readonly role: Role
  /** Undefined for a customer. */
  readonly operatorRole: OperatorRole | undefined
  /** The posted balance, and what calls under way hold of it (decisions §12.17). */
  readonly balanceMicro: Micro
  readonly heldMicro: Micro
  /** What is owed for payments that were taken back; settled before anything may be spent. */
  readonly claimMicro: Micro
  readonly timeZone: string
  readonly language: Language
  /** Where to write, and below which balance. */
  readonly lowBalanceEmail: string | undefined
  readonly lowBalanceThresholdMicro: Micro | undefined
  /** Whether it is written to about its keys' budgets, at the same address. */
  readonly budgetMails: boolean
  /** To whom its receipts and statements are made out. */
  readonly buyerName: string | undefined
  readonly buyerAddress: string | undefined
  /** The tax office's number, its digits. */
  readonly buyerNpwp: string | undefined
  readonly frozen: boolean
  /** The texts that its owner agreed to. */
  readonly agreed: { readonly version: string; readonly at: Date } | undefined
  readonly createdAt: Date
}

export interface FirstSteps {
  readonly toppedUp: boolean
  readonly keyMade: boolean
  readonly callMade: boolean
}

/** From where a session is used: a network address, and what the browser calls itself. */
export interface ClientInfo {
  readonly address: string
  readonly userAgent: string
}

interface NewAccount {
  readonly id: string
  readonly email: string
  /** It is to be proved. */
  readonly emailUnproved: boolean
  readonly passwordHash: string
  /** Of the texts that its owner agrees to by signing up. */
  readonly agreedVersion?: string | undefined
  /** Of the session that the sign-up opens. */
  readonly sessionHash: Uint8Array
  readonly from: ClientInfo
  readonly network: string
}

export interface AccountStore extends SettingsStore, CredentialStore, FreezeStore {
  /** Undefined when the address is taken. */
  create(account: NewAccount): Promise<Account | undefined>
  read(id: string): Promise<Account | undefined>
  /** What an account has done of what everybody does first. */
  firstSteps(id: string): Promise<FirstSteps>
  /** Ends all sessions, and returns the keys that die with the account. The last owner's is kept. */
  delete(id: string): Promise<readonly OwnedKey[] | "last-owner">
}

const once = { deadlineMs: 5_000, retry: true } as const

export function accountStore(database: Database, now: () => number = Date.now): AccountStore {
  const read = async (id: string): Promise<Account | undefined> => {
    const [row] = await database.run(
      (sql) => sql<AccountRow[]>`
        select a.id, a.email, not a.email_unproved as email_proved, a.role, ${operatorRole(sql, "a")} as operator_role, a.time_zone, a.language, a.low_balance_email, a.low_balance_threshold_micro, a.budget_mails,
          a.buyer_name, a.buyer_address, a.buyer_npwp,
          a.frozen_at is not null as frozen, a.agreed_version, a.agreed_at, a.created_at, coalesce(b.posted_micro, 0) as posted_micro,
          coalesce(b.claim_micro, 0) as claim_micro, (select coalesce(sum(o.hold_micro), 0)::bigint from openings o where o.account_id = a.id) as held_micro
        from accounts a left join balances b on b.account_id = a.id
        where a.id = ${id} and a.deleted_at is null`,
      once,
    )
    return row === undefined ? undefined : toAccount(row)
  }

  return {
    ...settingsStore(database, now),
    ...credentialStore(database),
    ...freezeStore(database),
    read,

    async create({ id, email, emailUnproved, passwordHash, agreedVersion, sessionHash, from, network }) {
      await database.run(
        (sql) => sql`
          with account as (
            insert into accounts (id, email, email_unproved, password_hash, agreed_version, agreed_at)
            values (${id}, ${email}, ${emailUnproved}, ${passwordHash}, ${agreedVersion ?? null},
              case when ${agreedVersion !== undefined} then now() end)
            on conflict do nothing returning id
          ), balance as (
            insert into balances (account_id) select id from account
          ), session as (
            insert into sessions (token_hash, account_id, expires_at, address, user_agent)
            select ${sessionHash}, id, now() + make_interval(days => ${SESSION_DAYS}), ${from.address}, ${from.userAgent}
            from account
          ), ${rememberNetwork(sql, sql`account`, network)}
          select from account`,
        once,
      )
      // By its own id: on a second sending this very account has the address, and may have got it after the statement began.
      return await read(id)
    },

    async firstSteps(id) {
      const [row] = await database.run(
        (sql) => sql<{ topped_up: boolean | null; key_made: boolean; call_made: boolean }[]>`
          -- Not in the words of the index of all that was paid, which without statistics is read whole.
          select (select bool_or(status = 'paid') from top_ups where account_id = ${id}) as topped_up,
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

    async delete(id) {
      const rows = await database.run(
        (sql) => sql<(OwnedKeyRow | { id: null })[]>`
          with ${lockedOwners(sql)}, deleted as (
            update accounts set deleted_at = coalesce(deleted_at, now())
            where id = ${id} and exists (select from owners o where o.id <> ${id}) >= (${id} in (select o.id from owners o))
            returning id
          ), ended as (
            delete from sessions where account_id in (select id from deleted)
          ), forgotten as (
            delete from account_networks where account_id in (select id from deleted)
          ), mails as (
            delete from account_mails where account_id in (select id from deleted)
          ), factors as (
            delete from second_factors where account_id in (select id from deleted)
          ), passkeys_gone as (
            delete from passkeys where account_id in (select id from deleted)
          ), codes as (
            delete from recovery_codes where account_id in (select id from deleted)
          ), steps as (
            delete from sign_in_steps where account_id in (select id from deleted)
          ), refused as (
            delete from refused_calls where account_id in (select id from deleted)
          ), refused_counts_gone as (
            delete from refused_counts where account_id in (select id from deleted)
          ), tokens as (
            delete from management_tokens where account_id in (select id from deleted)
          ), webhook as (
            delete from webhooks where account_id in (select id from deleted)
          ), members_gone as (
            delete from members where account_id in (select id from deleted) or member_id in (select id from deleted)
          ), uninvited as (
            delete from invitations where account_id in (select id from deleted) or invited_by in (select id from deleted)
          )
          select k.id, k.key_hash from deleted left join api_keys k on k.account_id = deleted.id and k.revoked_at is null`,
        once,
      )
      return rows.length === 0 ? "last-owner" : rows.filter((row) => row.id !== null).map(toOwnedKey)
    },
  }
}

interface AccountRow {
  id: string
  email: string
  email_proved: boolean
  role: Role
  operator_role: OperatorRole | null
  time_zone: string
  language: Language
  low_balance_email: string | null
  low_balance_threshold_micro: bigint | null
  budget_mails: boolean
  buyer_name: string | null
  buyer_address: string | null
  buyer_npwp: string | null
  frozen: boolean
  agreed_version: string | null
  agreed_at: Date | null
  created_at: Date
  posted_micro: bigint
  held_micro: bigint
  claim_micro: bigint
}

const toAccount = (row: AccountRow): Account => ({
  id: row.id,
  email: row.email,
  emailProved: row.email_proved,
  role: row.role,
  operatorRole: row.operator_role ?? undefined,
  balanceMicro: micro(row.posted_micro),
  heldMicro: micro(row.held_micro),
  claimMicro: micro(row.claim_micro),
  timeZone: row.time_zone,
  language: row.language,
  lowBalanceEmail: row.low_balance_email ?? undefined,
  lowBalanceThresholdMicro:
    row.low_balance_threshold_micro === null ? undefined : micro(row.low_balance_threshold_micro),
  budgetMails: row.budget_mails,
  buyerName: row.buyer_name ?? undefined,
  buyerAddress: row.buyer_address ?? undefined,
  buyerNpwp: row.buyer_npwp ?? undefined,
  frozen: row.frozen,
  agreed:
    row.agreed_version === null || row.agreed_at === null
      ? undefined
      : { version: row.agreed_version, at: row.agreed_at },
  createdAt: row.created_at,
})

/** `found`: what the row of the audit log has beside the reason, such as the figures that do not agree. */
export type FreezeAct = Act & { readonly found?: Readonly<Record<string, string | null>> }

interface FreezeStore {
  /** Returns the account's keys, which make no more calls. A frozen account stays frozen for its first reason. */
  freeze(id: string, reason: string, act?: FreezeAct): Promise<readonly OwnedKey[]>
  unfreeze(id: string, by?: { readonly act: Act; readonly reason: string }): Promise<readonly OwnedKey[]>
}

const freezeStore = (database: Database): FreezeStore => {
  /** Makes the change, if there is one to make, and returns the account's keys in either case. */
  const changed = async (id: string, change: (sql: Sql) => ReturnType<Sql>, by: Signed | undefined) => {
    const rows = await database.run(
      (sql) => sql<OwnedKeyRow[]>`
        with changed as (${change(sql)})${by === undefined ? sql`` : sql`, logged as (${logged(sql, by)})`}
        select id, key_hash from api_keys where account_id = ${id} and revoked_at is null`,
      once,
    )
    return rows.map(toOwnedKey)
  }
  return {
    freeze: (id, reason, act) =>
      changed(
        id,
        (sql) => sql`
          update accounts set frozen_at = now(), frozen_reason = ${reason} where id = ${id} and frozen_at is null returning id`,
        act && { act, reason, becomesFrozen: true },
      ),

    unfreeze: (id, by) =>
      changed(
        id,
        (sql) => sql`
          update accounts set frozen_at = null, frozen_reason = null where id = ${id} and frozen_at is not null returning id`,
        by && { ...by, becomesFrozen: false },
      ),
  }
}

interface Signed {
  readonly act: FreezeAct
  readonly reason: string
  readonly becomesFrozen: boolean
}

const logged = (sql: Sql, { act, reason, becomesFrozen }: Signed) => sql`
  insert into audit_log (${signatureColumns(sql)}, action, subject, before, after, reason)
  select ${signature(sql, act)}, ${becomesFrozen ? "account.frozen" : "account.unfrozen"}, id,
    jsonb_build_object('frozen', ${!becomesFrozen}::boolean),
    ${JSON.stringify(act.found ?? {})}::text::jsonb || jsonb_build_object('frozen', ${becomesFrozen}::boolean), ${reason}
  from changed`
