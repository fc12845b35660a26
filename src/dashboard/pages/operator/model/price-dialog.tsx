/** A price to come: four rates, and from when. */
import { useState } from "react"
import { api } from "../../../api/client.ts"
import { told } from "../../../api/failure.ts"
import { Choice } from "../../../components/choice.tsx"
import { TextField } from "../../../components/field.tsx"
import { useFormat } from "../../../i18n/format.ts"
import { useLanguage } from "../../../i18n/language.tsx"
import { parseWhole } from "../../../i18n/parse.ts"
import { useTimeZone } from "../../../i18n/time-zone.ts"
import { instantOf, wallTimeIn } from "../../../i18n/wall-time.ts"
import { currentPrice, type OperatorModel } from "../models/data.ts"
import { useOperatorText } from "../text.ts"
import { ChangeDialog } from "./change-dialog.tsx"
import { useModelText } from "./text.ts"

const rates = ["input_micro", "output_micro", "cache_read_micro", "cache_write_micro"] as const
type Rate = (typeof rates)[number]
const whens = ["now", "later"] as const

const HOUR_MS = 3_600_000
const MINUTE_MS = 60_000

interface PriceDialogProps {
  readonly model: OperatorModel
  readonly open: boolean
  readonly onClose: () => void
}

export function PriceDialog({ model, open, onClose }: PriceDialogProps) {
  const text = useModelText()
  const { rates: names } = useOperatorText()
  const format = useFormat()
  const { language } = useLanguage()
  const timeZone = useTimeZone()
  const current = currentPrice(model)
  const [written, setWritten] = useState<Partial<Record<Rate, string>>>({})
  const [when, setWhen] = useState<(typeof whens)[number]>("now")
  const [time, setTime] = useState<string>()
  const [sent, setSent] = useState(false)

  // A rate of one token in micro-rupiah is the price of a million tokens in rupiah: the same number.
  const shown = (rate: Rate) => written[rate] ?? (current === undefined ? "" : format.number(current[rate]))
  const value = (rate: Rate) => parseWhole(shown(rate), language)
  const wall = time ?? wallTimeIn(timeZone, Math.ceil((Date.now() + 1) / HOUR_MS) * HOUR_MS)
  const begins = instantOf(wall, timeZone)
  // As lenient as the server is with a form that was open for a while: it then begins at the soonest.
  const isLate = begins === undefined || begins < Date.now() - MINUTE_MS
  const read = () => {
    setSent(true)
    const [input, output, cacheRead, cacheWrite] = rates.map(value)
    if (input === undefined || output === undefined || cacheRead === undefined || cacheWrite === undefined)
      return undefined
    if (when === "later" && isLate) return undefined
    return {
      input_micro: input,
      output_micro: output,
      cache_read_micro: cacheRead,
      cache_write_micro: cacheWrite,
      ...(when === "later" && begins !== undefined && { effective_at: new Date(begins).toISOString() }),
    }
  }
  const close = () => {
    setWritten({})
    setWhen("now")
    setTime(undefined)
    setSent(false)
    onClose()
  }
  return (
    <ChangeDialog
      open={open}
      title={text.priceTitle}
      done={text.priceDone}
      read={read}
      send={(price, { dryRun, confirmed }) =>
        told(
          api.operator
            .models({ model: encodeURIComponent(model.model) })
            .prices.post(
              { ...price, ...(confirmed && { confirm_jump: true }) },
              { query: { dry_run: dryRun ? "true" : "false" } },
            ),
        )
      }
      onClose={close}
    >
      <p className="operator-hint">{text.pricesHint}</p>
      <div className="operator-pairs">
        {rates.map((rate) => (
          <TextField
            key={rate}
            label={names[rate]}
            before="Rp"
            inputMode="numeric"
            autoComplete="off"
            error={sent && value(rate) === undefined ? text.rateWrong : undefined}
            value={shown(rate)}
            onChange={({ target }) => setWritten({ ...written, [rate]: target.value })}
          />
        ))}
      </div>
      <Choice label={text.when} values={whens} chosen={when} nameOf={(value) => text.whens[value]} onChoose={setWhen} />
      {when === "now" ? (
        <p className="operator-hint">{text.nowHint}</p>
      ) : (
        <TextField
          label={text.time}
          type="datetime-local"
          step={1}
          hint={text.timeHint(timeZone)}
          error={sent && isLate ? text.timeWrong : undefined}
          value={wall}
          onChange={({ target }) => setTime(target.value)}
        />
      )}
    </ChangeDialog>
  )
}
