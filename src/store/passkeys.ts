/**
 * Passkeys as rows, and the challenges that devices sign. A challenge is used up by the statement that reads it, so that an
 * answer counts once, in whatever process it arrives. Statements whose second sending would answer otherwise are not sent again.
 */
import { tellOwners } from "./account-settings.ts"
import { hasFactor, notifyOfRemoval, withLastFactor } from "./credentials.ts"
import type { Database } from "./database.ts"

export interface Passkey {
  readonly id: string
  readonly name: string
  readonly createdAt: Date
  readonly lastUsedAt: Date | undefined
}

/** What of a credential is needed to verify its signature. */
export interface Credential {
  readonly credentialId: Uint8Array
  readonly publicKey: Uint8Array
  /** Zero where the device does not count. */
  readonly counter: number
  readonly transports: readonly string[]
}

export interface OwnedCredential extends Credential {
  readonly id: string
  readonly accountId: string
  readonly email: string
  /** The account's, so that a session is not made past a password that was changed meanwhile. */
  readonly passwordHash: string
}

/** What a challenge is for; it is good for nothing else. */
export type Purpose = "register" | "prove" | "step" | "sign-in"

export interface Challenge {
  readonly challenge: Uint8Array
  readonly purpose: Purpose
  /** The hash of the token that it is bound to; empty where nobody is signed in. */
  readonly boundTo: Uint8Array
}

export interface NewPasskey extends Credential {
  readonly id: string
  readonly accountId: string
  readonly name: string
  /** In which it is made: a factor is shown in it from now on. */
  readonly sessionId: string
  /** These count if the account has none, or it is its first factor. */
  readonly codeHashes: readonly Uint8Array[]
}

export interface PasskeyStore {
  list(accountId: string): Promise<readonly Passkey[]>
  /** Without deleted accounts' ones. */
  credentialsOf(accountId: string): Promise<readonly Credential[]>
  find(credentialId: Uint8Array): Promise<OwnedCredential | undefined>
  /**
   * Where it is the first factor of the account, all sessions end but this one. An app that waits for its first code is
   * forgotten: it was begun without this factor. Undefined where there is no place, or the
   * credential is known already.
   */
  add(passkey: NewPasskey): Promise<{ readonly isFirst: boolean; readonly codesCount: boolean } | undefined>
  rename(accountId: string, id: string, name: string): Promise<Passkey | undefined>
  /**
   * With the last factor its recovery codes go, and all sessions end but this one. False where the account has no such passkey.
   */
  remove(accountId: string, id: string, sessionId: string): Promise<boolean>
  /** False when the device has counted further meanwhile. One that is shared may be at several, which count apart. */
  used(id: string, as: { readonly counter: number; readonly isShared: boolean }): Promise<boolean>
  /** Good for five minutes. Of those bound to the same only the latest stay. */
  ask(challenge: Challenge): Promise<void>
  /** Uses it up. False when it is over, was used, or is for something else. */
  take(challenge: Challenge): Promise<boolean>
}

export const PASSKEYS = 10
export const CHALLENGE_MINUTES = 5
/** Challenges at once of one session or sign-in, and of all who are not signed in; the oldest give way. */
const OF_ONE = 5
const OF_ALL = 10_000

const once = { deadlineMs: 5_000, retry: true } as const
const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString("hex")

