/**
 * What a key is bound to, beside its networks, which its actor judges (actors/key.ts): wire formats, models, and the largest rate
 * (decisions §13.11). A key without a binding is not asked.
 */
import type { KeyBinding, KeyRecord } from "../../actors/key-record.ts"
import type { Rates } from "../../actors/money/price.ts"
import type { Offer } from "../catalogue/live.ts"
import { Failure } from "../failure/failure.ts"
import type { Endpoint } from "../language/request.ts"

/** Said before the body is read. */
export function endpointRefused({ binding }: Pick<KeyRecord, "binding">, endpoint: Endpoint): Failure | undefined {
  if (binding === undefined) return undefined
  const { endpoints, within } = binding
  if (endpoints === undefined || endpoints.has(endpoint)) return endpointRefused({ binding: within }, endpoint)
  return notAllowed(`This API key is not for this endpoint, but for: ${[...endpoints].join(", ")}.`)
}

/** The lists of pages that a call must be on, each of them; undefined where its key has none, and no page may call. */
export function pagesOf({ binding, parent }: Pick<KeyRecord, "binding" | "parent">): readonly Pages[] | undefined {
  const own = binding?.origins
  const ofParent = binding?.within?.origins
  if (own === undefined && ofParent === undefined) return undefined
  // A parent without a list lets no page in, whatever its child was allowed before.
  return parent === undefined ? [own ?? NONE] : [own ?? ofParent ?? NONE, ofParent ?? NONE]
}
type Pages = ReadonlySet<string>
const NONE: Pages = new Set()

/** `id` is what the call named: the model's own, or a retired one that leads to it. */
export function modelRefused(binding: KeyBinding | undefined, id: string, offer: Offer): Failure | undefined {
  if (binding === undefined) return undefined
  if (allows(binding, id, offer)) return modelRefused(binding.within, id, offer)
  const { model } = offer
  if (!isListed(binding, id, offer)) return notAllowed(`This API key is not for the model ${model.id}.`)
  const rate = highest(offer.price.rates)
  return notAllowed(
    `This API key is for models of at most ${binding.maxRate} micro-rupiah a token; ${model.id} has a rate of ${rate}.`,
  )
}

/** Whether a key may use a model under this id, at the rates in force. */
export const mayUse = (binding: KeyBinding, id: string, offer: Offer): boolean =>
  allows(binding, id, offer) && (binding.within === undefined || mayUse(binding.within, id, offer))

/** Whether a key may use a model on one of its endpoints. */
export const mayUseSomewhere = (binding: KeyBinding, offer: Offer): boolean =>
  mayUse(binding, offer.model.id, offer) &&
  [...offer.model.endpoints].some((each) => endpointRefused({ binding }, each) === undefined)

/** What the key is bound to itself. */
const allows = (binding: KeyBinding, id: string, offer: Offer): boolean =>
  isListed(binding, id, offer) && (binding.maxRate === undefined || highest(offer.price.rates) <= binding.maxRate)

/** A retired id that is on the list goes on to its model, and one that is not is its model's other name. */
const isListed = ({ models }: KeyBinding, id: string, { model }: Offer): boolean =>
  models === undefined || models.has(model.id) || models.has(id)

/** No token of whatever kind may cost more than the key's rate: an output rate alone would let dear input through. */
const highest = ({ input, output, cacheRead, cacheWrite }: Rates): Rates["input"] =>
  [output, cacheRead, cacheWrite].reduce((most, rate) => (rate > most ? rate : most), input)

const notAllowed = (message: string): Failure => new Failure("auth.key_not_allowed", { message })
