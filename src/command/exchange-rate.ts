/** `loket exchange-rate`: what a unit of a currency that backends bill in costs in rupiah, shown and set. */
import { nanoid } from "nanoid"
import { microToRupiah } from "../../actors/money/micro.ts"
import { inForce } from "../../actors/money/price.ts"
import {
  EXCHANGE_RATE_TEXT,
  HOUSE_CURRENCY,
  isCurrency,
  isLargeStep,
  LARGEST_EXCHANGE_STEP,
  parseExchangeRate,
} from "../catalogue/exchange.ts"
import { openForCommand } from "../store/open.ts"
import { exchangeRateStore } from "../store/operator/exchange-rates.ts"
import { command, CommandFailure } from "./command.ts"
import { configuration } from "./settings.ts"

/** A running gateway reads the catalogue that often, and counts by no rate before it has read it. */
const LEAD_MS = 3_000

export const exchangeRateCommand = () =>
  command("exchange-rate", {
    summary: "Show exchange rates, or set what a unit of a currency costs in rupiah",
    details:
      "Costs of backends are counted at the rate that was in force when a call was opened. A new rate is in force after three seconds.",
    examples: [
      ["exchange-rate", "the rates in force, and the currencies that have none"],
      ["exchange-rate USD 16250.50", "a dollar costs Rp 16,250.50 from now on"],
    ],
  })
    .argument("[currency]", "the ISO 4217 code, such as USD")
    .argument("[rupiah]", EXCHANGE_RATE_TEXT)
    .option("--confirm-jump", `also where it changes by more than ${LARGEST_EXCHANGE_STEP} percent`)
    .action(async (currency, rupiah, { confirmJump }) => {
      const unit = rupiah === undefined ? undefined : parseExchangeRate(rupiah)
      if (currency !== undefined && (!isCurrency(currency) || currency === HOUSE_CURRENCY))
        throw new CommandFailure(
          `${currency} is not the code of a currency other than ${HOUSE_CURRENCY}, such as USD`,
          2,
        )
      if (currency !== undefined && unit === undefined)
        throw new CommandFailure(`say the rate after ${currency}: ${EXCHANGE_RATE_TEXT}`, 2)
      const store = await openForCommand(configuration())
      const rates = exchangeRateStore(store.database)
      try {
        const [known, needed] = [await rates.list(1), await rates.needed()]
        if (currency === undefined || unit === undefined) {
          const names = [...new Set([...needed, ...known.map((rate) => rate.currency)])].sort()
          if (names.length === 0) console.log("no backend bills in a foreign currency, and no rate is set")
          const all = await rates.list(20)
          for (const name of names) {
            const now = inForce(
              all.filter((rate) => rate.currency === name),
              Date.now(),
            )
            console.log(
              now === undefined
                ? `${name}  none: what its backends cost is not known`
                : `${name}  ${microToRupiah(now.unit)}  since ${new Date(now.effectiveAt).toISOString()}, ${now.source}`,
            )
          }
          return
        }
        const last = known.find((rate) => rate.currency === currency)
        if (last !== undefined && isLargeStep(last.unit, unit) && confirmJump !== true)
          throw new CommandFailure(
            `${currency} would change from ${microToRupiah(last.unit)} to ${microToRupiah(unit)}, by more than ${LARGEST_EXCHANGE_STEP} percent; add --confirm-jump if that is meant`,
          )
        const act = { requestId: `cmd_${nanoid()}`, operatorId: undefined, address: undefined }
        await rates.set({ currency, unit, effectiveAt: new Date(Date.now() + LEAD_MS) }, act)
        console.log(`one ${currency} costs Rp ${microToRupiah(unit)} from now on`)
      } finally {
        await store.close()
      }
    })
