/** What the home page asks, and what it makes of it. */
import { queryOptions } from "@tanstack/react-query"
import { api } from "../../api/client.ts"
import { told } from "../../api/failure.ts"

const RECENT = 8
export const CHART_DAYS = 30
const PACE_DAYS = 7

export const recentCallsQuery = queryOptions({
  queryKey: ["usage", "recent"],
  queryFn: async () => (await told(api.usage.get({ query: { limit: RECENT } }))).data,
})
export type Call = Awaited<ReturnType<NonNullable<typeof recentCallsQuery.queryFn>>>[number]

export interface Day {
  /** 2026-11-21, in the account's time zone. */
  readonly day: string
  readonly chargeMicro: number
  readonly calls: number
}

/** The day that it is somewhere, so many days ago. */
export function dayIn(timeZone: string, now: number, ago = 0): string {
  // The locale whose days are written as ISO 8601 has them.
  const today = new Intl.DateTimeFormat("sv-SE", { timeZone, dateStyle: "short" }).format(now)
  return new Date(Date.parse(today) - ago * 86_400_000).toISOString().slice(0, 10)
}

export const daysQuery = (timeZone: string, today: string) =>
  queryOptions({
    queryKey: ["usage", "days", timeZone, today],
    queryFn: async (): Promise<readonly Day[]> => {
      // At least the whole month, of which there may be 31 days.
      const days = lastDays(today, CHART_DAYS + 1)
      const { data } = await told(
        api.usage.summary.get({ query: { from: days[0] ?? today, to: today, group_by: "day" } }),
      )
      const byDay = new Map(data.map((row) => [row.group, row]))
      return days.map((day) => {
        const row = byDay.get(day)
        return { day, chargeMicro: row?.charge_micro ?? 0, calls: row?.requests ?? 0 }
      })
    },
  })

/** So many days, today's last. */
const lastDays = (today: string, count: number): string[] =>
  Array.from({ length: count }, (_, index) =>
    new Date(Date.parse(today) - (count - 1 - index) * 86_400_000).toISOString().slice(0, 10),
  )

interface Spend {
  readonly chargeMicro: bigint
  readonly calls: number
}

export const spentOn = (days: readonly Day[], include: (day: string) => boolean): Spend =>
  days
    .filter(({ day }) => include(day))
    .reduce(
      (sum, { chargeMicro, calls }) => ({
        chargeMicro: sum.chargeMicro + BigInt(chargeMicro),
        calls: sum.calls + calls,
      }),
      {
        chargeMicro: 0n,
        calls: 0,
      },
    )

/** How many days the balance lasts at the pace of the last week; undefined when nothing was spent. */
export function daysLeft(days: readonly Day[], availableMicro: bigint): number | undefined {
  const { chargeMicro } = spentOn(days.slice(-PACE_DAYS), () => true)
  return chargeMicro === 0n ? undefined : Number((availableMicro * BigInt(PACE_DAYS)) / chargeMicro)
}
