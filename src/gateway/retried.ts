/** Tries of one model before the first content: one member of its pool after the other, then with back-off (decisions §7). Milliseconds. */
import { sleep } from "../../actors/kernel/clock.ts"
import type { End, Failed, TriedCall } from "./attempt.ts"
import type { GatewayPorts } from "./ports.ts"

const MAX_ATTEMPTS = 3
const BACK_OFF_MS = 200

/** What more than one try needs of its call. */
export interface RetriedCall extends TriedCall {
  readonly ports: Pick<GatewayPorts, "clock" | "fetch" | "health" | "tracing" | "threadTime" | "random">
  /** The client is there, so that another try, turn or model is of use to it. */
  readonly isWanted: boolean
  /** Tries of the model that is asked now, of all turns beyond the first of each. */
  attempts: number
}

/** What is done between tries. */
interface Between {
  /** Hears of each try that failed. */
  readonly failed?: (end: Failed) => void
  /** Whether another member is asked now, which is done at once. */
  readonly moves?: (end: Failed) => Promise<boolean>
  /** Whether the same one may be asked again. */
  readonly again?: () => boolean
}

/**
 * Tries until there is an answer, something of it was committed, or more tries are of no use: each member that is well once, and
 * then the same one again with back-off.
 */
export async function retried(once: () => Promise<End>, call: RetriedCall, between: Between = {}): Promise<End> {
  for (let tries = 1; ; tries++) {
    const end = await once()
    if (end.kind === "failed") between.failed?.(end)
    if (end.kind === "answered" || end.committed) return end
    const { retryAfterMs } = end.fault
    const isLeft = call.isWanted && call.timeouts.reason === undefined
    if (isLeft && between.moves !== undefined && (await between.moves(end))) {
      if (!call.isWanted) return end
      call.attempts++
      continue
    }
    if (tries >= MAX_ATTEMPTS || retryAfterMs === undefined || !call.isWanted || between.again?.() === false) return end
    // Full jitter: anything from nothing to the exponential step, and never sooner than the backend asks.
    const backOff = call.ports.random() * BACK_OFF_MS * 2 ** (tries - 1)
    const waitMs = Math.max(backOff, retryAfterMs)
    if (waitMs >= call.timeouts.startLeftMs) return end
    await sleep(call.ports.clock, waitMs)
    if (!call.isWanted) return end
    call.attempts++
  }
}
