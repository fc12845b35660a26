/**
 * Members of accounts, and who was invited to be one, as rows. What depends on a count is decided by functions of the database
 * (`0065_members.sql`). Who acts is said by `actingAs`, where it is not the account's own person.
 */
import { type MemberRole, tellOwners } from "./account-settings.ts"
import type { Database, Sql } from "./database.ts"

export interface Member {
  /** The account that the person signs in to. */
  readonly id: string
  readonly email: string
  readonly role: MemberRole
  readonly since: Date
  /** Undefined when that person's account is deleted. */
  readonly invitedBy: string | undefined
}

export interface Invitation {
  readonly id: string
  readonly email: string
  readonly role: MemberRole
  readonly createdAt: Date
  readonly expiresAt: Date
  readonly invitedBy: string | undefined
}

interface NewInvitation {
  readonly id: string
  readonly accountId: string
  readonly email: string
  readonly role: MemberRole
  readonly invitedBy: string
  /** Of the link's token, where whoever invites gets it; undefined where it goes out by mail. */
  readonly tokenHash: Uint8Array | undefined
}

/** An account in which the person has a role. */
export interface Membership {
  readonly accountId: string
  readonly email: string
  readonly role: MemberRole
  readonly since: Date
}

/** What a link's page says. */
export interface OpenInvitation extends Membership {
  /** Who is invited. */
  readonly to: string
  readonly expiresAt: Date
}

export type InviteRefusal = "not allowed" | "frozen" | "own" | "member" | "too many"
export type AcceptRefusal = "no link" | "other address" | "not proved" | "too many"

export interface MemberStore {
  list(accountId: string): Promise<readonly Member[]>
  /** Those that are still good. */
  invitations(accountId: string): Promise<readonly Invitation[]>
  /** An address that was invited before is invited anew: the link before is dead. Undefined when it was done. */
  invite(invitation: NewInvitation): Promise<InviteRefusal | undefined>
  /** False when there is none. */
  revoke(accountId: string, id: string): Promise<boolean>
  open(tokenHash: Uint8Array): Promise<OpenInvitation | undefined>
  accept(tokenHash: Uint8Array, personId: string): Promise<{ readonly accountId: string } | AcceptRefusal>
  /**
   * False when there is no such member, or `by` does not decide on members any more. The account's owner is told where the role
   * before is one of `raisedFrom`.
   */
  changeRole(member: MemberName, role: MemberRole, by: string, raisedFrom: readonly MemberRole[]): Promise<boolean>
  /** With what the member has invited. False when there is no such member. */
  remove(member: MemberName, by: string): Promise<boolean>
  memberships(personId: string): Promise<readonly Membership[]>
}

interface MemberName {
  readonly accountId: string
  readonly memberId: string
}

/** Of one account, open invitations included, and of one person. */
export const MAX_MEMBERS = 50
export const MAX_MEMBERSHIPS = 50
export const INVITATION_DAYS = 7

const once = { deadlineMs: 5_000, retry: true } as const

/**
 * Of the invitation `i`. What a member has invited goes when they are removed, but not what they were inviting at that moment: it was
 * committed after that statement had begun.
 */
export const stands = (sql: Sql) => sql`(i.expires_at > now() and decides_on_members(i.account_id, i.invited_by))`

