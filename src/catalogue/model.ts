/**
 * The catalogue as the gateway uses it: what is sold, where each model's backend is, and what a token costs.
 * Prices are kept apart from models because a model has many over time, and a record names the one it was charged at.
 *
 * It is in memory, replaced as a whole whenever the database's has been read again. What is in force is decided at each look-up,
 * so that a price with a future effective time needs no event to act.
 */
import { isDeepStrictEqual } from "node:util"
import { type Micro, micro, MICRO_PER_RUPIAH } from "../../actors/money/micro.ts"
import { type Cost, inForce, type Rates } from "../../actors/money/price.ts"
import type { Adaptation, BackendFormat, Endpoint } from "../language/request.ts"
import { HOUSE_CURRENCY } from "./exchange.ts"

export interface Model {
  /** Catalogue id, case-sensitive: what clients write. */
  readonly id: string
  readonly displayName: string
  readonly tier: string
  /** The label that is shown; `Upstream.provider` is the id that routes. */
  readonly provider: string
  readonly modality: string
  readonly supportsVision: boolean
  readonly supportsTools: boolean
  /** Tokens; null where the hard limit is not verified. */
  readonly contextWindow: number | null
  readonly maxOutputTokens: number
  readonly endpoints: ReadonlySet<Endpoint>
  /** Its pool, in the order of the file. */
  readonly upstreams: Upstreams
  /** Concurrent requests, over all customers. */
  readonly maxConcurrency: number
  /** The whole chain, in order; ids of live models. */
  readonly fallback: readonly string[]
  /** Top-level request parameters that are removed before forwarding. */
  readonly strip: readonly string[]
  /** Top-level request parameters that travel beside those of the format (docs/formats.md, "Fields that travel"). */
  readonly pass: readonly string[]
  /** Refused for this model on every endpoint: a feature ("tools"), or a top-level request parameter by its name. */
  readonly unsupported: readonly string[]
  /** Served for this model where the endpoint allows it; what is not listed is not served. */
  readonly features: readonly SoldFeature[]
  /** A long answer that does not stream is asked for as a stream and gathered (decisions §13.12). */
  readonly gather: boolean
  readonly createdAt: Date
}

/** How much may be asked at once and in any minute; what is absent is not bounded. */
export interface BackendLimits {
  readonly maxConcurrency?: number | undefined
  readonly requestsPerMinute?: number | undefined
  readonly tokensPerMinute?: number | undefined
}

/** One of the backends of a model: with each credential of its provider it is a member of the model's pool. */
export interface Upstream extends BackendLimits, Adaptation {
  /** Id of a provider in the providers file. */
  readonly provider: string
  readonly format: BackendFormat
  /** The backend's own name of the model. */
  readonly model: string
  /** Higher first: one of a lower priority is asked while none of a higher one is well and has room. */
  readonly priority: number
  /** Its part of the calls, beside the others of its priority; 0 gets none that another one can take. */
  readonly weight: number
}

export type Upstreams = readonly [Upstream, ...Upstream[]]

/** What a model sells only where the catalogue lists it. */
export type SoldFeature = "structured_outputs" | "web_search" | "reasoning"

export interface PriceVersion {
  readonly id: bigint
  readonly model: string
  /** Micro-rupiah for one token. */
  readonly rates: Rates
  /** Milliseconds since the epoch, as `inForce` of the pricing module takes it. */
  readonly effectiveAt: number
}

/** What a backend of a model charges the house, in force from `effectiveAt` until its next one. */
export interface CostVersion {
  readonly id: bigint
  readonly model: string
  /** `backendName` of the backend that it is of. */
  readonly backend: string
  readonly cost: Cost
  readonly effectiveAt: number
}

/** Micro-rupiah for one unit of a currency, from `effectiveAt` on. */
export interface ExchangeRate {
  readonly id: bigint
  readonly currency: string
  readonly unit: Micro
  readonly source: "operator" | "fetched"
  readonly effectiveAt: number
}

