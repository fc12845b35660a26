/**
 * Which backend answers: tries before the first content, then the chain of fallback models (decisions §7, §12.9). Each model
 * of the chain is admitted anew, because it has its own price and its own slots.
 */
import { Failure } from "../failure/failure.ts"
import { connectionFault, type Fault } from "../upstream/client.ts"
import type { Soon } from "../../actors/kernel/actor.ts"
import type { Admission } from "./admit.ts"
import { attempt, type End, type Failed } from "./attempt.ts"
import type { Candidate, Chain, Marker } from "./candidates.ts"
import type { GatewayPorts } from "./ports.ts"
import { type LoopedCall, retried, toolLoop } from "./tool-loop.ts"
import type { Tries } from "./tries.ts"
import type { Exchange } from "../wire/exchange.ts"
import type { ModelRequest } from "../language/request.ts"
import type { Weighed } from "./weigh.ts"

/** What routing needs of its call. */
export interface RoutedCall extends LoopedCall {
  readonly ports: Pick<GatewayPorts, "clock" | "fetch" | "health" | "tracing" | "threadTime" | "random" | "search">
  readonly asked: Weighed
  readonly markers: Marker[]
  /** Admits the call for another model. */
  admit(candidate: Candidate): Soon<Admission | Failure>
  /** A backend refused our credentials or our configuration. */
  alert(admission: Admission, status: number | undefined): void
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
    call.markers.push({
      offer: admission.offer,
      member: admission.seat.member.id,
      status,
      attempts: call.attempts,
      durationMs,
    })
    startedAt = clock.monotonic()
    call.attempts = 1
    end = await ask(call, other)
  }
  return end
}

/** One model: a member of its pool alone, or with the gateway's own tools in between, and then another member. */
function ask(call: RoutedCall, { offer, tries }: Candidate): Promise<End> {
  const { search } = call.ports
  const { request } = call.asked
  const { webSearch } = request
  const once = () => {
    const { seat, answerLimit } = call.admission
    const { exchange } = seat
    const turn = { request, offer, exchange, answerLimit: limitAt(exchange, request, answerLimit) }
    return webSearch === undefined || search === undefined
      ? attempt(call, turn)
      : toolLoop(call, { first: turn, webSearch, search })
  }
  const failed = ({ fault: { alert, status } }: Failed) => {
    // At once: a retry, another member or another model of the chain may hide it from everyone else.
    if (alert) call.alert(call.admission, status)
  }
  return tries.isAlone ? retried(once, call, { failed }) : askPool(call, tries, once, failed)
}

/** One member after the other, and of their failures the one that says most. */
async function askPool(
  call: RoutedCall,
  tries: Tries,
  once: () => Promise<End>,
  failed: (end: Failed) => void,
): Promise<End> {
  const failures = new Failures()
  const end = await retried(once, call, {
    failed(end) {
      failed(end)
      failures.add(end)
    },
    async moves({ fault }) {
      const { admission } = call
      const seat = await tries.elsewhere(admission.seat, fault)
      if (seat !== undefined) admission.moveTo(seat)
      return seat !== undefined
    },
    again: () => tries.mayRepeat(),
  })
  return failures.told(end)
}

/** What is forwarded, and so charged at the most: another member's format may take no limit as small as the client's. */
const limitAt = (
  { leastAnswerTokens: least }: Pick<Exchange, "leastAnswerTokens">,
  { maxOutputTokens: asked }: ModelRequest,
  answerLimit: number,
): number => (asked === undefined ? answerLimit : Math.min(answerLimit, Math.max(asked, least)))

/** What members of one pool failed of. One that throttles, or finds the prompt too long, is told before one that is broken. */
class Failures {
  #told: Failed | undefined

  add(end: Failed): void {
    if (rerouteOn(end.fault) === undefined) return
    if (this.#told === undefined || rerouteOn(this.#told.fault) === "fallback_oversize") this.#told = end
  }

  told(end: End): End {
    if (end.kind === "answered" || end.committed || rerouteOn(end.fault) === "fallback_429") return end
    return this.#told ?? end
  }
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
