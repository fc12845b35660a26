/**
 * Which backend answers: tries with back-off before the first content, then the chain of fallback models (decisions §7,
 * §12.9). Each model of the chain is admitted anew, because it has its own price and its own slots. Milliseconds.
 */
import { type Clock, sleep } from "../../actors/kernel/clock.ts"
import type { Random } from "../../actors/kernel/random.ts"
import { Failure } from "../failure/failure.ts"
import { connectionFault, type Fault } from "../upstream/client.ts"
import type { Admission } from "./admit.ts"
import type { Answered, Failed } from "./attempt.ts"
import type { Candidate, Chain } from "./candidates.ts"
import type { Patience } from "./patience.ts"
import type { Marker } from "./settle.ts"

const MAX_ATTEMPTS = 3
const BACK_OFF_MS = 200

export interface Routed {
  readonly admission: Admission
  readonly end: Answered | Failed
  readonly attempts: number
  readonly markers: readonly Marker[]
}

export interface RouteTerms {
  readonly chain: Chain
  readonly patience: Patience
  readonly clock: Clock
  readonly random: Random
  readonly admit: (candidate: Candidate) => Promise<Admission | Failure>
  /** The first model's admission, already taken. */
  readonly admitted: Admission
  readonly attempt: (candidate: Candidate, admission: Admission) => Promise<Answered | Failed>
  /** The client is still there, so that another model is worth its while. */
  readonly wanted: () => boolean
}

export async function route(terms: RouteTerms): Promise<Routed> {
  const { clock, chain } = terms
  const markers = [...chain.markers]
  let routed = await tries(terms, chain.first, terms.admitted)
  let startedAt = clock.monotonic()
  for (;;) {
    const { end, admission, attempts } = routed
    const status = end.kind === "failed" && !end.told && terms.wanted() ? rerouteOn(end.fault) : undefined
    if (status === undefined) break
    const other = await chain.others.next()
    if (other.done === true) break
    // A call holds once: what the first model took is given back before the next one is admitted.
    admission[Symbol.dispose]()
    const next = await terms.admit(other.value)
    if (next instanceof Failure) {
      // That the next model cannot be paid for is no news to the client; that it has no room is.
      if (next.code === "gateway.capacity") routed = { ...routed, end: noRoom(next) }
      continue
    }
    markers.push({ offer: admission.offer, status, attempts, durationMs: Math.round(clock.monotonic() - startedAt) })
    startedAt = clock.monotonic()
    routed = await tries(terms, other.value, next)
  }
  return { ...routed, markers }
}

const noRoom = (failure: Failure): Failed => ({
  kind: "failed",
  fault: { ...connectionFault(false), failure, retryAfterMs: undefined },
  told: false,
  usable: false,
  position: undefined,
})

/** Only a 429 and an oversize reroute (decisions §12.9). */
function rerouteOn(fault: Fault): Marker["status"] | undefined {
  if (fault.failure.code === "upstream.rate_limited") return "fallback_429"
  return fault.failure.code === "upstream.context_length_exceeded" ? "fallback_oversize" : undefined
}

async function tries(terms: RouteTerms, candidate: Candidate, admission: Admission): Promise<Omit<Routed, "markers">> {
  return { admission, ...(await tried(() => terms.attempt(candidate, admission), terms)) }
}

/** Tries with back-off until there is an answer, something was told of it, or more tries are of no use. */
export async function tried(
  attempt: () => Promise<Answered | Failed>,
  terms: Pick<RouteTerms, "patience" | "clock" | "random" | "wanted">,
): Promise<Pick<Routed, "end" | "attempts">> {
  for (let tries = 1; ; tries++) {
    const end = await attempt()
    const attempts = tries + (end.retries ?? 0)
    if (end.kind === "answered" || end.told || tries === MAX_ATTEMPTS) return { end, attempts }
    const { retryAfterMs } = end.fault
    if (retryAfterMs === undefined || !terms.wanted()) return { end, attempts }
    // Full jitter: anything from nothing to the exponential step, and never sooner than the backend asks.
    const backOff = terms.random() * BACK_OFF_MS * 2 ** (tries - 1)
    const waitMs = Math.max(backOff, retryAfterMs)
    if (waitMs >= terms.patience.startLeftMs) return { end, attempts }
    await sleep(terms.clock, waitMs)
    if (!terms.wanted()) return { end, attempts }
  }
}
