/**
 * Which backend answers: tries before the first content, then the chain of fallback models (decisions §7, §12.9). Each model
 * of the chain is admitted anew, because it has its own price and its own slots.
 */
import type { MaybePromise } from "../../actors/kernel/actor.ts"
import { Failure } from "../failure/failure.ts"
import type { ModelRequest } from "../language/request.ts"
import { connectionFault, type Fault } from "../upstream/client.ts"
import type { Exchange } from "../wire/exchange.ts"
import type { Admission } from "./admit.ts"
import { attempt, type End, type FailedEnd } from "./attempt.ts"
import type { Candidate, FallbackChain, Marker } from "./candidates.ts"
import type { MemberSelector } from "./member-selector.ts"
import type { CallPlan } from "./parse-request.ts"
import type { GatewayPorts } from "./ports.ts"
import { type LoopedCall, retry, type RetryHooks, toolLoop } from "./tool-loop.ts"

/** What routing needs of its call. */
export interface RoutedCall extends LoopedCall {
  readonly ports: Pick<GatewayPorts, "clock" | "fetch" | "health" | "tracing" | "threadTime" | "random" | "search">
  readonly plan: CallPlan
  readonly markers: Marker[]
  /** Admits the call for another model. */
  admit(candidate: Candidate): MaybePromise<Admission | Failure>
  /** A backend refused our credentials or our configuration. */
  alert(admission: Admission, status: number | undefined): void
}

export async function route(call: RoutedCall, chain: FallbackChain): Promise<End> {
  const { clock } = call.ports
  call.markers.push(...chain.markers)
  const ask = async (candidate: Candidate) => {
    const startedAt = clock.monotonic()
    const end = await askModel(call, candidate)
    return { end, durationMs: Math.round(clock.monotonic() - startedAt) }
  }
  let asked = await ask(chain.first)
  let status = reroutedFor(asked.end)
  const first = asked.end
  while (status !== undefined && call.isClientWaiting) {
    const other = await chain.next()
    if (other === undefined) break
    const { admission } = call
    // A call holds once: what the first model took is given back before the next one is admitted.
    admission.release()
    const admitted = await call.admit(other)
    if (admitted instanceof Failure) {
      // It is passed over. In the end the client is told that a model had no free slot, but not that one was too expensive.
      if (admitted.code === "gateway.capacity") asked = { ...asked, end: noCapacityEnd(admitted) }
      continue
    }
    call.markers.push({
      offer: admission.offer,
      member: admission.seat.member.id,
      status,
      attempts: call.attempts,
      durationMs: asked.durationMs,
    })
    call.attempts = 1
    asked = await ask(other)
    status = reroutedFor(asked.end)
  }
  return isRefusal(asked.end) ? first : asked.end
}

/**
 * Another model of the chain refuses the request. The one that was asked might have taken it, and would be asked the next time: what it
 * failed of is told, so that a client whose model is throttled comes again.
 */
const isRefusal = (end: End): boolean =>
  end.kind === "failed" &&
  !end.committed &&
  (end.fault.failure.code === "upstream.invalid_request" || end.fault.failure.code === "upstream.unsupported_feature")

/** Undefined where no other model may answer. */
const reroutedFor = (end: End): Marker["status"] | undefined =>
  end.kind === "failed" && !end.committed ? rerouteStatus(end.fault) : undefined

/** One model: a member of its pool alone, or with the gateway's own tools in between, and then another member. */
function askModel(call: RoutedCall, { offer, members }: Candidate): Promise<End> {
  const { search } = call.ports
  const { request } = call.plan
  const { webSearch } = request
  const once = (hooks: RetryHooks) => {
    const { seat, answerLimit } = call.admission
    const { exchange } = seat
    const turn = { request, offer, exchange, answerLimit: limitAt(exchange, request, answerLimit) }
    return webSearch === undefined || search === undefined
      ? attempt(call, turn)
      : toolLoop(call, { first: turn, webSearch, search, hooks })
  }
  const onFailure = ({ fault: { alert, status } }: FailedEnd) => {
    // At once: a retry, another member or another model of the chain may hide it from everyone else.
    if (alert) call.alert(call.admission, status)
  }
  const alone = { onFailure }
  return members.isAlone ? retry(() => once(alone), call, alone) : askPool(call, members, once, onFailure)
}

/** One member after the other, and of their failures the one that says most. */
async function askPool(
  call: RoutedCall,
  members: MemberSelector,
  once: (hooks: RetryHooks) => Promise<End>,
  failed: (end: FailedEnd) => void,
): Promise<End> {
  const failures = new PoolFailures()
  const hooks: RetryHooks = {
    onFailure(end) {
      failed(end)
      failures.add(end)
    },
    async moveToAnother({ fault }) {
      const { admission } = call
      const seat = await members.failover(admission.seat, fault)
      if (seat !== undefined) admission.moveTo(seat)
      return seat !== undefined
    },
    mayRetrySame: () => members.mayRetrySame(),
  }
  return failures.mostTelling(await retry(() => once(hooks), call, hooks))
}

/** What is forwarded, and so charged at the most: another member's format may take no limit as small as the client's. */
const limitAt = (
  { minAnswerTokens: least }: Pick<Exchange, "minAnswerTokens">,
  { maxOutputTokens: requested }: ModelRequest,
  answerLimit: number,
): number => (requested === undefined ? answerLimit : Math.min(answerLimit, Math.max(requested, least)))

/** What members of one pool failed of. One that throttles, or finds the prompt too long, is told before one that is broken. */
class PoolFailures {
  #chosen: FailedEnd | undefined

  add(end: FailedEnd): void {
    if (rerouteStatus(end.fault) === undefined) return
    if (this.#chosen === undefined || rerouteStatus(this.#chosen.fault) === "fallback_oversize") this.#chosen = end
  }

  mostTelling(end: End): End {
    if (end.kind === "answered" || end.committed || rerouteStatus(end.fault) === "fallback_429") return end
    return this.#chosen ?? end
  }
}

const noCapacityEnd = (failure: Failure): FailedEnd => ({
  kind: "failed",
  fault: { ...connectionFault(false), failure, retryAfterMs: undefined },
  committed: false,
})

/** Only a 429 and an oversize reroute (decisions §12.9). */
function rerouteStatus(fault: Fault): Marker["status"] | undefined {
  if (fault.failure.code === "upstream.rate_limited") return "fallback_429"
  return fault.failure.code === "upstream.context_length_exceeded" ? "fallback_oversize" : undefined
}
