/**
 * Admission: what a call takes before it is forwarded (tokens and budget of its key, its run's budget, a hold on the
 * account, a slot of the model and of the gateway) and gives back on any way out but settlement (decisions §3, §4.12–15).
 */
import type { HoldReply } from "../../actors/account.ts"
import type { RunRequest } from "../../actors/run.ts"
import { andThen, type MaybePromise, orElse } from "../../actors/kernel/actor.ts"
import type { Micro } from "../../actors/money/micro.ts"
import { affordableLimit, type Loop, quote, type Quote, type QuoteInput } from "../../actors/money/price.ts"
import type { PayingParent } from "../../actors/ledger.ts"
import type { PeriodStarts } from "../../actors/period.ts"
import type { AcquireReply } from "../../actors/slots.ts"
import type { Offer } from "../catalogue/model.ts"
import type { ModelRequest } from "../language/request.ts"
import { Failure, noCapacity } from "../failure/failure.ts"
import type { Caller } from "./authenticate.ts"
import {
  type Held,
  holdOfBreakers,
  isHeld,
  refusalOfKeys,
  releaseBreakers,
  releaseKeys,
  type ReservedOfKeys,
  reserveOfKeys,
  shortageOf,
  trimBreakers,
  trimKeys,
} from "./purses.ts"
import type { Candidate } from "./candidates.ts"
import { holdOfRun, refusalOfRun } from "./runs.ts"
import type { GatewayPorts } from "./ports.ts"
import type { Seat } from "./member-selector.ts"
import { type InputEstimate, windowOf } from "./input-estimate.ts"

/** What a call with web search may come to, whoever searches (decisions §8): two searches a turn, of eight results each. */
export const SEARCH_LOOP: Loop = { turns: 5, addedTokens: 5_000 }

type Ports = Pick<GatewayPorts, "actors" | "catalogue" | "clock" | "limits" | "admitted">

/** What admission needs of a call. */
export interface AdmittedCall {
  readonly requestId: string
  readonly caller: Caller
  /** The run that pays as well. */
  readonly run: RunRequest | undefined
  readonly plan: { readonly request: ModelRequest; readonly inputEstimate: InputEstimate }
  readonly trace: TracedAdmission | undefined
  /** Whoever leaves while it waits gives up its place. */
  readonly hasLeft: boolean
  /** Run when the client leaves. */
  whenLeft: (() => void) | undefined
}

/** Hears of a sampled call's admissions. */
export interface TracedAdmission {
  admitting(offer: Offer): void
  admitted(refusal?: Failure): void
}

type AdmissionTerms = { readonly call: AdmittedCall } & Pick<Candidate, "offer" | "members" | "minAnswerTokens">

/** What a call may come to at a model. */
export function quoteTerms(
  { catalogue }: Pick<Ports, "catalogue">,
  { request, inputEstimate }: AdmittedCall["plan"],
  { offer, minAnswerTokens }: Pick<Candidate, "offer" | "minAnswerTokens">,
): QuoteInput {
  const window = windowOf(offer.model, request) ?? catalogue.largestWindow
  return {
    inputTokens: Math.max(request.inputTokens, Math.min(inputEstimate.least, window)),
    mostInputTokens: Math.min(inputEstimate.most, window),
    clientLimit: request.maxOutputTokens && Math.max(request.maxOutputTokens, minAnswerTokens),
    modelLimit: offer.model.maxOutputTokens,
    choices: request.choices,
    rates: offer.price.rates,
    loop: request.features.has("web_search") ? SEARCH_LOOP : undefined,
  }
}

/** What a call has taken. */
export class Admission {
  readonly offer: Offer
  readonly hold: Micro
  readonly leaseId: bigint
  readonly starts: PeriodStarts
  /** Of a child's call: who pays as well. */
  readonly parent: PayingParent | undefined
  /** The answer limit to forward: what the hold pays for. */
  readonly answerLimit: number
  /** What the key's token window was charged at admission. */
  readonly reservedTokens: number
  readonly #ports: Ports
  readonly #terms: AdmissionTerms
  #seat: Seat
  #ended = false

