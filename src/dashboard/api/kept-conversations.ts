/** Conversations of the playground in the browser's own database. A browser that has none, or refuses, keeps none. */

const DATABASE = "loket-playground"
const STORE = "conversations"

/** The oldest go first. */
const MOST_CONVERSATIONS = 30
/** UTF-16 units of all of one owner, images included. */
const MOST_SIZE = 20 * 1024 * 1024

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
    if (sizeOf(conversation) > MOST_SIZE) return
    await settled(store.put(conversation))
    const own = (await all(store)).filter(({ owner }) => owner === conversation.owner).toSorted((a, b) => b.at - a.at)
    let size = 0
    for (const [index, each] of own.entries()) {
      size += sizeOf(each)
      if (index >= MOST_CONVERSATIONS || size > MOST_SIZE) await settled(store.delete(each.id))
    }
  })

const sizeOf = (conversation: Kept<unknown>): number => JSON.stringify(conversation).length

export const deleteConversations = (which: (conversation: Kept<unknown>) => boolean) =>
  within(async (store) => {
    for (const each of await all(store)) if (which(each)) await settled(store.delete(each.id))
  })
