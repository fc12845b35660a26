/**
 * Sessions as rows, by the hash of their token. A session is good while it is there, not expired, and its account is not
 * deleted; the database's clock decides.
 */
import { type Account, accountStore, SESSION_DAYS, type ClientInfo } from "./accounts.ts"
import { hasFactor, isKnownNetwork, rememberNetwork } from "./credentials.ts"
import type { Database } from "./database.ts"
import type { MemberRole } from "./account-settings.ts"
import { type Act, signature, signatureColumns } from "./operator/audit.ts"
import { operatorRole, type OperatorRole } from "./operator/role.ts"

interface NewSession {
  readonly accountId: string
  readonly from: ClientInfo
  readonly network: string
  /** The one that the person's password was verified against. */
  readonly passwordHash: string
  /** A second factor was shown. Without it there is no session where the account has one. */
  readonly showedFactor: boolean
  readonly tokenHash: Uint8Array
  /** The session of the same account that this one takes the place of. */
  readonly replaces: Uint8Array | undefined
}

interface SessionOwner {
  readonly accountId: string
  readonly timeZone: string
  readonly role: Account["role"]
  readonly operatorRole: Account["operatorRole"]
  /** In this session. */
  readonly showedFactor: boolean
  /** Names the session; its token cannot be had from it. */
  readonly sessionId: string
  /** Whose pages the session shows, where it is not the person's own. */
  readonly looksAt: LookedAt | undefined
}

/**
 * Another's account: in a session of a member, whose `role` is undefined when they are none any more, or the account is deleted;
 * or in that of an operator who sees it as its owner does, read only.
 */
export interface LookedAt {
  readonly accountId: string
  readonly timeZone: string
  readonly role: MemberRole | undefined
  /** Only of an operator. */
  readonly seenUntil: Date | undefined
}

export interface SessionRecord extends ClientInfo {
  readonly id: string
  readonly createdAt: Date
  /** Right to a minute. */
  readonly lastSeenAt: Date
  readonly expiresAt: Date
}

/** A session and whose it is. */
interface SessionName {
  readonly id: string
  readonly accountId: string
}

export interface SessionStore {
  /** Undefined when the account is deleted, or its password is no longer the one that was verified. */
  open(session: NewSession): Promise<Account | undefined>
  /** Whose a session is. Writes down, once a minute at most, that it was used and from where. */
  ownerOf(tokenHash: Uint8Array, from: ClientInfo): Promise<SessionOwner | undefined>
  /** Those that are still good, the latest seen first. */
  list(accountId: string): Promise<readonly SessionRecord[]>
  /** Shows another's account from now on, or without one the person's own. False where they are no member of it. */
  lookAt(session: SessionName, at: string | undefined): Promise<boolean>
  /** An operator's session shows a customer's account as they see it. Undefined where there is no such customer. */
  seeAs(session: SessionName, at: string, by: { readonly act: Act; readonly reason: string }): Promise<Date | undefined>
  /** The session shows what it did before. The account that it showed, if there was one. */
  endSeeing(sessionId: string): Promise<string | undefined>
  /** Ends what is over its time; the accounts that were shown. */
  endOverdueSeeing(): Promise<readonly string[]>
  end(tokenHash: Uint8Array): Promise<void>
  /** All of an account's, save the one that is excepted. */
  endAll(accountId: string, except?: string): Promise<void>
  /** False when the account has no such session. */
  endOne(accountId: string, sessionId: string): Promise<boolean>
  /** Whether somebody has signed in from this network to the account that has this address. */
  isFromHome(email: string, network: string): Promise<boolean>
}

/** Of one account; the one that was seen longest ago gives way to a new one. */
const SESSIONS = 100
/** For so long an operator sees an account; then they say anew why. */
export const SEEING_MINUTES = 30
const once = { deadlineMs: 5_000, retry: true } as const

