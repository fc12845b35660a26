/** Writes the response to one client: once a whole answer or the head of a stream, and then the rest of the stream (decisions §6). */
import { type Clock, sleep } from "../../actors/kernel/clock.ts"
import { type Micro, microToRupiah, zero } from "../../actors/money/micro.ts"
import type { Offer } from "../catalogue/model.ts"
import { Failure } from "../failure/failure.ts"
import type { ClientSide } from "../wire/format.ts"
import type { Caller } from "./authenticate.ts"
import { rerouteHeaders } from "./candidates.ts"
import { type Answer, type ClientOutbox, Outbox, type StreamConnection } from "./outbox.ts"
import type { GatewayPorts } from "./ports.ts"
import type { Relay } from "./relay.ts"
import type { SharedResponse } from "./shared-response.ts"
import type { StateMachine } from "./states.ts"

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
  readonly #shared: SharedResponse | undefined
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
    this.#shared = shared
    this.#format = format
    this.#requestId = requestId
    this.#offer = plan.offer
    this.#isStream = plan.request.stream
    this.#clock = ports.clock
    const listener = {
      onIdle: () => call.receive({ type: "heartbeat" }),
      onLeave: () => call.receive({ type: "client-left" }),
    }
    this.outbox = shared?.begin(listener) ?? new Outbox(ports, listener, connection)
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
        "X-Accel-Buffering": "no",
        ...this.#rerouted(offer),
      },
    })
  }

  /** A failure instead of the answer, with a status of its own. Where the head has been sent, the response breaks off. */
  sendFailure(failure: Failure): void {
    this.#send(failure)
    if (this.#shared === undefined) this.outbox.leave()
    else this.#shared.abort()
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

/** Of one account's calls within some ten seconds, for want of room; beyond it a refusal takes as long as its `Retry-After`. */
const MANY_REFUSALS = 100
const REFUSAL_PACE_MS = 1_000

/** Says a refusal; an account whose calls come again at once, each time, hears it a second later. */
export function refuse(call: RefusedCall, failure: Failure): void {
  const { refusals, clock } = call.ports
  const { accountId } = call.caller.record
  const say = () => call.receive({ type: "refused", failure })
  if (failure.code !== "gateway.capacity") return say()
  refusals.add(accountId, 1)
  if (refusals.by(accountId) <= MANY_REFUSALS) return say()
  void sleep(clock, REFUSAL_PACE_MS).then(say)
}

interface RefusedCall {
  readonly caller: Pick<Caller, "record">
  readonly ports: Pick<GatewayPorts, "refusals" | "clock">
  receive(event: { readonly type: "refused"; readonly failure: Failure }): void
}
