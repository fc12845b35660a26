/** The catalogue as operators see it, and where in the dashboard each model is. */
import { queryOptions } from "@tanstack/react-query"
import { api } from "../../../api/client.ts"
import { told } from "../../../api/failure.ts"

const SOON_MS = 200
/** Later than this nobody has the page open; and timers hold no more than 24 days. */
const LONGEST_MS = 3_600_000

export const modelsQuery = queryOptions({
  queryKey: ["operator", "models"],
  queryFn: async () => (await told(api.operator.models.get())).data,
  // When a price is to begin, who looks sees it begin.
  refetchInterval: ({ state: { data } }) => {
    const coming = data?.flatMap(({ prices }) => prices.filter(({ state }) => state === "coming")) ?? []
    if (coming.length === 0) return false
    const next = Math.min(...coming.map(({ effective_at: at }) => Date.parse(at)))
    return Math.min(Math.max(next - Date.now(), 0) + SOON_MS, LONGEST_MS)
  },
})
export type OperatorModel = Awaited<ReturnType<NonNullable<typeof modelsQuery.queryFn>>>[number]
export type Price = OperatorModel["prices"][number]

/** Ids have slashes, which an address keeps as `%2F`. */
export const addressOf = (model: string): string => `/operator/models/${encodeURIComponent(model)}`

/** Whether the router, which decodes addresses all but for reserved characters, means this model. */
export const isMeant = (model: string, parameter: string): boolean => decodeURI(encodeURIComponent(model)) === parameter

export const currentPrice = ({ prices }: OperatorModel): Price | undefined =>
  prices.find(({ state }) => state === "current")

/** In order of their beginning. */
export const comingPrices = ({ prices }: OperatorModel): readonly Price[] =>
  prices.filter(({ state }) => state === "coming")
