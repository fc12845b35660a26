/** Retires a model: it is served as another one, at that one's price, until a certain time. */
import { api, unwrap } from "../../api/client.ts"
import { DateField } from "../../components/date-field.tsx"
import { SelectField } from "../../components/form.tsx"
import { useTimeZone } from "../../i18n/format.ts"
import { instantOf, wallTimeIn } from "../../i18n/time.ts"
import { useDraft } from "./act-dialog.tsx"
import { currentPrice, type OperatorModel, type Price } from "./catalogue.tsx"
import { ChangeDialog, Changes } from "./changes.tsx"
import { useModelText } from "./model-text.ts"
import { PriceCustomers, rateNames } from "./price-margin.tsx"

/** The usual time for customers to change over. */
const GRACE_MS = 30 * 86_400_000
const HOUR_MS = 3_600_000

interface RetireDialogProps {
  readonly model: OperatorModel
  readonly all: readonly OperatorModel[]
  readonly onClose: () => void
}

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
