/** Which model a retired one is served as, and until when. */
import { useState } from "react"
import { api } from "../../../api/client.ts"
import { told } from "../../../api/failure.ts"
import { SelectField, TextField } from "../../../components/field.tsx"
import { useTimeZone } from "../../../i18n/time-zone.ts"
import { instantOf, wallTimeIn } from "../../../i18n/wall-time.ts"
import type { OperatorModel } from "../models/data.ts"
import { ChangeDialog } from "./change-dialog.tsx"
import { useModelText } from "./text.ts"

/** What customers are usually given to move. */
const GRACE_MS = 30 * 86_400_000
const HOUR_MS = 3_600_000

interface RetireDialogProps {
  readonly model: OperatorModel
  readonly all: readonly OperatorModel[]
  readonly open: boolean
  readonly onClose: () => void
}

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
        told(
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
