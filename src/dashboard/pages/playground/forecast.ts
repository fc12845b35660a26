/** What the next message would cost at the most, or why it would be refused: a dry run of it, for which nothing is charged. */
import { useEffect, useState } from "react"
import { type Asked, requestOf } from "./stream.ts"

export type Forecast =
  | { readonly type: "cost"; readonly mostMicro: number }
  | { readonly type: "refused"; readonly code: string; readonly message: string }

/** So long nothing has been typed: a key has sixty dry runs in a minute. */
const PAUSE_MS = 1_000

/** Undefined while it is not known, and where there is nothing to ask. */
export function useForecast(asked: Asked | undefined): Forecast | undefined {
  const [told, setTold] = useState<{ readonly of: string; readonly forecast: Forecast | undefined }>()
  const question = asked && JSON.stringify(asked)
  useEffect(() => {
    if (question === undefined) return undefined
    const leaving = new AbortController()
    const timer = setTimeout(() => {
      forecastOf(JSON.parse(question) as Asked, leaving.signal).then(
        (forecast) => setTold({ of: question, forecast }),
        // The message can be sent without it.
        () => {},
      )
    }, PAUSE_MS)
    return () => {
      clearTimeout(timer)
      leaving.abort()
    }
  }, [question])
  return told?.of === question ? told?.forecast : undefined
}

interface DryRun {
  readonly cost: { readonly most_micro: number } | null
  readonly refused_by: { readonly code: string; readonly error: string } | null
}

async function forecastOf(asked: Asked, signal: AbortSignal): Promise<Forecast | undefined> {
  const { headers, ...request } = requestOf(asked)
  const response = await fetch("/v1/chat/completions", {
    ...request,
    headers: { ...headers, "X-Dry-Run": "true" },
    signal,
  })
  if (!response.ok) return undefined
  const { cost, refused_by: refusal } = (await response.json()) as DryRun
  if (refusal !== null) return { type: "refused", code: refusal.code, message: refusal.error }
  return cost === null ? undefined : { type: "cost", mostMicro: cost.most_micro }
}
