/** What the overview asks, again and again. */
import { queryOptions } from "@tanstack/react-query"
import { api } from "../../../api/client.ts"
import { told } from "../../../api/failure.ts"
import type { Days } from "../../../i18n/days.ts"

const FOLLOW_MS = 10_000

export const overviewQuery = (days: Days) =>
  queryOptions({
    queryKey: ["operator", "overview", days],
    queryFn: () => told(api.operator.overview.get({ query: { ...days } })),
    refetchInterval: FOLLOW_MS,
  })
export type Overview = Awaited<ReturnType<NonNullable<ReturnType<typeof overviewQuery>["queryFn"]>>>
