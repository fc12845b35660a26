/**
 * What more than one page asks. A page's own questions stand beside the page. Keys begin with the word by which events
 * make them stale: `account`, `summary`, `usage`, `keys`, `top-ups`, `models`.
 */
import { queryOptions } from "@tanstack/react-query"
import { api, unwrap } from "./client.ts"

export const accountQuery = queryOptions({
  queryKey: ["account"],
  queryFn: () => unwrap(api.account.get()),
})
export type Account = Awaited<ReturnType<NonNullable<typeof accountQuery.queryFn>>>

/** Those that work come first. */
export const keysPage = (cursor: string | undefined) =>
  unwrap(api.keys.get({ query: { limit: "100", ...(cursor !== undefined && { cursor }) } }))
type KeysPage = Awaited<ReturnType<typeof keysPage>>
export type ApiKey = KeysPage["data"][number]

/** Keys from the first on, until `enough` says so of a page, and where there are more. */
async function keysUntil(enough: (page: KeysPage, count: number) => boolean) {
  const keys: ApiKey[] = []
  let next: string | null = null
  do {
    const page = await keysPage(next ?? undefined)
    keys.push(...page.data)
    next = page.next_cursor
    if (enough(page, keys.length)) break
  } while (next !== null)
  return { keys, next }
}

/** The keys that work, and the latest of those that were revoked. */
export const keysQuery = queryOptions({
  queryKey: ["keys"],
  queryFn: () => keysUntil(({ data }) => data.at(-1)?.status === "revoked"),
})

const NAMED_KEYS = 1_000

/** As many as anybody looks for by name: usage is of revoked keys too. */
export const namedKeysQuery = queryOptions({
  queryKey: ["keys", "named"],
  queryFn: async () => (await keysUntil((_, count) => count >= NAMED_KEYS)).keys,
})

export const modelsQuery = queryOptions({
  queryKey: ["models"],
  queryFn: async () => (await unwrap(api.models.get())).data,
  staleTime: 60_000,
})
export type CatalogueModel = Awaited<ReturnType<NonNullable<typeof modelsQuery.queryFn>>>[number]

/** What does not change while the gateway runs. */
export const aboutQuery = queryOptions({
  queryKey: ["about"],
  queryFn: () => unwrap(api.about.get()),
  staleTime: Number.POSITIVE_INFINITY,
})
