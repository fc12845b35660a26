/**
 * Which backend answers: tries before the first content, then the chain of fallback models (decisions §7, §12.9). Each model
 * of the chain is admitted anew, because it has its own price and its own slots.
 */
import { Failure } from "../failure/failure.ts"
import { connectionFault, type Fault } from "../upstream/client.ts"
import type { Admission } from "./admit.ts"
import { attempt, type End, type Failed, retried } from "./attempt.ts"
import type { Candidate, Chain, Marker } from "./candidates.ts"
import type { GatewayPorts } from "./ports.ts"
import { type LoopedCall, toolLoop } from "./tool-loop.ts"
import type { Weighed } from "./weigh.ts"

/** What routing needs of its call. */
export interface RoutedCall extends LoopedCall {
  readonly ports: Pick<GatewayPorts, "clock" | "fetch" | "health" | "tracing" | "random" | "search">
  readonly asked: Weighed
  readonly markers: Marker[]
  /** Who is asked, or was asked last. */
  member: string | undefined
  /** Admits the call for another model. */
  admit(candidate: Candidate): Promise<Admission | Failure>
  /** A backend refused our credentials or our configuration. */
  alert(candidate: Candidate, status: number | undefined): void
}

export async function route(call: RoutedCall, chain: Chain): Promise<End> {
  const { clock } = call.ports
  call.markers.push(...chain.markers)
  let end = await ask(call, chain.first)
  let startedAt = clock.monotonic()
  while (end.kind === "failed" && !end.committed && call.isWanted) {
    const status = rerouteOn(end.fault)
    const other = status && (await chain.next())
    if (status === undefined || other === undefined) break
    const { admission } = call
    // A call holds once: what the first model took is given back before the next one is admitted.
    admission.release()
    const admitted = await call.admit(other)
    if (admitted instanceof Failure) {
      // The client is told when the next model has no free slot, but not when it is too expensive.
      if (admitted.code === "gateway.capacity") end = noSlot(admitted)
      continue
    }
    const durationMs = Math.round(clock.monotonic() - startedAt)
    call.markers.push({ offer: admission.offer, member: call.member, status, attempts: call.attempts, durationMs })
    startedAt = clock.monotonic()
    call.attempts = 1
    end = await ask(call, other)
  }
  return end
}

/** One model: its backend alone, or with the gateway's own tools in between. */
function ask(call: RoutedCall, candidate: Candidate): Promise<End> {
  const { search } = call.ports
  const { request } = call.asked
  const { webSearch } = request
  call.member = candidate.member.id
  const once = () => {
    const turn = { request, candidate, answerLimit: call.admission.answerLimit }
    return webSearch === undefined || search === undefined
      ? attempt(call, turn)
      : toolLoop(call, { first: turn, webSearch, search })
  }
  // At once: a retry or another model of the chain may hide it from everyone else.
  return retried(once, call, ({ fault: { alert, status } }) => {
    if (alert) call.alert(candidate, status)
  })
}

const noSlot = (failure: Failure): Failed => ({
  kind: "failed",
  fault: { ...connectionFault(false), failure, retryAfterMs: undefined },
  committed: false,
})

/** Only a 429 and an oversize reroute (decisions §12.9). */
function rerouteOn(fault: Fault): Marker["status"] | undefined {
  if (fault.failure.code === "upstream.rate_limited") return "fallback_429"
  return fault.failure.code === "upstream.context_length_exceeded" ? "fallback_oversize" : undefined
}
