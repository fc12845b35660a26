/** The dialogs in which a key is created and edited: one form for both. */
import { useMutation, useQueryClient } from "@tanstack/react-query"
import { type FormEvent, useId, useState } from "react"
import { api, unwrap } from "../../api/client.ts"
import { type ApiKey, keysQuery } from "../../api/queries.ts"
import { Button } from "../../components/button.tsx"
import { Choice } from "../../components/choice.tsx"
import { Dialog } from "../../components/dialog.tsx"
import { ErrorState, useToasts } from "../../components/feedback.tsx"
import { TextField } from "../../components/form.tsx"
import { useFormat } from "../../i18n/format.ts"
import { useLanguage } from "../../i18n/language.tsx"
import type { Secret } from "./dialogs.tsx"
import {
  fallbacks,
  noWishes,
  periods,
  read,
  wishedOf,
  type Wishes,
  writtenAmount,
  writtenOf,
  writtenWhole,
  type WrittenWishes,
  type WrongField,
} from "./draft.ts"
import { useKeysText } from "./text.ts"

interface CreateDialogProps {
  readonly open: boolean
  readonly onClose: () => void
  readonly onCreated: (secret: Secret) => void
}

/** A new key. */
export function CreateDialog({ open, onClose, onCreated }: CreateDialogProps) {
  const text = useKeysText()
  const client = useQueryClient()
  const create = useMutation({
    mutationFn: (wishes: Wishes) => unwrap(api.keys.post(wishedOf(wishes))),
    onSuccess: ({ key, name }) => {
      void client.invalidateQueries(keysQuery)
      onCreated({ key, name })
    },
  })
  return (
    <KeyDialog
      open={open}
      title={text.createTitle}
      submit={text.create}
      begin={noWishes}
      busy={create.isPending}
      error={create.error}
      onSubmit={create.mutate}
      onClose={() => {
        create.reset()
        onClose()
      }}
    />
  )
}

interface EditDialogProps {
  readonly apiKey: ApiKey
  readonly onClose: () => void
}

/** Another name, other limits. A running application feels them with its next call. */
export function EditDialog({ apiKey, onClose }: EditDialogProps) {
  const text = useKeysText()
  const { language } = useLanguage()
  const toasts = useToasts()
  const client = useQueryClient()
  const change = useMutation({
    mutationFn: (wishes: Wishes) => unwrap(api.keys({ id: apiKey.id }).patch(wishes)),
    onSuccess: async ({ name }) => {
      await client.invalidateQueries(keysQuery)
      toasts.done(text.saved(name))
      onClose()
    },
  })
  return (
    <KeyDialog
      open
      title={text.editTitle(apiKey.name)}
      submit={text.save}
      begin={writtenOf(apiKey, language)}
      busy={change.isPending}
      error={change.error}
      onSubmit={change.mutate}
      onClose={onClose}
    />
  )
}

interface KeyDialogProps {
  readonly open: boolean
  readonly title: string
  /** The button's word. */
  readonly submit: string
  readonly begin: WrittenWishes
  readonly busy: boolean
  readonly error: Error | null
  readonly onSubmit: (wishes: Wishes) => void
  readonly onClose: () => void
}

/** The dialog in which a key's name and limits are written, for a new key and for one that is there. */
function KeyDialog({ open, title, submit, busy, onClose, ...form }: KeyDialogProps) {
  const text = useKeysText()
  const id = useId()
  return (
    <Dialog
      open={open}
      title={title}
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>{text.cancel}</Button>
          <Button kind="primary" type="submit" form={id} busy={busy}>
            {submit}
          </Button>
        </>
      }
    >
      <KeyForm id={id} busy={busy} {...form} />
    </Dialog>
  )
}

type KeyFormProps = Pick<KeyDialogProps, "begin" | "busy" | "error" | "onSubmit"> & { readonly id: string }

/** Begins anew each time that the dialog opens. */
function KeyForm({ id, begin, busy, error, onSubmit }: KeyFormProps) {
  const { language } = useLanguage()
  const [written, setWritten] = useState(begin)
  const [wrong, setWrong] = useState<ReadonlySet<WrongField>>(new Set())
  const send = (event: FormEvent) => {
    event.preventDefault()
    if (busy) return
    const wishes = read(written, language)
    if (!("name" in wishes)) return setWrong(wishes)
    setWrong(new Set())
    onSubmit(wishes)
  }
  return (
    <form id={id} className="key-form" onSubmit={send} noValidate>
      {error !== null && <ErrorState error={error} />}
      <KeyFields written={written} wrong={wrong} onChange={setWritten} />
    </form>
  )
}

