/**
 * Sessions as rows, by the hash of their token. A session is good while it is there, not expired, and its account is not
 * deleted; the database's clock decides.
 */
import { type Account, accountStore } from "./accounts.ts"
import type { Database } from "./database.ts"
import { SESSION_DAYS } from "./session-days.ts"

export interface NewSession {
  readonly accountId: string
  /** The one that the person's password was verified against. */
  readonly passwordHash: string
  readonly tokenHash: Uint8Array
  /** The session of the same account that this one takes the place of. */
  readonly replaces: Uint8Array | undefined
}

export interface SessionOwner {
  readonly accountId: string
  readonly timeZone: string
  readonly role: Account["role"]
}

export interface SessionStore {
  /** Undefined when the account is deleted, or its password is no longer the one that was verified. */
  open(session: NewSession): Promise<Account | undefined>
  ownerOf(tokenHash: Uint8Array): Promise<SessionOwner | undefined>
  end(tokenHash: Uint8Array): Promise<void>
  endAll(accountId: string): Promise<void>
}

const once = { deadlineMs: 5_000, retry: true } as const

export function sessionStore(database: Database): SessionStore {
  const accounts = accountStore(database)
  return {
    async open({ accountId, passwordHash, tokenHash, replaces }) {
      // The row lock makes a password change that is under way commit before or after this, never unseen in between.
      const rows = await database.run(
        (sql) => sql`
          with account as (
            select id from accounts where id = ${accountId} and password_hash = ${passwordHash} and deleted_at is null
            for share
          ), session as (
            insert into sessions (token_hash, account_id, expires_at)
            select ${tokenHash}, id, now() + make_interval(days => ${SESSION_DAYS}) from account
            on conflict do nothing
          ), ended as (
            delete from sessions s using account a
            where s.account_id = a.id and (s.expires_at <= now() or s.token_hash = ${replaces ?? null})
          )
          select id from account`,
        once,
      )
      return rows.length === 0 ? undefined : await accounts.read(accountId)
    },

    async ownerOf(tokenHash) {
      const [row] = await database.run(
        (sql) => sql<{ account_id: string; time_zone: string; role: Account["role"] }[]>`
          select s.account_id, a.time_zone, a.role from sessions s join accounts a on a.id = s.account_id
          where s.token_hash = ${tokenHash} and s.expires_at > now() and a.deleted_at is null`,
        once,
      )
      return row === undefined ? undefined : { accountId: row.account_id, timeZone: row.time_zone, role: row.role }
    },

    async end(tokenHash) {
      await database.run((sql) => sql`delete from sessions where token_hash = ${tokenHash}`, once)
    },

    async endAll(accountId) {
      await database.run((sql) => sql`delete from sessions where account_id = ${accountId}`, once)
    },
  }
}
