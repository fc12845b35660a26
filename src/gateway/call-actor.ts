/**
 * One call as an actor: one object, one `receive`. Work that takes time (an admission, a backend, the client's stream, the ledger, a
 * timer) is begun here and comes back as an event; states.ts says which state follows. The client gets nothing before Postgres has
 * it: the head waits for the opening, the last byte for the settlement (decisions §3).
 */
import { runThen, andThen, type MaybePromise } from "../../actors/kernel/actor.ts"
import type { Timer } from "../../actors/kernel/clock.ts"
import type { RunRequest } from "../../actors/run.ts"
import { defined, unreachable } from "../../actors/unreachable.ts"
import { Failure, noCapacity } from "../failure/failure.ts"
import { type Admission, admit, type AdmittedCall } from "./admit.ts"
import { refuse, ResponseWriter, type ResponseWriterParts } from "./response-writer.ts"
import { route, type RoutedCall } from "./route.ts"
import type { End } from "./attempt.ts"
import type { Caller } from "./authenticate.ts"
import { type BookedCall, Booking } from "./booking.ts"
import { CallCosts } from "./call-costs.ts"
import type { CallTrace } from "./call-trace.ts"
import type { Candidate, FallbackChain, Marker } from "./candidates.ts"
import type { Answer, ClientOutbox } from "./outbox.ts"
import type { GatewayPorts } from "./ports.ts"
import type { Relay } from "./relay.ts"
import { type CallEvent, type State, StateMachine } from "./states.ts"
import { Timeouts } from "./timeouts.ts"
import type { CallPlan } from "./parse-request.ts"

export interface CallParts extends ResponseWriterParts {
  readonly ports: GatewayPorts
  readonly requestId: string
  readonly caller: Caller
  readonly run: RunRequest | undefined
  readonly plan: CallPlan
  readonly chain: FallbackChain
  /** When it was planned, in milliseconds since the epoch. The prices of that time hold. */
  readonly openedAt: number
  readonly clientHeaders: Headers
  readonly trace: CallTrace | undefined
  /** Holds memory for the answer; false where there is no room for it. */
  readonly takesRoom: () => boolean
  /** Run when the call is over, with its record if it has one. */
  readonly release: (record: Booking["record"]) => void
}

export class Call implements RoutedCall, BookedCall, AdmittedCall {
  readonly ports: GatewayPorts
  readonly requestId: string
  readonly caller: Caller
  readonly run: RunRequest | undefined
  readonly plan: CallPlan
  readonly clientHeaders: Headers
  readonly trace: CallTrace | undefined
  readonly outbox: ClientOutbox
  readonly markers: Marker[] = []
  readonly costs: CallCosts
  /** The whole answer, or the head of a stream. */
  readonly answer: Promise<Answer | Failure>
  place: number | undefined
  attempts = 1
  firstTokenMs: number | undefined
  isAlerted = false
  relay: Relay | undefined
  whenLeft: (() => void) | undefined
  readonly #parts: CallParts
  readonly #response: ResponseWriter
  readonly #startedAt: number
  readonly #machine: StateMachine
  #booking: Booking | undefined
  #timeouts: Timeouts | undefined
  /** Undefined until the ledger has said whether the opening is durable. */
  #isOpened: boolean | undefined
  #drain: Timer | undefined
  /** The end of the response: a stream's last bytes or a whole body, or the failure in its place. */
  #last: string | Failure = ""

  constructor(parts: CallParts) {
    this.#parts = parts
    this.ports = parts.ports
    this.requestId = parts.requestId
    this.caller = parts.caller
    this.run = parts.run
    this.plan = parts.plan
    this.clientHeaders = parts.clientHeaders
    this.trace = parts.trace
    this.#machine = new StateMachine((event, before) => this.#onEvent(event, before), parts.trace)
    this.costs = new CallCosts(this.ports.catalogue, parts.openedAt)
    this.#startedAt = this.ports.clock.monotonic()
    this.#response = new ResponseWriter(parts, this)
    this.outbox = this.#response.outbox
    this.answer = this.#response.answer
  }

