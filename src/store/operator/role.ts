/** Who is an operator and what each of them may do: given by who has the machine, and by owners. */
import type { Database, Sql } from "../database.ts"
import { type Act, signature, signatureColumns } from "./audit.ts"

export type Role = "customer" | "operator"

/** From the least to the most. Each may do what those before it may. */
export const operatorRoles = ["support", "finance", "owner"] as const
export type OperatorRole = (typeof operatorRoles)[number]
export const givenRoles = ["customer", ...operatorRoles] as const
export type GivenRole = (typeof givenRoles)[number]

export const mayAct = (has: OperatorRole, needed: OperatorRole): boolean =>
  operatorRoles.indexOf(has) >= operatorRoles.indexOf(needed)

/** Of a row of `accounts`: null for a customer. */
export const operatorRole = (sql: Sql, table: string) =>
  sql`case when ${sql(table)}.role = 'operator' then coalesce(${sql(table)}.operator_role, 'owner') end`

/**
 * As `owners`, in a statement that may take one away: all of them, locked, so that two who take each other's role, or delete
 * their accounts at the same time, leave one.
 */
export const lockedOwners = (sql: Sql) => sql`owners as materialized (
  select o.id from accounts o
  where o.role = 'operator' and coalesce(o.operator_role, 'owner') = 'owner' and o.deleted_at is null
  order by o.id for update
)`

export interface RoleChange {
  readonly role: GivenRole
  readonly act: Act
  readonly reason?: string
  /** Nothing is changed where no owner would be left. Who has the machine may do it all the same. */
  readonly keepsAnOwner: boolean
}

export type RoleOutcome =
  /** What it was before; equal to what was asked for when nothing was to be done. */
  { readonly kind: "changed"; readonly before: GivenRole } | { readonly kind: "last-owner" }

/**
 * Gives an account a role, in one statement with its row of the audit log. Whoever gains or loses power signs in anew: the
 * account's sessions end, and roles are read with each request, so the change is in force everywhere once it is committed.
 * Undefined when there is no such account.
 */
export async function changeRole(
  database: Database,
  account: { readonly email: string } | { readonly id: string },
  { role, act, reason, keepsAnOwner }: RoleChange,
): Promise<RoleOutcome | undefined> {
  const kind: Role = role === "customer" ? "customer" : "operator"
  const [row] = await database.run(
    (sql) => sql<{ before: GivenRole; refused: boolean }[]>`
      with ${lockedOwners(sql)}, target as materialized (
        select a.id, coalesce(${operatorRole(sql, "a")}, 'customer') as before from accounts a, (select count(*) from owners) locked
        where ${"id" in account ? sql`a.id = ${account.id}` : sql`lower(a.email) = lower(${account.email})`}
          and a.deleted_at is null for update of a
      ), judged as (
        select t.id, t.before, ${keepsAnOwner} and t.before = 'owner' and ${role} <> 'owner'
          and not exists (select from owners o where o.id <> t.id) as refused
        from target t
      ), changed as (
        update accounts a set role = ${kind}, operator_role = ${role === "customer" ? null : role}
        from judged j where a.id = j.id and not j.refused and j.before <> ${role}
        returning a.id
      ), ended as (
        -- Also that of a sign-in which the change has waited for (migrations/0123_ended_sessions.sql).
        select end_sessions_1(id) from changed
      ), logged as (
        insert into audit_log (${signatureColumns(sql)}, action, subject, before, after, reason)
        select ${signature(sql, act)}, 'account.role', j.id, jsonb_build_object('role', j.before),
          jsonb_build_object('role', ${role}::text), ${reason ?? null}
        from judged j join changed c on c.id = j.id
      )
      select before, refused from judged, (select count(*) from ended) as sessions`,
    { deadlineMs: 5_000 },
  )
  if (row === undefined) return undefined
  return row.refused ? { kind: "last-owner" } : { kind: "changed", before: row.before }
}
