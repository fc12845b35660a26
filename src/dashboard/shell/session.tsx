/**
 * Who is signed in. The session itself is a cookie that the page cannot read; the account says whether there is one.
 *
 * And which account is looked at, with the lines over every page about it: that it is another's, is paused, or spends unusually
 * much.
 */
import { type QueryClient, useQuery, useQueryClient } from "@tanstack/react-query"
import { createContext, type ReactNode, useCallback, useContext, useEffect, useMemo, useRef } from "react"
import { Link } from "wouter"
import { api, isSignedOut, pageIsAbout, unwrap } from "../api/client.ts"
import { deleteConversations, isBeingWritten } from "../api/browser.ts"
import { useBreaker } from "../api/live.ts"
import { type Account, accountQuery, breakerQuery, same, lookAt, membershipsQuery, useChange } from "../api/queries.ts"
import { Notice, NoticeButton, useToasts } from "../components/feedback.tsx"
import { useBreakerText } from "../components/spending.tsx"
import { useFormat } from "../i18n/language.tsx"
import { useRoleText } from "./text.ts"

interface Session {
  /** Undefined for a visitor. */
  readonly account: Account | undefined
  /** Somebody was signed in here, and did not sign out. */
  readonly isLost: boolean
  /** It was lost, and the page is kept with what was being written in it until somebody signs in again. */
  readonly isHeld: boolean
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
function forget(client: QueryClient): void {
  client.removeQueries({ predicate: ({ queryKey }) => queryKey[0] !== accountQuery.queryKey[0] })
  sessionStorage.removeItem(LEFT)
}

/** Kept by the browser, because the cookie cannot be seen: whether there ought to be a session. */
const SIGNED_IN = "loket-signed-in"

function remember(signedIn: boolean): void {
  if (signedIn) localStorage.setItem(SIGNED_IN, "1")
  else localStorage.removeItem(SIGNED_IN)
}

/** Whether there ought to be a session. */
export const wasSignedIn = (): boolean => localStorage.getItem(SIGNED_IN) !== null

/** This tab goes to a page about another account on purpose. */
let isLeaving = false

/** Loads a page anew, after the session was told to look at another account. */
export function leaveFor(path: string): void {
  isLeaving = true
  sessionStorage.removeItem(LEFT)
  location.assign(path)
}

/** In the tab's storage: the account that the page was about before it was loaded anew without anybody's doing here. */
export const LEFT = "loket-left"
export type Left = Pick<Account, "id" | "email"> & { readonly wasOwn: boolean; readonly wasSeen: boolean }

function reloadAsAnother({ id, email, signed_in: who, seen }: Account): void {
  const left: Left = { id, email, wasOwn: id === who.id, wasSeen: seen !== null }
  sessionStorage.setItem(LEFT, JSON.stringify(left))
  location.reload()
}

interface SessionProviderProps {
  readonly children: ReactNode
  /** Shown while the session is being checked, and when that fails. */
  readonly waiting: ReactNode
  readonly failed: (error: Error, retry: () => void) => ReactNode
}

export function SessionProvider({ children, waiting, failed }: SessionProviderProps) {
  const client = useQueryClient()
  const { data, error, isPending, refetch } = useQuery(accountQuery)
  const about = useRef<Account>(undefined)
  const signedIn = useCallback(
    (account: Account) => {
      const isKept = same(about.current, account)
      if (!isKept) forget(client)
      void deleteConversations(({ owner }) => !owner.startsWith(`${account.signed_in.id}/`))
      client.setQueryData(accountQuery.queryKey, account)
      if (isKept) void client.invalidateQueries()
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
  const isLost = signedOut && wasSignedIn()
  const isHeld = isLost && data !== undefined && isBeingWritten()
  const account = signedOut && !isHeld ? undefined : data
  const isHere = account !== undefined
  // Before the pages below ask for anything.
  pageIsAbout(account?.id)
  useEffect(() => {
    const before = about.current
    about.current = account
    // A lost session: the next one of this browser may be another person's, from another tab.
    if (before !== undefined && account === undefined) forget(client)
    // Another account was chosen elsewhere: nothing of the one before may be left on the page.
    if (before === undefined || account === undefined || same(before, account) || isLeaving) return
    if (before.signed_in.id === account.signed_in.id) reloadAsAnother(before)
    // Another person is told nothing of the one before.
    else leaveFor("/dashboard/")
  }, [account, client])
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
  // A page that was left comes back as it was, out of the browser's memory.
  useEffect(() => {
    const shown = () => void (isLeaving = false)
    window.addEventListener("pageshow", shown)
    return () => window.removeEventListener("pageshow", shown)
  }, [])
  const session = useMemo<Session>(
    () => ({ account, isLost, isHeld, signedIn, signOut, ended }),
    [account, isLost, isHeld, signedIn, signOut, ended],
  )
  if (isPending) return waiting
  if (account === undefined && !signedOut && error) return failed(error, () => void refetch())
  return <Context value={session}>{children}</Context>
}

/** Loads the page anew, so that nothing of the account before is left on it. */
export function useSwitch() {
  const text = useRoleText()
  const toasts = useToasts()
  const client = useQueryClient()
  return useChange({
    mutationFn: lookAt,
    onSuccess: () => leaveFor("/dashboard/"),
    onError: () => {
      toasts.failed(text.notSwitched)
      return client.invalidateQueries(membershipsQuery)
    },
  })
}

/** On every page of another's account. */
export function LookedAt() {
  const text = useRoleText()
  const { account } = useSession()
  const change = useSwitch()
  if (account === undefined || account.id === account.signed_in.id) return null
  if (account.seen !== null) return <Seen account={account} until={account.seen.until} />
  return (
    <Notice tone="warn">
      {text.looking(account.email, text.roles[account.member_role])}{" "}
      <button
        type="button"
        className="notice-button"
        disabled={change.isPending}
        onClick={() => change.mutate(account.signed_in.id)}
      >
        {text.back}
      </button>
    </Notice>
  )
}

interface SeenProps {
  readonly account: Account
  readonly until: string
}

/** On every page that an operator sees as the account's customer does. It ends by itself. */
function Seen({ account, until }: SeenProps) {
  const text = useRoleText()
  const format = useFormat()
  const client = useQueryClient()
  const end = useChange({
    mutationFn: () => unwrap(api.auth["see-as"].end.post()),
    onSuccess: () => leaveFor(`/dashboard/operator/accounts/${account.id}`),
  })
  useEffect(() => {
    const over = setTimeout(() => void client.invalidateQueries(accountQuery), Date.parse(until) - Date.now() + 500)
    return () => clearTimeout(over)
  }, [client, until])
  return (
    <Notice tone="bad">
      {text.seeing(account.email, account.signed_in.email, format.time(until))}{" "}
      <NoticeButton change={end}>{text.endSeeing}</NoticeButton>
    </Notice>
  )
}

/** All keys are refused: the account has come to its ceiling. */
export function AccountPaused() {
  const text = useBreakerText()
  const format = useFormat()
  const client = useQueryClient()
  const { account } = useSession()
  const may = useMay()
  const { data } = useBreaker(account !== undefined)
  const resume = useChange({
    mutationFn: () => unwrap(api.account.breaker.resume.post()),
    // A refusal may say that it is done, and not yet in force.
    onSettled: () => client.invalidateQueries(breakerQuery),
  })
  const paused = account === undefined ? null : (data?.paused ?? null)
  if (paused === null) return null
  return (
    <Notice tone="bad">
      {text.accountPaused(format.dateTime(paused.since))}{" "}
      {paused.until !== null && `${text.until(format.dateTime(paused.until))} `}
      {may("guard") && <NoticeButton change={resume}>{text.resume}</NoticeButton>}
    </Notice>
  )
}

/** Until it is dismissed. */
export function Unusual() {
  const text = useBreakerText()
  const format = useFormat()
  const client = useQueryClient()
  const { account } = useSession()
  const may = useMay()
  const { data } = useBreaker(account !== undefined)
  const dismiss = useChange({
    mutationFn: () => unwrap(api.account.breaker.dismiss.post()),
    onSuccess: () => client.invalidateQueries(breakerQuery),
  })
  if (account === undefined || data === undefined || data.alerts.length === 0) return null
  // Of an account with one key the key says it all.
  const keys = data.alerts.filter(({ key_id: key }) => key !== null)
  return (
    <Notice tone="warn">
      {(keys.length > 0 ? keys : data.alerts).map(
        ({ key_id: id, key_name: name, why, spent_micro: spent, threshold_micro: most }) => (
          <span key={id}>
            {name === null ? text.unusualAccount(format.rupiah(spent)) : text.unusualKey(name, format.rupiah(spent))} (
            {why === "ceiling" ? text.overCeiling(format.rupiah(most)) : text.overUsual(format.rupiah(most))}).{" "}
          </span>
        ),
      )}
      <Link href="/keys">{text.toKeys}</Link>{" "}
      {may("guard") && <NoticeButton change={dismiss}>{text.dismiss}</NoticeButton>}
    </Notice>
  )
}
