/**
 * Queries that more than one page uses. A page's own queries stand beside the page. A query key begins with the word by which
 * events make it stale: `account`, `breaker`, `summary`, `usage`, `keys`, `top-ups`, `models`,
 * `price-changes`.
 */
import { queryOptions, useMutation, type UseMutationOptions, type UseMutationResult } from "@tanstack/react-query"
import { useCallback, useRef, useState } from "react"
import { api, isElsewhere, unwrap } from "./client.ts"

/** The session is about this account from now on; null is one's own. */
export const lookAt = (accountId: string | null) => unwrap(api.auth["look-at"].post({ account_id: accountId }))

/** The same person, who looks at the same account. */
export const same = (one: Account | undefined, other: Account): boolean =>
  one?.id === other.id && one.signed_in.id === other.signed_in.id

/** The account that the session looks at. When a membership has ended, that is one's own again. */
export const accountQuery = queryOptions({
  queryKey: ["account"],
  queryFn: async () => {
    try {
      return await unwrap(api.account.get())
    } catch (error) {
      if (!isElsewhere(error)) throw error
      await lookAt(null)
      return await unwrap(api.account.get())
    }
  },
})
export type Account = Awaited<ReturnType<NonNullable<typeof accountQuery.queryFn>>>

/** Accounts of others in which whoever is signed in has a role. */
export const membershipsQuery = queryOptions({
  queryKey: ["memberships"],
  queryFn: async () => (await unwrap(api.account.memberships.get())).data,
  staleTime: 60_000,
})

/** The account's breaker, and what is unusual now. */
export const breakerQuery = queryOptions({
  queryKey: ["breaker"],
  queryFn: () => unwrap(api.account.breaker.get()),
})
export type Breaker = Awaited<ReturnType<NonNullable<typeof breakerQuery.queryFn>>>

/** A page of keys. Active keys come first. `days`: with what each has spent on so many. */
export const keysPage = (cursor: string | undefined, days?: number) =>
  unwrap(
    api.keys.get({
      query: { limit: 100, ...(cursor !== undefined && { cursor }), ...(days !== undefined && { days }) },
    }),
  )
type KeysPage = Awaited<ReturnType<typeof keysPage>>
export type ApiKey = KeysPage["data"][number]

/** Pages of keys from the first one, until `enough` is true; `next` is the cursor of the rest. */
async function keysUntil(enough: (page: KeysPage, count: number) => boolean, days?: number) {
  const keys: ApiKey[] = []
  let next: string | null = null
  do {
    const page = await keysPage(next ?? undefined, days)
    keys.push(...page.data)
    next = page.next_cursor
    if (enough(page, keys.length)) break
  } while (next !== null)
  return { keys, next }
}

/** Days of which a key's spending is shown. */
const SPENT_DAYS = 30

/** All active keys with what they have spent, and the latest revoked ones. */
export const keysQuery = queryOptions({
  queryKey: ["keys"],
  queryFn: () => keysUntil(({ data }) => data.at(-1)?.status === "revoked", SPENT_DAYS),
})

/** A page of a key's children. Those that work come first. */
export const childrenPage = (parent: string, cursor: string | undefined) =>
  unwrap(api.keys.get({ query: { limit: 50, parent, ...(cursor !== undefined && { cursor }) } }))

/** A page of runs, the newest first: of a key, or of all. */
export const runsPage = (keyId?: string, cursor?: string) =>
  unwrap(
    api.runs.get({
      query: { limit: 50, ...(keyId !== undefined && { key_id: keyId }), ...(cursor !== undefined && { cursor }) },
    }),
  )
export type Run = Awaited<ReturnType<typeof runsPage>>["data"][number]

/** The management tokens of a key. */
export const tokensQuery = (keyId: string) =>
  queryOptions({ queryKey: ["keys", "tokens", keyId], queryFn: () => unwrap(api.keys({ id: keyId }).tokens.get()) })

const NAMED_KEYS = 1_000

/** Keys for showing their names. Revoked ones are included, because usage has them too. */
export const namedKeysQuery = queryOptions({
  queryKey: ["keys", "named"],
  queryFn: async () => (await keysUntil((_, count) => count >= NAMED_KEYS)).keys,
})

const SOON_MS = 200
/** The gateway's clock is behind the browser's. */
const NOT_YET_MS = 5_000
/** A timer holds at most 24 days, so the page looks again at least this often. */
const LONGEST_MS = 3_600_000

