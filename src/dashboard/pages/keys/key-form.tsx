/** The dialogs in which a key is created and edited: one form for both. */
import { useQueryClient } from "@tanstack/react-query"
import { useState } from "react"
import { type ApiKey, keysQuery, useChange } from "../../api/queries.ts"
import { api, unwrap } from "../../api/client.ts"
import {
  breakerDraft,
  type BreakerDraft,
  BreakerFields,
  type BreakerSettings,
  readBreaker,
} from "../../components/spending.tsx"
import { Button } from "../../components/button.tsx"
import { Choice, Switch, TextField } from "../../components/form.tsx"
import { FormDialog } from "../../components/dialog.tsx"
import { useToasts } from "../../components/feedback.tsx"
import { useFormat, useLanguage, useLanguageChange } from "../../i18n/language.tsx"
import { amountsIn, amountText } from "../../i18n/figures.ts"
import { BindingFields } from "./binding-fields.tsx"
import type { Secret } from "./dialogs.tsx"
import {
  creationBody,
  draftOf,
  editsOf,
  emptyDraft,
  fallbacks,
  type KeyDraft,
  type KeySettings,
  periods,
  readDraft,
  writtenWhole,
  type WrongField,
} from "./draft.ts"
import { useKeysText } from "./text.ts"

interface CreateDialogProps {
  readonly onClose: () => void
  readonly onCreated: (secret: Secret) => void
}

/** A new key. */
export function CreateDialog({ onClose, onCreated }: CreateDialogProps) {
  const text = useKeysText()
  const { language } = useLanguage()
  const client = useQueryClient()
  const create = useChange({
    mutationFn: ({ settings, breaker }: NewKeySettings) => unwrap(api.keys.post(creationBody(settings, breaker))),
    onSuccess: ({ key, name }) => {
      void client.invalidateQueries(keysQuery)
      onCreated({ key, name })
    },
  })
  return (
    <KeyDialog
      title={text.createTitle}
      submit={text.create}
      initial={emptyDraft}
      busy={create.isPending}
      error={create.error}
      refused={text.createRefused}
      breaker={breakerDraft({ ceiling_micro: null, action: "warn", pause_minutes: null }, language)}
      onSubmit={(settings, breaker) => create.mutate({ settings, breaker })}
      onClose={onClose}
    />
  )
}

interface NewKeySettings {
  readonly settings: KeySettings
  readonly breaker: BreakerSettings | undefined
}

interface EditDialogProps {
  readonly apiKey: ApiKey
  readonly onClose: () => void
}

/** Another name, other limits. They apply from the next call on. Only what was edited is sent. */
export function EditDialog({ apiKey, onClose }: EditDialogProps) {
  const text = useKeysText()
  const { language } = useLanguage()
  const toasts = useToasts()
  const client = useQueryClient()
  const [before] = useState(apiKey)
  const change = useChange({
    mutationFn: (settings: KeySettings) =>
      unwrap(api.keys({ id: apiKey.id }).patch(editsOf(settings, before, language))),
    onSuccess: async ({ name }) => {
      await client.invalidateQueries(keysQuery)
      toasts.done(text.saved(name))
      onClose()
    },
  })
  return (
    <KeyDialog
      title={text.editTitle(apiKey.name)}
      submit={text.save}
      initial={draftOf(before, language)}
      busy={change.isPending}
      error={change.error}
      refused={text.saveRefused}
      onSubmit={(settings) => change.mutate(settings)}
      onClose={onClose}
    />
  )
}

interface KeyDialogProps {
  readonly title: string
  /** The word on the button. */
  readonly submit: string
  readonly initial: KeyDraft
  readonly busy: boolean
  readonly error: Error | null
  readonly refused: (message: string) => string
  /** Of a new key; an existing one has a dialog for it. */
  readonly breaker?: BreakerDraft
  readonly onSubmit: (settings: KeySettings, breaker: BreakerSettings | undefined) => void
  readonly onClose: () => void
}