  constructor(
    ports: Ports,
    terms: AdmissionTerms,
    taken: Pick<Admission, "hold" | "leaseId" | "starts" | "parent" | "answerLimit" | "reservedTokens" | "seat">,
  ) {
    this.#ports = ports
    this.#terms = terms
    this.offer = terms.offer
    this.hold = taken.hold
    this.leaseId = taken.leaseId
    this.starts = taken.starts
    this.parent = taken.parent
    this.answerLimit = taken.answerLimit
    this.reservedTokens = taken.reservedTokens
    this.#seat = taken.seat
  }

  /** Who of the model's pool is asked, or was asked last. */
  get seat(): Seat {
    return this.#seat
  }

  /** Another member is asked from now on. */
  moveTo(seat: Seat): void {
    this.#seat.release()
    this.#seat = seat
    if (this.#ended) seat.release()
  }

  /** The money was settled with the actors; only the slots are still to be given back. */
  settled(): void {
    if (this.#ended) return
    this.#ended = true
    this.#seat.release()
    freeSlots(this.#ports, this.#terms)
  }

  /** Gives everything back. */
  release(): void {
    if (this.#ended) return
    this.settled()
    releaseMoney(this.#ports, this.#terms)
  }
}

/** At once where nobody has to be waited for. What a bug breaks off leaves nothing held. */
export function admit(ports: Ports, terms: AdmissionTerms): MaybePromise<Admission | Failure> {
  const admitting = new Admitting(ports, terms)
  return orElse(
    () => admitting.begin(),
    (error) => {
      admitting.abandon()
      throw error
    },
  )
}

/** The steps of an admission, each of which takes something; where one is refused, all is given back. */
class Admitting {
  readonly #ports: Ports
  readonly #terms: AdmissionTerms
  readonly #quoted: Quote
  /** What the key's token window is charged. */
  readonly #tokens: number
  #hasWaited = false
  #seat: Seat | Failure | undefined

  constructor(ports: Ports, terms: AdmissionTerms) {
    const { call, offer } = terms
    this.#ports = ports
    this.#terms = terms
    this.#quoted = quote(quoteTerms(ports, call.plan, terms))
    this.#tokens = call.plan.request.inputTokens + this.#quoted.minimalTokens
    call.trace?.admitting(offer)
  }

  begin(): MaybePromise<Admission | Failure> {
    const { requestId, caller } = this.#terms.call
    const reservation = { requestId, tokens: this.#tokens, least: this.#quoted.least, worst: this.#quoted.worst }
    const admitting = andThen(reserveOfKeys(this.#ports.actors, caller, reservation), (keys) => this.#hold(keys))
    this.#hasWaited = admitting instanceof Promise
    return admitting
  }

  /** Gives back whatever was taken. */
  abandon(): void {
    if (!(this.#seat instanceof Failure)) this.#seat?.release()
    freeSlots(this.#ports, this.#terms)
    releaseMoney(this.#ports, this.#terms)
  }

  #hold(reserved: ReservedOfKeys | Failure): MaybePromise<Admission | Failure> {
    if (reserved instanceof Failure) return this.#refused(reserved)
    const { requestId, caller, run } = this.#terms.call
    const target = reserved.hold ?? this.#quoted.worst
    if (run === undefined) return this.#holdOfBreakers(reserved, target)
    const { breakers = [] } = caller.record
    const holding = holdOfRun(this.#ports.actors, run, { requestId, least: this.#quoted.least, target, breakers })
    return andThen(holding, (held) =>
      held instanceof Failure ? this.#refused(held) : this.#holdOfBreakers(reserved, held),
    )
  }

  #holdOfBreakers(reserved: ReservedOfKeys, target: Micro): MaybePromise<Admission | Failure> {
    const { requestId, caller } = this.#terms.call
    const { breakers = [] } = caller.record
    if (breakers.length === 0) return this.#holdOfAccount(reserved, target)
    const terms = { requestId, least: this.#quoted.least, target }
    return andThen(holdOfBreakers(this.#ports.actors, breakers, terms), (held) =>
      held instanceof Failure ? this.#refused(held) : this.#holdOfAccount(reserved, held),
    )
  }

  #holdOfAccount(reserved: ReservedOfKeys, target: Micro): MaybePromise<Admission | Failure> {
    const { requestId, caller } = this.#terms.call
    const terms = { requestId, least: this.#quoted.least, target }
    const holding = this.#ports.actors.accounts.hold(caller.record.accountId, terms)
    return andThen(holding, (held) => this.#acquire(reserved, held))
  }

  /** A slot of the model, one of the gateway, and a seat at a member of the model's pool, within one wait. */
  #acquire(reserved: ReservedOfKeys, held: HoldReply | Failure): MaybePromise<Admission | Failure> {
    if (!isHeld(held)) return this.#refused(shortageOf(held))
    const { actors, clock, limits } = this.#ports
    const { call, offer, members } = this.#terms
    const { requestId, caller } = call
    // Of a child's call the key may hold more than its parent.
    const isLess = reserved.parent !== undefined || (reserved.hold !== undefined && held.hold < reserved.hold)
    if (isLess) trimKeys(actors, caller, requestId, held.hold)
    trimBreakers(actors, caller.record.breakers ?? [], requestId, held.hold)
    if (call.run !== undefined) actors.runs.trim(call.run.runId, requestId, held.hold)
    // Once it is admitted, a client that leaves is drained, and keeps its slots until then.
    call.whenLeft = () => freeSlots(this.#ports, this.#terms)
    const slotCaller = { requestId, accountId: caller.record.accountId, keyId: caller.record.keyId }
    const until = clock.monotonic() + limits.capacityWaitMs
    const seating = andThen(actors.models.acquire(offer.model.id, slotCaller, limits.capacityWaitMs), (slot) => {
      const placing = isFull(slot) ? slot : actors.gate.acquire(slotCaller, until - clock.monotonic())
      return andThen(placing, (place) => {
        if (isFull(place) || call.hasLeft) return place instanceof Failure ? place : noCapacity()
        const seated = members.acquire(this.#tokens, until - clock.monotonic(), () => call.hasLeft)
        return andThen(seated, (seat) => (this.#seat = seat) ?? noCapacity())
      })
    })
    return andThen(seating, (seat) => andThen(this.#ofLive(seat), (live) => this.#end(reserved, held, live)))
  }

  /** The key, or the run, may have ended while the call waited for money or for its seat. */
  #ofLive(seat: Seat | Failure): MaybePromise<Seat | Failure> {
    if (seat instanceof Failure || !this.#hasWaited) return seat
    const { actors } = this.#ports
    const { caller, run } = this.#terms.call
    const ended = andThen(refusalOfKeys(actors, caller), (refusal) => refusal ?? refusalOfRun(actors, run))
    return andThen(ended, (refusal) => {
      if (refusal !== undefined) seat.release()
      return refusal ?? seat
    })
  }

  #end({ starts, parent }: ReservedOfKeys, { hold, leaseId }: Held, seat: Seat | Failure): Admission | Failure {
    const terms = this.#terms
    terms.call.whenLeft = undefined
    if (seat instanceof Failure || terms.call.hasLeft) {
      if (!(seat instanceof Failure)) seat.release()
      freeSlots(this.#ports, terms)
      return this.#refused(seat instanceof Failure ? seat : noCapacity())
    }
    terms.call.trace?.admitted()
    this.#ports.admitted(terms.call.caller.record.accountId)
    const answerLimit = affordableLimit(hold, this.#quoted)
    const taken = { hold, leaseId, starts, parent, answerLimit, reservedTokens: this.#tokens, seat }
    return new Admission(this.#ports, terms, taken)
  }

  #refused(failure: Failure): Failure {
    releaseMoney(this.#ports, this.#terms)
    this.#terms.call.trace?.admitted(failure)
    return failure
  }
}

/** Right also where nothing was held yet, or where nobody knows whether it was. */
function releaseMoney({ actors }: Ports, { call: { requestId, caller, run } }: AdmissionTerms): void {
  const { record } = caller
  actors.accounts.release(record.accountId, requestId)
  releaseBreakers(actors, record.breakers ?? [], requestId)
  if (run !== undefined) actors.runs.release(run.runId, requestId)
  releaseKeys(actors, caller, requestId)
}

function freeSlots({ actors }: Ports, { call: { requestId }, offer: { model } }: AdmissionTerms): void {
  actors.gate.release(requestId)
  actors.models.release(model.id, requestId)
}

const isFull = (reply: AcquireReply | Failure): boolean => reply instanceof Failure || reply.kind === "full"