/** Rupiah: from trying out to a team's month. */
const AMOUNTS = [10_000n, 50_000n, 100_000n, 500_000n] as const
const REQUESTS = [20, 60, 300] as const
const TOKENS = [50_000, 200_000, 1_000_000] as const

interface KeyFieldsProps {
  readonly written: WrittenWishes
  readonly wrong: ReadonlySet<WrongField>
  readonly onChange: (written: WrittenWishes) => void
}

/** The fields of a key: its name and its limits, with values to choose from that suit most. */
function KeyFields({ written, wrong, onChange }: KeyFieldsProps) {
  const text = useKeysText()
  const format = useFormat()
  const { language } = useLanguage()
  const set = (change: Partial<WrittenWishes>) => onChange({ ...written, ...change })
  const amountError = wrong.has("amount") ? text.amountWrong : wrong.has("too-much") ? text.amountTooMuch : undefined
  const wrongNumber = (field: WrongField) => (wrong.has(field) ? text.perMinuteWrong : undefined)
  return (
    <>
      <TextField
        label={text.name}
        hint={text.nameHint}
        error={wrong.has("name") ? text.nameMissing : undefined}
        placeholder={text.namePlaceholder}
        autoComplete="off"
        maxLength={200}
        data-autofocus
        value={written.name}
        onChange={({ target }) => set({ name: target.value })}
      />
      <Limit
        label={text.spendingLimit}
        hint={text.spendingHint}
        error={amountError}
        before="Rp"
        value={written.spendingLimit}
        presets={AMOUNTS.map((rupiah) => writtenAmount(rupiah * 1_000_000n, language))}
        onChange={(spendingLimit) => set({ spendingLimit })}
      />
      {written.spendingLimit.trim() !== "" && (
        <Choice
          label={text.period}
          values={periods}
          chosen={written.period}
          nameOf={(period) => text.periods[period]}
          onChoose={(period) => set({ period })}
        />
      )}
      <Limit
        label={text.requests}
        error={wrongNumber("requests")}
        value={written.requestsPerMinute}
        presets={REQUESTS.map((value) => writtenWhole(value, language))}
        onChange={(requestsPerMinute) => set({ requestsPerMinute })}
      />
      <Limit
        label={text.tokens}
        hint={text.tokensHint}
        error={wrongNumber("tokens")}
        value={written.tokensPerMinute}
        presets={TOKENS.map((value) => writtenWhole(value, language))}
        presetName={(value) => format.compact(TOKENS.find((known) => writtenWhole(known, language) === value) ?? 0)}
        onChange={(tokensPerMinute) => set({ tokensPerMinute })}
      />
      <Choice
        label={text.fallback}
        hint={text.fallbackHints[written.fallback]}
        values={fallbacks}
        chosen={written.fallback}
        nameOf={(fallback) => text.fallbacks[fallback]}
        onChoose={(fallback) => set({ fallback })}
      />
    </>
  )
}

interface LimitProps {
  readonly label: string
  readonly hint?: string
  readonly error: string | undefined
  readonly before?: string
  readonly value: string
  /** As they are written into the field. */
  readonly presets: readonly string[]
  readonly presetName?: (preset: string) => string
  readonly onChange: (value: string) => void
}

function Limit({ label, hint, error, before, value, presets, presetName = (preset) => preset, onChange }: LimitProps) {
  const text = useKeysText()
  return (
    <div className="key-limit">
      <TextField
        label={label}
        hint={hint}
        error={error}
        optional
        before={before}
        inputMode="decimal"
        autoComplete="off"
        value={value}
        onChange={({ target }) => onChange(target.value)}
      />
      <div className="key-presets" role="group" aria-label={text.presetsOf(label)}>
        {presets.map((preset) => (
          <Button key={preset} size="small" aria-pressed={value === preset} onClick={() => onChange(preset)}>
            {presetName(preset)}
          </Button>
        ))}
        <Button size="small" aria-pressed={value.trim() === ""} onClick={() => onChange("")}>
          {text.noLimit}
        </Button>
      </div>
    </div>
  )
}
