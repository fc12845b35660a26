/**
 * The two sides of a call, between which call-actor.ts stands. Towards the backends: which one answers, by tries before the
 * first content, then by the chain of fallback models (decisions §7, §12.9). Each model of the chain is admitted anew, because
 * it has its own price and its own slots.
 *
 * Towards the client: the response is written, once a whole answer or the head of a stream, and then the rest of the stream
 * (decisions §6).
 */
import type { MaybePromise } from "../../actors/kernel/actor.ts"
import type { Clock } from "../../actors/kernel/clock.ts"
import { type Micro, microToRupiah, zero } from "../../actors/money/micro.ts"
import type { Offer } from "../catalogue/model.ts"
import { Failure } from "../failure/failure.ts"
import type { ModelRequest } from "../language/request.ts"
import { connectionFault, type Fault } from "../upstream/client.ts"
import type { Exchange } from "../wire/exchange.ts"
import type { ClientSide } from "../wire/format.ts"
import type { Admission } from "./admit.ts"
import { attempt, type End, type FailedEnd } from "./attempt.ts"
import { type Candidate, type FallbackChain, type Marker, rerouteHeaders } from "./candidates.ts"
import type { MemberSelector } from "./member-selector.ts"
import { type Answer, type ClientOutbox, Outbox, type StreamConnection } from "./outbox.ts"
import type { CallPlan } from "./parse-request.ts"
import type { GatewayPorts } from "./ports.ts"
import type { Relay } from "./relay.ts"
import type { SharedResponse } from "./shared-response.ts"
import type { StateMachine } from "./states.ts"
import { type LoopedCall, retry, toolLoop } from "./tool-loop.ts"

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
  let end = await askModel(call, chain.first)
  let startedAt = clock.monotonic()
  while (end.kind === "failed" && !end.committed && call.isClientWaiting) {
    const status = rerouteStatus(end.fault)
    const other = status && (await chain.next())
    if (status === undefined || other === undefined) break
    const { admission } = call
    // A call holds once: what the first model took is given back before the next one is admitted.
    admission.release()
    const admitted = await call.admit(other)
    if (admitted instanceof Failure) {
      // The client is told when the next model has no free slot, but not when it is too expensive.
      if (admitted.code === "gateway.capacity") end = noCapacityEnd(admitted)
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
    end = await askModel(call, other)
  }
  return end
}

/** One model: a member of its pool alone, or with the gateway's own tools in between, and then another member. */
function askModel(call: RoutedCall, { offer, members }: Candidate): Promise<End> {
  const { search } = call.ports
  const { request } = call.plan
  const { webSearch } = request
  const once = () => {
    const { seat, answerLimit } = call.admission
    const { exchange } = seat
    const turn = { request, offer, exchange, answerLimit: limitAt(exchange, request, answerLimit) }
    return webSearch === undefined || search === undefined
      ? attempt(call, turn)
      : toolLoop(call, { first: turn, webSearch, search })
  }
  const onFailure = ({ fault: { alert, status } }: FailedEnd) => {
    // At once: a retry, another member or another model of the chain may hide it from everyone else.
    if (alert) call.alert(call.admission, status)
  }
  return members.isAlone ? retry(once, call, { onFailure }) : askPool(call, members, once, onFailure)
}

