/**
 * The secret of the key that was made last, so that the quick start can have it inside. It is in this tab's memory alone, for a
 * while, and is forgotten with everything else of the account when somebody signs out.
 */
import { type QueryClient, queryOptions, skipToken, useQuery } from "@tanstack/react-query"
import { keysQuery } from "./queries.ts"

const KEPT_MS = 30 * 60_000

const freshKeyQuery = queryOptions<string>({
  queryKey: ["fresh-key"],
  queryFn: skipToken,
  gcTime: KEPT_MS,
  staleTime: Number.POSITIVE_INFINITY,
})

export function keepFreshKey(client: QueryClient, secret: string): void {
  client.setQueryDefaults(freshKeyQuery.queryKey, { gcTime: KEPT_MS })
  client.setQueryData(freshKeyQuery.queryKey, secret)
}

/** The secret and what is known of its key; undefined where none was made lately, or it works no more. */
export function useFreshKey() {
  const { data: secret } = useQuery(freshKeyQuery)
  const { data } = useQuery(keysQuery)
  const key = data?.keys.find(({ status, last4 }) => status === "active" && secret?.endsWith(last4))
  return secret === undefined || key === undefined ? undefined : { secret, name: key.name }
}
