/**
 * The catalogue in memory, replaced as a whole whenever the database's has been read again. What is in force is decided
 * at each look-up, so that a price with a future effective time needs no event to act.
 */
import { isDeepStrictEqual } from "node:util"
import { type Cost, inForce } from "../../actors/money/price.ts"
import { type Micro, micro, MICRO_PER_RUPIAH } from "../../actors/money/micro.ts"
import {
  type Alias,
  backendName,
  type Catalogue,
  type CostVersion,
  type ExchangeRate,
  type MemberSetting,
  type Model,
  type PriceVersion,
  type Upstream,
} from "./model.ts"
import type { Endpoint } from "../language/request.ts"
import { HOUSE_CURRENCY } from "./exchange.ts"

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
