/** Who is an operator: the one thing that no operator decides, but who has the machine. */
import { nanoid } from "nanoid"
import type { Database } from "../database.ts"
import { signature, signatureColumns } from "./audit.ts"

export type Role = "customer" | "operator"

/**
 * Gives an account a role, in one statement with its row of the audit log. Whoever gains or loses power signs in anew: the
 * account's sessions end. Returns the role that it had, or undefined when there is no such account.
 */
export async function changeRole(database: Database, email: string, role: Role): Promise<Role | undefined> {
  const act = { requestId: `cmd_${nanoid()}`, operatorId: undefined, address: undefined }
  const [row] = await database.run(
    (sql) => sql<{ role: Role }[]>`
      with target as materialized (
        select id, role from accounts where lower(email) = lower(${email}) and deleted_at is null for update
      ), changed as (
        update accounts a set role = ${role} from target t where a.id = t.id and t.role <> ${role} returning a.id
      ), ended as (
        delete from sessions where account_id in (select id from changed)
      ), logged as (
        insert into audit_log (${signatureColumns(sql)}, action, subject, before, after)
        select ${signature(sql, act)}, 'account.role', t.id, jsonb_build_object('role', t.role),
          jsonb_build_object('role', ${role}::text)
        from target t where t.role <> ${role}
      )
      select role from target`,
    { deadlineMs: 5_000 },
  )
  return row?.role
}
