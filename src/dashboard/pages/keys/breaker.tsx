/** A key's breaker: what it may spend within ten minutes. */
import { useQueryClient } from "@tanstack/react-query"
import { useState } from "react"
import { type ApiKey, keysQuery, useChange } from "../../api/queries.ts"
import { api, unwrap } from "../../api/client.ts"
import {
  breakerDraft,
  BreakerFields,
  type BreakerSettings,
  readBreaker,
  useBreakerText,
} from "../../components/spending.tsx"
import { Button } from "../../components/button.tsx"
import { FormDialog } from "../../components/dialog.tsx"
import { ErrorState, useToasts } from "../../components/feedback.tsx"
import { amountsIn } from "../../i18n/figures.ts"
import { useFormat, useLanguage, useLanguageChange } from "../../i18n/language.tsx"
import { useMay } from "../../shell/session.tsx"

interface BreakerDialogProps {
  readonly apiKey: ApiKey
  readonly onClose: () => void
}

export function BreakerDialog({ apiKey, onClose }: BreakerDialogProps) {
  const text = useBreakerText()
  const { language } = useLanguage()
  const toasts = useToasts()
  const client = useQueryClient()
  const [draft, setDraft] = useState(() => breakerDraft(settingsOf(apiKey), language))
  useLanguageChange((was) => setDraft(amountsIn(language, draft, was, ["ceiling"])))
  const [tried, setTried] = useState(false)
  const settings = readBreaker(draft, language)
  const change = useChange({
    mutationFn: (body: NonNullable<typeof settings>) => unwrap(api.keys({ id: apiKey.id }).breaker.put(body)),
    onSuccess: async () => {
      await client.invalidateQueries(keysQuery)
      toasts.done(text.saved)
      onClose()
    },
  })
  const submit = () => {
    setTried(true)
    if (settings !== undefined) change.mutate(settings)
  }
  return (
    <FormDialog
      title={text.keyTitle(apiKey.name)}
      submit={text.save}
      busy={change.isPending}
      error={change.error}
      onSubmit={submit}
      onClose={onClose}
    >
      <p>{text.keyIntro}</p>
      <BreakerFields draft={draft} wrong={tried && settings === undefined} onChange={setDraft} />
    </FormDialog>
  )
}

const settingsOf = (key: ApiKey): BreakerSettings => ({
  ceiling_micro: key.breaker_ceiling_micro,
  action: key.breaker_action,
  pause_minutes: key.breaker_pause_minutes,
})

/** Of a key that has one. */
export function BreakerFact({ apiKey }: { readonly apiKey: ApiKey }) {
  const text = useBreakerText()
  const format = useFormat()
  const { breaker_ceiling_micro: ceiling, breaker_action: action } = apiKey
  return ceiling === null ? null : <span>{text.keyCeilings[action](format.rupiah(ceiling))}</span>
}

/** Of a key that has come to its ceiling: since when, and whether it goes on by itself. */
export function Paused({ apiKey: { paused } }: { readonly apiKey: ApiKey }) {
  const text = useBreakerText()
  const format = useFormat()
  if (paused === null) return null
  return (
    <p className="key-paused">
      {text.paused(format.dateTime(paused.since))} {paused.until !== null && text.until(format.dateTime(paused.until))}
    </p>
  )
}

/** Lets a paused key go on, from its row. */
export function ResumeButton({ apiKey: { id, name, paused } }: { readonly apiKey: ApiKey }) {
  const text = useBreakerText()
  const toasts = useToasts()
  const client = useQueryClient()
  const resume = useChange({
    mutationFn: () => unwrap(api.keys({ id }).resume.post()),
    onSuccess: async () => {
      await client.invalidateQueries(keysQuery)
      toasts.done(text.resumed)
    },
  })
  const mayBuild = useMay()("build")
  if (paused === null || !mayBuild) return null
  return (
    <>
      <Button
        size="small"
        busy={resume.isPending}
        aria-label={`${text.resume} ${name}`}
        onClick={() => resume.mutate()}
      >
        {text.resume}
      </Button>
      {resume.error !== null && <ErrorState error={resume.error} />}
    </>
  )
}
