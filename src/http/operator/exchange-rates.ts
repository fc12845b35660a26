/** `/operator/exchange-rates`: what a unit of a currency that backends bill in costs in rupiah. */
import { Type } from "@sinclair/typebox"
import { Elysia } from "elysia"
import { microToRupiah } from "../../../actors/money/micro.ts"
import { inForce } from "../../../actors/money/price.ts"
import {
  EXCHANGE_RATE_TEXT,
  HOUSE_CURRENCY,
  isCurrency,
  isLargeStep,
  LARGEST_EXCHANGE_STEP,
  parseExchangeRate,
} from "../../catalogue/exchange.ts"
import type { ExchangeRate } from "../../catalogue/model.ts"
import { Failure } from "../../failure/failure.ts"
import type { ExchangeRateStore } from "../../store/costs.ts"
import { type Authenticate, operatorBy } from "../dashboard/session.ts"
import { refused } from "../route.ts"
import { described, exactly, field, oneOf, orNull, text, time } from "../shapes.ts"
import { LEAD_MS } from "./models.ts"

export interface ExchangeRatesDeps {
  readonly authenticate: Authenticate
  readonly rates: ExchangeRateStore
  readonly now: () => number
  readonly refreshCatalogue: () => Promise<void>
}

/** Of each currency. */
const SHOWN = 20
const CURRENCY_TEXT = field(
  "the ISO 4217 code of a currency other than IDR, such as USD",
  "kode ISO 4217 mata uang selain IDR, seperti USD",
)

const RateBody = exactly({
  currency: Type.RegExp(/^[A-Z]{3}$/, { description: CURRENCY_TEXT }),
  rupiah: Type.String({
    minLength: 1,
    maxLength: 20,
    description: field(
      EXCHANGE_RATE_TEXT,
      "rupiah untuk satu unit, di atas 0 dan paling banyak 1000000000, dengan paling banyak enam desimal",
    ),
  }),
  confirm_jump: Type.Optional(Type.Boolean({ description: field("true or false", "true atau false") })),
})
const RateShape = Type.Object({
  rupiah: described(text, field("For one unit, a decimal.", "Untuk satu unit, bilangan desimal.")),
  source: oneOf(["operator", "fetched"]),
  effective_at: time,
  state: oneOf(["past", "current", "coming"]),
})
const Currencies = Type.Object({
  data: Type.Array(
    Type.Object({
      currency: text,
      needed: described(
        Type.Boolean(),
        field("A backend bills in it.", "Ada backend yang menagih dalam mata uang ini."),
      ),
      current: orNull(
        text,
        field(
          "Rupiah for one unit; null where what it costs is not known.",
          "Rupiah untuk satu unit; null jika kursnya tidak diketahui.",
        ),
      ),
      rates: Type.Array(RateShape, {
        description: field("The newest first, at most 20.", "Yang terbaru dulu, paling banyak 20."),
      }),
    }),
  ),
})

export const exchangeRatesController = ({ authenticate, rates, now, refreshCatalogue }: ExchangeRatesDeps) => {
  const operators = operatorBy(authenticate)
  const currencies = async () => {
    const [all, needed] = await Promise.all([rates.list(SHOWN), rates.needed()])
    const names = [...new Set([...needed, ...all.map(({ currency }) => currency)])].sort()
    return { data: names.map((currency) => currencyJson(currency, all, needed.includes(currency), now())) }
  }
  return new Elysia({ name: "operator/exchange-rates" })
    .get(
      ...operators(
        "/operator/exchange-rates",
        {
          tag: "Operator",
          role: "support",
          summary: {
            en: "Exchange rates of the currencies that backends bill in",
            id: "Kurs mata uang tagihan backend",
          },
          answer: Currencies,
        },
        currencies,
      ),
    )
    .post(
      ...operators(
        "/operator/exchange-rates",
        {
          tag: "Operator",
          role: "finance",
          summary: { en: "Set an exchange rate", id: "Atur kurs" },
          description: {
            en: `It is in force three seconds from now; calls that were opened before keep theirs. A change of more than ${LARGEST_EXCHANGE_STEP} percent needs \`confirm_jump\`.`,
            id: `Berlaku tiga detik lagi; panggilan yang dibuka sebelumnya memakai kurs lama. Perubahan lebih dari ${LARGEST_EXCHANGE_STEP} persen memerlukan \`confirm_jump\`.`,
          },
          body: RateBody,
          answer: Currencies,
          status: 201,
        },
        async ({ body, operator }) => {
          const { currency } = body
          if (!isCurrency(currency) || currency === HOUSE_CURRENCY) return refused("currency", CURRENCY_TEXT)
          const unit = parseExchangeRate(body.rupiah)
          if (unit === undefined) return refused("rupiah", EXCHANGE_RATE_TEXT)
          const effectiveAt = new Date(now() + LEAD_MS)
          const [last] = (await rates.list(1)).filter((rate) => rate.currency === currency)
          if (last !== undefined && isLargeStep(last.unit, unit) && body.confirm_jump !== true) {
            const message = `The rate changes by more than ${LARGEST_EXCHANGE_STEP} percent, from ${microToRupiah(last.unit)} to ${microToRupiah(unit)}.`
            return new Failure("request.invalid", { message, hint: "Send 'confirm_jump': true if it is meant." })
          }
          if (!(await rates.set({ currency, unit, effectiveAt }, operator.act)))
            return refused("currency", "one that was not set in this very moment")
          await refreshCatalogue()
          return await currencies()
        },
      ),
    )
}

function currencyJson(currency: string, all: readonly ExchangeRate[], needed: boolean, nowMs: number) {
  const own = all.filter((rate) => rate.currency === currency)
  const current = inForce(own, nowMs)
  const state = (rate: ExchangeRate) =>
    rate.effectiveAt > nowMs ? ("coming" as const) : rate === current ? ("current" as const) : ("past" as const)
  return {
    currency,
    needed,
    current: current === undefined ? null : microToRupiah(current.unit),
    rates: own.map((rate) => ({
      rupiah: microToRupiah(rate.unit),
      source: rate.source,
      effective_at: new Date(rate.effectiveAt).toISOString(),
      state: state(rate),
    })),
  }
}
