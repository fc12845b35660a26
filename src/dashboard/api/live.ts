/**
 * Live updates of the account while the page is open (`GET /events`). A new balance is shown at once; lists are refetched, but
 * not too often. A tab in the background has no connection: a browser opens at most six to a host, and a seventh tab would wait for
 * ever. Whether there is a connection is shown on every page.
 */
import { type QueryClient, useQuery, useQueryClient } from "@tanstack/react-query"
import { useEffect, useRef, useSyncExternalStore } from "react"
import type { LiveBalance } from "../../http/dashboard/account-json.ts"
import { useLate } from "../components/feedback.tsx"
import { useToday } from "../i18n/language.tsx"
import { accountQuery, breakerQuery } from "./queries.ts"

/** The shortest time between two refetches of a list; sums are larger queries and wait longer. */
const SETTLE_DOWN_MS = 1_000
const SUMS_SETTLE_DOWN_MS = 5_000
/** An answer that is under way for longer may be lost. */
const UNDER_WAY_MS = 10_000
const UNDER_WAY_LOOK_MS = 200

/** First words of query keys: what each kind of event makes stale. */
const OF_A_CALL = ["usage", "calls", "sums", "summary", "keys", "runs"]
const OF_A_TOP_UP = ["account", "summary", "top-ups"]
const OF_THE_ACCOUNT = ["account", "keys", "summary", "breaker"]
const OF_SPENDING = ["breaker"]
/** A call that is refused may be one of a key that was paused. */
const OF_REFUSALS = ["refused", "keys", "breaker"]
const OF_THE_CATALOGUE = ["models", "price-changes"]
/** What was spent today and this month. Other questions name their days. */
const OF_THE_DAY = ["summary", "keys"]

/** Another process may have answered a call or booked a top-up, and its notice may be lost: the balance says it all the same. */
function ofABalance(before: number, now: number): readonly string[] {
  if (now === before) return []
  return now > before ? ["statement", ...OF_A_CALL, ...OF_A_TOP_UP] : ["statement", ...OF_A_CALL]
}

const hasAnswers = (client: QueryClient, key: string): boolean =>
  key !== accountQuery.queryKey[0] && client.getQueriesData({ queryKey: [key] }).some(([, data]) => data !== undefined)

/** Whether the page follows its account: `connecting` is at first, and after a connection was lost. */
export type Connection = "live" | "connecting" | "offline"

interface ConnectionState {
  readonly connection: Connection
  /** What was there is gone, or could not be had: one that only takes long to open at first is not lost. */
  readonly isLost: boolean
  /** When it came to be so; milliseconds since the epoch. */
  readonly since: number
}

let state: ConnectionState = { connection: "connecting", isLost: false, since: Date.now() }
const watchers = new Set<() => void>()

function become(connection: Connection, isLost = connection !== "live"): void {
  if (connection === state.connection && isLost === state.isLost) return
  // From offline to connecting nothing has come back yet.
  const wasAway = state.connection !== "live" && connection !== "live"
  state = { connection, isLost, since: wasAway ? state.since : Date.now() }
  for (const watcher of watchers) watcher()
}

const watch = (watcher: () => void) => {
  watchers.add(watcher)
  return () => void watchers.delete(watcher)
}

export const useConnection = (): ConnectionState => useSyncExternalStore(watch, () => state)

/** Milliseconds. */
const OPENS_WITHIN_MS = 1_000

/**
 * The account's breaker, on every page. It is asked for when the page follows its account, or cannot for now: events before are
 * lost, so what was told before would have to be asked for again.
 */
export function useBreaker(isSignedIn: boolean) {
  const { connection, isLost } = useConnection()
  const isOpening = connection === "connecting" && !isLost
  const isLate = useLate(isOpening, OPENS_WITHIN_MS)
  return useQuery({ ...breakerQuery, enabled: isSignedIn && (!isOpening || isLate) })
}

/** Renders nothing. Keeps queries fresh while somebody is signed in. */
export function Live() {
  const client = useQueryClient()
  useEffect(() => {
    const following = new Following(client)
    return () => following.end()
  }, [client])
  const today = useToday()
  const before = useRef(today)
  useEffect(() => {
    if (before.current === today) return
    before.current = today
    for (const key of OF_THE_DAY) void client.invalidateQueries({ queryKey: [key] })
  }, [client, today])
  return null
}

/** The gateway says something every ten seconds; after so long a connection is dead, whatever the browser thinks. */
const SILENCE_MS = 25_000
const LOOK_MS = 5_000
/** The browser connects again by itself where the network failed; after an answer that is no stream, we do. */
const AGAIN_FIRST_MS = 1_000
const AGAIN_LAST_MS = 30_000

class Following {
  readonly #client: QueryClient
  readonly #outdate: (keys: readonly string[]) => void
  readonly #ended = new AbortController()
  #source: EventSource | undefined
  #again: ReturnType<typeof setTimeout> | undefined
  #failures = 0
  #heardAt = 0
  #wasConnected = false