/** One member after the other, and of their failures the one that says most. */
async function askPool(
  call: RoutedCall,
  members: MemberSelector,
  once: () => Promise<End>,
  failed: (end: FailedEnd) => void,
): Promise<End> {
  const failures = new PoolFailures()
  const end = await retry(once, call, {
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
  })
  return failures.mostTelling(end)
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

export interface ResponseWriterParts {
  readonly ports: Pick<GatewayPorts, "clock" | "limits" | "unread">
  readonly requestId: string
  readonly format: ClientSide
  readonly plan: { readonly offer: Offer; readonly request: { readonly stream: boolean } }
  readonly connection: StreamConnection | undefined
  /** Where others may ask for the same answer. */
  readonly shared: SharedResponse | undefined
}

export class ResponseWriter {
  /** The whole answer, or the head of a stream. */
  readonly answer: Promise<Answer | Failure>
  readonly outbox: ClientOutbox
  readonly #format: ClientSide
  readonly #requestId: string
  /** The model that the client asked for. */
  readonly #offer: Offer
  readonly #isStream: boolean
  readonly #clock: Clock
  /** Undefined once the head has been sent. */
  #resolveAnswer: ((answer: Answer | Failure) => void) | undefined

  constructor(
    { ports, format, requestId, plan, connection, shared }: ResponseWriterParts,
    call: Pick<StateMachine, "receive">,
  ) {
    const { clock, limits, unread } = ports
    this.#format = format
    this.#requestId = requestId
    this.#offer = plan.offer
    this.#isStream = plan.request.stream
    this.#clock = clock
    const listeners = {
      onIdle: () => call.receive({ type: "heartbeat" }),
      onLeave: () => call.receive({ type: "client-left" }),
    }
    const { heartbeatMs, readerStallMs: stallMs } = limits
    this.outbox =
      shared?.begin(listeners) ?? new Outbox({ clock, heartbeatMs, stallMs, unread, connection, ...listeners })
    this.answer = new Promise((resolve) => (this.#resolveAnswer = resolve))
  }

  /** There is something to send, and the head has not been sent. */
  get isHeadDue(): boolean {
    return this.#resolveAnswer !== undefined && this.outbox.hasBegun
  }
  get isHeadSent(): boolean {
    return this.#resolveAnswer === undefined
  }

  /** A comment between events, white space before a JSON body, or nothing (decisions §6). */
  get heartbeat(): string | undefined {
    if (this.#isStream) return ": heartbeat\n"
    return this.#format.failedReply === undefined ? undefined : " "
  }

  /** The head of an answer that has begun. `offer`: of the model that answers, where it is decided. */
  sendHead(offer: Offer | undefined): void {
    if (this.#resolveAnswer === undefined) return
    this.#send({
      body: this.outbox.takeWhole() ?? this.outbox.stream(),
      headers: {
        "Content-Type": this.#isStream ? "text/event-stream; charset=utf-8" : "application/json",
        "Cache-Control": "no-store",
        ...(this.#isStream && { "X-Accel-Buffering": "no" }),
        ...this.#rerouted(offer),
      },
    })
  }

  /** A failure instead of the answer, with a status of its own; only where nothing has been sent. */
  sendFailure(failure: Failure): void {
    this.#send(failure)
    this.outbox.leave()
  }

  /** A whole answer where nothing has been sent and none is streamed; else the last bytes of what has begun. */
  sendLast(last: string, offer: Offer, charge: Micro): void {
    if (this.#isStream) this.outbox.write(this.#withCost(last, charge))
    else if (this.#resolveAnswer === undefined || this.outbox.hasBegun) this.outbox.write(last)
    else {
      const headers = { "Content-Type": "application/json", "X-Cost-Rp": microToRupiah(charge) }
      this.#send({ body: last, headers: { ...headers, ...this.#rerouted(offer) } })
    }
    this.outbox.end()
  }

  /** A failure in an answer that has begun. */
  sendFailureInBand(failure: Failure, { model }: Offer, relay: Relay | undefined): void {
    const format = this.#format
    const requestId = this.#requestId
    const context = { requestId, model: model.id, position: relay?.position(), nowMs: this.#clock.now() }
    const body = () => format.failedReply?.(failure, context) ?? failure.body(requestId)
    const started = relay?.committed ?? false
    const reported = started ? midStreamFailure(failure) : failure
    const failed = () => this.#withCost(format.streamFailure(reported, { ...context, started }), zero)
    this.outbox.write(this.#isStream ? failed() : JSON.stringify(body()))
    this.outbox.end()
  }

  /** The last event of a stream comes after a comment that says what the call cost, which by then is durable. */
  #withCost(last: string, charge: Micro): string {
    const comment = `: cost_micro=${charge} request_id=${this.#requestId}\n`
    const start = last.lastIndexOf("\n\n", last.length - 3)
    const terminal = start < 0 ? 0 : start + 2
    return last.slice(0, terminal) + comment + last.slice(terminal)
  }

  #rerouted(offer: Offer | undefined): Record<string, string> {
    return offer === undefined ? {} : rerouteHeaders(this.#offer, offer)
  }

  #send(answer: Answer | Failure): void {
    this.#resolveAnswer?.(answer)
    this.#resolveAnswer = undefined
  }
}

/** In the middle of an answer a plain outage would mislead: the message says that the backend broke off. */
function midStreamFailure(failure: Failure): Failure {
  if (failure.code !== "dependency.upstream_unavailable" || failure.detail.message !== undefined) return failure
  const message = "The model's backend broke off in the middle of its answer; what came of it is not charged."
  return new Failure(failure.code, { ...failure.detail, message })
}
