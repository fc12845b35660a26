/** Who is signed in. The session itself is a cookie that the page cannot read; the account says whether there is one. */
import { type QueryClient, useQuery, useQueryClient } from "@tanstack/react-query"
import { createContext, type ReactNode, useCallback, useContext, useEffect, useMemo, useRef } from "react"
import { api, isSignedOut, pageIsAbout, unwrap } from "../api/client.ts"
import { deleteConversations } from "../api/kept.ts"
import { type Account, accountQuery } from "../api/queries.ts"

interface Session {
  /** Undefined for a visitor. */
  readonly account: Account | undefined
  /** Somebody was signed in here, and did not sign out. */
  readonly isLost: boolean
  /** After a sign-in or sign-up. */
  readonly signedIn: (account: Account) => void
  readonly signOut: () => Promise<void>
  /** After the server ended the session in another way, such as by the account's deletion. */
  readonly ended: () => Promise<void>
}

const Context = createContext<Session | undefined>(undefined)

export function useSession(): Session {
  const session = useContext(Context)
  if (session === undefined) throw new Error("no session provider above")
  return session
}

/** The account, on pages that need a session. */
export function useAccount(): Account {
  const { account } = useSession()
  if (account === undefined) throw new Error("nobody is signed in")
  return account
}

/** What the person's role in the account allows; nothing for a visitor. */
export function useMay(): (permission: Account["may"][number]) => boolean {
  const { account } = useSession()
  return (permission) => account?.may.includes(permission) ?? false
}

/** Whether the account is the person's own, or shown as if it were, and not one in which they are a member. */
export function useIsOwn(): boolean {
  const { account } = useSession()
  return account !== undefined && (account.id === account.signed_in.id || account.seen !== null)
}

/** Removes all data of the last person, so that the next one does not see it. */
const forget = (client: QueryClient): void =>
  client.removeQueries({ predicate: ({ queryKey }) => queryKey[0] !== accountQuery.queryKey[0] })

/** Kept by the browser, because the cookie cannot be seen: whether there ought to be a session. */
const SIGNED_IN = "loket-signed-in"

function remember(signedIn: boolean): void {
  if (signedIn) localStorage.setItem(SIGNED_IN, "1")
  else localStorage.removeItem(SIGNED_IN)
}

const wasSignedIn = () => localStorage.getItem(SIGNED_IN) !== null

interface SessionProviderProps {
  readonly children: ReactNode
  /** Shown while the session is being checked, and when that fails. */
  readonly waiting: ReactNode
  readonly failed: (error: Error, retry: () => void) => ReactNode
}

export function SessionProvider({ children, waiting, failed }: SessionProviderProps) {
  const client = useQueryClient()
  const { data, error, isPending, refetch } = useQuery(accountQuery)
  const signedIn = useCallback(
    (account: Account) => {
      forget(client)
      void deleteConversations(({ owner }) => !owner.startsWith(`${account.signed_in.id}/`))
      client.setQueryData(accountQuery.queryKey, account)
    },
    [client],
  )
  const ended = useCallback(async () => {
    remember(false)
    forget(client)
    await deleteConversations(() => true)
    await client.refetchQueries(accountQuery)
  }, [client])
  const signOut = useCallback(async () => {
    await unwrap(api.auth["sign-out"].post()).catch((error: unknown) => {
      if (!isSignedOut(error)) throw error
    })
    await ended()
  }, [ended])
  const signedOut = isSignedOut(error)
  const account = signedOut ? undefined : data
  const isHere = account !== undefined
  // Before the pages below ask for anything.
  pageIsAbout(account?.id)
  const about = useRef(account?.id)
  useEffect(() => {
    // Another account was chosen elsewhere: nothing of the one before may be left on the page.
    if (about.current !== undefined && account !== undefined && about.current !== account.id) location.reload()
    about.current = account?.id
  }, [account])
  useEffect(() => {
    if (isHere) remember(true)
  }, [isHere])
  // Somebody has signed out in another tab.
  useEffect(() => {
    const heard = ({ key, newValue }: StorageEvent) => {
      if (key === SIGNED_IN && newValue === null) void ended()
    }
    window.addEventListener("storage", heard)
    return () => window.removeEventListener("storage", heard)
  }, [ended])
  const isLost = signedOut && wasSignedIn()
  const session = useMemo<Session>(
    () => ({ account, isLost, signedIn, signOut, ended }),
    [account, isLost, signedIn, signOut, ended],
  )
  if (isPending) return waiting
  if (account === undefined && !signedOut && error) return failed(error, () => void refetch())
  return <Context value={session}>{children}</Context>
}