  get state(): State {
    return this.#machine.state
  }
  get admission(): Admission {
    return defined(this.#booking).admission
  }
  /** Whether it was ever admitted, and so has a record. */
  get isBooked(): boolean {
    return this.#booking !== undefined
  }
  get timeouts(): Timeouts {
    return defined(this.#timeouts)
  }
  get elapsedMs(): number {
    return Math.round(this.ports.clock.monotonic() - this.#startedAt)
  }
  get hasLeft(): boolean {
    return this.outbox.hasLeft
  }
  get isClientWaiting(): boolean {
    return !this.hasLeft && (this.state === "trying" || this.state === "relaying")
  }

  /** Admits the call for the first model of its chain, and forwards it. */
  begin(): void {
    runThen(
      () => this.admit(this.#parts.chain.first),
      (admitted) => this.#onAdmission(admitted),
      (error) => this.receive({ type: "crashed", error }),
    )
  }

  leave(): void {
    this.outbox.leave()
  }
  /** Ends the call soon: breaks off the backend that it waits for. */
  stop(): void {
    this.receive({ type: "timed-out", reason: "stopped" })
  }

  admit(candidate: Candidate): MaybePromise<Admission | Failure> {
    return andThen(admit(this.ports, { call: this, ...candidate }), (admitted) => this.#adopt(admitted))
  }

  #adopt(admitted: Admission | Failure): Admission | Failure {
    if (admitted instanceof Failure) return admitted
    if (this.state === "withdrawing" || this.state === "done") {
      admitted.release()
      return noCapacity()
    }
    this.#booking?.replaceAdmission(admitted)
    return admitted
  }

  onBackendActivity(isAnswering = false): void {
    this.timeouts.onActivity(isAnswering)
  }
  onContent(): void {
    this.receive({ type: "content" })
  }
  onCommit(): void {
    if (this.state === "trying") this.receive({ type: "committed" })
  }
  write(text: string): void {
    if (this.state === "withdrawing" || this.state === "done") return
    this.outbox.write(text)
    if (this.#response.isHeadDue) this.#sendHead()
  }
  alert({ offer, seat: { member } }: Admission, status: number | undefined): void {
    const details = { model: offer.model.id, provider: member.upstream.provider, member: member.id, status }
    this.isAlerted = true
    this.ports.alerted({ requestId: this.requestId, ...details })
  }

  receive(event: CallEvent): void {
    this.#machine.receive(event)
  }

  #onEvent(event: CallEvent, before: State): void {
    switch (event.type) {
      case "admitted":
        return this.#onAdmitted(event.admission)
      case "refused":
        return this.#finish(event.failure)
      case "opened":
        this.#isOpened = true
        return this.#sendHead()
      case "not-opened":
        return this.#onNotOpened(before)
      case "content":
        this.firstTokenMs ??= this.elapsedMs
        return this.timeouts.onContent()
      case "committed":
        return
      case "heartbeat":
        return this.#onHeartbeat()
      case "client-left":
        return this.#onClientLeft()
      case "timed-out":
        return this.timeouts.stop(event.reason)
      case "ended":
        return this.state === "settling" ? this.#onEnded(event.end, before) : undefined
      case "settled":
        if (before !== "settling") return
        defined(this.#booking).onSettled(event.settled)
        return this.#finish(this.#last)
      case "not-settled":
        return before === "settling" ? this.#withdraw(this.#last) : undefined
      case "withdrawn":
        return before === "withdrawing" ? this.#onWithdrawn() : undefined
      case "crashed":
        return this.#onCrashed(event.error, before)
      default:
        return unreachable(event)
    }
  }

  #onAdmitted(admission: Admission): void {
    const { clock, limits, inFlight } = this.ports
    inFlight.add(this)
    this.#booking = new Booking(this, admission, this.costs.openedAt)
    void this.#booking.open().then((opened) => this.#onOpening(opened === "durable"))
    this.#timeouts = new Timeouts(clock, limits, (reason) => this.receive({ type: "timed-out", reason }))
    if (this.#response.heartbeat !== undefined) this.outbox.watchIdle()
    route(this, this.#parts.chain).then(
      (end) => this.receive({ type: "ended", end }),
      (error: unknown) => this.receive({ type: "crashed", error }),
    )
  }

  #onAdmission(admitted: Admission | Failure): void {
    if (admitted instanceof Failure) refuse(this, admitted)
    else if (this.hasLeft || this.ports.draining.aborted) {
      admitted.release()
      this.receive({ type: "refused", failure: noCapacity() })
    } else if (!this.#parts.takesRoom()) {
      admitted.release()
      refuse(this, noCapacity())
      // In the same turn, so that a drain that has begun sees every call.
    } else this.receive({ type: "admitted", admission: admitted })
  }

  #onOpening(opened: boolean): void {
    if (opened) return this.receive({ type: "opened" })
    this.#isOpened = false
    this.#sendHead()
  }

  #onNotOpened(before: State): void {
    const failure = new Failure("dependency.database_unavailable")
    if (before === "done") this.#response.sendFailure(failure)
    else if (before === "withdrawing") this.#last = failure
    else this.#withdraw(failure)
  }

  #onHeartbeat(): void {
    if (this.relay?.flush() !== true) this.outbox.heartbeat(this.#response.heartbeat ?? "")
    this.#sendHead(true)
  }

  /** A client that goes away leaves its backend to be read on for a while: whoever asks again may read it, and leave it anew. */
  #onClientLeft(): void {
    this.whenLeft?.()
    if (this.state !== "draining") return
    this.#drain?.cancel()
    this.#drain = this.ports.clock.after(this.ports.limits.drainLeftMs, () => this.hasLeft && this.stop())
  }

  #onEnded(end: End, before: State): void {
    const isDrainedOut = before === "draining" && this.timeouts.reason === "stopped"
    this.timeouts.end()
    this.#drain?.cancel()
    if (end.kind === "failed") this.#last = end.fault.failure
    else this.#last = typeof end.last === "string" ? end.last : JSON.stringify(end.last)
    defined(this.#booking).settle(end, isDrainedOut)
  }

  /**
   * Nothing is charged, whatever the backend still answers. A stream ends as it is: its client has had the answer. A whole answer
   * has not been seen yet, and is not given.
   */
  #withdraw(last: string | Failure): void {
    const isUnseen = !this.plan.request.stream && typeof last === "string"
    this.#last = isUnseen ? new Failure("billing.reconcile_failed") : last
    this.#timeouts?.stop("stopped")
    this.#drain?.cancel()
    defined(this.#booking).withdraw(this.#last instanceof Failure ? this.#last.code : undefined)
  }

  #onWithdrawn(): void {
    defined(this.#booking).onWithdrawn()
    this.#finish(this.#last)
  }

  /** A bug of the gateway. The client gets an error, and nothing is charged. */
  #onCrashed(error: unknown, before: State): void {
    this.ports.crashed(this.requestId, error)
    const failure = new Failure("internal.panic")
    if (this.state === "withdrawing") return this.#withdraw(failure)
    if (before !== "done") return this.#finish(failure)
    this.#response.sendFailure(failure)
    this.ports.inFlight.remove(this)
    this.#parts.release(this.#booking?.record)
  }

