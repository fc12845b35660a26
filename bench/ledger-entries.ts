/** Openings and settlements of calls that nobody made. */
import type { Opening, Settlement } from "../actors/ledger.ts"
import { micro, zero } from "../actors/money/micro.ts"
import { newRequestId } from "../src/http/edge.ts"

export interface Customer {
  readonly accountId: string
  readonly keyId: string
  readonly leaseId: bigint
}

export const openingOf = ({ accountId, keyId, leaseId }: Customer): Opening => ({
  requestId: newRequestId(Date.now()),
  accountId,
  keyId,
  leaseId,
  model: "gpt-4o-mini",
  endpoint: "chat",
  streamed: true,
  hold: micro(500_000n),
  priceId: 1n,
  openedAt: Date.now(),
  starts: { daily: Date.UTC(2026, 10, 19, 17), monthly: Date.UTC(2026, 9, 31, 17), total: 0 },
})

export const settlementOf = (opening: Opening): Settlement => ({
  opening,
  records: [
    {
      part: 0,
      model: opening.model,
      priceId: 1n,
      status: "ok",
      tokens: { input: 100, output: 20, cacheRead: 0, cacheWrite: 0 },
      charge: micro(200n),
      absorbed: zero,
      excess: zero,
      turns: 1,
      attempts: 1,
      errorCode: undefined,
      flagged: false,
      firstTokenMs: 3,
      durationMs: 8,
      member: "openai/default/gpt-4o-mini",
      cost: micro(150n),
    },
  ],
  voided: false,
})
