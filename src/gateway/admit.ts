/**
 * Admission: what a call takes before it is forwarded — tokens and budget of its key, a hold on the account, a slot of
 * the model and of the gateway — and gives back in reverse on any way out but settlement (decisions §3, §4.12–15).
 */
import type { Clock } from "../../actors/kernel/clock.ts"
import type { Micro } from "../../actors/money/micro.ts"
import { affordableLimit, type Loop, quote } from "../../actors/money/quote.ts"
import type { PeriodStarts } from "../../actors/period.ts"
import type { AcquireReply } from "../../actors/slots.ts"
import type { Offer } from "../catalogue/live.ts"
import type { ModelRequest } from "../language/request.ts"
import { Failure } from "../failure/failure.ts"
import type { Actors } from "./actors.ts"
import type { Caller } from "./authenticate.ts"

/** What a call may come to for which the gateway searches (decisions §8): two searches a turn, of eight results each. */
export const SEARCH_LOOP: Loop = { turns: 5, addedTokens: 5_000 }

export interface AdmissionTerms {
  readonly requestId: string
  readonly caller: Caller
  readonly request: ModelRequest
  /** What has to be held for of the input in any case. */
  readonly leastInputTokens: number
  /** The most that the input may come to. */
  readonly mostInputTokens: number
  readonly offer: Offer
  /** The smallest answer limit that the model's backend takes; a client's smaller one is paid for as this. */
  readonly leastAnswerTokens: number
  readonly clock: Clock
  readonly capacityWaitMs: number
  /** The client went away: whoever waits gives up its place. */
  readonly left: AbortSignal
}

export class Admission implements Disposable {
  readonly offer: Offer
  readonly hold: Micro
  readonly leaseId: bigint
  readonly starts: PeriodStarts
  /** The answer limit to forward: what the hold pays for. */
  readonly answerLimit: number
  /** What the key's token window was charged at admission. */
  readonly reservedTokens: number
  readonly #giveBack: () => void
  readonly #freeSlots: () => void
  #ended = false

  constructor(taken: {
    readonly offer: Offer
    readonly hold: Micro
    readonly leaseId: bigint
    readonly starts: PeriodStarts
    readonly answerLimit: number
    readonly reservedTokens: number
    readonly giveBack: () => void
    readonly freeSlots: () => void
  }) {
    this.offer = taken.offer
    this.hold = taken.hold
    this.leaseId = taken.leaseId
    this.starts = taken.starts
    this.answerLimit = taken.answerLimit
    this.reservedTokens = taken.reservedTokens
    this.#giveBack = taken.giveBack
    this.#freeSlots = taken.freeSlots
  }

  /** The money was settled with the actors; only the slots are still to be given back. */
  settled(): void {
    if (this.#ended) return
    this.#ended = true
    this.#freeSlots()
  }

  [Symbol.dispose](): void {
    if (this.#ended) return
    this.#ended = true
    this.#freeSlots()
    this.#giveBack()
  }
}

export async function admit(actors: Actors, terms: AdmissionTerms): Promise<Admission | Failure> {
  const { requestId, caller, request, offer } = terms
  const { keyHash, record } = caller
  const { model } = offer
  const quoted = quote({
    inputTokens: Math.max(request.inputTokens, terms.leastInputTokens),
    mostInputTokens: terms.mostInputTokens,
    clientLimit: request.maxOutputTokens && Math.max(request.maxOutputTokens, terms.leastAnswerTokens),
    modelLimit: model.maxOutputTokens,
    choices: request.choices,
    rates: offer.price.rates,
    loop: request.webSearch && SEARCH_LOOP,
  })
  const undo = new Undo()
  using guard = undo

  guard.add(() => actors.keys.release(keyHash, requestId))
  const tokens = request.inputTokens + quoted.minimalTokens
  const reservation = { requestId, tokens, least: quoted.least, worst: quoted.worst }
  const reserved = await actors.keys.reserve(keyHash, reservation)
  if (reserved instanceof Failure) return reserved
  if (reserved.kind === "unavailable") return new Failure("dependency.database_unavailable")
  if (reserved.kind !== "reserved") {
    const code = reserved.kind === "tokens-exceeded" ? "rate_limit.tpm_exceeded" : "quota.key_limit_exceeded"
    return new Failure(code, reserved.retryAfterS === undefined ? {} : { retryAfterS: reserved.retryAfterS })
  }

  guard.add(() => actors.accounts.release(record.accountId, requestId))
  const wanted = { requestId, least: quoted.least, target: reserved.hold ?? quoted.worst }
  const held = await actors.accounts.hold(record.accountId, wanted)
  if (held instanceof Failure) return held
  if (held.kind === "insufficient") return new Failure("billing.insufficient_balance")
  if (held.kind === "unavailable") return new Failure("dependency.database_unavailable")
  if (reserved.hold !== undefined && held.hold < reserved.hold) actors.keys.trim(keyHash, requestId, held.hold)

  const slots = await acquireSlots(actors, terms)
  if (slots instanceof Failure) return slots
  return new Admission({
    offer,
    hold: held.hold,
    leaseId: held.leaseId,
    starts: reserved.starts,
    answerLimit: affordableLimit(held.hold, quoted),
    reservedTokens: tokens,
    giveBack: undo.keep(),
    freeSlots: slots,
  })
}

/** A slot of the model, then one of the gateway, within one wait. What it returns gives both back. */
async function acquireSlots(actors: Actors, terms: AdmissionTerms): Promise<(() => void) | Failure> {
  const { requestId, clock, left, caller } = terms
  const { accountId, keyId } = caller.record
  const model = terms.offer.model.id
  const until = clock.monotonic() + terms.capacityWaitMs
  const free = () => {
    left.removeEventListener("abort", free)
    actors.gate.release(requestId)
    actors.models.release(model, requestId)
  }
  left.addEventListener("abort", free)
  const slotCaller = { requestId, accountId, keyId }
  const slot = await actors.models.acquire(model, slotCaller, terms.capacityWaitMs)
  const place = isFull(slot) ? slot : await actors.gate.acquire(slotCaller, until - clock.monotonic())
  if (isFull(place) || left.aborted) {
    free()
    return place instanceof Failure ? place : new Failure("gateway.capacity", { retryAfterS: 1 })
  }
  // From here on a client that leaves is drained, and keeps its slots until then.
  left.removeEventListener("abort", free)
  return free
}

const isFull = (reply: AcquireReply | Failure): boolean => reply instanceof Failure || reply.kind === "full"

/** What to undo, last first, unless it is kept. */
class Undo implements Disposable {
  #steps: (() => void)[] = []

  add(step: () => void): void {
    this.#steps.push(step)
  }

  /** Hands the duty on. */
  keep(): () => void {
    const steps = this.#steps
    this.#steps = []
    return () => {
      for (const step of steps.reverse()) step()
    }
  }

  [Symbol.dispose](): void {
    this.keep()()
  }
}
