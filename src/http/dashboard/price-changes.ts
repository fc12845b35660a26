/** `/account/price-changes`: the coming prices of what the account uses, with what they would have made of its last 30 days. */
import { Type } from "@sinclair/typebox"
import { Elysia } from "elysia"
import { microToJson } from "../../../actors/money/micro.ts"
import type { PriceChangeStore } from "../../store/announcements.ts"
import { described, field, integer, listOf, micro, text, time } from "../shapes.ts"
import { type Authenticate, signedInBy } from "./session.ts"

export interface PriceChangesDeps {
  readonly priceChanges: PriceChangeStore
  readonly authenticate: Authenticate
  readonly now?: () => number
}

const DAYS = 30
const DAY_MS = 24 * 60 * 60 * 1_000
const HOUR_MS = 60 * 60 * 1_000

const PriceChanges = Type.Object({
  days: integer,
  since: described(time, field("The hour that the calls are counted from.", "Jam mulai panggilannya dihitung.")),
  ...listOf(
    Type.Object({
      model: text,
      display_name: text,
      effective_at: described(
        time,
        field(
          "When the model's next price begins; its rates are in `GET /models`.",
          "Kapan harga baru model ini mulai berlaku; tarifnya ada di `GET /models`.",
        ),
      ),
      calls: described(
        integer,
        field(
          "The account's charged calls of the model since then.",
          "Panggilan akun ke model ini yang ditagih sejak itu.",
        ),
      ),
      difference_micro: described(
        micro,
        field(
          "What the tokens of these calls cost more at the coming price than at the present one; negative where they cost less.",
          "Tambahan biaya token panggilan itu dengan harga yang akan datang dibanding harga sekarang; negatif jika lebih murah.",
        ),
      ),
    }),
  ).properties,
})

export const priceChangesController = ({ priceChanges, authenticate, now = Date.now }: PriceChangesDeps) => {
  const signedIn = signedInBy(authenticate)
  return new Elysia({ name: "dashboard/price-changes" }).get(
    ...signedIn(
      "/account/price-changes",
      {
        may: "read",
        tag: "Account",
        summary: {
          en: "Coming prices of the models that the account used in the last 30 days, and their effect on those days",
          id: "Perubahan harga mendatang dari model yang dipakai akun dalam 30 hari terakhir, dan pengaruhnya jika sudah berlaku pada hari-hari itu",
        },
        answer: PriceChanges,
      },
      async ({ session }) => {
        const nowMs = now()
        // Sums are of whole hours.
        const since = new Date(Math.floor((nowMs - DAYS * DAY_MS) / HOUR_MS) * HOUR_MS)
        const changes = await priceChanges.coming(session.accountId, { since, now: new Date(nowMs) })
        return {
          days: DAYS,
          since: since.toISOString(),
          data: changes.map((change) => ({
            model: change.model,
            display_name: change.displayName,
            effective_at: change.effectiveAt.toISOString(),
            calls: change.calls,
            difference_micro: microToJson(change.differenceMicro),
          })),
        }
      },
    ),
  )
}
