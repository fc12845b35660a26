/**
 * Admission: what a call takes before it is forwarded (tokens and budget of its key, a hold on the account, a slot of the
 * model and of the gateway) and gives back on any way out but settlement (decisions §3, §4.12–15).
 */
import type { HoldReply } from "../../actors/account.ts"
import type { ReserveReply } from "../../actors/key.ts"
import { type Soon, soon } from "../../actors/kernel/actor.ts"
import { sleep } from "../../actors/kernel/clock.ts"
import { type Micro, micro } from "../../actors/money/micro.ts"
import type { Rates } from "../../actors/money/price.ts"
import { affordableLimit, type Loop, type Quote, quote } from "../../actors/money/quote.ts"
import type { PeriodStarts } from "../../actors/period.ts"
import type { AcquireReply } from "../../actors/slots.ts"
import type { Offer } from "../catalogue/live.ts"
import type { ModelRequest } from "../language/request.ts"
import { Failure } from "../failure/failure.ts"
import { LARGE_BODY_BYTES } from "../wire/body.ts"
import type { Caller } from "./authenticate.ts"
import type { Candidate } from "./candidates.ts"
import type { GatewayPorts } from "./ports.ts"
import type { Seat } from "./tries.ts"
import type { InputWeight } from "./weigh.ts"

/** What a call may come to for which the gateway searches (decisions §8): two searches a turn, of eight results each. */
export const SEARCH_LOOP: Loop = { turns: 5, addedTokens: 5_000 }

type Ports = Pick<GatewayPorts, "actors" | "catalogue" | "clock" | "limits">