/** How costs name a backend of a model: by where it is, and not by its place in the pool. */
export const backendName = ({ provider, format, model }: Pick<Upstream, "provider" | "format" | "model">): string =>
  `${provider} ${format} ${model}`

/** A retired id that is still routable (gateway-api.md, "Versioning" 4): billed and answered as its target. */
export interface Alias {
  readonly id: string
  readonly target: string
  /** From then on the id is unknown. */
  readonly until: Date
}

/** Whether a member of a pool is asked: as its pool has it, only where no other one can be, or not at all. */
export const MEMBER_STATES = ["serving", "draining", "disabled"] as const
export type MemberState = (typeof MEMBER_STATES)[number]

/** What operators have set of a member while it is at work. */
export interface MemberSetting {
  readonly member: string
  readonly state: MemberState
  /** In the place of the catalogue's; undefined for that. */
  readonly weight: number | undefined
  /** When everything that had been found out about it was to be forgotten. Milliseconds since the epoch. */
  readonly retriedAt: number | undefined
}

export interface Catalogue {
  /** Live models, in the order they are shown in. */
  readonly models: readonly Model[]
  /** All versions, also past and coming ones, by model and time. */
  readonly prices: readonly PriceVersion[]
  /** As prices are. */
  readonly costs: readonly CostVersion[]
  /** Of each currency those that calls under way may still be counted at, and later ones. */
  readonly exchangeRates: readonly ExchangeRate[]
  /** Also those whose grace is over: time passes while the catalogue is in memory. */
  readonly aliases: readonly Alias[]
  /** Of members of pools that are as the catalogue has them there is none. */
  readonly members: readonly MemberSetting[]
}

/** A place to forward to. It is unconfigured while none of its credentials has a value. */
export interface Provider {
  readonly id: string
  readonly label: string
  /** Without `/v1` and without a trailing slash. */
  readonly baseUrl: string
  /** In the order of the file; their names differ. */
  readonly credentials: readonly [Credential, ...Credential[]]
  /** Where calls are signed (AWS SigV4) and carry no key. */
  readonly signing?: { readonly region: string } | undefined
  /** Sent with every call; they override the credentials that the gateway would send. */
  readonly headers: Readonly<Record<string, string>>
  /** Its backends are told which trace a call is in (`traceparent`); otherwise they are not. */
  readonly traceContext?: boolean | undefined
}

/** What the operator is known by at a provider. Its limits hold over all models that are asked with it. */
export interface Credential extends BackendLimits {
  readonly name: string
  /** Of a provider whose calls are signed: the access key's id. */
  readonly key: SecretSource
  /** Beside the other credentials of its provider. */
  readonly weight: number
  /** Of a provider whose calls are signed. */
  readonly signing?: { readonly secretKey: SecretSource; readonly sessionToken: SecretSource | undefined } | undefined
}

/** Where a secret is: in a variable, or in a file by its absolute path. */
export type SecretSource = { readonly env: string } | { readonly file: string }

/** The one credential of a provider that names a variable alone. */
export const soleCredential = (env: string): Credential => ({ name: "default", key: { env }, weight: 1 })

/** A model that can be sold now, and the price version in force. */
export interface Offer {
  readonly model: Model
  readonly price: PriceVersion
}

/** By what a backend's bill comes to micro-rupiah. */
export interface Costing {
  readonly cost: Cost
  /** Micro-rupiah for one unit of the cost's currency. */
  readonly unit: Micro
}

/** Where no model's window is known. */
const SMALLEST_GUESS = 128_000

export class LiveCatalogue {
  #models = new Map<string, Model>()
  #endpoints = new Set<Endpoint>()
  #prices = new Map<string, PriceVersion[]>()
  #costs = new Map<string, CostVersion[]>()
  #exchangeRates = new Map<string, ExchangeRate[]>()
  #aliases = new Map<string, Alias>()
  #members = new Map<string, MemberSetting>()
  #latestMs = -Infinity
  #largestWindow = 0

