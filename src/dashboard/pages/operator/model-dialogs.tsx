/**
 * What an operator changes of a model: its price, its settings, whether it is sold, and as which other model it is served.
 */
import { useState } from "react"
import { api, unwrap } from "../../api/client.ts"
import { DateField } from "../../components/date-field.tsx"
import { Choice, TextField, SelectField } from "../../components/form.tsx"
import { useFormat, useTimeZone, useLanguage } from "../../i18n/language.tsx"
import { instantOf, parseWhole, wallTimeIn } from "../../i18n/figures.ts"
import { useDraft, useOperatorText } from "./act-dialog.tsx"
import { currentPrice, type OperatorModel, type Price, useModelText } from "./catalogue.tsx"
import { ChangeDialog, Changes } from "./changes.tsx"
import { PriceCustomers, PriceMargin, rateNames } from "./margin.tsx"

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

/** The usual time for customers to change over. */
const GRACE_MS = 30 * 86_400_000

interface RetireDialogProps {
  readonly model: OperatorModel
  readonly all: readonly OperatorModel[]
  readonly onClose: () => void
}

/** Retires a model: it is served as another one, at that one's price, until a certain time. */
export function RetireDialog({ model, all, onClose }: RetireDialogProps) {
  const text = useModelText()
  const timeZone = useTimeZone()
  const targets = all.filter(
    (one) =>
      one !== model &&
      one.model !== model.model &&
      one.status === "on_sale" &&
      model.endpoints.every((endpoint) => one.endpoints.includes(endpoint)),
  )
  const current = currentPrice(model)
  const { values, set, sent, send } = useDraft({
    target: nearestNotDearer(current, targets)?.model ?? "",
    time: wallTimeIn(timeZone, Math.ceil((Date.now() + GRACE_MS) / HOUR_MS) * HOUR_MS),
  })
  const target = targets.find((one) => one.model === values.target)
  const untilMs = instantOf(values.time, timeZone)
  const isLate = untilMs === undefined || untilMs < Date.now()
  const read = () => {
    send()
    return target === undefined || isLate ? undefined : { target: target.model, until: new Date(untilMs).toISOString() }
  }
  return (
    <ChangeDialog
      title={text.retireTitle(model.display_name)}
      done={text.retireDone}
      save={text.retireAct}
      danger
      read={read}
      send={(retirement, { dryRun, confirmed }) =>
        unwrap(
          api.operator
            .models({ model: encodeURIComponent(model.model) })
            .retire.post({ ...retirement, ...(confirmed && { confirm_jump: true }) }, { query: { dry_run: dryRun } }),
        )
      }
      onClose={onClose}
    >
      <p>{text.retireText}</p>
      <SelectField
        label={text.target}
        hint={text.targetHint}
        error={sent && target === undefined ? (targets.length === 0 ? text.noTarget : text.targetUnchosen) : undefined}
        options={[
          ...(values.target === "" ? [{ value: "", label: text.targetChoose }] : []),
          ...targets.map(({ model: id, display_name: name }) => ({ value: id, label: `${name} (${id})` })),
        ]}
        value={values.target}
        onChange={({ target: { value } }) => set({ target: value })}
      />
      {current !== undefined && target !== undefined && (
        <Changes caption={text.retirePrices} before={ratesOf(current)} after={ratesOf(currentPrice(target))} />
      )}
      <PriceCustomers model={model.model} when="retiring" />
      <DateField
        label={text.until}
        timed
        hint={timeZone}
        error={sent && isLate ? text.timeWrong : undefined}
        value={values.time}
        onChange={(time) => set({ time })}
      />
    </ChangeDialog>
  )
}

const ratesOf = (price: Price | undefined) =>
  price === undefined ? {} : Object.fromEntries(rateNames.map((rate) => [rate, price[rate]]))

/** Of those that are dearer in nothing, the one whose price is the nearest. */
function nearestNotDearer(current: Price | undefined, targets: readonly OperatorModel[]): OperatorModel | undefined {
  if (current === undefined) return undefined
  return targets
    .filter((target) => {
      const price = currentPrice(target)
      return price !== undefined && rateNames.every((rate) => price[rate] <= current[rate])
    })
    .toSorted((a, b) => sum(currentPrice(b)) - sum(currentPrice(a)))[0]
}

const sum = (price: Price | undefined) => (price === undefined ? 0 : price.input_micro + price.output_micro)
