/**
 * Live updates of the account while the page is open (`GET /events`). A new balance is shown at once; lists are refetched, but
 * not too often. The browser reconnects by itself. A tab in the background has no connection: a browser opens at most six to
 * a host, and a seventh tab would wait for ever.
 */
import { type QueryClient, useQueryClient } from "@tanstack/react-query"
import { useEffect } from "react"
import type { LiveBalance } from "../../http/events.ts"
import { accountQuery } from "./queries.ts"

/** The shortest time between two refetches of a list; sums are larger queries and wait longer. */
const SETTLE_DOWN_MS = 1_000
const SUMS_SETTLE_DOWN_MS = 5_000

/** First words of query keys: what a finished call makes stale, and what a credited top-up does. */
const OF_A_CALL = ["usage", "calls", "sums", "summary", "keys"]
const OF_A_TOP_UP = ["account", "summary", "top-ups"]

const hasAnswers = (client: QueryClient, key: string): boolean =>
  key !== accountQuery.queryKey[0] && client.getQueriesData({ queryKey: [key] }).some(([, data]) => data !== undefined)

/** Renders nothing. Keeps queries fresh while somebody is signed in. */
export function Live() {
  const client = useQueryClient()
  useEffect(() => {
    const outdate = outdater(client)
    let source: EventSource | undefined
    let connected = false
    const follow = () => {
      if (document.hidden) {
        source?.close()
        source = undefined
        return
      }
      source ??= listen(client, {
        outdate,
        opened: () => {
          // Events before the connection are lost. The first connection usually opens before the first queries are answered.
          const missed = [...OF_A_CALL, ...OF_A_TOP_UP]
          outdate(connected ? missed : missed.filter((key) => hasAnswers(client, key)))
          connected = true
        },
      })
    }
    follow()
    document.addEventListener("visibilitychange", follow)
    return () => {
      document.removeEventListener("visibilitychange", follow)
      source?.close()
    }
  }, [client])
  return null
}

interface Listener {
  readonly outdate: (keys: readonly string[]) => void
  readonly opened: () => void
}

function listen(client: QueryClient, { outdate, opened }: Listener): EventSource {
  const source = new EventSource("/events")
  source.addEventListener("open", opened)
  source.addEventListener("balance", ({ data }: MessageEvent<string>) => {
    const balance = JSON.parse(data) as LiveBalance
    client.setQueryData(accountQuery.queryKey, (account) => account && { ...account, ...balance })
  })
  source.addEventListener("call", () => outdate(OF_A_CALL))
  source.addEventListener("top-up", () => outdate(OF_A_TOP_UP))
  // The browser does not reconnect after this: the session has ended.
  source.addEventListener("error", () => {
    if (source.readyState === EventSource.CLOSED) void client.invalidateQueries(accountQuery)
  })
  return source
}

/** Marks queries as stale, each at its pace. */
function outdater(client: QueryClient): (keys: readonly string[]) => void {
  const settlingDown = new Set<string>()
  return (keys) => {
    for (const key of keys) {
      if (settlingDown.has(key)) continue
      settlingDown.add(key)
      const outdated = () => {
        settlingDown.delete(key)
        void client.invalidateQueries({ queryKey: [key] })
      }
      setTimeout(outdated, key === "sums" ? SUMS_SETTLE_DOWN_MS : SETTLE_DOWN_MS)
    }
  }
}
