/**
 * What each role of a member may do with an account: the one table. A route names what it takes (`may`), so who may call which
 * route follows from here; what is a person's own (`self`) is never the account's that is looked at.
 */
import { Failure } from "../failure/failure.ts"
import type { MemberRole } from "../store/member-roles.ts"

const table = {
  /** The balance, keys without their secrets, usage, runs, what happens live. */
  read: ["owner", "billing", "developer", "viewer"],
  /** Top-ups, statements and receipts, with the buyer's name and tax number. */
  books: ["owner", "billing", "viewer"],
  /** Topping up, to whom receipts are made out, and who is mailed of a low balance. */
  pay: ["owner", "billing"],
  /** Keys, runs and the webhook, whose address may be a secret. */
  build: ["owner", "developer"],
  /** The account's breaker: its ceiling, and going on after a stop. */
  guard: ["owner", "billing", "developer"],
  /** Members, the account's history, its time zone. */
  manage: ["owner"],
} as const satisfies Readonly<Record<string, readonly MemberRole[]>>

export type Permission = keyof typeof table
export const permissions = Object.keys(table) as readonly Permission[]

/** In the order of `memberRoles`. */
export const rolesThatMay = (permission: Permission): readonly MemberRole[] => table[permission]

export const mayDo = (role: MemberRole, permission: Permission): boolean => rolesThatMay(permission).includes(role)

/** Whether the new role may do anything that the one before might not. */
export const isRaised = (from: MemberRole, to: MemberRole): boolean =>
  permissions.some((permission) => mayDo(to, permission) && !mayDo(from, permission))

/** Undefined where the role may. */
export function refusalOf(role: MemberRole, permission: Permission): Failure | undefined {
  if (mayDo(role, permission)) return undefined
  const needed = rolesThatMay(permission).map((each) => `'${each}'`)
  const message = `This takes the role ${needed.join(" or ")} in this account; yours is '${role}'.`
  return new Failure("auth.role_required", { message })
}