  /** The head goes out once the opening is durable. That of a whole answer waits for its settlement, or for a heartbeat. */
  #sendHead(isOverdue = false): void {
    if (!this.#response.isHeadDue && (this.state !== "done" || this.#response.isHeadSent)) return
    if (this.#isOpened === true || this.#booking?.isDurable === true) {
      if (this.state === "settling" && !isOverdue) return
      // Before the first content another model may still take the call over.
      const isDecided = this.firstTokenMs !== undefined || this.relay?.committed === true
      this.#response.sendHead(isDecided ? this.admission.offer : undefined)
    } else if (this.#isOpened === false) this.receive({ type: "not-opened" })
  }

  /** Sends the end of the response. An answer that has begun goes out as far as it came, with its failure at its end. */
  #finish(last: string | Failure): void {
    this.ports.inFlight.remove(this)
    this.#parts.release(this.#booking?.record)
    if (last instanceof Failure && this.#response.isHeadDue) this.#sendHead()
    if (last instanceof Failure && !this.#response.isHeadSent) return this.#response.sendFailure(last)
    const { offer } = this.admission
    if (typeof last === "string") this.#response.sendLast(last, offer, defined(this.#booking).charge)
    else this.#response.sendFailureInBand(last, offer, this.relay)
    this.#sendHead()
  }
}
