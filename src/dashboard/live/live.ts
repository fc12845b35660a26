/**
 * What happens on the account while the page is open (`GET /events`): the balance goes straight to what shows it; lists
 * are asked again, at most once in a while. The browser reconnects by itself. A tab in the background has no connection:
 * a browser opens six to a host at most, and a seventh tab would wait for ever.
 */
import { type QueryClient, useQueryClient } from "@tanstack/react-query"
import { useEffect } from "react"
import type { LiveBalance } from "../../http/events.ts"
import { accountQuery } from "../api/queries.ts"

/** Under a flood of calls the lists follow at this pace. */
const SETTLE_DOWN_MS = 1_000

/** By the first word of their keys: what a finished call changes, and what a credited top-up does. */
const OF_A_CALL = ["usage", "summary", "keys"]
const OF_A_TOP_UP = ["account", "summary", "top-ups"]

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
          // What happened while there was no connection was told to nobody.
          if (connected) outdate([...OF_A_CALL, ...OF_A_TOP_UP])
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

/** Has questions asked again, those that came together at once. */
function outdater(client: QueryClient): (keys: readonly string[]) => void {
  const stale = new Set<string>()
  let settlingDown: ReturnType<typeof setTimeout> | undefined
  return (keys) => {
    for (const key of keys) stale.add(key)
    settlingDown ??= setTimeout(() => {
      settlingDown = undefined
      for (const key of stale) void client.invalidateQueries({ queryKey: [key] })
      stale.clear()
    }, SETTLE_DOWN_MS)
  }
}
