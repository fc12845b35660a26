/** What an operator changes of a model: its price, its settings, whether it is sold. */
import { useState } from "react"
import { api, unwrap } from "../../api/client.ts"
import { Choice } from "../../components/choice.tsx"
import { SelectField, TextField } from "../../components/form.tsx"
import { parseWhole } from "../../i18n/amounts.ts"
import { useFormat } from "../../i18n/format.ts"
import { useLanguage } from "../../i18n/language.tsx"
import { instantOf, useTimeZone, wallTimeIn } from "../../i18n/time.ts"
import { currentPrice, type OperatorModel } from "./catalogue.tsx"
import { ChangeDialog } from "./change-dialog.tsx"
import { useModelText } from "./model-text.ts"
import { useOperatorText } from "./text.ts"

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

/** A price to come: four rates, and from when. */
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
        unwrap(
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

interface SettingsDialogProps {
  readonly model: OperatorModel
  readonly open: boolean
  readonly onClose: () => void
}

type Field = "name" | "tier" | "cap" | "fallback" | "pass"

const listed = (written: string): string[] => written.split(/[\s,]+/).filter((one) => one !== "")

/** Another name, tier, cap, chain, or other fields that pass. Only what differs is sent. */
export function SettingsDialog({ model, open, onClose }: SettingsDialogProps) {
  const text = useModelText()
  const { fields } = useOperatorText()
  const format = useFormat()
  const { language } = useLanguage()
  const [written, setWritten] = useState<Partial<Record<Field, string>>>({})
  const [sent, setSent] = useState(false)
  const given = {
    name: model.display_name,
    tier: model.tier,
    cap: format.number(model.max_concurrency),
    fallback: model.fallback.join(", "),
    pass: model.pass.join(", "),
    ...written,
  }
  const [name, tier] = [given.name.trim(), given.tier.trim()]
  const cap = parseWhole(given.cap, language)
  const isCap = cap !== undefined && cap >= 1
  const set =
    (field: Field) =>
    ({ target }: { readonly target: { readonly value: string } }) =>
      setWritten({ ...written, [field]: target.value })
  const read = () => {
    setSent(true)
    if (name === "" || tier === "" || !isCap) return undefined
    const [fallback, pass] = [listed(given.fallback), listed(given.pass)]
    return {
      ...(name !== model.display_name && { display_name: name }),
      ...(tier !== model.tier && { tier }),
      ...(cap !== model.max_concurrency && { max_concurrency: cap }),
      ...(fallback.join() !== model.fallback.join() && { fallback }),
      ...(pass.join() !== model.pass.join() && { pass }),
    }
  }
  const close = () => {
    setWritten({})
    setSent(false)
    onClose()
  }
  return (
    <ChangeDialog
      open={open}
      title={text.editTitle}
      done={text.editDone}
      read={read}
      send={(change, { dryRun }) =>
        unwrap(
          api.operator
            .models({ model: encodeURIComponent(model.model) })
            .patch(change, { query: { dry_run: dryRun ? "true" : "false" } }),
        )
      }
      onClose={close}
    >
      <TextField
        label={fields.display_name}
        maxLength={100}
        error={sent && name === "" ? text.nameWrong : undefined}
        value={given.name}
        onChange={set("name")}
      />
      <TextField
        label={fields.tier}
        maxLength={100}
        error={sent && tier === "" ? text.nameWrong : undefined}
        value={given.tier}
        onChange={set("tier")}
      />
      <TextField
        label={fields.max_concurrency}
        inputMode="numeric"
        hint={text.capHint}
        error={sent && !isCap ? text.capWrong : undefined}
        value={given.cap}
        onChange={set("cap")}
      />
      <TextField
        label={fields.fallback}
        hint={text.fallbackHint}
        spellCheck={false}
        value={given.fallback}
        onChange={set("fallback")}
      />
      <TextField
        label={fields.pass}
        hint={text.passHint}
        spellCheck={false}
        value={given.pass}
        onChange={set("pass")}
      />
    </ChangeDialog>
  )
}

/** What customers are usually given to move. */
const GRACE_MS = 30 * 86_400_000

interface RetireDialogProps {
  readonly model: OperatorModel
  readonly all: readonly OperatorModel[]
  readonly open: boolean
  readonly onClose: () => void
}

/** Which model a retired one is served as, and until when. */
export function RetireDialog({ model, all, open, onClose }: RetireDialogProps) {
  const text = useModelText()
  const timeZone = useTimeZone()
  const targets = all.filter(
    (one) =>
      one !== model &&
      one.model !== model.model &&
      one.status === "on_sale" &&
      model.endpoints.every((endpoint) => one.endpoints.includes(endpoint)),
  )
  const [chosen, setChosen] = useState<string>()
  const [time, setTime] = useState<string>()
  const [sent, setSent] = useState(false)
  const target = chosen ?? targets[0]?.model
  const wall = time ?? wallTimeIn(timeZone, Math.ceil((Date.now() + GRACE_MS) / HOUR_MS) * HOUR_MS)
  const until = instantOf(wall, timeZone)
  const isLate = until === undefined || until < Date.now()
  const read = () => {
    setSent(true)
    return target === undefined || isLate || until === undefined
      ? undefined
      : { target, until: new Date(until).toISOString() }
  }
  const close = () => {
    setChosen(undefined)
    setTime(undefined)
    setSent(false)
    onClose()
  }
  return (
    <ChangeDialog
      open={open}
      title={text.retireTitle(model.display_name)}
      done={text.retireDone}
      save={text.retireAct}
      danger
      read={read}
      send={(retirement, { dryRun }) =>
        unwrap(
          api.operator
            .models({ model: encodeURIComponent(model.model) })
            .retire.post(retirement, { query: { dry_run: dryRun ? "true" : "false" } }),
        )
      }
      onClose={close}
    >
      <p>{text.retireText}</p>
      <SelectField
        label={text.target}
        hint={text.targetHint}
        error={sent && target === undefined ? text.noTarget : undefined}
        options={targets.map(({ model: id, display_name: name }) => ({ value: id, label: `${name} (${id})` }))}
        value={target ?? ""}
        onChange={({ target: { value } }) => setChosen(value)}
      />
      <TextField
        label={text.until}
        type="datetime-local"
        step={1}
        hint={timeZone}
        error={sent && isLate ? text.timeWrong : undefined}
        value={wall}
        onChange={({ target: { value } }) => setTime(value)}
      />
    </ChangeDialog>
  )
}
