/** Who has a role in the account, and who is invited. */
import { queryOptions } from "@tanstack/react-query"
import { api, unwrap } from "../../api/client.ts"
import type { Account } from "../../api/queries.ts"

export const membersQuery = queryOptions({
  queryKey: ["members"],
  queryFn: () => unwrap(api.account.members.get()),
})
export type Members = Awaited<ReturnType<NonNullable<typeof membersQuery.queryFn>>>

export type Role = Account["member_role"]
export const roleWords = ["owner", "billing", "developer", "viewer"] as const satisfies readonly Role[]
