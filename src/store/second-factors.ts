/**
 * Second factors as rows: an authenticator app's secret, recovery codes by their hash, and sign-ins that wait for one of them.
 * What is used up is used up in one statement, so that two uses at once, in whatever processes, are one. Such a statement is
 * not sent again: its answer would be another one.
 */
import { tellOwners } from "./account-settings.ts"
import { hasFactor, isKnownNetwork, notifyOfRemoval, withLastFactor } from "./credentials.ts"
import type { Database } from "./database.ts"
import { type Act, signature, signatureColumns } from "./operator/audit.ts"

export interface AppSecret {
  readonly secret: Uint8Array
  readonly isConfirmed: boolean
}

export interface SecondFactorState {
  /** When the app was set up; undefined without one. */
  readonly since: Date | undefined
  readonly codesLeft: number
}

/** A sign-in that waits. */
export interface SignInStep {
  readonly accountId: string
  readonly email: string
  /** The one that the password was verified against. */
  readonly passwordHash: string
}

interface OpenStep extends SignInStep {
  /** Somebody has signed in from the network that was asked about. */
  readonly isKnownNetwork: boolean
}

export interface SecondFactorStore {
  state(accountId: string): Promise<SecondFactorState>
  /** A secret that waits for its first code, in the place of one that waits. False where one is confirmed. */
  propose(accountId: string, secret: Uint8Array): Promise<boolean>
  secretOf(accountId: string): Promise<AppSecret | undefined>
  /** The secret counts from now on; all sessions end but this one. False when it is not the one that waits. */
  confirm(accountId: string, first: FirstCode): Promise<boolean>
  /** Takes a step's code, or a recovery code; false when it was taken before. */
  takeStep(accountId: string, step: number): Promise<boolean>
  takeCode(accountId: string, codeHash: Uint8Array): Promise<boolean>
  /** In the place of all that were there. */
  replaceCodes(accountId: string, codeHashes: readonly Uint8Array[]): Promise<void>
  /** All sessions end but the one that is excepted. Where it was the last factor, recovery codes and sign-ins that wait go too. */
  removeApp(accountId: string, except: string): Promise<boolean>
  /** By who has the machine: nothing is left of the app, of passkeys and of codes, and all sessions end. */
  remove(accountId: string, by: { readonly act: Act; readonly reason: string }): Promise<boolean>
  openStep(step: SignInStep & { readonly tokenHash: Uint8Array }): Promise<void>
  /** Undefined when it is over, or the password or the account is not what it was. */
  stepOf(tokenHash: Uint8Array, network: string): Promise<OpenStep | undefined>
  endStep(tokenHash: Uint8Array): Promise<void>
}

interface FirstCode {
  readonly secret: Uint8Array
  readonly step: number
  readonly codeHashes: readonly Uint8Array[]
  readonly sessionId: string
}

/** For a sign-in to be finished. */
export const STEP_MINUTES = 10
/** Sign-ins of one account that wait at once; the oldest gives way. */
const STEPS = 20
/**
 * Those that networks from which nobody has signed in may begin in as long as one waits. Two such times may meet, and leave half of
 * the places: who has the password alone must not push the owner's out.
 */
export const STEPS_ELSEWHERE = STEPS / 4

const once = { deadlineMs: 5_000, retry: true } as const
const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString("hex")

