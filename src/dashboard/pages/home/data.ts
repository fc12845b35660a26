/** The queries of the home page. */
import { queryOptions } from "@tanstack/react-query"
import { api, unwrap } from "../../api/client.ts"
import { daysOf, lastDays } from "../../i18n/time.ts"

const RECENT = 8
const CHART_DAYS = 30

export const summaryQuery = queryOptions({
  queryKey: ["summary"],
  queryFn: () => unwrap(api.account.summary.get()),
})

export const recentCallsQuery = queryOptions({
  queryKey: ["usage", "recent"],
  queryFn: async () => (await unwrap(api.usage.get({ query: { limit: RECENT } }))).data,
})
export type Call = Awaited<ReturnType<NonNullable<typeof recentCallsQuery.queryFn>>>[number]

export interface Day {
  /** 2026-11-21, in the account's time zone. */
  readonly day: string
  readonly chargeMicro: number
}

/** The cost of each of the last days, days without calls included. */
export const daysQuery = (today: string) =>
  queryOptions({
    queryKey: ["usage", "days", today],
    queryFn: async (): Promise<readonly Day[]> => {
      const { from } = lastDays(today, CHART_DAYS)
      const { data } = await unwrap(api.usage.summary.get({ query: { from, to: today, group_by: "day" } }))
      const charges = new Map(data.map((row) => [row.group, row.charge_micro]))
      return daysOf(from, CHART_DAYS).map((day) => ({ day, chargeMicro: charges.get(day) ?? 0 }))
    },
  })