  constructor(client: QueryClient) {
    this.#client = client
    this.#outdate = outdater(client)
    const { signal } = this.#ended
    document.addEventListener("visibilitychange", () => this.#follow(), { signal })
    window.addEventListener("offline", () => this.#close("offline"), { signal })
    window.addEventListener("online", () => this.#follow(), { signal })
    const looking = setInterval(() => this.#look(), LOOK_MS)
    signal.addEventListener("abort", () => clearInterval(looking))
    this.#follow()
  }

  end(): void {
    this.#ended.abort()
    this.#close(undefined)
    become("connecting", false)
  }

  #follow(): void {
    if (document.hidden) return this.#close(undefined)
    if (!navigator.onLine) return this.#close("offline")
    if (this.#source === undefined) this.#open()
  }

  /** A tab that is hidden on purpose has lost nothing that it does not get again: it keeps what it says. */
  #close(connection: Connection | undefined): void {
    clearTimeout(this.#again)
    this.#source?.close()
    this.#source = undefined
    if (connection !== undefined) become(connection)
  }

  #open(): void {
    const source = new EventSource("/events")
    this.#source = source
    this.#heardAt = Date.now()
    source.addEventListener("open", () => this.#opened())
    source.addEventListener("error", () => this.#failed(source))
    this.#listen(source, "balance", (data) => {
      const change = JSON.parse(data) as LiveBalance
      const known = this.#client.getQueryData(accountQuery.queryKey)
      // Another tab has chosen another account.
      if (known !== undefined && known.id !== change.account_id) {
        void this.#client.invalidateQueries(accountQuery)
        return
      }
      if (known !== undefined) this.#outdate(ofABalance(known.balance_micro, change.balance_micro))
      const { balance_micro, held_micro } = change
      this.#client.setQueryData(
        accountQuery.queryKey,
        (account) => account && { ...account, balance_micro, held_micro },
      )
    })
    this.#listen(source, "call", () => this.#outdate(OF_A_CALL))
    this.#listen(source, "calls", () => this.#outdate(OF_A_CALL))
    this.#listen(source, "refused", () => this.#outdate(OF_REFUSALS))
    this.#listen(source, "spending.unusual", () => this.#outdate(OF_SPENDING))
    this.#listen(source, "top-up", () => this.#outdate(OF_A_TOP_UP))
    this.#listen(source, "account", () => this.#outdate(OF_THE_ACCOUNT))
    this.#listen(source, "catalogue", () => this.#outdate(OF_THE_CATALOGUE))
  }

  #listen(source: EventSource, event: string, heard: (data: string) => void): void {
    source.addEventListener(event, ({ data }: MessageEvent<string>) => {
      this.#heardAt = Date.now()
      heard(data)
    })
  }

  #opened(): void {
    this.#failures = 0
    this.#heardAt = Date.now()
    become("live")
    // Events before the connection are lost. The first connection usually opens before the first queries are answered.
    const missed = [...OF_A_CALL, ...OF_A_TOP_UP, ...OF_REFUSALS, ...OF_SPENDING, ...OF_THE_CATALOGUE]
    this.#outdate(this.#wasConnected ? missed : missed.filter((key) => hasAnswers(this.#client, key)))
    this.#wasConnected = true
    // What could not be had while the gateway was away.
    void this.#client.refetchQueries({ type: "active", predicate: (query) => query.state.status === "error" })
  }

  #failed(source: EventSource): void {
    if (source !== this.#source) return
    become(navigator.onLine ? "connecting" : "offline")
    if (source.readyState !== EventSource.CLOSED) return
    // The session may have ended, or something before the gateway answers in its place.
    this.#close(undefined)
    void this.#client.invalidateQueries(accountQuery)
    const waitMs = Math.min(AGAIN_LAST_MS, AGAIN_FIRST_MS * 2 ** this.#failures++)
    this.#again = setTimeout(() => this.#follow(), waitMs * (0.5 + Math.random() / 2))
  }

  #look(): void {
    if (this.#source === undefined || document.hidden || Date.now() - this.#heardAt < SILENCE_MS) return
    this.#close("connecting")
    this.#follow()
  }
}

/** Marks queries as stale, each at its pace. */
function outdater(client: QueryClient): (keys: readonly string[]) => void {
  const settlingDown = new Set<string>()
  return (keys) => {
    for (const key of keys) {
      if (settlingDown.has(key)) continue
      settlingDown.add(key)
      const pauseMs = key === "sums" || key === "statement" ? SUMS_SETTLE_DOWN_MS : SETTLE_DOWN_MS
      const awaitedUntil = Date.now() + pauseMs + UNDER_WAY_MS
      const outdated = () => {
        // What is asked anew throws away the answer that is under way: over a slow network none would ever come while calls go on.
        if (client.isFetching({ queryKey: [key] }) > 0 && Date.now() < awaitedUntil) {
          setTimeout(outdated, UNDER_WAY_LOOK_MS)
          return
        }
        settlingDown.delete(key)
        void client.invalidateQueries({ queryKey: [key] })
      }
      setTimeout(outdated, pauseMs)
    }
  }
}
