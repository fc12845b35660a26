/**
 * A call that is under way: one object, one `receive`. Whatever takes time (an admission, a backend, the client's stream, the
 * ledger, a timer) is begun here and comes back as an event; states.ts says what each makes of the state. Nothing is said to
 * the client before Postgres has it: the head waits for the opening, the last byte for the settlement (decisions §3).
 */
import { handOn, soon, type Soon } from "../../actors/kernel/actor.ts"
import type { Timer } from "../../actors/kernel/clock.ts"
import type { RunAsked } from "../../actors/run.ts"
import { there, unreachable } from "../../actors/unreachable.ts"
import { Failure } from "../failure/failure.ts"
import { type Admission, admit, type AdmittedCall, noRoom, refuse } from "./admit.ts"
import { Answering, type AnsweringParts } from "./answering.ts"
import type { End } from "./attempt.ts"
import type { Caller } from "./authenticate.ts"
import { type BookedCall, Booking } from "./booking.ts"
import { CallCosts } from "./call-costs.ts"
import type { CallTrace } from "./call-trace.ts"
import type { Candidate, Chain, Marker } from "./candidates.ts"
import type { Answer, ClientOutbox } from "./outbox.ts"
import type { GatewayPorts } from "./ports.ts"
import type { Relay } from "./relay.ts"
import { route, type RoutedCall } from "./route.ts"
import { type CallEvent, type State, Turns } from "./states.ts"
import { Timeouts } from "./timeouts.ts"
import type { Weighed } from "./weigh.ts"

export interface CallParts extends AnsweringParts {
  readonly ports: GatewayPorts
  readonly requestId: string
  readonly caller: Caller
  readonly run: RunAsked | undefined
  readonly asked: Weighed
  readonly chain: Chain
  /** When it was judged: at the prices of then. */
  readonly openedAt: number
  readonly clientHeaders: Headers
  readonly trace: CallTrace | undefined
  /** Holds what its answer may take; false where there is no room for it. */
  readonly takesRoom: () => boolean
  /** Run when the call is over, with its record if it has one. */
  readonly release: (record: Booking["record"]) => void
}

export class Call implements RoutedCall, BookedCall, AdmittedCall {
  readonly ports: GatewayPorts
  readonly requestId: string
  readonly caller: Caller
  readonly run: RunAsked | undefined
  readonly asked: Weighed
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
  readonly #answering: Answering
  readonly #startedAt: number
  readonly #turns: Turns
  #booking: Booking | undefined
  #timeouts: Timeouts | undefined
  /** Undefined until the ledger has said whether the opening is durable. */
  #isOpened: boolean | undefined
  #drain: Timer | undefined
  /** What is said in the end: a stream's last bytes or a whole body, or why there is none. */
  #last: string | Failure = ""

  constructor(parts: CallParts) {
    this.#parts = parts
    this.ports = parts.ports
    this.requestId = parts.requestId
    this.caller = parts.caller
    this.run = parts.run
    this.asked = parts.asked
    this.clientHeaders = parts.clientHeaders
    this.trace = parts.trace
    this.#turns = new Turns((event, before) => this.#onEvent(event, before), parts.trace)
    this.costs = new CallCosts(this.ports.catalogue, parts.openedAt)
    this.#startedAt = this.ports.clock.monotonic()
    this.#answering = new Answering(parts, this)
    this.outbox = this.#answering.outbox
    this.answer = this.#answering.answer
  }

