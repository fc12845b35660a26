/**
 * Which models may answer a call: the one asked for and its chain of fallback models, as far as they can do what is asked
 * and may cost what they cost (decisions §4.9–11, §7, §13.6). No answer is dearer than asked for, unless the key allows any;
 * what the key allows a call may narrow by a header, and widen where the key follows chains at all.
 */
import { andThen, type MaybePromise } from "../../actors/kernel/actor.ts"
import type { Fallback, KeyBinding } from "../../actors/key-record.ts"
import type { Rates } from "../../actors/money/price.ts"
import type { Model, Offer } from "../catalogue/model.ts"
import { Failure, invalid } from "../failure/failure.ts"
import type { ModelRequest } from "../language/request.ts"
import { type Exchange, minAnswerTokens } from "../wire/exchange.ts"
import { promptTooLongMessage } from "../wire/error-facts.ts"
import { mayUse, missingFeature } from "./eligibility.ts"
import type { GatewayPorts } from "./ports.ts"
import { MemberSelector } from "./member-selector.ts"
import type { ParsedRequest } from "./parse-request.ts"
import { windowOf } from "./input-estimate.ts"

/** A model that a call may go to. */
export interface Candidate {
  readonly offer: Offer
  /** Selects the members of its pool. */
  readonly members: MemberSelector
  /** The smallest answer limit that the members take; a client's smaller one is paid for as this. */
  readonly minAnswerTokens: number
}

/** A model that the call was rerouted from. */
export interface Marker {
  readonly offer: Offer
  /** Who of its pool was asked last; undefined where nobody was. */
  readonly member: string | undefined
  readonly status: "fallback_429" | "fallback_oversize"
  readonly attempts: number
  readonly durationMs: number
}

type Ports = Pick<GatewayPorts, "catalogue" | "pools" | "search" | "clock">

/** What the caller may use. */
export interface CandidateTerms {
  readonly fallback: Fallback
  readonly binding: KeyBinding | undefined
  /** Whether the account can pay for the input at a model's rates now. */
  readonly canAfford: (offer: Offer) => Promise<boolean>
}

/** A model whose context window is too small for the input. */
interface WindowTooSmall {
  readonly offer: Offer
  readonly members?: undefined
}

/** The models that may answer a call, in order. Those after the first are checked when a reroute asks for them. */
export class FallbackChain {
  readonly first: Candidate
  /** Of the models before the first that are too small. */
  readonly markers: readonly Marker[]
  readonly #others: RemainingModels

  constructor(first: Candidate, markers: readonly Marker[], others: RemainingModels) {
    this.first = first
    this.markers = markers
    this.#others = others
  }

  /** The next model; undefined after the last. */
  async next(): Promise<Candidate | undefined> {
    for (;;) {
      const other = await this.#others.next()
      if (other?.members !== undefined || other === undefined) return other
    }
  }
}

/**
 * What the asked model cannot do is a Failure; another model of the chain is left out for it. A model whose window is too
 * small for the estimate is passed over, before the first one with a marker (decisions §4.11).
 */
export function candidates(
  parsedRequest: ParsedRequest,
  terms: CandidateTerms,
  ports: Ports,
): MaybePromise<FallbackChain | Failure> {
  const { offer } = parsedRequest
  if (ports.pools.of(offer.model).members.length === 0) return unconfigured(parsedRequest)
  const others = new RemainingModels(parsedRequest, terms, ports)
  const requested = checkFit(parsedRequest, offer, terms, ports)
  if (requested instanceof Promise || requested instanceof Failure || requested.members === undefined)
    return firstFit(parsedRequest, requested, others)
  return new FallbackChain(requested, NO_MARKERS, others)
}

const NO_MARKERS: readonly Marker[] = []

async function firstFit(
  { offer, request }: ParsedRequest,
  requested: MaybePromise<Candidate | WindowTooSmall | Failure>,
  others: RemainingModels,
): Promise<FallbackChain | Failure> {
  const markers: Marker[] = []
  let fit: Candidate | WindowTooSmall | Failure | undefined = await requested
  for (; fit !== undefined; fit = await others.next()) {
    if (fit instanceof Failure) return fit
    if (fit.members !== undefined) return new FallbackChain(fit, markers, others)
    markers.push({ offer: fit.offer, member: undefined, status: "fallback_oversize", attempts: 0, durationMs: 0 })
  }
  const message = promptTooLongMessage({ count: request.inputTokens, limit: windowOf(offer.model, request) ?? 0 })
  return new Failure("upstream.context_length_exceeded", { message })
}

/** The models of a chain after the one that was asked for. */
class RemainingModels {
  readonly #parsedRequest: ParsedRequest
  readonly #terms: CandidateTerms
  readonly #ports: Ports
  readonly #nowMs: number
  #seen: Set<string> | undefined
  #place = 0