/** The form of a key's name and limits, for a new key and for an existing one. */
function KeyDialog({ initial, breaker, onSubmit, ...dialog }: KeyDialogProps) {
  const { language } = useLanguage()
  const [draft, setDraft] = useState(initial)
  const [ceiling, setCeiling] = useState(breaker)
  useLanguageChange((was) => {
    setDraft(amountsIn(language, draft, was, ["spendingLimit", "requestsPerMinute", "tokensPerMinute", "maxRate"]))
    if (ceiling !== undefined) setCeiling(amountsIn(language, ceiling, was, ["ceiling"]))
  })
  const [tried, setTried] = useState(false)
  const stop = ceiling && readBreaker(ceiling, language)
  const [wrong, setWrong] = useState<ReadonlySet<WrongField>>(new Set())
  const submit = () => {
    setTried(true)
    const settings = readDraft(draft, language)
    if (!("name" in settings)) return setWrong(settings)
    setWrong(new Set())
    if (ceiling === undefined || stop !== undefined) onSubmit(settings, stop)
  }
  return (
    <FormDialog {...dialog} onSubmit={submit}>
      <KeyFields draft={draft} wrong={wrong} onChange={setDraft} />
      {ceiling !== undefined && (
        <BreakerFields
          draft={ceiling}
          wrong={tried && stop === undefined}
          onChange={(change) => setCeiling({ ...ceiling, ...change })}
        />
      )}
      <BindingFields
        draft={draft}
        wrong={wrong}
        refusal={dialog.error?.message ?? ""}
        onChange={(change) => setDraft({ ...draft, ...change })}
      />
    </FormDialog>
  )
}

/** Rupiah: from trying out to a team's month. */
const AMOUNTS = [10_000n, 50_000n, 100_000n, 500_000n] as const
const REQUESTS = [20, 60, 300] as const
const TOKENS = [50_000, 200_000, 1_000_000] as const

interface KeyFieldsProps {
  readonly draft: KeyDraft
  readonly wrong: ReadonlySet<WrongField>
  readonly onChange: (draft: KeyDraft) => void
}

/** The fields of a key: its name and its limits, with common values to choose from. */
function KeyFields({ draft, wrong, onChange }: KeyFieldsProps) {
  const text = useKeysText()
  const format = useFormat()
  const { language } = useLanguage()
  const set = (change: Partial<KeyDraft>) => onChange({ ...draft, ...change })
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
        value={draft.name}
        onChange={({ target }) => set({ name: target.value })}
      />
      <Limit
        label={text.spendingLimit}
        hint={text.spendingHint}
        error={amountError}
        before="Rp"
        value={draft.spendingLimit}
        presets={AMOUNTS.map((rupiah) => amountText(rupiah * 1_000_000n, language))}
        onChange={(spendingLimit) => set({ spendingLimit })}
      />
      {draft.spendingLimit.trim() !== "" && (
        <Choice
          label={text.period}
          values={periods}
          chosen={draft.period}
          nameOf={(period) => text.periods[period]}
          onChoose={(period) => set({ period })}
        />
      )}
      <Limit
        label={text.requests}
        error={wrongNumber("requests")}
        value={draft.requestsPerMinute}
        presets={REQUESTS.map((value) => writtenWhole(value, language))}
        onChange={(requestsPerMinute) => set({ requestsPerMinute })}
      />
      <Limit
        label={text.tokens}
        hint={text.tokensHint}
        error={wrongNumber("tokens")}
        value={draft.tokensPerMinute}
        presets={TOKENS.map((value) => writtenWhole(value, language))}
        presetName={(value) => format.compact(TOKENS.find((known) => writtenWhole(known, language) === value) ?? 0)}
        onChange={(tokensPerMinute) => set({ tokensPerMinute })}
      />
      <Choice
        label={text.fallback}
        hint={text.fallbackHints[draft.fallback]}
        values={fallbacks}
        chosen={draft.fallback}
        nameOf={(fallback) => text.fallbacks[fallback]}
        onChoose={(fallback) => set({ fallback })}
      />
      <Switch
        label={text.showsBalance}
        checked={draft.showsBalance}
        onChange={(showsBalance) => set({ showsBalance })}
      />
      <Switch
        label={text.replaysRetries}
        checked={draft.replaysRetries}
        onChange={(replaysRetries) => set({ replaysRetries })}
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
  /** Texts for the field. */
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