export function sessionStore(database: Database): SessionStore {
  const accounts = accountStore(database)
  return {
    async open({ accountId, passwordHash, showedFactor, tokenHash, replaces, from, network }) {
      // The row lock makes a password change that is under way commit before or after this, never unseen in between.
      const rows = await database.run(
        (sql) => sql`
          with account as (
            select id from accounts a where id = ${accountId} and password_hash = ${passwordHash} and deleted_at is null
              and (${showedFactor} or not ${hasFactor(sql)})
            for share
          ), session as (
            insert into sessions (token_hash, account_id, expires_at, address, user_agent, factor_at)
            select ${tokenHash}, id, now() + make_interval(days => ${SESSION_DAYS}), ${from.address}, ${from.userAgent},
              case when ${showedFactor} then now() end
            from account
            on conflict do nothing
          ), ended as (
            delete from sessions s using account a
            where s.account_id = a.id and (s.expires_at <= now() or s.token_hash = ${replaces ?? null}
              or s.token_hash in (select token_hash from sessions where account_id = a.id
                and token_hash <> ${tokenHash} order by last_seen_at desc, token_hash offset ${SESSIONS - 1}))
          ), ${rememberNetwork(sql, sql`account`, network)}
          select id from account`,
        once,
      )
      return rows.length === 0 ? undefined : await accounts.read(accountId)
    },

    async ownerOf(tokenHash, { address, userAgent }) {
      const [row] = await database.run(
        (sql) => sql<OwnerRow[]>`
          with seen as (
            update sessions set last_seen_at = now(), address = ${address}, user_agent = ${userAgent}
            where token_hash = ${tokenHash} and expires_at > now() and last_seen_at < now() - interval '1 minute'
          )
          select s.account_id, a.time_zone, a.role, ${operatorRole(sql, "a")} as operator_role, s.id,
            s.factor_at is not null as showed_factor, s.looks_at, coalesce(o.time_zone, 'UTC') as their_time_zone,
            case when o.id is null then null when a.frozen_at is not null then 'viewer' else m.role end as member_role,
            v.id as seen_account, v.time_zone as seen_time_zone, n.until as seen_until
          from sessions s join accounts a on a.id = s.account_id
          left join members m on m.account_id = s.looks_at and m.member_id = s.account_id
          left join accounts o on o.id = m.account_id and o.deleted_at is null
          left join seen_accounts n on n.session_id = s.id and n.until > now() and a.role = 'operator'
          left join accounts v on v.id = n.account_id and v.deleted_at is null and v.role = 'customer'
          where s.token_hash = ${tokenHash} and s.expires_at > now() and a.deleted_at is null`,
        once,
      )
      return row === undefined
        ? undefined
        : {
            accountId: row.account_id,
            timeZone: row.time_zone,
            role: row.role,
            operatorRole: row.operator_role ?? undefined,
            showedFactor: row.showed_factor,
            sessionId: row.id,
            looksAt: lookedAt(row),
          }
    },

    async list(accountId) {
      const rows = await database.run(
        (sql) => sql<SessionRow[]>`
          select id, created_at, last_seen_at, expires_at, address, user_agent from sessions
          where account_id = ${accountId} and expires_at > now() order by last_seen_at desc, id`,
        once,
      )
      return rows.map((row) => ({
        id: row.id,
        createdAt: row.created_at,
        lastSeenAt: row.last_seen_at,
        expiresAt: row.expires_at,
        address: row.address,
        userAgent: row.user_agent,
      }))
    },

    async lookAt({ id, accountId }, at) {
      const rows = await database.run(
        (sql) => sql`
          update sessions set looks_at = ${at ?? null}
          where id = ${id} and account_id = ${accountId} and (${at === undefined} or exists (
            select from members m join accounts o on o.id = m.account_id and o.deleted_at is null
            where m.account_id = ${at ?? null} and m.member_id = ${accountId}))
          returning 1`,
        once,
      )
      return rows.length === 1
    },

    async seeAs({ id, accountId }, at, { act, reason }) {
      const [row] = await database.run(
        (sql) => sql<{ until: Date }[]>`
          with begun as (
            insert into seen_accounts (session_id, operator_id, account_id, until, request_id, address)
            select s.id, s.account_id, c.id, now() + make_interval(mins => ${SEEING_MINUTES}), ${act.requestId}, ${act.address ?? null}
            from sessions s, accounts c
            where s.id = ${id} and s.account_id = ${accountId} and c.id = ${at} and c.deleted_at is null and c.role = 'customer'
            on conflict (session_id) do update set account_id = excluded.account_id, until = excluded.until,
              request_id = excluded.request_id, address = excluded.address
            returning account_id, until
          ), logged as (
            insert into audit_log (${signatureColumns(sql)}, action, subject, after, reason)
            select ${signature(sql, act)}, 'account.see_as', account_id, jsonb_build_object('until', until), ${reason} from begun
          )
          select until from begun`,
        { deadlineMs: 5_000 },
      )
      return row?.until
    },

    async endSeeing(id) {
      const [row] = await database.run(
        (sql) => sql<{ account_id: string }[]>`delete from seen_accounts where session_id = ${id} returning account_id`,
        once,
      )
      return row?.account_id
    },

    async endOverdueSeeing() {
      const rows = await database.run(
        (sql) => sql<{ account_id: string }[]>`delete from seen_accounts where until <= now() returning account_id`,
        once,
      )
      return rows.map(({ account_id: accountId }) => accountId)
    },

    async end(tokenHash) {
      await database.run((sql) => sql`delete from sessions where token_hash = ${tokenHash}`, once)
    },

    async endAll(accountId, except) {
      await database.run(
        (sql) => sql`delete from sessions where account_id = ${accountId} and id <> ${except ?? ""}`,
        once,
      )
    },

    async endOne(accountId, sessionId) {
      // Looked for first: a deletion that is sent again finds nothing, and was done all the same.
      const found = await database.run(
        (sql) => sql`select from sessions where account_id = ${accountId} and id = ${sessionId}`,
        once,
      )
      if (found.length === 0) return false
      await database.run((sql) => sql`delete from sessions where account_id = ${accountId} and id = ${sessionId}`, once)
      return true
    },

    async isFromHome(email, network) {
      const rows = await database.run(
        (sql) => sql`
          select from accounts a
          where lower(a.email) = lower(${email}) and a.deleted_at is null and ${isKnownNetwork(sql, network)}`,
        once,
      )
      return rows.length > 0
    },
  }
}

interface OwnerRow {
  account_id: string
  time_zone: string
  role: Account["role"]
  operator_role: OperatorRole | null
  id: string
  showed_factor: boolean
  looks_at: string | null
  their_time_zone: string
  member_role: MemberRole | null
  seen_account: string | null
  seen_time_zone: string | null
  seen_until: Date | null
}

function lookedAt(row: OwnerRow): LookedAt | undefined {
  if (row.seen_account !== null && row.seen_until !== null) {
    const timeZone = row.seen_time_zone ?? "UTC"
    return { accountId: row.seen_account, timeZone, role: "owner", seenUntil: row.seen_until }
  }
  if (row.looks_at === null) return undefined
  const role = row.member_role ?? undefined
  return { accountId: row.looks_at, timeZone: row.their_time_zone, role, seenUntil: undefined }
}

interface SessionRow {
  id: string
  created_at: Date
  last_seen_at: Date
  expires_at: Date
  address: string
  user_agent: string
}
