/**
 * Mails to an account's owner as rows, and the links in them: a row is first a mail to send, then the link that was sent, of
 * which only the token's hash is kept. A link is used once, and dies with what it was for. Statements that use one lock the account
 * first, so that two uses at once come one after the other. What an owner was told stays for a day, because it is counted.
 */
import { nanoid } from "nanoid"
import { isLink, linkKinds, removeStrangers, TELL_MINUTES, tellOwners, toOwnedKey } from "./account-settings.ts"
import type { DueMail, Language, LinkKind, MailKind, MemberRole, OwnedKey, OwnedKeyRow } from "./account-settings.ts"
import type { Database, Sql } from "./database.ts"
import { stands } from "./members.ts"
import { type Act, signature, signatureColumns } from "./operator/audit.ts"

export interface Link {
  readonly accountId: string
  readonly kind: LinkKind
  readonly email: string
}

export interface AccountMailStore {
  /** To the account's own address, unless it is said to which. */
  ask(accountId: string, kind: LinkKind, to?: string): Promise<void>
  /** A link for whoever has the address, if anybody does. */
  askReset(email: string): Promise<void>
  /** The next one that is due, if any is. What is not heard of again is due anew after some minutes. */
  take(): Promise<DueMail | undefined>
  /** The mail gets this link, which counts from now. */
  arm(id: bigint, kind: LinkKind, tokenHash: Uint8Array): Promise<void>
  /** The link in an invitation's mail; its time does not begin anew. */
  armInvitation(id: string, tokenHash: Uint8Array): Promise<void>
  /** It was sent, or never will be. */
  sent(id: bigint): Promise<void>
  putBack(id: bigint): Promise<void>
  /** A link for a new password without a mail, for who has the machine; with its row of the audit log. */
  linkFor(accountId: string, tokenHash: Uint8Array, by: { readonly act: Act; readonly reason: string }): Promise<void>
  /** What a link is good for; undefined when it is used, over or none. */
  read(tokenHash: Uint8Array): Promise<Link | undefined>
  /**
   * Sets the password and ends all sessions and links. Of an address that was never proved the keys die too, and what the account
   * said of its owner: whoever had it may be a stranger. Undefined when the link is not good any more.
   */
  resetPassword(tokenHash: Uint8Array, passwordHash: string): Promise<readonly OwnedKey[] | undefined>
  /**
   * The account's address is proved, or it has moved to the one that is. `taken` when another account has that meanwhile. With
   * `trialNetwork` a proof leaves trial credit due, under that name of its network's allowance.
   */
  prove(
    tokenHash: Uint8Array,
    accountId: string,
    trialNetwork: string | undefined,
  ): Promise<"proved" | "moved" | "taken" | "no link">
  /** Where addresses need no proof. */
  changeEmail(accountId: string, email: string): Promise<"changed" | "taken">
  isTaken(email: string): Promise<boolean>
}

/** How long a link is good, in minutes. */
const LINK_MINUTES: Readonly<Record<LinkKind, number>> = { prove: 24 * 60, change: 24 * 60, reset: 30 }
/** So often it is tried to send one with a link, whose time begins anew with each: a day, by the pauses of `putBack`. */
const TRIES = 30
/** Longer than one sending takes. */
const LEASE_MINUTES = 5
const UNIQUE_VIOLATION = "23505"

const minutesOf = (kind: MailKind): number => (isLink(kind) ? LINK_MINUTES[kind] : TELL_MINUTES)

const once = { deadlineMs: 5_000, retry: true } as const

