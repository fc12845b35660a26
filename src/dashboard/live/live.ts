/**
 * What happens on the account while the page is open (`GET /events`): the balance goes straight to what shows it; lists
 * are asked again, at most once in a while. The browser reconnects by itself.
 */
import { useQueryClient } from "@tanstack/react-query"
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
    const source = new EventSource("/events")
    const stale = new Set<string>()
    let settlingDown: ReturnType<typeof setTimeout> | undefined
    const outdate = (keys: readonly string[]) => {
      for (const key of keys) stale.add(key)
      settlingDown ??= setTimeout(() => {
        settlingDown = undefined
        for (const key of stale) void client.invalidateQueries({ queryKey: [key] })
        stale.clear()
      }, SETTLE_DOWN_MS)
    }
    source.addEventListener("balance", ({ data }: MessageEvent<string>) => {
      const balance = JSON.parse(data) as LiveBalance
      client.setQueryData(accountQuery.queryKey, (account) => account && { ...account, ...balance })
    })
    source.addEventListener("call", () => outdate(OF_A_CALL))
    // What happened while there was no connection was told to nobody.
    let connected = false
    source.addEventListener("open", () => {
      if (connected) outdate([...OF_A_CALL, ...OF_A_TOP_UP])
      connected = true
    })
    // Ended for good, and not for a moment: there is no session any more, or not one of these.
    source.addEventListener("error", () => {
      if (source.readyState === EventSource.CLOSED) void client.invalidateQueries(accountQuery)
    })
    source.addEventListener("top-up", () => outdate(OF_A_TOP_UP))
    return () => {
      source.close()
      clearTimeout(settlingDown)
    }
  }, [client])
  return null
}
