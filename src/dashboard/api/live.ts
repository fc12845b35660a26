/**
 * What happens on the account while the page is open (`GET /events`): the balance goes straight to what shows it; lists
 * are asked again, at most once in a while. The browser reconnects by itself. A tab in the background has no connection:
 * a browser opens six to a host at most, and a seventh tab would wait for ever.
 */
import { type QueryClient, useQueryClient } from "@tanstack/react-query"
import { useEffect } from "react"
import type { LiveBalance } from "../../http/events.ts"
import { accountQuery } from "./queries.ts"

/** Under a flood of calls lists follow at this pace, and sums, which are larger questions, at that one. */
const SETTLE_DOWN_MS = 1_000
const SUMS_SETTLE_DOWN_MS = 5_000

/** By the first word of their keys: what a finished call changes, and what a credited top-up does. */
const OF_A_CALL = ["usage", "calls", "sums", "summary", "keys"]
const OF_A_TOP_UP = ["account", "summary", "top-ups"]

const hasAnswers = (client: QueryClient, key: string): boolean =>
  key !== accountQuery.queryKey[0] && client.getQueriesData({ queryKey: [key] }).some(([, data]) => data !== undefined)

/** Shows nothing; keeps the questions' answers fresh for as long as somebody is signed in. */
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
          // What happened without a connection was told to nobody; the first one mostly stands before the first answers.
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
  // Ended for good, and not for a moment: there is no session any more, or not one of these.
  source.addEventListener("error", () => {
    if (source.readyState === EventSource.CLOSED) void client.invalidateQueries(accountQuery)
  })
  return source
}

/** Has questions asked again, each at its pace. */
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
