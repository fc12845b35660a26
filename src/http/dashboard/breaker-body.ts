/** What an owner says of a ceiling of ten minutes, of a key or of the account. */
import { type Static, Type } from "@sinclair/typebox"
import { micro } from "../../../actors/money/micro.ts"
import { Failure } from "../../failure/failure.ts"
import type { Breaker } from "../../store/breakers.ts"
import { described, field, fieldAnd, oneOf, orNull } from "../shapes.ts"
import { NewKey } from "./key-settings.ts"

const Ceiling = Type.Integer({
  minimum: 1,
  maximum: Number.MAX_SAFE_INTEGER,
  description: field("an integer of micro-rupiah, 1 or more", "bilangan bulat mikro-rupiah, 1 atau lebih"),
})
export const PauseMinutes = Type.Integer({
  minimum: 1,
  maximum: 10_080,
  description: field("an integer of minutes from 1 to 10,080", "bilangan bulat menit dari 1 sampai 10.080"),
})
const breakerAction = oneOf(
  ["warn", "stop"],
  field(
    "'warn' or 'stop': a warning, or 403 `quota.key_paused` from the ceiling on, before it is passed",
    "'warn' atau 'stop': peringatan, atau 403 `quota.key_paused` sejak batasnya, sebelum terlampaui",
  ),
)
export const breakerFields = {
  ceiling_micro: orNull(
    Ceiling,
    fieldAnd(Ceiling.description, {
      en: ", or null for none: within any ten minutes",
      id: ", atau null untuk tidak ada: dalam sepuluh menit mana pun",
    }),
  ),
  action: Type.Optional(breakerAction),
  pause_minutes: Type.Optional(
    orNull(
      PauseMinutes,
      fieldAnd(PauseMinutes.description, {
        en: ", or null: after how long a stop is over by itself",
        id: ", atau null: setelah berapa lama penghentian berakhir sendiri",
      }),
    ),
  ),
}
export const KeyBreaker = Type.Object(breakerFields)

/** Without an action it warns. */
export const toBreaker = ({
  ceiling_micro: ceiling,
  action,
  pause_minutes: minutes,
}: Static<typeof KeyBreaker>): Breaker => ({
  ceilingMicro: ceiling === null ? undefined : micro(BigInt(ceiling)),
  stops: action === "stop",
  pauseMinutes: minutes ?? undefined,
})

/** What an owner says of a key that is made, and not of a child: its ceiling of ten minutes too. */
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
