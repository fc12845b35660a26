/** The queries and changes of the wallet. */
import { queryOptions } from "@tanstack/react-query"
import { api, unwrap } from "../../api/client.ts"

/** Decisions §10. */
export const SMALLEST_RP = 10_000
export const LARGEST_RP = 100_000_000

/** A payment whose event is missed is seen after this time at the latest. */
const POLL_MS = 5_000

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
    refetchInterval: ({ state }) => (state.data?.status === "pending" ? POLL_MS : false),
  })
export type TopUp = Awaited<ReturnType<NonNullable<ReturnType<typeof topUpQuery>["queryFn"]>>>

/** The cost of a top-up. Fees change only with the configuration. */
export const quoteQuery = (amountRp: number) =>
  queryOptions({
    queryKey: ["quote", amountRp],
    queryFn: async () => (await unwrap(api["top-ups"].quote.get({ query: { amount_rp: amountRp } }))).breakdown,
    staleTime: 60_000,
  })

export const openTopUp = (amountRp: number) => unwrap(api["top-ups"].post({ amount_rp: amountRp }))

/** Asks the payment provider now. */
export const checkTopUp = (id: string) => unwrap(api["top-ups"]({ id }).check.post())
