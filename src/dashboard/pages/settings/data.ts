/** What the settings ask and change. */
import { queryOptions } from "@tanstack/react-query"
import { api } from "../../api/client.ts"
import { told } from "../../api/failure.ts"

export const sessionsQuery = queryOptions({
  queryKey: ["sessions"],
  queryFn: async () => (await told(api.account.sessions.get())).data,
})
export type OpenSession = Awaited<ReturnType<NonNullable<typeof sessionsQuery.queryFn>>>[number]

export interface AccountWish {
  readonly time_zone?: string
  /** Null takes it away. */
  readonly low_balance_email?: string | null
  readonly low_balance_threshold_micro?: number | null
}

export const changeAccount = (wish: AccountWish) => told(api.account.patch(wish))