export const memberStore = (database: Database): MemberStore => ({
  async list(accountId) {
    const rows = await database.run(
      (sql) => sql<MemberRow[]>`
        select m.member_id as id, a.email, m.role, m.since, b.email as invited_by
        from members m join accounts a on a.id = m.member_id
        left join accounts b on b.id = m.invited_by and b.deleted_at is null
        where m.account_id = ${accountId} order by m.since, m.member_id`,
      once,
    )
    return rows.map(({ invited_by: invitedBy, ...row }) => ({ ...row, invitedBy: invitedBy ?? undefined }))
  },

  async invitations(accountId) {
    const rows = await database.run(
      (sql) => sql<InvitationRow[]>`
        select i.id, i.email, i.role, i.created_at, i.expires_at, b.email as invited_by
        from invitations i left join accounts b on b.id = i.invited_by and b.deleted_at is null
        where i.account_id = ${accountId} and ${stands(sql)} order by i.created_at, i.id`,
      once,
    )
    return rows.map((row) => ({
      id: row.id,
      email: row.email,
      role: row.role,
      createdAt: row.created_at,
      expiresAt: row.expires_at,
      invitedBy: row.invited_by ?? undefined,
    }))
  },

  async invite({ id, accountId, email, role, invitedBy, tokenHash }) {
    const [row] = await database.run(
      (sql) => sql<{ refusal: InviteRefusal | null }[]>`
        select invite_member(${accountId}, ${id}, ${email}, ${role}, ${invitedBy}, ${tokenHash ?? null}::bytea,
          ${tokenHash === undefined}, ${MAX_MEMBERS}::integer, ${INVITATION_DAYS}::integer) as refusal`,
      once,
    )
    return row?.refusal ?? undefined
  },

  async revoke(accountId, id) {
    const rows = await database.run(
      (sql) => sql`
        with gone as (
          delete from invitations where account_id = ${accountId} and id = ${id} returning id, email
        ), mails as (
          delete from account_mails where account_id = ${accountId} and invitation_id = ${id}
        )
        select note_account_event(${accountId}, 'member.invitation_revoked', id, email) from gone`,
    )
    return rows.length > 0
  },

  async open(tokenHash) {
    const [row] = await database.run(
      (sql) => sql<OpenRow[]>`
        select i.account_id, a.email, i.role, i.created_at as since, i.email as to, i.expires_at
        from invitations i join accounts a on a.id = i.account_id and a.deleted_at is null
        where i.token_hash = ${tokenHash} and ${stands(sql)}`,
      once,
    )
    return row && { ...toMembership(row), to: row.to, expiresAt: row.expires_at }
  },

  async accept(tokenHash, personId) {
    const [row] = await database.run(
      (sql) => sql<{ outcome: AcceptRefusal | "done"; joined: string | null }[]>`
        with accepted as materialized (
          -- Sent again it finds none, and that the person has joined by it.
          select outcome, joined from accept_invitation(case when not exists (
              select from invitations i where i.token_hash = ${tokenHash} and not ${stands(sql)}
            ) then ${tokenHash}::bytea end, ${personId}, ${MAX_MEMBERSHIPS}::integer)
        ), notified as (
          ${tellOwners(
            sql,
            "member-joined",
            // It is used up by then: who sends it again joins nothing.
            sql`select i.account_id from invitations i join accepted on i.account_id = joined and outcome = 'done' where i.token_hash = ${tokenHash}`,
          )}
        )
        select outcome, joined from accepted`,
      once,
    )
    if (row === undefined) return "no link"
    return row.outcome === "done" ? { accountId: row.joined ?? "" } : row.outcome
  },

  async changeRole({ accountId, memberId }, role, by, raisedFrom) {
    // Looked for first: a change that is sent again finds the role that it has made, and perhaps nobody who decides.
    const found = await database.run(
      (sql) => sql`
        select from members
        where account_id = ${accountId} and member_id = ${memberId} and decides_on_members(${accountId}, ${by})`,
      once,
    )
    if (found.length === 0) return false
    const changed = await database.run(
      (sql) => sql`
        with changed as (
          update members set role = ${role} where account_id = ${accountId} and member_id = ${memberId}
            and (role = ${role} or decides_on_members(${accountId}, ${by})) returning member_id
        ), uninvited as (
          delete from invitations where account_id = ${accountId} and invited_by in (select member_id from changed)
            and ${role !== "owner"}
        ), notified as (
          ${tellOwners(
            sql,
            "member-raised",
            sql`select m.account_id from members m join changed using (member_id)
              where m.account_id = ${accountId} and m.role = any(${sql.array([...raisedFrom])}::text[])`,
          )}
        )
        select from changed`,
      once,
    )
    return changed.length > 0
  },

  async remove({ accountId, memberId }, by) {
    const rows = await database.run(
      (sql) => sql`
        with gone as (
          delete from members where account_id = ${accountId} and member_id = ${memberId}
            and (${by === memberId} or decides_on_members(${accountId}, ${by})) returning member_id
        ), uninvited as (
          delete from invitations where account_id = ${accountId} and invited_by in (select member_id from gone)
        )
        select from gone`,
    )
    return rows.length > 0
  },

  async memberships(personId) {
    const rows = await database.run(
      (sql) => sql<MembershipRow[]>`
        select m.account_id, a.email, m.role, m.since from members m
        join accounts a on a.id = m.account_id and a.deleted_at is null
        where m.member_id = ${personId} order by lower(a.email), m.account_id`,
      once,
    )
    return rows.map(toMembership)
  },
})

interface MemberRow {
  id: string
  email: string
  role: MemberRole
  since: Date
  invited_by: string | null
}

interface InvitationRow {
  id: string
  email: string
  role: MemberRole
  created_at: Date
  expires_at: Date
  invited_by: string | null
}

interface MembershipRow {
  account_id: string
  email: string
  role: MemberRole
  since: Date
}

interface OpenRow extends MembershipRow {
  to: string
  expires_at: Date
}

const toMembership = ({ account_id: accountId, email, role, since }: MembershipRow): Membership => ({
  accountId,
  email,
  role,
  since,
})