/** What admission needs of a call. */
export interface AdmittedCall {
  readonly requestId: string
  readonly caller: Caller
  readonly asked: { readonly request: ModelRequest; readonly weight: InputWeight }
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

type AdmissionTerms = {
  readonly call: AdmittedCall
} & Pick<Candidate, "offer" | "tries" | "leastAnswerTokens">

type Reserved = Extract<ReserveReply, { readonly kind: "reserved" }>
type Held = Extract<HoldReply, { readonly kind: "held" }>

/** What a call has taken. */
export class Admission {
  readonly offer: Offer
  readonly hold: Micro
  readonly leaseId: bigint
  readonly starts: PeriodStarts
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
    taken: Pick<Admission, "hold" | "leaseId" | "starts" | "answerLimit" | "reservedTokens" | "seat">,
  ) {
    this.#ports = ports
    this.#terms = terms
    this.offer = terms.offer
    this.hold = taken.hold
    this.leaseId = taken.leaseId
    this.starts = taken.starts
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
    this.#seat.leave()
    this.#seat = seat
    if (this.#ended) seat.leave()
  }

  /** The money was settled with the actors; only the slots are still to be given back. */
  settled(): void {
    if (this.#ended) return
    this.#ended = true
    this.#seat.leave()
    freeSlots(this.#ports, this.#terms)
  }

  /** Gives everything back. */
  release(): void {
    if (this.#ended) return
    this.settled()
    releaseMoney(this.#ports, this.#terms)
  }
}

/** At once where nobody has to be waited for. */
export function admit(ports: Ports, terms: AdmissionTerms): Soon<Admission | Failure> {
  return new Admitting(ports, terms).begin()
}

/** The steps of an admission, each of which takes something; where one is refused, all is given back. */
class Admitting {
  readonly #ports: Ports
  readonly #terms: AdmissionTerms
  readonly #quoted: Quote
  /** What the key's token window is charged. */
  readonly #tokens: number

  constructor(ports: Ports, terms: AdmissionTerms) {
    const { call, offer } = terms
    const { request, weight } = call.asked
    const window = offer.model.contextWindow ?? ports.catalogue.largestWindow
    this.#ports = ports
    this.#terms = terms
    this.#quoted = quote({
      inputTokens: Math.max(request.inputTokens, Math.min(weight.least, window)),
      mostInputTokens: Math.min(weight.most, window),
      clientLimit: request.maxOutputTokens && Math.max(request.maxOutputTokens, terms.leastAnswerTokens),
      modelLimit: offer.model.maxOutputTokens,
      choices: request.choices,
      rates: offer.price.rates,
      loop: request.webSearch && SEARCH_LOOP,
    })
    this.#tokens = request.inputTokens + this.#quoted.minimalTokens
    call.trace?.admitting(offer)
  }

  begin(): Soon<Admission | Failure> {
    const { requestId, caller } = this.#terms.call
    const reservation = { requestId, tokens: this.#tokens, least: this.#quoted.least, worst: this.#quoted.worst }
    return soon(this.#ports.actors.keys.reserve(caller.keyHash, reservation), (reserved) => this.#hold(reserved))
  }

  #hold(reserved: ReserveReply | Failure): Soon<Admission | Failure> {
    if (reserved instanceof Failure) return this.#refused(reserved)
    if (reserved.kind === "unavailable") return this.#refused(new Failure("dependency.database_unavailable"))
    if (reserved.kind !== "reserved") {
      const code = reserved.kind === "tokens-exceeded" ? "rate_limit.tpm_exceeded" : "quota.key_limit_exceeded"
      const { retryAfterS } = reserved
      return this.#refused(new Failure(code, retryAfterS === undefined ? {} : { retryAfterS }))
    }
    const { requestId, caller } = this.#terms.call
    const terms = { requestId, least: this.#quoted.least, target: reserved.hold ?? this.#quoted.worst }
    const holding = this.#ports.actors.accounts.hold(caller.record.accountId, terms)
    return soon(holding, (held) => this.#acquire(reserved, held))
  }

  /** A slot of the model, one of the gateway, and a seat at a member of the model's pool, within one wait. */
  #acquire(reserved: Reserved, held: HoldReply | Failure): Soon<Admission | Failure> {
    if (!isHeld(held)) return this.#refused(shortageOf(held))
    const { actors, clock, limits } = this.#ports
    const { call, offer, tries } = this.#terms
    const { requestId, caller } = call
    if (reserved.hold !== undefined && held.hold < reserved.hold) actors.keys.trim(caller.keyHash, requestId, held.hold)
    // Once it is admitted, a client that leaves is drained, and keeps its slots until then.
    call.whenLeft = () => freeSlots(this.#ports, this.#terms)
    const slotCaller = { requestId, accountId: caller.record.accountId, keyId: caller.record.keyId }
    const until = clock.monotonic() + limits.capacityWaitMs
    return soon(actors.models.acquire(offer.model.id, slotCaller, limits.capacityWaitMs), (slot) => {
      const placing = isFull(slot) ? slot : actors.gate.acquire(slotCaller, until - clock.monotonic())
      return soon(placing, (place) => {
        if (isFull(place) || call.hasLeft) return this.#end(reserved, held, place instanceof Failure ? place : noRoom())
        const seating = tries.take(this.#tokens, until - clock.monotonic(), () => call.hasLeft)
        return soon(seating, (seat) => this.#end(reserved, held, seat ?? noRoom()))
      })
    })
  }

  #end({ starts }: Reserved, { hold, leaseId }: Held, seat: Seat | Failure): Admission | Failure {
    const terms = this.#terms
    terms.call.whenLeft = undefined
    if (seat instanceof Failure || terms.call.hasLeft) {
      if (!(seat instanceof Failure)) seat.leave()
      freeSlots(this.#ports, terms)
      return this.#refused(seat instanceof Failure ? seat : noRoom())
    }
    terms.call.trace?.admitted()
    const answerLimit = affordableLimit(hold, this.#quoted)
    return new Admission(this.#ports, terms, { hold, leaseId, starts, answerLimit, reservedTokens: this.#tokens, seat })
  }

  #refused(failure: Failure): Failure {
    releaseMoney(this.#ports, this.#terms)
    this.#terms.call.trace?.admitted(failure)
    return failure
  }
}

/** Right also where nothing was held yet, or where nobody knows whether it was. */
function releaseMoney({ actors }: Ports, { call: { requestId, caller } }: AdmissionTerms): void {
  const { keyHash, record } = caller
  actors.accounts.release(record.accountId, requestId)
  actors.keys.release(keyHash, requestId)
}

function freeSlots({ actors }: Ports, { call: { requestId }, offer: { model } }: AdmissionTerms): void {
  actors.gate.release(requestId)
  actors.models.release(model.id, requestId)
}

const isFull = (reply: AcquireReply | Failure): boolean => reply instanceof Failure || reply.kind === "full"

export const noRoom = (): Failure => new Failure("gateway.capacity", { retryAfterS: 1 })

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

interface RefusedCall extends Pick<AdmittedCall, "caller"> {
  readonly ports: Pick<GatewayPorts, "refusals" | "clock">
  receive(event: { readonly type: "refused"; readonly failure: Failure }): void
}

/** Fewer tokens than any body of so many bytes has, unless it is all images. */
const BYTES_PER_TOKEN = 64n

/**
 * Whether an account can pay for anything of a large body, or of many small ones at once or one after the other, asked before it
 * is read: nobody without money makes the gateway work on megabytes, or hold them (decisions §13.10).
 */
export function affordsBody(
  ports: Pick<Ports, "actors" | "catalogue" | "clock">,
  caller: Pick<Caller, "record">,
  requestId: string,
  { bytes, much }: { readonly bytes: number; readonly much: boolean },
): Soon<Failure | undefined> {
  return bytes <= LARGE_BODY_BYTES && !much ? undefined : affordsBytes(ports, caller, requestId, bytes)
}

async function affordsBytes(
  ports: Pick<Ports, "actors" | "catalogue" | "clock">,
  caller: Pick<Caller, "record">,
  requestId: string,
  bytes: number,
): Promise<Failure | undefined> {
  const rates = ports.catalogue.offers(ports.clock.now()).map(({ price }) => price.rates.input)
  const cheapest = rates.reduce((least, rate) => (rate < least ? rate : least), rates[0] ?? micro(0n))
  const least = micro((BigInt(bytes) * cheapest + BYTES_PER_TOKEN - 1n) / BYTES_PER_TOKEN)
  const held = await holdAndRelease(ports, caller, requestId, least)
  return isHeld(held) ? undefined : shortageOf(held)
}

/** Whether so much input could be paid for now. */
export async function affordsInput(
  ports: Pick<Ports, "actors">,
  caller: Pick<Caller, "record">,
  requestId: string,
  { tokens, rates }: { readonly tokens: number; readonly rates: Rates },
): Promise<boolean> {
  const least = micro(BigInt(tokens) * rates.input)
  return isHeld(await holdAndRelease(ports, caller, requestId, least))
}

/** A purse that is short asks for more of the balance before it says no. */
async function holdAndRelease(
  { actors }: Pick<Ports, "actors">,
  { record: { accountId } }: Pick<Caller, "record">,
  requestId: string,
  least: Micro,
): Promise<HoldReply | Failure> {
  const terms = { requestId: `${requestId}-body`, least, target: least }
  const held = await actors.accounts.hold(accountId, terms)
  actors.accounts.release(accountId, terms.requestId)
  return held
}

const isHeld = (held: HoldReply | Failure): held is Held => !(held instanceof Failure) && held.kind === "held"

function shortageOf(held: Exclude<HoldReply, Held> | Failure): Failure {
  if (held instanceof Failure) return held
  return new Failure(held.kind === "insufficient" ? "billing.insufficient_balance" : "dependency.database_unavailable")
}