export const passkeyStore = (database: Database): PasskeyStore => ({
  async list(accountId) {
    const rows = await database.run(
      (sql) => sql<PasskeyRow[]>`
        select id, name, created_at, last_used_at from passkeys where account_id = ${accountId} order by created_at, id`,
      once,
    )
    return rows.map(toPasskey)
  },

  async credentialsOf(accountId) {
    const rows = await database.run(
      (sql) => sql<CredentialRow[]>`
        select credential_id, public_key, counter::float8 as counter, transports from passkeys
        where account_id = ${accountId} order by place`,
      once,
    )
    return rows.map(toCredential)
  },

  async find(credentialId) {
    const [row] = await database.run(
      (sql) => sql<(CredentialRow & { id: string; account_id: string; email: string; password_hash: string })[]>`
        select p.id, p.account_id, p.credential_id, p.public_key, p.counter::float8 as counter, p.transports, a.email,
          a.password_hash
        from passkeys p join accounts a on a.id = p.account_id
        where p.credential_id = ${credentialId} and a.deleted_at is null`,
      once,
    )
    return (
      row && {
        ...toCredential(row),
        id: row.id,
        accountId: row.account_id,
        email: row.email,
        passwordHash: row.password_hash,
      }
    )
  },

  async add({ id, accountId, name, credentialId, publicKey, counter, transports, sessionId, codeHashes }) {
    const [row] = await database.run(
      (sql) => sql<{ is_first: boolean; codes_count: boolean }[]>`
        with free as (
          select place from generate_series(1, ${PASSKEYS}::int) as place
          where place not in (select p.place from passkeys p where p.account_id = ${accountId}) order by place limit 1
        ), added as (
          insert into passkeys (id, account_id, place, credential_id, public_key, counter, transports, name)
          select ${id}, a.id, free.place, ${credentialId}, ${publicKey}, ${counter}::bigint,
            ${sql.array([...transports])}::text[], ${name}
          from accounts a, free where a.id = ${accountId} and a.deleted_at is null
          on conflict do nothing returning account_id
        ), first as (
          select a.id from accounts a join added on added.account_id = a.id where not ${hasFactor(sql)}
        ), stayed as (
          -- Codes without a factor: each of two that were the last and were removed at one moment left them to the other.
          delete from recovery_codes where account_id in (select id from first)
        ), codes as (
          insert into recovery_codes (account_id, code_hash)
          select account_id, decode(code, 'hex') from added, unnest(${sql.array(codeHashes.map(hex))}::text[]) as code
          where exists (select from first) or not exists (select from recovery_codes where account_id = ${accountId})
          returning account_id
        ), waiting as (
          delete from second_factors where account_id in (select account_id from added) and confirmed_at is null
        ), shown as (
          update sessions set factor_at = now() where account_id in (select account_id from added) and id = ${sessionId}
        ), ended as (
          delete from sessions where account_id in (select id from first) and id <> ${sessionId}
        ), notified as (
          ${tellOwners(sql, "passkey-added", sql`select account_id from added`)}
        )
        select exists (select from first) as is_first, exists (select from codes) as codes_count from added`,
    )
    return row && { isFirst: row.is_first, codesCount: row.codes_count }
  },

  async rename(accountId, id, name) {
    const [row] = await database.run(
      (sql) => sql<PasskeyRow[]>`
        update passkeys set name = ${name} where account_id = ${accountId} and id = ${id}
        returning id, name, created_at, last_used_at`,
      once,
    )
    return row && toPasskey(row)
  },

  async remove(accountId, id, sessionId) {
    const rows = await database.run(
      (sql) => sql`
        with removed as (
          delete from passkeys where account_id = ${accountId} and id = ${id} returning account_id
        ), last as (
          select account_id from removed
          where not exists (select from passkeys where account_id = ${accountId} and id <> ${id})
            and not exists (select from second_factors where account_id = ${accountId} and confirmed_at is not null)
        ), ${withLastFactor(sql, sessionId)}, ended as (
          delete from sessions where account_id in (select account_id from last) and id <> ${sessionId}
        ), ${notifyOfRemoval(sql, "passkey-removed")}
        select from removed`,
    )
    return rows.length > 0
  },

  async used(id, { counter, isShared }) {
    const rows = await database.run(
      (sql) => sql`
        update passkeys set counter = greatest(counter, ${counter}::bigint), last_used_at = now()
        where id = ${id} and (${isShared} or counter < ${counter}::bigint or (counter = 0 and ${counter}::bigint = 0)) returning id`,
    )
    return rows.length > 0
  },

  async ask({ challenge, purpose, boundTo }) {
    const most = boundTo.length === 0 ? OF_ALL : OF_ONE
    await database.run(
      (sql) => sql`
        with over as (
          delete from passkey_challenges where challenge in (
            select challenge from passkey_challenges where bound_to = ${boundTo}
            order by expires_at desc offset ${most - 1})
        )
        insert into passkey_challenges (challenge, purpose, bound_to, expires_at)
        values (${challenge}, ${purpose}, ${boundTo}, now() + make_interval(mins => ${CHALLENGE_MINUTES}))
        on conflict do nothing`,
      once,
    )
  },

  async take({ challenge, purpose, boundTo }) {
    const rows = await database.run(
      (sql) => sql<{ is_good: boolean }[]>`
        delete from passkey_challenges where challenge = ${challenge} and purpose = ${purpose} and bound_to = ${boundTo}
        returning expires_at > now() as is_good`,
    )
    return rows[0]?.is_good ?? false
  },
})

interface PasskeyRow {
  id: string
  name: string
  created_at: Date
  last_used_at: Date | null
}

interface CredentialRow {
  credential_id: Uint8Array
  public_key: Uint8Array
  counter: number
  transports: string[]
}

const toPasskey = (row: PasskeyRow): Passkey => ({
  id: row.id,
  name: row.name,
  createdAt: row.created_at,
  lastUsedAt: row.last_used_at ?? undefined,
})

const toCredential = (row: CredentialRow): Credential => ({
  credentialId: new Uint8Array(row.credential_id),
  publicKey: new Uint8Array(row.public_key),
  counter: row.counter,
  transports: row.transports,
})
