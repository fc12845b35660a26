/**
 * Which models may answer a call: the one asked for and its chain of fallback models, as far as they can do what is asked
 * and may cost what they cost (decisions §4.9–11, §7, §13.6).
 */
import type { Fallback } from "../../actors/key.ts"
import type { Offer } from "../catalogue/live.ts"
import { Failure } from "../failure/failure.ts"
import type { Backend } from "../upstream/providers.ts"
import type { Exchange } from "../wire/exchange.ts"
import { tooLong } from "../wire/overflow.ts"
import { mayAnswer } from "./fallback.ts"
import type { GatewayPorts } from "./ports.ts"
import type { Marker } from "./settle.ts"
import { lacking, type Understood } from "./understand.ts"

/** A model that a call may go to, and its backend. */
export interface Candidate {
  readonly offer: Offer
  readonly backend: Backend
  readonly exchange: Exchange
}

type Ports = Pick<GatewayPorts, "catalogue" | "backends" | "search">

/** What whoever calls may have. */
export interface CandidateTerms {
  readonly fallback: Fallback
  /** Whether the account can pay for the input at a model's rates now. */
  readonly pays: (offer: Offer) => Promise<boolean>
}

/** The models that may answer a call, in order. Those after the first are checked when a reroute asks for them. */
export interface Chain {
  readonly first: Candidate
  readonly others: AsyncIterator<Candidate, unknown>
  /** Of the models before the first that are too small. */
  readonly markers: readonly Marker[]
}

/** A model whose window is too small for the estimate is passed over, before the first one with a marker (decisions §4.11). */
export async function candidates(
  understood: Understood,
  terms: CandidateTerms,
  ports: Ports,
  nowMs: number,
): Promise<Chain | Failure> {
  const { offer: asked, request } = understood
  const markers: Marker[] = []
  const suited = suitable(understood, terms, ports, nowMs)
  for (let next = await suited.next(); next.done !== true; next = await suited.next()) {
    const { value } = next
    if (value instanceof Failure) return value
    if (value.exchange !== undefined) return { first: value, others: candidatesAmong(suited), markers }
    markers.push({ offer: value.offer, status: "fallback_oversize", attempts: 0, durationMs: 0 })
  }
  const message = tooLong({ count: request.inputTokens, limit: asked.model.contextWindow ?? 0 })
  return new Failure("upstream.context_length_exceeded", { message })
}

/** A model that could do what is asked, had it the room. */
interface TooSmall {
  readonly offer: Offer
  readonly exchange?: undefined
}

/** What the asked model cannot do is a Failure; another model of the chain is left out for it. */
async function* suitable(
  understood: Understood,
  { fallback, pays }: CandidateTerms,
  { catalogue, backends, search }: Ports,
  nowMs: number,
): AsyncGenerator<Candidate | TooSmall | Failure, void, undefined> {
  const { offer: asked, request } = understood
  const backend = backends.get(asked.model.upstream.provider)
  if (backend === undefined) {
    yield (await unspeakable(understood)) ?? new Failure("dependency.upstream_unconfigured")
    return
  }
  yield await fitted(understood, asked, backend, pays)
  const known = new Set([asked.model.id])
  for (const id of asked.model.fallback) {
    const offer = catalogue.find(id, nowMs)
    const backend = offer && backends.get(offer.model.upstream.provider)
    if (offer === undefined || backend === undefined || known.has(offer.model.id)) continue
    if (!mayAnswer(fallback, asked, offer)) continue
    known.add(offer.model.id)
    if (lacking(offer.model, request, search !== undefined)) continue
    const fit = await fitted(understood, offer, backend, pays)
    if (!(fit instanceof Failure)) yield fit
  }
}

async function* candidatesAmong(
  suited: AsyncGenerator<Candidate | TooSmall | Failure, void, undefined>,
): AsyncGenerator<Candidate, void, undefined> {
  for await (const one of suited) if (!(one instanceof Failure) && one.exchange !== undefined) yield one
}

/**
 * What the backend's format cannot say comes before the window (decisions §4.9, §4.11), but not of a large body (§13.10), which
 * is translated only where it fits and could be paid for.
 */
async function fitted(
  { request, exchange, large }: Understood,
  offer: Offer,
  backend: Backend,
  pays: CandidateTerms["pays"],
): Promise<Candidate | TooSmall | Failure> {
  const { contextWindow } = offer.model
  const fits = contextWindow === null || request.inputTokens <= contextWindow
  if (large && !fits) return { offer }
  if (large && !(await pays(offer))) return new Failure("billing.insufficient_balance")
  const met = await exchange(offer.model)
  if (met instanceof Failure) return met
  return fits ? { offer, backend, exchange: met } : { offer }
}

/** A small body that the format cannot say is refused as such also where no backend is. */
async function unspeakable({ offer, exchange, large }: Understood): Promise<Failure | undefined> {
  const met = large ? undefined : await exchange(offer.model)
  return met instanceof Failure ? met : undefined
}
