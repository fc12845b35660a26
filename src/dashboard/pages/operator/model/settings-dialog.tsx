/** Another name, tier, cap, chain, or other fields that pass. Only what differs is sent. */
import { useState } from "react"
import { api } from "../../../api/client.ts"
import { told } from "../../../api/failure.ts"
import { TextField } from "../../../components/field.tsx"
import { useFormat } from "../../../i18n/format.ts"
import { useLanguage } from "../../../i18n/language.tsx"
import { parseWhole } from "../../../i18n/parse.ts"
import type { OperatorModel } from "../models/data.ts"
import { useOperatorText } from "../text.ts"
import { ChangeDialog } from "./change-dialog.tsx"
import { useModelText } from "./text.ts"

interface SettingsDialogProps {
  readonly model: OperatorModel
  readonly open: boolean
  readonly onClose: () => void
}

type Field = "name" | "tier" | "cap" | "fallback" | "pass"

const listed = (written: string): string[] => written.split(/[\s,]+/).filter((one) => one !== "")

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
        told(
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
