/** What one client is told: a whole answer or the head of a stream, once, and then the rest of the stream (decisions §6). */
import type { Clock } from "../../actors/kernel/clock.ts"
import { type Micro, microToRupiah } from "../../actors/money/micro.ts"
import type { Offer } from "../catalogue/live.ts"
import type { Failure } from "../failure/failure.ts"
import type { ClientSide } from "../wire/format.ts"
import { rerouteHeaders } from "./candidates.ts"
import { Outbox, type StreamConnection } from "./outbox.ts"
import type { GatewayPorts } from "./ports.ts"
import type { Relay } from "./relay.ts"
import type { Turns } from "./states.ts"

/** What goes to the client: all of it, or a stream of what comes. */
export interface Answer {
  readonly body: string | ReadableStream<Uint8Array>
  readonly headers: Readonly<Record<string, string>>
}

export interface AnsweringParts {
  readonly ports: Pick<GatewayPorts, "clock" | "limits" | "unread">
  readonly format: ClientSide
  readonly asked: { readonly offer: Offer; readonly request: { readonly stream: boolean } }
  readonly connection: StreamConnection | undefined
}

export class Answering {
  /** The whole answer, or the head of a stream. */
  readonly answer: Promise<Answer | Failure>
  readonly outbox: Outbox
  readonly #format: ClientSide
  /** What was asked for. */
  readonly #offer: Offer
  readonly #isStream: boolean
  readonly #clock: Clock
  /** Undefined once something has been said. */
  #say: ((answer: Answer | Failure) => void) | undefined

  constructor({ ports, format, asked, connection }: AnsweringParts, call: Pick<Turns, "receive">) {
    const { clock, limits, unread } = ports
    this.#format = format
    this.#offer = asked.offer
    this.#isStream = asked.request.stream
    this.#clock = clock
    this.outbox = new Outbox({
      clock,
      heartbeatMs: limits.heartbeatMs,
      stallMs: limits.readerStallMs,
      unread,
      connection,
      onSilence: () => call.receive({ type: "heartbeat" }),
      onLeave: () => call.receive({ type: "client-left" }),
    })
    this.answer = new Promise((resolve) => (this.#say = resolve))
  }

  /** There is something to say, and the head has not gone. */
  get owesHead(): boolean {
    return this.#say !== undefined && this.outbox.hasBegun
  }
  get isHeadSaid(): boolean {
    return this.#say === undefined
  }

  /** A comment between events, white space before a JSON body, or nothing (decisions §6). */
  get heartbeat(): string | undefined {
    if (this.#isStream) return ": heartbeat\n"
    return this.#format.failedReply === undefined ? undefined : " "
  }

  /** The head of an answer that has begun. `offer`: of the model that answers, where it is decided. */
  sayHead(offer: Offer | undefined): void {
    if (this.#say === undefined) return
    this.#sayNow({
      body: this.outbox.whole() ?? this.outbox.stream(),
      headers: {
        "Content-Type": this.#isStream ? "text/event-stream; charset=utf-8" : "application/json",
        "Cache-Control": "no-store",
        ...(this.#isStream && { "X-Accel-Buffering": "no" }),
        ...this.#rerouted(offer),
      },
    })
  }

  /** A failure instead of the answer, with a status of its own; only where nothing has been said. */
  sayFailure(failure: Failure): void {
    this.#sayNow(failure)
    this.outbox.leave()
  }

  /** A whole answer where nothing has been said and none is streamed: else the last bytes of what has begun. */
  sayLast(last: string, offer: Offer, charge: Micro): void {
    if (this.#say === undefined || this.#isStream || this.outbox.hasBegun) this.outbox.write(last)
    else {
      const headers = { "Content-Type": "application/json", "X-Cost-Rp": microToRupiah(charge) }
      this.#sayNow({ body: last, headers: { ...headers, ...this.#rerouted(offer) } })
    }
    this.outbox.end()
  }

  /** A failure in an answer that has begun. */
  sayInBand(failure: Failure, requestId: string, { model }: Offer, relay: Relay | undefined): void {
    const format = this.#format
    const context = { requestId, model: model.id, position: relay?.position(), nowMs: this.#clock.now() }
    const body = () => format.failedReply?.(failure, context) ?? failure.body(requestId)
    const started = relay?.committed ?? false
    this.outbox.write(this.#isStream ? format.streamFailure(failure, { ...context, started }) : JSON.stringify(body()))
    this.outbox.end()
  }

  #rerouted(offer: Offer | undefined): Record<string, string> {
    return offer === undefined ? {} : rerouteHeaders(this.#offer, offer)
  }

  #sayNow(answer: Answer | Failure): void {
    this.#say?.(answer)
    this.#say = undefined
  }
}
