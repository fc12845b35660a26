/** What the page asks: its first page has the sums and the reconciliations too. */
import { api } from "../../../api/client.ts"
import { told } from "../../../api/failure.ts"
import { at } from "../list.ts"

export const billingPage = (cursor: string | undefined) =>
  told(api.operator["billing-health"].get({ query: at(cursor) }))
export type BillingHealth = Awaited<ReturnType<typeof billingPage>>
export type Flagged = BillingHealth["data"][number]