  constructor(parsedRequest: ParsedRequest, terms: CandidateTerms, ports: Ports) {
    this.#parsedRequest = parsedRequest
    this.#terms = terms
    this.#ports = ports
    this.#nowMs = ports.clock.now()
  }

  async next(): Promise<Candidate | WindowTooSmall | undefined> {
    const { catalogue, pools, search } = this.#ports
    const { offer: requested, request } = this.#parsedRequest
    const { binding } = this.#terms
    this.#seen ??= new Set([requested.model.id])
    for (let id = this.#nextId(); id !== undefined; id = this.#nextId()) {
      const offer = catalogue.find(id, this.#nowMs)
      if (offer === undefined || this.#seen.has(offer.model.id)) continue
      if (!mayAnswer(this.#terms.fallback, requested, offer)) continue
      if (binding !== undefined && !mayUse(binding, id, offer)) continue
      this.#seen.add(offer.model.id)
      if (missingFeature(offer.model, request, search !== undefined)) continue
      if (pools.of(offer.model).members.length === 0) continue
      const fit = await checkFit(this.#parsedRequest, offer, this.#terms, this.#ports)
      if (!(fit instanceof Failure)) return fit
    }
    return undefined
  }

  #nextId(): string | undefined {
    const { offer, request } = this.#parsedRequest
    // No other model has the same vectors, whatever chain this one was given.
    return request.endpoint === "embeddings" ? undefined : offer.model.fallback[this.#place++]
  }
}

/**
 * What no member's format can say comes before the window (decisions §4.9, §4.11), but not of a large body (§13.10), which
 * is translated only where it fits and could be paid for.
 */
function checkFit(
  parsedRequest: ParsedRequest,
  offer: Offer,
  { canAfford }: CandidateTerms,
  { pools, search }: Ports,
): MaybePromise<Candidate | WindowTooSmall | Failure> {
  const { request, exchange, conversation, large } = parsedRequest
  const { model } = offer
  const contextWindow = windowOf(model, request)
  const members = new MemberSelector({
    pools,
    pool: pools.of(model),
    conversation,
    serves: isOfBackend(request)
      ? (upstream) => missingFeature(model, request, search !== undefined, [upstream]) === undefined
      : undefined,
    exchange: (upstream) => exchange(model, upstream),
  })
  const fits = contextWindow === null || request.inputTokens <= contextWindow
  const toCandidate = (found: Exchange | Failure | undefined) => {
    if (found === undefined) return new Failure("dependency.upstream_unconfigured")
    if (found instanceof Failure) return found
    if (!fits) return { offer }
    return { offer, members, minAnswerTokens: leastOf(found, model, request) }
  }
  if (!large) return andThen(members.firstExchange(), toCandidate)
  if (!fits) return { offer }
  return canAfford(offer).then((can) =>
    can ? andThen(members.firstExchange(), toCandidate) : new Failure("billing.insufficient_balance"),
  )
}

/** What a model does where one backend of it may, and another may not. */
const isOfBackend = ({ features }: ModelRequest): boolean =>
  features.has("web_search") || features.has("structured_outputs")

const leastOf = (met: Exchange, { upstreams }: Model, { endpoint }: ModelRequest): number =>
  upstreams.length === 1 ? met.minAnswerTokens : minAnswerTokens(endpoint, upstreams)

/** A small body that the format cannot say is refused as such also where no backend is. */
async function unconfigured({ offer, exchange, large }: ParsedRequest): Promise<Failure> {
  const found = large ? undefined : await exchange(offer.model, offer.model.upstreams[0])
  return found instanceof Failure ? found : new Failure("dependency.upstream_unconfigured")
}

/** From the narrowest. */
const values: readonly Fallback[] = ["off", "never_dearer", "any"]

/** What of its chain a call may have: as the key allows, and as its header asks. */
export function fallbackOf(ofKey: Fallback, headers: Headers): Fallback | Failure {
  const header = headers.get("x-fallback")?.trim() ?? ""
  if (header === "") return ofKey
  const value = values.find((known) => known === header)
  if (value === undefined) {
    return invalid(`'X-Fallback' must be one of: ${values.join(", ")}.`)
  }
  return ofKey === "off" ? ofKey : value
}

/** Whether a model of the chain may answer for the asked one, at the rates in force. */
const mayAnswer = (fallback: Fallback, requested: Offer, other: Offer): boolean =>
  fallback === "any" || (fallback === "never_dearer" && !isDearer(other.price.rates, requested.price.rates))

const buckets: readonly (keyof Rates)[] = ["input", "output", "cacheRead", "cacheWrite"]

/** A call's tokens are known when it has ended, so each bucket counts by itself. */
const isDearer = (rates: Rates, than: Rates): boolean => buckets.some((bucket) => rates[bucket] > than[bucket])

/** What a rerouted answer says in its head. */
export const rerouteHeaders = (requested: Offer, answering: Offer): Record<string, string> =>
  answering.model.id === requested.model.id
    ? {}
    : { "X-Model": answering.model.id, "X-Rerouted-From": requested.model.id }
