/** What an operator changes of a model: its price, its settings, whether it is sold. */
import { useState } from "react"
import { api, unwrap } from "../../api/client.ts"
import { Choice, TextField } from "../../components/form.tsx"
import { DateField } from "../../components/date-field.tsx"
import { useFormat, useTimeZone } from "../../i18n/format.ts"
import { useLanguage } from "../../i18n/language.tsx"
import { parseWhole } from "../../i18n/parse.ts"
import { instantOf, wallTimeIn } from "../../i18n/time.ts"
import { useDraft } from "./act-dialog.tsx"
import { currentPrice, type OperatorModel } from "./catalogue.tsx"
import { ChangeDialog } from "./changes.tsx"
import { PriceCustomers, PriceMargin, rateNames } from "./price-margin.tsx"
import { useModelText } from "./model-text.ts"
import { useOperatorText } from "./text.ts"

const rates = rateNames
type Rate = (typeof rates)[number]
const whens = ["now", "later"] as const

/** Rates as typed, and the time as a `DateField` has it. */
type PriceDraft = Readonly<Record<Rate | "time", string>> & { readonly when: (typeof whens)[number] }

const HOUR_MS = 3_600_000
const MINUTE_MS = 60_000

interface PriceDialogProps {
  readonly model: OperatorModel
  readonly onClose: () => void
}

/** Schedules a price: four rates, and when they begin. */
export function PriceDialog({ model, onClose }: PriceDialogProps) {
  const text = useModelText()
  const { rates: names } = useOperatorText()
  const format = useFormat()
  const { language } = useLanguage()
  const timeZone = useTimeZone()
  const current = currentPrice(model)
  // A rate of one token in micro-rupiah is the price of a million tokens in rupiah: the same number.
  const rateText = (rate: Rate) => (current === undefined ? "" : format.number(current[rate]))
  const { values, set, sent, send } = useDraft<PriceDraft>({
    input_micro: rateText("input_micro"),
    output_micro: rateText("output_micro"),
    cache_read_micro: rateText("cache_read_micro"),
    cache_write_micro: rateText("cache_write_micro"),
    when: "now",
    time: wallTimeIn(timeZone, Math.ceil((Date.now() + 1) / HOUR_MS) * HOUR_MS),
  })
  const rateOf = (rate: Rate) => parseWhole(values[rate], language)
  const startMs = instantOf(values.time, timeZone)
  // The server accepts a time that passed while the form was open, and then begins as soon as it can.
  const isLate = startMs === undefined || startMs < Date.now() - MINUTE_MS
  const typed = () => {
    const [input, output, cacheRead, cacheWrite] = rates.map(rateOf)
    if (input === undefined || output === undefined || cacheRead === undefined || cacheWrite === undefined)
      return undefined
    return { input_micro: input, output_micro: output, cache_read_micro: cacheRead, cache_write_micro: cacheWrite }
  }
  const read = () => {
    send()
    const price = typed()
    if (price === undefined || (values.when === "later" && isLate)) return undefined
    return {
      ...price,
      ...(values.when === "later" && startMs !== undefined && { effective_at: new Date(startMs).toISOString() }),
    }
  }
  return (
    <ChangeDialog
      title={text.priceTitle}
      done={text.priceDone}
      read={read}
      send={(price, { dryRun, confirmed }) =>
        unwrap(
          api.operator
            .models({ model: encodeURIComponent(model.model) })
            .prices.post({ ...price, ...(confirmed && { confirm_jump: true }) }, { query: { dry_run: dryRun } }),
        )
      }
      onClose={onClose}
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
            error={sent && rateOf(rate) === undefined ? text.rateWrong : undefined}
            value={values[rate]}
            onChange={({ target }) => set({ [rate]: target.value })}
          />
        ))}
      </div>
      <PriceMargin model={model.model} rates={typed()} />
      <Choice
        label={text.when}
        values={whens}
        chosen={values.when}
        nameOf={(when) => text.whens[when]}
        onChoose={(when) => set({ when })}
      />
      {values.when === "now" ? (
        <p className="operator-hint">{text.nowHint}</p>
      ) : (
        <DateField
          label={text.time}
          timed
          hint={text.timeHint(timeZone)}
          error={sent && isLate ? text.timeWrong : undefined}
          value={values.time}
          onChange={(time) => set({ time })}
        />
      )}
      <PriceCustomers model={model.model} when={values.when} beginsAt={startMs} />
    </ChangeDialog>
  )
}

interface SettingsDialogProps {
  readonly model: OperatorModel
  readonly onClose: () => void
}

const listed = (written: string): string[] => written.split(/[\s,]+/).filter((one) => one !== "")

/** The settings of a model. Only the fields that were edited are sent. */
export function SettingsDialog({ model, onClose }: SettingsDialogProps) {
  const text = useModelText()
  const { fields } = useOperatorText()
  const format = useFormat()
  const { language } = useLanguage()
  const [before] = useState(model)
  const { values, set, sent, send } = useDraft({
    name: before.display_name,
    tier: before.tier,
    cap: format.number(before.max_concurrency),
    fallback: before.fallback.join(", "),
    pass: before.pass.join(", "),
  })
  const [name, tier] = [values.name.trim(), values.tier.trim()]
  const cap = parseWhole(values.cap, language)
  const isCap = cap !== undefined && cap >= 1
  const read = () => {
    send()
    if (name === "" || tier === "" || !isCap) return undefined
    const [fallback, pass] = [listed(values.fallback), listed(values.pass)]
    return {
      ...(name !== before.display_name && { display_name: name }),
      ...(tier !== before.tier && { tier }),
      ...(cap !== before.max_concurrency && { max_concurrency: cap }),
      ...(fallback.join() !== before.fallback.join() && { fallback }),
      ...(pass.join() !== before.pass.join() && { pass }),
    }
  }
  return (
    <ChangeDialog
      title={text.editTitle}
      done={text.editDone}
      read={read}
      send={(change, { dryRun }) =>
        unwrap(
          api.operator.models({ model: encodeURIComponent(model.model) }).patch(change, { query: { dry_run: dryRun } }),
        )
      }
      onClose={onClose}
    >
      <TextField
        label={fields.display_name}
        maxLength={100}
        error={sent && name === "" ? text.nameWrong : undefined}
        value={values.name}
        onChange={({ target }) => set({ name: target.value })}
      />
      <TextField
        label={fields.tier}
        maxLength={100}
        error={sent && tier === "" ? text.nameWrong : undefined}
        value={values.tier}
        onChange={({ target }) => set({ tier: target.value })}
      />
      <TextField
        label={fields.max_concurrency}
        inputMode="numeric"
        hint={text.capHint}
        error={sent && !isCap ? text.capWrong : undefined}
        value={values.cap}
        onChange={({ target }) => set({ cap: target.value })}
      />
      <TextField
        label={fields.fallback}
        hint={text.fallbackHint}
        spellCheck={false}
        value={values.fallback}
        onChange={({ target }) => set({ fallback: target.value })}
      />
      <TextField
        label={fields.pass}
        hint={text.passHint}
        spellCheck={false}
        value={values.pass}
        onChange={({ target }) => set({ pass: target.value })}
      />
    </ChangeDialog>
  )
}
