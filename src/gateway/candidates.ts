/**
 * Which models may answer a call: the one asked for and its chain of fallback models, as far as they can do what is asked
 * (decisions §4.9–11, §7).
 */
import type { LiveCatalogue, Offer } from "../catalogue/live.ts"
import { Failure } from "../failure/failure.ts"
import type { Backend } from "../upstream/providers.ts"
import type { Exchange } from "../wire/exchange.ts"
import { tooLong } from "../wire/overflow.ts"
import type { Marker } from "./settle.ts"
import { suit, type Understood } from "./understand.ts"

/** A model that a call may go to, and its backend. */
export interface Candidate {
  readonly offer: Offer
  readonly backend: Backend
  readonly exchange: Exchange
}

/**
 * The models that may answer, in order: the one asked for and its chain, without those that cannot do what is asked. A
 * model whose window is too small for the estimate is passed over with a marker (decisions §4.11).
 */
export function candidates(
  { offer: asked, request, exchange }: Understood,
  catalogue: LiveCatalogue,
  backends: ReadonlyMap<string, Backend>,
  nowMs: number,
  searches: boolean,
): { readonly fitting: readonly Candidate[]; readonly markers: readonly Marker[] } | Failure {
  const first = backends.get(asked.model.upstream.provider)
  if (first === undefined) return new Failure("dependency.upstream_unconfigured")
  const chain: Candidate[] = [{ offer: asked, backend: first, exchange }]
  for (const id of asked.model.fallback) {
    const offer = catalogue.find(id, nowMs)
    const backend = offer && backends.get(offer.model.upstream.provider)
    if (offer === undefined || backend === undefined) continue
    if (chain.some((known) => known.offer.model.id === offer.model.id)) continue
    const suited = suit(offer.model, request, searches)
    if (!(suited instanceof Failure)) chain.push({ offer, backend, exchange: suited })
  }
  const fits = ({ offer }: Candidate) =>
    offer.model.contextWindow === null || request.inputTokens <= offer.model.contextWindow
  const from = chain.findIndex(fits)
  if (from < 0) {
    const message = tooLong({ count: request.inputTokens, limit: asked.model.contextWindow ?? 0 })
    return new Failure("upstream.context_length_exceeded", { message })
  }
  const markers = chain
    .slice(0, from)
    .map(({ offer }) => ({ offer, status: "fallback_oversize", attempts: 0, durationMs: 0 }) as const)
  return { fitting: chain.slice(from).filter(fits), markers }
}