/** How long until the first of these times is over: when a price begins no event tells of it. False without any. */
export function untilNext(times: readonly string[]): number | false {
  if (times.length === 0) return false
  const inMs = Math.min(...times.map((time) => Date.parse(time))) - Date.now()
  return inMs <= 0 ? NOT_YET_MS : Math.min(inMs + SOON_MS, LONGEST_MS)
}

export const modelsQuery = queryOptions({
  queryKey: ["models"],
  queryFn: async () => (await unwrap(api.models.get())).data,
  staleTime: 60_000,
  refetchInterval: ({ state }) =>
    untilNext(state.data?.flatMap(({ next_price: next }) => next?.effective_at ?? []) ?? []),
})
export type CatalogueModel = Awaited<ReturnType<NonNullable<typeof modelsQuery.queryFn>>>[number]

/** Facts about the gateway that do not change while it runs. */
export const aboutQuery = queryOptions({
  queryKey: ["about"],
  queryFn: () => unwrap(api.about.get()),
  staleTime: Number.POSITIVE_INFINITY,
})

/** Whether a second factor is set up, and whether the operator's pages wait for one. */
export const secondFactorQuery = queryOptions({
  queryKey: ["second-factor"],
  queryFn: () => unwrap(api.account["second-factor"].get()),
})

/** Coming prices of what the account used in the last 30 days. */
export const priceChangesQuery = queryOptions({
  queryKey: ["price-changes"],
  queryFn: async () => (await unwrap(api.account["price-changes"].get())).data,
  staleTime: 60_000,
  refetchInterval: ({ state }) => untilNext(state.data?.map(({ effective_at: at }) => at) ?? []),
})

interface Edits<Draft> {
  /** What the fields show: what was typed, and else what is there now. */
  readonly draft: Draft
  /** What was typed. Nothing else is to be sent. */
  readonly edits: Partial<Draft>
  readonly edit: (change: Partial<Draft>) => void
  /** These were saved. What was typed since stays. */
  readonly forget: (saved: Partial<Draft>) => void
}

/** A form over something that others may change meanwhile. */
export function useEdits<Draft extends object>(current: Draft): Edits<Draft> {
  const [edits, setEdits] = useState<Partial<Draft>>({})
  return {
    draft: { ...current, ...edits },
    edits,
    edit: (change) => setEdits((before) => ({ ...before, ...change })),
    forget: (saved) =>
      setEdits((before) => {
        const since = { ...before }
        for (const name in saved) if (since[name] === saved[name]) delete since[name]
        return since
      }),
  }
}

// The one way in which a page changes something. Queries stand beside their pages.

/** Milliseconds. */
const READ_AGAIN_MS = 2_000

/**
 * What a change has made stale is read again before its dialog closes, so that the page behind is right. But that it is done is told
 * also where the reading takes long: who waits at a dialog thinks that it is not, and does it again.
 */
export const briefly = (reading: Promise<unknown>): Promise<unknown> =>
  Promise.race([reading, new Promise((resolve) => setTimeout(resolve, READ_AGAIN_MS))])

/** What a success brings, such as the next dialog, has been drawn by then. Milliseconds. */
const DRAWN_MS = 100

/**
 * A mutation that is carried out once for each press: a further one in the same turn, before the button could be drawn busy, or
 * while the work is under way, is the same press, and so is one with the same input right after a success.
 */
export function useChange<Output, Input = void>(
  options: UseMutationOptions<Output, Error, Input> & { readonly mutationFn: (input: Input) => Promise<Output> },
): UseMutationResult<Output, Error, Input> {
  const isUnderWay = useRef(false)
  const done = useRef<{ readonly input: string; readonly at: number }>(undefined)
  const mutation = useMutation<Output, Error, Input>({
    ...options,
    onSettled: (...settled) => {
      const [, error, input] = settled
      isUnderWay.current = false
      if (error === null) done.current = { input: written(input), at: performance.now() }
      return options.onSettled?.(...settled)
    },
  })
  const { mutate: send } = mutation
  const mutate = useCallback<typeof send>(
    (...press) => {
      const { input, at } = done.current ?? { input: undefined, at: -Infinity }
      const isJustDone = performance.now() - at < DRAWN_MS && written(press[0]) === input
      if (isUnderWay.current || isJustDone) return
      isUnderWay.current = true
      send(...press)
    },
    [send],
  )
  return { ...mutation, mutate }
}

const written = (input: unknown): string => JSON.stringify(input) ?? ""