export const accountMailStore = (database: Database): AccountMailStore => ({
  async ask(accountId, kind, to) {
    await database.run(
      (sql) => sql`
        insert into account_mails (account_id, kind, email, expires_at)
        select id, ${kind}, coalesce(${to ?? null}, email), ${minutesFromNow(sql, kind)}
        from accounts where id = ${accountId} and deleted_at is null`,
    )
  },

  async askReset(email) {
    await database.run(
      (sql) => sql`
        insert into account_mails (account_id, kind, email, expires_at)
        select id, 'reset', email, ${minutesFromNow(sql, "reset")}
        from accounts where lower(email) = lower(${email}) and deleted_at is null`,
    )
  },

  async take() {
    const [row] = await database.run(
      (sql) => sql<DueRow[]>`
        with over as materialized (
          select id from account_mails where expires_at < now() or (next_try_at <= now() or next_try_at > now() + interval '61 minutes') and tries >= ${TRIES}
          limit 100 for update skip locked
        ), gone as (
          delete from account_mails where id in (select * from over)
        ), due as (
          -- None is put off by more than an hour: what is later was by a clock that has been set back since.
          select id, account_id, invitation_id from account_mails
          where (next_try_at <= now() or next_try_at > now() + interval '61 minutes') and expires_at > now() and tries < ${TRIES}
          order by next_try_at limit 1 for update skip locked
        )
        update account_mails m set next_try_at = now() + make_interval(mins => ${LEASE_MINUTES}), tries = m.tries + 1
        from due join accounts a on a.id = due.account_id
          left join invitations i on i.id = due.invitation_id and ${stands(sql)}
        where m.id = due.id
        returning m.id, m.account_id, m.kind, m.email, a.language, i.id as invitation_id, i.role, a.email as sender`,
    )
    return row && toDue(row)
  },

  async arm(id, kind, tokenHash) {
    await database.run(
      (sql) => sql`
        update account_mails set token_hash = ${tokenHash}, expires_at = ${minutesFromNow(sql, kind)} where id = ${id}`,
      once,
    )
  },

  async armInvitation(id, tokenHash) {
    await database.run(
      (sql) => sql`update invitations set token_hash = ${tokenHash}, mailed = true where id = ${id}`,
      once,
    )
  },

  async sent(id) {
    await database.run(
      (sql) => sql`
        with invited as (delete from account_mails where id = ${id} and invitation_id is not null)
        update account_mails set next_try_at = null where id = ${id} and invitation_id is null`,
      once,
    )
  },

  async putBack(id) {
    await database.run(
      (sql) => sql`
        update account_mails set next_try_at = now() + least(interval '10 seconds' * 2 ^ tries, interval '1 hour')
        where id = ${id}`,
      once,
    )
  },

  async linkFor(accountId, tokenHash, { act, reason }) {
    await database.run(
      (sql) => sql`
        with made as (
          insert into account_mails (account_id, kind, email, next_try_at, token_hash, expires_at)
          select id, 'reset', email, null, ${tokenHash}, ${minutesFromNow(sql, "reset")}
          from accounts where id = ${accountId} and deleted_at is null on conflict do nothing returning account_id
        )
        insert into audit_log (${signatureColumns(sql)}, action, subject, before, after, reason)
        select ${signature(sql, act)}, 'account.password_link', account_id, null, '{"link":true}', ${reason} from made`,
      once,
    )
  },

  async read(tokenHash) {
    const [row] = await database.run(
      (sql) => sql<{ account_id: string; kind: LinkKind; email: string }[]>`
        select account_id, kind, email from account_mails
        where token_hash = ${tokenHash} and used_by is null and expires_at > now()`,
      once,
    )
    return row && { accountId: row.account_id, kind: row.kind, email: row.email }
  },

  async resetPassword(tokenHash, passwordHash) {
    // The hash is salted, so it tells this very use from any other.
    const rows = await database.run(
      (sql) => sql<((OwnedKeyRow | { id: null; key_hash: null }) & { strangers: string | null })[]>`
        with ${lockedAccount(sql, tokenHash)}, used as (
          update account_mails m set used_by = ${passwordHash} from account a
          where m.token_hash = ${tokenHash} and m.account_id = a.id and m.kind = 'reset' and m.expires_at > now()
            and lower(m.email) = lower(a.email) and (m.used_by is null or m.used_by = ${passwordHash})
          returning a.id, a.email_unproved
        ), changed as (
          update accounts set password_hash = ${passwordHash}, email_unproved = false,
            low_balance_email = case when email_unproved then null else low_balance_email end,
            buyer_name = case when email_unproved then null else buyer_name end,
            buyer_address = case when email_unproved then null else buyer_address end,
            buyer_npwp = case when email_unproved then null else buyer_npwp end,
            agreed_version = case when email_unproved then null else agreed_version end,
            agreed_at = case when email_unproved then null else agreed_at end
          where id in (select id from used)
        ), webhook as (delete from webhooks where account_id in (select id from used where email_unproved)
        ), ended as (select end_sessions_1(id) from used
        ), forgotten as (delete from account_networks where account_id in (select id from used)
        ), others as (${deadLinks(sql, linkKinds, tokenHash)}
        ), notified as (
          ${tellOwners(sql, "password-reset", sql`select account_id from account_mails join used on used.id = account_id and token_hash = ${tokenHash} and used_by is null`)}
        ), revoked as (
          update api_keys set revoked_at = now()
          where account_id in (select id from used where email_unproved) and revoked_at is null returning id, key_hash
        )
        select k.id, k.key_hash, case when email_unproved then used.id end as strangers from ended cross join used left join (
          -- Sent again, it finds the address proved and the keys revoked, by itself: they are to be told of all the same.
          select * from revoked union all select id, key_hash from api_keys where revoked_at is not null
            and account_id = (select account_id from account_mails where token_hash = ${tokenHash} and used_by = ${passwordHash})
        ) k on true`,
      once,
    )
    const strangers = rows[0]?.strangers ?? undefined
    // What was committing while that statement waited for the account was invisible to it.
    const late = strangers === undefined ? [] : await removeStrangers(database, strangers)
    return rows.length === 0
      ? undefined
      : [...rows.flatMap((row) => (row.id === null ? [] : [toOwnedKey(row)])), ...late]
  },

  async prove(tokenHash, accountId, trialNetwork) {
    const use = nanoid()
    const proved = await unlessTaken(
      database.run(
        (sql) => sql<{ kind: LinkKind }[]>`
          with ${lockedAccount(sql, tokenHash)}, used as (
            update account_mails m set used_by = ${use} from account a
            where m.token_hash = ${tokenHash} and m.account_id = a.id and a.id = ${accountId} and m.expires_at > now()
              and (m.used_by is null or m.used_by = ${use})
              and (m.kind = 'change' or (m.kind = 'prove' and lower(m.email) = lower(a.email)))
            returning a.id, m.email, m.kind, a.email as before
          ), changed as (
            update accounts a set email = u.email, email_unproved = false from used u where a.id = u.id
          ), others as (
            ${deadLinks(sql, linkKinds, tokenHash)} and (kind = 'prove' or exists (select from used where kind = 'change'))
          ), notified as (
            insert into account_mails (account_id, kind, email, expires_at)
            select id, 'email-changed', before, ${minutesFromNow(sql, "email-changed")} from used
            where kind = 'change' and lower(before) <> lower(email)
          ), due as (
            insert into trial_dues (account_id, network)
            select id, ${trialNetwork ?? null} from used where kind = 'prove' and ${trialNetwork !== undefined}
            on conflict do nothing
          )
          select kind from used`,
        once,
      ),
    )
    if (proved === "taken") return "taken"
    const kind = proved[0]?.kind
    return kind === undefined ? "no link" : kind === "change" ? "moved" : "proved"
  },

  async changeEmail(accountId, email) {
    const changed = await unlessTaken(
      database.run(
        (sql) => sql`
          with changed as (
            update accounts set email = ${email} where id = ${accountId} and deleted_at is null returning id
          ), others as (
            delete from account_mails where account_id in (select id from changed) and kind in ${sql(linkKinds)}
          )
          select from changed`,
        once,
      ),
    )
    return changed === "taken" ? "taken" : "changed"
  },

  async isTaken(email) {
    const rows = await database.run(
      (sql) => sql`select from accounts where lower(email) = lower(${email}) and deleted_at is null`,
      once,
    )
    return rows.length > 0
  },
})