  constructor(catalogue: Catalogue) {
    this.replace(catalogue)
  }

  /** In tokens; what a model whose window is not known is taken to have at the most. */
  get largestWindow(): number {
    return this.#largestWindow
  }

  replace(catalogue: Catalogue): void {
    this.#largestWindow = Math.max(SMALLEST_GUESS, ...catalogue.models.map(({ contextWindow }) => contextWindow ?? 0))
    this.#models = new Map(catalogue.models.map((model) => [model.id, model]))
    this.#endpoints = new Set(catalogue.models.flatMap(({ endpoints }) => [...endpoints]))
    this.#prices = Map.groupBy(catalogue.prices, (price) => price.model)
    this.#costs = Map.groupBy(catalogue.costs, ({ model, backend }) => `${model} ${backend}`)
    this.#exchangeRates = Map.groupBy(catalogue.exchangeRates, ({ currency }) => currency)
    this.#aliases = new Map(catalogue.aliases.map((alias) => [alias.id, alias]))
    this.#members = new Map(catalogue.members.map((setting) => [setting.member, setting]))
  }

  /** The model of this id, or the target of a retired id in its grace period, at the price in force. */
  find(id: string, nowMs: number): Offer | undefined {
    const alias = this.#aliases.get(id)
    const target = alias !== undefined && nowMs < alias.until.getTime() ? alias.target : id
    return this.#offer(target, nowMs)
  }

  /** Whether any model is served on it. */
  serves(endpoint: Endpoint): boolean {
    return this.#endpoints.has(endpoint)
  }

  /** What operators have set of a member of a pool; undefined where it is as the catalogue has it. */
  member(id: string): MemberSetting | undefined {
    return this.#members.get(id)
  }

  /** All models that have a price in force, in catalogue order. */
  offers(nowMs: number): Offer[] {
    return [...this.#models.keys()].flatMap((id) => this.#offer(id, nowMs) ?? [])
  }

  /** The next price of a model whose rates are others than those in force; undefined where none is to come. */
  coming({ model, price }: Offer, nowMs: number): PriceVersion | undefined {
    // A clock that was set back may be before the price that is sold by.
    const from = Math.max(nowMs, price.effectiveAt)
    const later = (this.#prices.get(model.id) ?? []).filter(
      ({ effectiveAt, rates }) => effectiveAt > from && !isDeepStrictEqual(rates, price.rates),
    )
    return later.toSorted((a, b) => a.effectiveAt - b.effectiveAt)[0]
  }

  /** Retired ids that still answer, as their targets. */
  retiring(nowMs: number): Alias[] {
    return [...this.#aliases.values()].filter(({ until }) => nowMs < until.getTime())
  }

  /** What is in force at a moment for a backend of a model; undefined where its cost or its currency's rate is not known. */
  costing(model: string, upstream: Upstream, atMs: number): Costing | undefined {
    const cost = inForce(this.#costs.get(`${model} ${backendName(upstream)}`) ?? [], atMs)?.cost
    const unit = cost && this.#unitOf(cost.currency, atMs)
    return cost && unit && { cost, unit }
  }

  #unitOf(currency: string, atMs: number): Micro | undefined {
    if (currency === HOUSE_CURRENCY) return micro(MICRO_PER_RUPIAH)
    return inForce(this.#exchangeRates.get(currency) ?? [], atMs)?.unit
  }

  #offer(id: string, nowMs: number): Offer | undefined {
    const model = this.#models.get(id)
    const versions = this.#prices.get(id) ?? []
    // A clock that is set back behind a model's first price does not take from sale what has been sold.
    this.#latestMs = Math.max(this.#latestMs, nowMs)
    const price = inForce(versions, nowMs) ?? inForce(versions, this.#latestMs)
    return model && price && { model, price }
  }
}
