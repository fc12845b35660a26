/**
 * Which models may answer a call: the one asked for and its chain of fallback models, as far as they can do what is asked
 * (decisions §4.9–11, §7).
 */
import type { Offer } from "../catalogue/live.ts"
import { Failure } from "../failure/failure.ts"
import type { Backend } from "../upstream/providers.ts"
import type { Exchange } from "../wire/exchange.ts"
import { tooLong } from "../wire/overflow.ts"
import type { GatewayPorts } from "./ports.ts"
import type { Marker } from "./settle.ts"
import { suit, type Understood } from "./understand.ts"

/** A model that a call may go to, and its backend. */
export interface Candidate {
  readonly offer: Offer
  readonly backend: Backend
  readonly exchange: Exchange
}

type Ports = Pick<GatewayPorts, "catalogue" | "backends" | "search">

/** The models that may answer a call, in order. Those after the first are checked when a reroute asks for them. */
export interface Chain {
  readonly first: Candidate
  readonly others: Iterator<Candidate, unknown>
  /** Of the models before the first that are too small. */
  readonly markers: readonly Marker[]
}

/** A model whose window is too small for the estimate is passed over, before the first one with a marker (decisions §4.11). */
export function candidates(understood: Understood, ports: Ports, nowMs: number): Chain | Failure {
  const { offer: asked, request } = understood
  const backend = ports.backends.get(asked.model.upstream.provider)
  if (backend === undefined) return new Failure("dependency.upstream_unconfigured")
  const fits = ({ offer: { model } }: Candidate) =>
    model.contextWindow === null || request.inputTokens <= model.contextWindow
  const suited = suitable(understood, backend, ports, nowMs)
  const markers: Marker[] = []
  for (let next = suited.next(); next.done !== true; next = suited.next()) {
    if (fits(next.value)) return { first: next.value, others: suited.filter(fits), markers }
    markers.push({ offer: next.value.offer, status: "fallback_oversize", attempts: 0, durationMs: 0 })
  }
  const message = tooLong({ count: request.inputTokens, limit: asked.model.contextWindow ?? 0 })
  return new Failure("upstream.context_length_exceeded", { message })
}

/** The model asked for and its chain, without those that cannot do what is asked. */
function* suitable(
  { offer: asked, request, exchange }: Understood,
  backend: Backend,
  { catalogue, backends, search }: Ports,
  nowMs: number,
): Generator<Candidate, void, undefined> {
  yield { offer: asked, backend, exchange }
  const known = new Set([asked.model.id])
  for (const id of asked.model.fallback) {
    const offer = catalogue.find(id, nowMs)
    const backend = offer && backends.get(offer.model.upstream.provider)
    if (offer === undefined || backend === undefined || known.has(offer.model.id)) continue
    known.add(offer.model.id)
    const suited = suit(offer.model, request, search !== undefined)
    if (!(suited instanceof Failure)) yield { offer, backend, exchange: suited }
  }
}
