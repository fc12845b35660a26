/**
 * What more than one page asks. A page's own questions stand beside the page. Keys begin with the word by which events
 * make them stale: `account`, `summary`, `usage`, `keys`, `top-ups`, `models`.
 */
import { queryOptions } from "@tanstack/react-query"
import { api } from "./client.ts"
import { told } from "./failure.ts"

export const accountQuery = queryOptions({
  queryKey: ["account"],
  queryFn: () => told(api.account.get()),
})
export type Account = Awaited<ReturnType<NonNullable<typeof accountQuery.queryFn>>>

export const keysQuery = queryOptions({
  queryKey: ["keys"],
  queryFn: async () => (await told(api.keys.get())).data,
})
export type ApiKey = Awaited<ReturnType<NonNullable<typeof keysQuery.queryFn>>>[number]

export const modelsQuery = queryOptions({
  queryKey: ["models"],
  queryFn: async () => (await told(api.models.get())).data,
  staleTime: 60_000,
})
export type CatalogueModel = Awaited<ReturnType<NonNullable<typeof modelsQuery.queryFn>>>[number]

/** What does not change while the gateway runs. */
export const aboutQuery = queryOptions({
  queryKey: ["about"],
  queryFn: () => told(api.about.get()),
  staleTime: Number.POSITIVE_INFINITY,
})
