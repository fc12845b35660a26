/**
 * What a call costs the house: each try of a backend by what it consumed, at the rates and the exchange rate that were in force
 * when the call was opened. A backend bills what it counted and what it said, whatever became of the call; what was refused
 * before anything was said it does not. Nothing of this is told a customer.
 */
import { type Tokens, costOf, largestCost, noTokens, totalTokens } from "../../actors/money/price.ts"
import { type Micro, plus, smaller, zero } from "../../actors/money/micro.ts"
import type { LiveCatalogue, Offer } from "../catalogue/model.ts"
import type { ModelRequest } from "../language/request.ts"
import type { Member } from "../upstream/providers.ts"

/** How many UTF-16 units of an answer a token is, roughly. */
const UNITS_PER_TOKEN = 4

/** Estimates the output tokens of an answer that its backend did not count. An event of a stream is at least a token. */
export class OutputMeter {
  #events = 0
  #length = 0
  #shortest = Number.MAX_SAFE_INTEGER
  #whole = 0

  /** An answer that came in one piece. In UTF-16 units, as all lengths. */
  whole(length: number): void {
    this.#whole = length
  }

  /** An event with content. */
  event(length: number): void {
    this.#events++
    this.#length += length
    this.#shortest = Math.min(this.#shortest, length)
  }

  /** Events that went on unread, and were like those before them. */
  unread(length: number): void {
    if (this.#length === 0) return
    this.#events += Math.round((length * this.#events) / this.#length)
    this.#length += length
  }

  /** Estimated: what an event has over the shortest of them is text. */
  get tokens(): number {
    if (this.#events === 0) return Math.ceil(this.#whole / UNITS_PER_TOKEN)
    const text = this.#length - this.#events * Math.max(0, this.#shortest - UNITS_PER_TOKEN)
    return Math.max(this.#events, Math.ceil(text / UNITS_PER_TOKEN))
  }
}

/** One request to a backend. */
interface SentRequest {
  readonly offer: Offer
  readonly member: Member
  readonly request: Pick<ModelRequest, "inputTokens" | "choices">
  readonly answerLimit: number
}

/** The usage of one attempt at one backend. */
export class AttemptUsage {
  readonly offer: Offer
  readonly member: Member
  readonly output = new OutputMeter()
  /** An answer came to its end. */
  isAnswered = false
  #counted: Tokens | undefined
  #searches = 0
  readonly #request: SentRequest

  constructor(sent: SentRequest) {
    this.offer = sent.offer
    this.member = sent.member
    this.#request = sent
  }

  /** The backend's own counts so far, not bounded by anything. */
  setCounts(tokens: Tokens | undefined, searches: number): void {
    this.#counted = tokens
    this.#searches = searches
  }

  /** Searches that the backend ran. */
  get searches(): number {
    return this.#searches
  }

  /** What the backend will bill; undefined where it bills nothing. Without counts the input is the gateway's estimate. */
  get consumed(): Tokens | undefined {
    const { request, answerLimit } = this.#request
    const outputTokens = Math.min(this.output.tokens, answerLimit * request.choices)
    const counted = this.#counted
    if (counted !== undefined && (this.isAnswered || totalTokens(counted) > 0))
      return this.isAnswered ? counted : { ...counted, output: Math.max(counted.output, outputTokens) }
    return this.isAnswered || outputTokens > 0 || this.#searches > 0
      ? { ...noTokens, input: request.inputTokens, output: outputTokens }
      : undefined
  }
}

/** A part of a call beside its final record, which its customer never sees: a try that failed, or what was searched. */
export interface CostPart {
  readonly kind: "retry" | "searches"
  readonly offer: Offer
  readonly member: string
  readonly cost: Micro | undefined
}

const NOTHING: readonly CostPart[] = []

export class CallCosts {
  readonly #catalogue: Pick<LiveCatalogue, "costing">
  /** Milliseconds since the epoch. */
  readonly openedAt: number
  readonly #attempts: AttemptUsage[] = []

  constructor(catalogue: Pick<LiveCatalogue, "costing">, openedAt: number) {
    this.#catalogue = catalogue
    this.openedAt = openedAt
  }

  begin(sent: SentRequest): AttemptUsage {
    const attempt = new AttemptUsage(sent)
    this.#attempts.push(attempt)
    return attempt
  }

  /** A backend ran a search by itself. */
  get hasSearched(): boolean {
    return this.#attempts.some(({ searches }) => searches > 0)
  }

  /** Of the final record: the turns that were answered, and the last try of a call that failed. Undefined where one is not known. */
  get final(): Micro | undefined {
    let sum: Micro = zero
    for (const one of this.#finalAttempts) {
      const cost = this.#costOf(one)
      if (cost === undefined) return undefined
      sum = plus(sum, cost)
    }
    return smaller(sum, largestCost)
  }

  /** What leaked beside it: nothing where there was one try, and no search. */
  get parts(): readonly CostPart[] {
    return this.#attempts.length === 1 && this.#attempts[0]?.searches === 0 ? NOTHING : this.#extraParts
  }

  get #extraParts(): CostPart[] {
    const finals = this.#finalAttempts
    const retries = this.#attempts.filter((one) => !finals.includes(one) && one.consumed !== undefined)
    const part = (kind: CostPart["kind"], one: AttemptUsage, cost: Micro | undefined): CostPart => {
      return { kind, offer: one.offer, member: one.member.id, cost }
    }
    const searching = this.#attempts.filter(({ searches }) => searches > 0)
    return [
      ...retries.map((one) => part("retry", one, this.#costOf(one))),
      ...searching.map((one) => part("searches", one, this.#searchesOf(one))).filter(({ cost }) => cost !== zero),
    ]
  }

  get #finalAttempts(): readonly AttemptUsage[] {
    return this.#attempts.length === 1 ? this.#attempts : this.#answeredOrLast
  }

  get #answeredOrLast(): readonly AttemptUsage[] {
    const last = this.#attempts.at(-1)
    return this.#attempts.filter((one) => one.isAnswered || one === last)
  }

  /** Without its searches, which are a part of their own. */
  #costOf({ consumed, offer, member }: AttemptUsage): Micro | undefined {
    if (consumed === undefined) return zero
    const costing = this.#catalogue.costing(offer.model.id, member.upstream, this.openedAt)
    return costing && costOf({ tokens: consumed, searches: 0 }, costing.cost, costing.unit)
  }

  #searchesOf({ searches, offer, member }: AttemptUsage): Micro | undefined {
    const costing = this.#catalogue.costing(offer.model.id, member.upstream, this.openedAt)
    if (costing === undefined) return undefined
    const { cost, unit } = costing
    return costOf({ tokens: noTokens, searches }, { ...cost, perCall: 0n }, unit)
  }
}