export const secondFactorStore = (database: Database): SecondFactorStore => ({
  async state(accountId) {
    const [row] = await database.run(
      (sql) => sql<{ since: Date | null; codes: number }[]>`
        select (select confirmed_at from second_factors where account_id = ${accountId}) as since,
          (select count(*)::int from recovery_codes where account_id = ${accountId}) as codes`,
      once,
    )
    return { since: row?.since ?? undefined, codesLeft: row?.codes ?? 0 }
  },

  async propose(accountId, secret) {
    const rows = await database.run(
      (sql) => sql`
        insert into second_factors as f (account_id, secret)
        select id, ${secret} from accounts where id = ${accountId} and deleted_at is null
        on conflict (account_id) do update set secret = excluded.secret where f.confirmed_at is null
        returning account_id`,
      once,
    )
    return rows.length > 0
  },

  async secretOf(accountId) {
    const [row] = await database.run(
      (sql) => sql<{ secret: Uint8Array; is_confirmed: boolean }[]>`
        select secret, confirmed_at is not null as is_confirmed from second_factors where account_id = ${accountId}`,
      once,
    )
    return row && { secret: new Uint8Array(row.secret), isConfirmed: row.is_confirmed }
  },

  async confirm(accountId, { secret, step, codeHashes, sessionId }) {
    const rows = await database.run(
      (sql) => sql`
        with confirmed as (
          update second_factors set confirmed_at = now(), last_step = ${step}
          where account_id = ${accountId} and confirmed_at is null and secret = ${secret} returning account_id
        ), gone as (
          delete from recovery_codes where account_id in (select account_id from confirmed)
        ), codes as (
          insert into recovery_codes (account_id, code_hash)
          select account_id, decode(code, 'hex') from confirmed, unnest(${sql.array(codeHashes.map(hex))}::text[]) as code
        ), shown as (
          update sessions set factor_at = now()
          where account_id in (select account_id from confirmed) and id = ${sessionId}
        ), ended as (
          delete from sessions where account_id in (select account_id from confirmed) and id <> ${sessionId}
        ), notified as (
          ${tellOwners(sql, "factor-on", sql`select account_id from confirmed`)}
        )
        select from confirmed`,
    )
    return rows.length > 0
  },

  async takeStep(accountId, step) {
    const rows = await database.run(
      (sql) => sql`
        update second_factors set last_step = ${step}
        where account_id = ${accountId} and confirmed_at is not null and last_step < ${step} returning account_id`,
    )
    return rows.length > 0
  },

  async takeCode(accountId, codeHash) {
    const rows = await database.run(
      (sql) => sql`
        with used as (
          delete from recovery_codes where account_id = ${accountId} and code_hash = ${codeHash} returning account_id
        ), notified as (
          ${tellOwners(sql, "code-used", sql`select account_id from used`)}
        )
        select from used`,
    )
    return rows.length > 0
  },

  async replaceCodes(accountId, codeHashes) {
    await database.run(
      (sql) => sql`
        with kept as (
          select a.id as account_id from accounts a where a.id = ${accountId} and ${hasFactor(sql)} for update
        ), renewed as materialized (
          select remove_recovery_codes_1(account_id) as account_id from kept
        ), notified as (
          ${tellOwners(sql, "codes-renewed", sql`select account_id from renewed`)}
        )
        insert into recovery_codes (account_id, code_hash)
        select account_id, decode(code, 'hex') from renewed, unnest(${sql.array(codeHashes.map(hex))}::text[]) as code`,
    )
  },

  async removeApp(accountId, except) {
    const rows = await database.run(
      (sql) => sql`
        with removed as (
          delete from second_factors where account_id = ${accountId} returning account_id
        ), last as (
          select account_id from removed where not exists (select from passkeys where account_id = ${accountId})
        ), ${withLastFactor(sql, except)}, ended as (
          delete from sessions where account_id in (select account_id from removed) and id <> ${except}
        ), ${notifyOfRemoval(sql, "app-removed")}
        select from removed`,
    )
    return rows.length > 0
  },

  async remove(accountId, by) {
    const rows = await database.run(
      (sql) => sql`
        with app as (
          delete from second_factors where account_id = ${accountId} returning account_id
        ), keys as (
          delete from passkeys where account_id = ${accountId} returning account_id
        ), removed as (
          select account_id from app union select account_id from keys
        ), codes as (
          delete from recovery_codes where account_id = ${accountId}
        ), steps as (
          delete from sign_in_steps where account_id = ${accountId}
        ), ended as (
          delete from sessions where account_id in (select account_id from removed)
        ), notified as (
          ${tellOwners(sql, "factor-off", sql`select account_id from removed`)}
        ), logged as (
          insert into audit_log (${signatureColumns(sql)}, action, subject, before, after, reason)
          select ${signature(sql, by.act)}, 'account.second_factor_reset', account_id, '{"second_factor":true}',
            '{"second_factor":false}', ${by.reason}
          from removed
        )
        select from removed`,
    )
    return rows.length > 0
  },

  async openStep({ tokenHash, accountId, passwordHash }) {
    await database.run(
      (sql) => sql`
        with over as (
          delete from sign_in_steps where expires_at < now() or token_hash in (
            select token_hash from sign_in_steps where account_id = ${accountId}
            order by expires_at desc, token_hash offset ${STEPS - 1})
        )
        insert into sign_in_steps (token_hash, account_id, password_hash, expires_at)
        values (${tokenHash}, ${accountId}, ${passwordHash}, now() + make_interval(mins => ${STEP_MINUTES}))
        on conflict do nothing`,
      once,
    )
  },

  async stepOf(tokenHash, network) {
    const [row] = await database.run(
      (sql) => sql<{ account_id: string; email: string; password_hash: string; is_known_network: boolean }[]>`
        select s.account_id, a.email, s.password_hash, ${isKnownNetwork(sql, network)} as is_known_network
        from sign_in_steps s join accounts a on a.id = s.account_id
        where s.token_hash = ${tokenHash} and s.expires_at > now() and a.deleted_at is null
          and a.password_hash = s.password_hash`,
      once,
    )
    return (
      row && {
        accountId: row.account_id,
        email: row.email,
        passwordHash: row.password_hash,
        isKnownNetwork: row.is_known_network,
      }
    )
  },

  async endStep(tokenHash) {
    await database.run((sql) => sql`delete from sign_in_steps where token_hash = ${tokenHash}`, once)
  },
})
