/**
 * `/operator/models/{model}/retire` and `/restore`: an id that is served as another model, at that model's price. A step of a
 * rate is guarded as a price's is: whoever calls the old id pays the new price from then on.
 */
import { Type } from "@sinclair/typebox"
import { Elysia } from "elysia"
import { inForce } from "../../../actors/money/price.ts"
import { jumpJson, jumpProblem, jumps, priceJson, PriceShape, targetProblem, unsold } from "./model-json.ts"
import { Failure } from "../../failure/failure.ts"
import type { StoredModel } from "../../store/operator/models.ts"
import { operatorBy } from "../dashboard/session.ts"
import { refused } from "../route.ts"
import { exactly, field, orNull } from "../shapes.ts"
import { Changed, ConfirmJump, DryRun, find, instant, Jumps, make, ModelId, type ModelsDeps, Time } from "./models.ts"

const RetirementBody = exactly({ target: ModelId, until: Time, confirm_jump: ConfirmJump })
const Retired = Type.Intersect([
  Changed,
  Type.Object({
    prices: Type.Object(
      { from: orNull(PriceShape), to: orNull(PriceShape) },
      { description: field("The model's, and the target's.", "Harga model ini, dan harga penggantinya.") },
    ),
    jumps: Jumps,
  }),
])

export const operatorRetirementsController = (deps: ModelsDeps) => {
  const { models, authenticate, now } = deps
  const operators = operatorBy(authenticate)
  return new Elysia({ name: "operator/retirements" })
    .post(
      ...operators(
        "/operator/models/:model/retire",
        {
          tag: "Operator",
          role: "finance",
          summary: {
            en: "Serve an id as another model until a time, and then no more",
            id: "Layani sebuah id sebagai model lain sampai suatu waktu, lalu berhenti",
          },
          description: {
            en: "Calls of the id pay the target's price from then on. A rate that changes by more than twice needs `confirm_jump`.",
            id: "Sejak itu panggilan dengan id ini membayar harga penggantinya. Tarif yang berubah lebih dari dua kali lipat memerlukan `confirm_jump`.",
          },
          query: DryRun,
          body: RetirementBody,
          answer: Retired,
        },
        async ({ params, query, body, operator }) => {
          const until = instant("until", body.until)
          if (until instanceof Failure) return until
          if (until.getTime() < now()) return refused("until", "a time that is still to come")
          const place = await find(models, params.model)
          if (place instanceof Failure) return place
          const { model, all } = place
          const problem = targetProblem(model, body.target, all)
          if (problem !== undefined) return problem
          const { prices, jumps: found } = await pricesOf(deps, model.target ?? model.model, body.target)
          if (found.length > 0 && body.confirm_jump !== true && query.dry_run !== true) return jumpProblem(found)
          const after = { target: body.target, until: until.toISOString() }
          const change = { model: model.model, before: retirementOf(model), after, prices, jumps: found.map(jumpJson) }
          return await make(deps, query, change, async () =>
            (await models.retire(model.model, { target: body.target, until }, operator.act)) ? undefined : unsold(),
          )
        },
      ),
    )
    .post(
      ...operators(
        "/operator/models/:model/restore",
        {
          tag: "Operator",
          role: "finance",
          summary: { en: "Sell a retired model again", id: "Jual lagi model yang sudah berhenti" },
          query: DryRun,
          answer: Changed,
        },
        async ({ params, query, operator }) => {
          const place = await find(models, params.model)
          if (place instanceof Failure) return place
          const { model } = place
          return await make(deps, query, { model: model.model, before: retirementOf(model), after: null }, () =>
            models.restore(model.model, operator.act),
          )
        },
      ),
    )
}

/** What callers of the id pay now, and what they would pay. */
async function pricesOf({ models, now }: ModelsDeps, model: string, target: string) {
  const versions = await models.prices()
  const [from, to] = [model, target].map((id) =>
    inForce(
      versions.filter((price) => price.model === id),
      now(),
    ),
  )
  return {
    prices: { from: from === undefined ? null : priceJson(from), to: to === undefined ? null : priceJson(to) },
    jumps: from === undefined || to === undefined ? [] : jumps(from.rates, to.rates),
  }
}

const retirementOf = ({ target, until }: StoredModel) =>
  target === null || until === null ? null : { target, until: until.toISOString() }
