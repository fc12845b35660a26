/** What the wallet asks and changes. */
import { queryOptions } from "@tanstack/react-query"
import { api, unwrap } from "../../api/client.ts"

/** Decisions §10. */
export const SMALLEST_RP = 10_000
export const LARGEST_RP = 100_000_000

/** Should the event be missed that tells of a payment, it is seen this much later. */
const LOOK_MS = 5_000

export const topUpsQuery = queryOptions({
  queryKey: ["top-ups"],
  queryFn: async () => (await unwrap(api["top-ups"].get())).data,
})
export type ListedTopUp = Awaited<ReturnType<NonNullable<typeof topUpsQuery.queryFn>>>[number]
export type Breakdown = ListedTopUp["breakdown"]

export const topUpQuery = (id: string) =>
  queryOptions({
    queryKey: ["top-ups", id],
    queryFn: () => unwrap(api["top-ups"]({ id }).get()),
    refetchInterval: ({ state }) => (state.data?.status === "pending" ? LOOK_MS : false),
  })
export type TopUp = Awaited<ReturnType<NonNullable<ReturnType<typeof topUpQuery>["queryFn"]>>>

/** What so many rupiah would cost. Fees change with the configuration alone. */
export const quoteQuery = (amountRp: number) =>
  queryOptions({
    queryKey: ["quote", amountRp],
    queryFn: async () => (await unwrap(api["top-ups"].quote.get({ query: { amount_rp: amountRp } }))).breakdown,
    staleTime: 60_000,
  })

export const openTopUp = (amountRp: number) => unwrap(api["top-ups"].post({ amount_rp: amountRp }))

/** Asks the payment provider now. */
export const checkTopUp = (id: string) => unwrap(api["top-ups"]({ id }).check.post())
