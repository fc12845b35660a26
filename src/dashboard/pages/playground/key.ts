/**
 * The key that the playground calls with. Its secret is in this page's memory alone: pasted by the person, or of a trial
 * key that is made for the visit, with a small budget, and revoked when the page is left. One that could not be revoked,
 * because the browser died, is known by its id and revoked by the first visit after a day.
 */
import { useMutation, useQueryClient } from "@tanstack/react-query"
import { useCallback, useEffect, useRef, useState } from "react"
import { api } from "../../api/client.ts"
import { ApiFailure, told } from "../../api/failure.ts"
import { keysQuery } from "../../api/queries.ts"
import { leftKeys, rememberKey, forgetKey } from "./left-keys.ts"

export const TRIAL_BUDGET_MICRO = 5_000_000_000
const TRIAL_REQUESTS_PER_MINUTE = 30

/** What a whole key looks like (decisions §1). */
const WHOLE_KEY = /^sk-loket-[A-Za-z0-9]{46}$/
export const isWholeKey = (text: string): boolean => WHOLE_KEY.test(text)

export interface PlaygroundKey {
  readonly secret: string
  /** Of a trial key. */
  readonly trialId?: string
}

export function usePlaygroundKey() {
  const client = useQueryClient()
  const [key, setKey] = useState<PlaygroundKey>()
  const trial = useRef<string>(undefined)
  const left = useRef(false)
  const end = useCallback(() => {
    const id = trial.current
    trial.current = undefined
    setKey(undefined)
    if (id === undefined) return
    void revoke(id)
      // A list that is on its way may be from before.
      .then(() => client.cancelQueries(keysQuery))
      .then(() => client.invalidateQueries(keysQuery))
  }, [client])
  const make = useMutation({
    mutationFn: (name: string) =>
      told(
        api.keys.post({
          name,
          spending_limit_micro: TRIAL_BUDGET_MICRO,
          spending_period: "total",
          requests_per_minute: TRIAL_REQUESTS_PER_MINUTE,
        }),
      ),
    onSuccess: ({ id, key: secret }) => {
      rememberKey(id, Date.now())
      trial.current = id
      setKey({ secret, trialId: id })
      if (left.current) return end()
      void client.invalidateQueries(keysQuery)
    },
  })
  useEffect(() => {
    left.current = false
    for (const id of leftKeys(Date.now())) void revoke(id)
    addEventListener("pagehide", end)
    return () => {
      removeEventListener("pagehide", end)
      left.current = true
      end()
    }
  }, [end])
  const paste = (secret: string) => setKey({ secret })
  return { key, make, paste, end }
}

/** The page may be going away meanwhile, which the request outlives. */
async function revoke(id: string): Promise<void> {
  try {
    await told(api.keys({ id }).revoke.post(undefined, { fetch: { keepalive: true } }))
  } catch (error) {
    // Another account's, or none any more: whoever is signed in now cannot revoke it either.
    if (!(error instanceof ApiFailure && error.code === "resource.not_found")) return
  }
  forgetKey(id)
}
