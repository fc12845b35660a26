/** What answers cost: their usage records, which are there a moment after the stream has ended. */
import { queryOptions, useQueries } from "@tanstack/react-query"
import { api } from "../../api/client.ts"
import { ApiFailure, told } from "../../api/failure.ts"
import { mayRetry } from "../../api/retry.ts"
import type { Exchange } from "./conversation.ts"

/** A call that was stopped is read on to its end, at most a minute, and settled then (decisions §6). */
const LOOKS = 75
const LOOK_AGAIN_MS = 1_000

const isMissing = (error: Error) => error instanceof ApiFailure && error.code === "usage.not_found"

const receiptQuery = (requestId: string) =>
  queryOptions({
    queryKey: ["receipt", requestId],
    queryFn: () => told(api.usage({ request_id: requestId }).get()),
    staleTime: Infinity,
    retry: (failures, error) => (isMissing(error) ? failures < LOOKS : mayRetry(failures, error)),
    retryDelay: LOOK_AGAIN_MS,
  })
export type Receipt = Awaited<ReturnType<NonNullable<ReturnType<typeof receiptQuery>["queryFn"]>>>

export interface Receipts {
  /** By request id; undefined while on its way. */
  readonly of: ReadonlyMap<string, { readonly data: Receipt | undefined; readonly error: Error | null }>
  readonly chargeMicro: bigint
  readonly calls: number
}

/** Of the calls that were accepted and have ended. */
export function useReceipts(exchanges: readonly Exchange[]): Receipts {
  const ids = exchanges.flatMap(({ requestId, state }) => (requestId && state !== "asking" ? [requestId] : []))
  const asked = useQueries({ queries: ids.map(receiptQuery) })
  const found = asked.flatMap(({ data }) => data ?? [])
  return {
    of: new Map(ids.map((id, index) => [id, { data: asked[index]?.data, error: asked[index]?.error ?? null }])),
    chargeMicro: found.reduce((sum, { charge_micro: charge }) => sum + BigInt(charge), 0n),
    calls: found.length,
  }
}