const minutesFromNow = (sql: Sql, kind: MailKind) => sql`now() + make_interval(mins => ${minutesOf(kind)})`

/** Part of a `with`: the account of a link, which nobody else changes meanwhile. */
const lockedAccount = (sql: Sql, tokenHash: Uint8Array) => sql`
  account as materialized (
    select id, email, email_unproved from accounts
    where id = (select account_id from account_mails where token_hash = ${tokenHash}) and deleted_at is null for update
  )`

/** Part of a `with`, after `used`: links of the account that die because one of them was used. */
const deadLinks = (sql: Sql, kinds: readonly LinkKind[], used: Uint8Array) => sql`
  delete from account_mails where account_id in (select id from used) and token_hash is distinct from ${used} and kind in ${sql(kinds)}`

/** An address belongs to one account at most. */
async function unlessTaken<T>(statement: Promise<T>): Promise<T | "taken"> {
  try {
    return await statement
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === UNIQUE_VIOLATION) return "taken"
    throw error
  }
}

interface DueRow {
  id: bigint
  account_id: string
  kind: MailKind
  email: string
  language: Language
  invitation_id: string | null
  role: MemberRole | null
  sender: string
}

const toDue = ({ invitation_id: invitationId, role, sender, account_id: accountId, ...row }: DueRow): DueMail => ({
  ...row,
  accountId,
  invitation: invitationId === null || role === null ? undefined : { id: invitationId, role, from: sender },
})
