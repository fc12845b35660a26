/**
 * Queries that more than one page uses. A page's own queries stand beside the page. A query key begins with the word by which
 * events make it stale: `account`, `summary`, `usage`, `keys`, `top-ups`, `models`.
 */
import { queryOptions } from "@tanstack/react-query"
import { api, unwrap } from "./client.ts"

export const accountQuery = queryOptions({
  queryKey: ["account"],
  queryFn: () => unwrap(api.account.get()),
})
export type Account = Awaited<ReturnType<NonNullable<typeof accountQuery.queryFn>>>

/** A page of keys. Active keys come first. */
export const keysPage = (cursor: string | undefined) =>
  unwrap(api.keys.get({ query: { limit: 100, ...(cursor !== undefined && { cursor }) } }))
type KeysPage = Awaited<ReturnType<typeof keysPage>>
export type ApiKey = KeysPage["data"][number]

/** Pages of keys from the first one, until `enough` is true; `next` is the cursor of the rest. */
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

/** All active keys, and the latest revoked ones. */
export const keysQuery = queryOptions({
  queryKey: ["keys"],
  queryFn: () => keysUntil(({ data }) => data.at(-1)?.status === "revoked"),
})

const NAMED_KEYS = 1_000

/** Keys for showing their names. Revoked ones are included, because usage has them too. */
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

/** Facts about the gateway that do not change while it runs. */
export const aboutQuery = queryOptions({
  queryKey: ["about"],
  queryFn: () => unwrap(api.about.get()),
  staleTime: Number.POSITIVE_INFINITY,
})
