/** What an owner says of a key that is made, and not of a child: its ceiling of ten minutes too. */
import { type Static, Type } from "@sinclair/typebox"
import { Failure } from "../../failure/failure.ts"
import type { Breaker } from "../../store/breakers.ts"
import { described } from "../shapes.ts"
import { breakerAction, Ceiling, PauseMinutes, toBreaker } from "./breaker-body.ts"
import { NewKey } from "./key-settings.ts"
import { fieldAnd } from "../said.ts"

export const NewOwnKey = Type.Composite([
  NewKey,
  Type.Object({
    breaker_ceiling_micro: Type.Optional(
      described(
        Ceiling,
        fieldAnd(Ceiling.description, { en: ": within any ten minutes", id: ": dalam sepuluh menit mana pun" }),
      ),
    ),
    breaker_action: Type.Optional(breakerAction),
    breaker_pause_minutes: Type.Optional(
      described(
        PauseMinutes,
        fieldAnd(PauseMinutes.description, {
          en: ": after how long a stop is over by itself",
          id: ": setelah berapa lama penghentian berakhir sendiri",
        }),
      ),
    ),
  }),
])

/** Undefined where none is asked for. What says how to stop without saying when is a mistake. */
export function newBreaker(body: Static<typeof NewOwnKey>): Breaker | Failure | undefined {
  const { breaker_ceiling_micro: ceiling, breaker_action: action, breaker_pause_minutes: minutes } = body
  if (ceiling !== undefined) {
    return toBreaker({ ceiling_micro: ceiling, ...(action && { action }), ...(minutes && { pause_minutes: minutes }) })
  }
  if (action === undefined && minutes === undefined) return undefined
  const lone = action === undefined ? "breaker_pause_minutes" : "breaker_action"
  return new Failure("request.invalid", { message: `'${lone}' needs a 'breaker_ceiling_micro'.` })
}
