/**
 * What this browser keeps for a person: conversations of the playground, in its own database, and the secret of the key that was
 * made last, in this tab's memory alone. Both are forgotten with everything else of the account when somebody signs out.
 */
import { type QueryClient, queryOptions, skipToken, useQuery } from "@tanstack/react-query"
import { keysQuery } from "./queries.ts"

const DATABASE = "loket-playground"
const STORE = "conversations"

/** The oldest go first. */
const MAX_CONVERSATIONS = 30
/** UTF-16 units of all of one owner, images included. */
const MAX_SIZE = 20 * 1024 * 1024

export interface Kept<Exchange> {
  readonly id: string
  /** The person and the account. */
  readonly owner: string
  /** Milliseconds since 1970. */
  readonly at: number
  readonly model: string
  readonly system: string
  readonly exchanges: readonly Exchange[]
}

const settled = <T>(request: IDBRequest<T>): Promise<T> =>
  new Promise((resolve, reject) => {
    request.addEventListener("success", () => resolve(request.result))
    request.addEventListener("error", () => reject(request.error ?? new Error("no database")))
  })

function opened(): Promise<IDBDatabase> {
  const request = indexedDB.open(DATABASE, 1)
  request.addEventListener("upgradeneeded", () => request.result.createObjectStore(STORE, { keyPath: "id" }))
  return settled(request)
}

/** Does the work in one transaction; undefined where the browser does not let it. */
async function within<T>(work: (store: IDBObjectStore) => Promise<T>): Promise<T | undefined> {
  try {
    const database = await opened()
    try {
      return await work(database.transaction(STORE, "readwrite").objectStore(STORE))
    } finally {
      database.close()
    }
  } catch {
    return undefined
  }
}

const all = async (store: IDBObjectStore) => (await settled(store.getAll())) as readonly Kept<unknown>[]

/** The newest first. */
export async function keptConversations<Exchange>(owner: string): Promise<readonly Kept<Exchange>[]> {
  const kept = (await within(all)) ?? []
  return (kept as readonly Kept<Exchange>[]).filter((each) => each.owner === owner).toSorted((a, b) => b.at - a.at)
}

/** In the place of what was kept of it before. What is over the bounds goes, the oldest first. */
export const keepConversation = (conversation: Kept<unknown>) =>
  within(async (store) => {
    if (sizeOf(conversation) > MAX_SIZE) return
    await settled(store.put(conversation))
    const own = (await all(store)).filter(({ owner }) => owner === conversation.owner).toSorted((a, b) => b.at - a.at)
    let size = 0
    for (const [index, each] of own.entries()) {
      size += sizeOf(each)
      if (index >= MAX_CONVERSATIONS || size > MAX_SIZE) await settled(store.delete(each.id))
    }
  })

const sizeOf = (conversation: Kept<unknown>): number => JSON.stringify(conversation).length

export const deleteConversations = (which: (conversation: Kept<unknown>) => boolean) =>
  within(async (store) => {
    for (const each of await all(store)) if (which(each)) await settled(store.delete(each.id))
  })

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