  get state(): State {
    return this.#turns.state
  }
  get admission(): Admission {
    return there(this.#booking).admission
  }
  /** Whether it was ever admitted, and so has a record. */
  get isBooked(): boolean {
    return this.#booking !== undefined
  }
  get timeouts(): Timeouts {
    return there(this.#timeouts)
  }
  get elapsedMs(): number {
    return Math.round(this.ports.clock.monotonic() - this.#startedAt)
  }
  get hasLeft(): boolean {
    return this.outbox.hasLeft
  }
  get isWanted(): boolean {
    return !this.hasLeft && (this.state === "trying" || this.state === "relaying")
  }

  /** Admits the call for the first model of its chain, and forwards it. */
  begin(): void {
    handOn(
      () => this.admit(this.#parts.chain.first),
      (admitted) => this.#onAdmission(admitted),
      (error) => this.receive({ type: "crashed", error }),
    )
  }

  leave(): void {
    this.outbox.leave()
  }
  /** Ends it soon: breaks off the backend that is waited for. */
  stop(): void {
    this.receive({ type: "timed-out", reason: "stopped" })
  }

  admit(candidate: Candidate): Soon<Admission | Failure> {
    return soon(admit(this.ports, { call: this, ...candidate }), (admitted) => this.#readmitted(admitted))
  }

  #readmitted(admitted: Admission | Failure): Admission | Failure {
    if (admitted instanceof Failure) return admitted
    if (this.state === "withdrawing" || this.state === "done") {
      admitted.release()
      return noRoom()
    }
    this.#booking?.readmitted(admitted)
    return admitted
  }

  heard(): void {
    this.timeouts.heard()
  }
  content(): void {
    this.receive({ type: "content" })
  }
  committed(): void {
    if (this.state === "trying") this.receive({ type: "committed" })
  }
  write(text: string): void {
    if (this.state === "withdrawing" || this.state === "done") return
    this.outbox.write(text)
    if (this.#answering.owesHead) this.#sayHead()
  }
  alert({ offer, seat: { member } }: Admission, status: number | undefined): void {
    const told = { model: offer.model.id, provider: member.upstream.provider, member: member.id, status }
    this.isAlerted = true
    this.ports.alerted({ requestId: this.requestId, ...told })
  }

  receive(event: CallEvent): void {
    this.#turns.receive(event)
  }

  #onEvent(event: CallEvent, before: State): void {
    switch (event.type) {
      case "admitted":
        return this.#onAdmitted(event.admission)
      case "refused":
        return this.#finish(event.failure)
      case "opened":
        this.#isOpened = true
        return this.#sayHead()
      case "not-opened":
        return this.#onNotOpened(before)
      case "content":
        this.firstTokenMs ??= this.elapsedMs
        return this.timeouts.content()
      case "committed":
        return
      case "heartbeat":
        return this.#onHeartbeat()
      case "client-left":
        return this.#onClientLeft(before)
      case "timed-out":
        return this.timeouts.stop(event.reason)
      case "ended":
        return this.state === "settling" ? this.#onEnded(event.end, before) : undefined
      case "settled":
        if (before !== "settling") return
        there(this.#booking).settled(event.settled)
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
    const { clock, limits, underWay } = this.ports
    underWay.add(this)
    this.#booking = new Booking(this, admission, this.costs.openedAt)
    void this.#booking.open().then((opened) => this.#onOpening(opened === "durable"))
    this.#timeouts = new Timeouts(clock, limits, (reason) => this.receive({ type: "timed-out", reason }))
    if (this.#answering.heartbeat !== undefined) this.outbox.watchSilence()
    route(this, this.#parts.chain).then(
      (end) => this.receive({ type: "ended", end }),
      (error: unknown) => this.receive({ type: "crashed", error }),
    )
  }

  #onAdmission(admitted: Admission | Failure): void {
    if (admitted instanceof Failure) refuse(this, admitted)
    else if (this.hasLeft || this.ports.draining.aborted) {
      admitted.release()
      this.receive({ type: "refused", failure: noRoom() })
    } else if (!this.#parts.takesRoom()) {
      admitted.release()
      refuse(this, noRoom())
      // In the same turn, so that a drain that has begun sees every call.
    } else this.receive({ type: "admitted", admission: admitted })
  }

  #onOpening(opened: boolean): void {
    if (opened) return this.receive({ type: "opened" })
    this.#isOpened = false
    this.#sayHead()
  }

  #onNotOpened(before: State): void {
    const failure = new Failure("dependency.database_unavailable")
    if (before === "done") this.#answering.sayFailure(failure)
    else if (before === "withdrawing") this.#last = failure
    else this.#withdraw(failure)
  }

  #onHeartbeat(): void {
    if (this.relay?.release() !== true) this.outbox.beat(this.#answering.heartbeat ?? "")
    this.#sayHead(true)
  }

  /** A client that goes away leaves its backend to be read on for a while, and no longer. */
  #onClientLeft(before: State): void {
    this.whenLeft?.()
    if (this.state === "draining" && before !== "draining") this.#stopWhenLeft()
  }

  /** Somebody who asks again may have come since. */
  #stopWhenLeft(): void {
    const look = () => (this.hasLeft ? this.stop() : this.#stopWhenLeft())
    this.#drain = this.ports.clock.after(this.ports.limits.drainLeftMs, look)
  }

  #onEnded(end: End, before: State): void {
    const isDrainedOut = before === "draining" && this.timeouts.reason === "stopped"
    this.timeouts.end()
    this.#drain?.cancel()
    if (end.kind === "failed") this.#last = end.fault.failure
    else this.#last = typeof end.last === "string" ? end.last : JSON.stringify(end.last)
    there(this.#booking).settle(end, isDrainedOut)
  }

  /** Nothing is charged, whatever the backend still answers. */
  #withdraw(last: string | Failure): void {
    this.#last = last
    this.#timeouts?.stop("stopped")
    this.#drain?.cancel()
    there(this.#booking).withdraw(last instanceof Failure ? last.code : undefined)
  }

  /** A stream ends as it is: its client has had the answer. A whole answer has not been seen yet, and is not given. */
  #onWithdrawn(): void {
    there(this.#booking).withdrawn()
    const isWhole = !this.asked.request.stream && typeof this.#last === "string"
    this.#finish(isWhole ? new Failure("billing.reconcile_failed") : this.#last)
  }

  /** A bug of ours. The client is told, and nothing is charged. */
  #onCrashed(error: unknown, before: State): void {
    this.ports.crashed(this.requestId, error)
    const failure = new Failure("internal.panic")
    if (this.state === "withdrawing") this.#withdraw(failure)
    else if (!this.#answering.isHeadSaid && before !== "done") this.#finish(failure)
    else this.#answering.sayFailure(failure)
  }

  /** It goes once the opening is durable; that of a whole answer with the settlement that says it all, or a heartbeat. */
  #sayHead(isOverdue = false): void {
    if (!this.#answering.owesHead && (this.state !== "done" || this.#answering.isHeadSaid)) return
    if (this.#isOpened === true || this.#booking?.isDurable === true) {
      if (this.state === "settling" && !isOverdue) return
      // Before anything of an answer is said, another model may still take it over.
      const isDecided = this.firstTokenMs !== undefined || this.relay?.committed === true
      this.#answering.sayHead(isDecided ? this.admission.offer : undefined)
    } else if (this.#isOpened === false) this.receive({ type: "not-opened" })
  }

  /** Says what is left to say. An answer that has begun goes out as far as it came, and tells its failure at its end. */
  #finish(last: string | Failure): void {
    this.#timeouts?.end()
    this.#drain?.cancel()
    this.ports.underWay.remove(this)
    this.#parts.release(this.#booking?.record)
    if (last instanceof Failure && this.#answering.owesHead) this.#sayHead()
    if (last instanceof Failure && !this.#answering.isHeadSaid) return this.#answering.sayFailure(last)
    const { offer } = this.admission
    if (typeof last === "string") this.#answering.sayLast(last, offer, there(this.#booking).charge)
    else this.#answering.sayInBand(last, offer, this.relay)
    this.#sayHead()
  }
}
