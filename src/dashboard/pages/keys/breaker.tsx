/** Breakers: what a key, or the account with all of its keys, may spend within ten minutes. */
import { useQuery, useQueryClient } from "@tanstack/react-query"
import { type FormEvent, useState } from "react"
import {
  aboutQuery,
  type ApiKey,
  type Breaker,
  breakerQuery,
  keysQuery,
  useChange,
  useEdits,
} from "../../api/queries.ts"
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
import { ErrorState, Skeleton, useToasts } from "../../components/feedback.tsx"
import { Choice } from "../../components/form.tsx"
import { Card } from "../../components/layout.tsx"
import { Tag } from "../../components/values.tsx"
import { amountIn } from "../../i18n/figures.ts"
import { useFormat, useLanguage, useLanguageChange } from "../../i18n/language.tsx"
import { useMay } from "../../shell/session.tsx"
import { useSettingsText } from "../settings/text.ts"

interface BreakerDialogProps {
  readonly apiKey: ApiKey
  readonly onClose: () => void
}

export function BreakerDialog({ apiKey, onClose }: BreakerDialogProps) {
  const text = useBreakerText()
  const { language } = useLanguage()
  const toasts = useToasts()
  const client = useQueryClient()
  const { draft, edits, edit } = useEdits(breakerDraft(settingsOf(apiKey), language))
  useLanguageChange((was) => {
    if (edits.ceiling !== undefined) edit({ ceiling: amountIn(language, edits.ceiling, was) })
  })
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
      <BreakerFields draft={draft} wrong={tried && settings === undefined} onChange={edit} />
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

/** What all keys of the account together may spend within ten minutes, and when its owner is warned. */
export function AccountBreaker() {
  const text = useBreakerText()
  const { data, error, refetch } = useQuery(breakerQuery)
  const isOn = data !== undefined && (data.ceiling_micro !== null || data.factor !== null)
  const sign = data && <Tag tone={isOn ? "good" : "neutral"}>{isOn ? text.on : text.off}</Tag>
  return (
    <Card title={text.title} action={sign}>
      {data !== undefined ? (
        <BreakerForm breaker={data} />
      ) : error === null ? (
        <Skeleton lines={4} />
      ) : (
        <ErrorState error={error} retry={refetch} />
      )}
    </Card>
  )
}

const FACTORS = ["5", "10", "20", "none"] as const
const isKnown = (factor: string): factor is (typeof FACTORS)[number] => FACTORS.some((known) => known === factor)

function BreakerForm({ breaker }: { readonly breaker: Breaker }) {
  const text = useBreakerText()
  const { noMail } = useSettingsText()
  const toasts = useToasts()
  const client = useQueryClient()
  const { language } = useLanguage()
  const about = useQuery(aboutQuery)
  const draftOf = (known: Breaker) => ({
    ...breakerDraft(known, language),
    factor: known.factor === null ? "none" : String(known.factor),
  })
  const { draft, edits, edit, forget } = useEdits(draftOf(breaker))
  const { factor } = draft
  useLanguageChange((was) => {
    if (edits.ceiling !== undefined) edit({ ceiling: amountIn(language, edits.ceiling, was) })
  })
  const [tried, setTried] = useState(false)
  const settings = readBreaker(draft, language)
  const change = useChange({
    async mutationFn(typed: typeof edits) {
      const draft = { ...draftOf(await unwrap(api.account.breaker.get())), ...typed }
      const body = readBreaker(draft, language)
      if (body === undefined) throw new Error(text.amountWrong)
      return await unwrap(
        api.account.breaker.put({ ...body, factor: draft.factor === "none" ? null : Number(draft.factor) }),
      )
    },
    onSuccess: (changed) => {
      client.setQueryData(breakerQuery.queryKey, changed)
      toasts.done(text.saved)
    },
  })
  const submit = (event: FormEvent) => {
    event.preventDefault()
    setTried(true)
    if (settings !== undefined && !change.isPending) change.mutate(edits, { onSuccess: () => forget(edits) })
  }
  // One that was set through the API stays a choice.
  const factors = isKnown(factor) ? FACTORS : [factor, ...FACTORS]
  return (
    <form className="settings-form" onSubmit={submit} noValidate>
      <p className="settings-intro">{text.intro}</p>
      {about.data?.sends_mail === false && <p className="settings-warning">{noMail}</p>}
      {change.error !== null && <ErrorState error={change.error} />}
      <Choice
        label={text.factor}
        hint={text.factorHint}
        values={factors}
        chosen={factor}
        nameOf={(value) => (isKnown(value) ? text.factors[value] : text.factorOther(value))}
        onChoose={(chosen) => edit({ factor: chosen })}
      />
      <BreakerFields draft={draft} wrong={tried && settings === undefined} onChange={edit} />
      <div className="settings-actions">
        <Button type="submit" busy={change.isPending}>
          {text.save}
        </Button>
      </div>
    </form>
  )
}
