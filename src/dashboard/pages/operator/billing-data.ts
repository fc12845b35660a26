/** The queries of the billing page. The first page of flagged records has the sums and the reconciliations too. */
import { queryOptions } from "@tanstack/react-query"
import { api, unwrap } from "../../api/client.ts"
import { at } from "./list.ts"

export const billingPage = (cursor: string | undefined) =>
  unwrap(api.operator["billing-health"].get({ query: at(cursor) }))
export type BillingHealth = Awaited<ReturnType<typeof billingPage>>
export type Flagged = BillingHealth["data"][number]

/** Ranges, in days up to now. */
export const absorbedDays = ["1", "7", "30", "90"] as const
const DAY_MS = 24 * 60 * 60 * 1_000

export const absorbedQuery = (days: (typeof absorbedDays)[number]) =>
  queryOptions({
    queryKey: ["operator", "absorbed", days],
    queryFn: async () => {
      const from = new Date(Date.now() - Number(days) * DAY_MS).toISOString()
      return (await unwrap(api.operator["billing-health"].get({ query: { from, limit: 1 } }))).absorbed
    },
  })
export type AbsorbedAccount = BillingHealth["absorbed"]["accounts"][number]
