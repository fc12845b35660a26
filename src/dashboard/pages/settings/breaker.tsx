/** What all keys of the account together may spend within ten minutes, and when its owner is warned. */
import { useQuery, useQueryClient } from "@tanstack/react-query"
import { type FormEvent, useState } from "react"
import { useChange } from "../../api/change.ts"
import { api, unwrap } from "../../api/client.ts"
import { aboutQuery, type Breaker, breakerQuery } from "../../api/queries.ts"
import { breakerDraft, BreakerFields, readBreaker, useBreakerText } from "../../components/breaker.tsx"
import { Button } from "../../components/button.tsx"
import { Choice } from "../../components/form.tsx"
import { ErrorState, Skeleton, useToasts } from "../../components/feedback.tsx"
import { Card } from "../../components/layout.tsx"
import { Tag } from "../../components/values.tsx"
import { useLanguage } from "../../i18n/language.tsx"
import { useSettingsText } from "./text.ts"

export function BreakerSettings() {
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
  const [draft, setDraft] = useState(() => breakerDraft(breaker, language))
  const [factor, setFactor] = useState(breaker.factor === null ? "none" : String(breaker.factor))
  const [tried, setTried] = useState(false)
  const settings = readBreaker(draft, language)
  const change = useChange({
    mutationFn: (body: NonNullable<typeof settings>) =>
      unwrap(api.account.breaker.put({ ...body, factor: factor === "none" ? null : Number(factor) })),
    onSuccess: (changed) => {
      client.setQueryData(breakerQuery.queryKey, changed)
      toasts.done(text.saved)
    },
  })
  const submit = (event: FormEvent) => {
    event.preventDefault()
    setTried(true)
    if (settings !== undefined && !change.isPending) change.mutate(settings)
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
        onChoose={setFactor}
      />
      <BreakerFields draft={draft} wrong={tried && settings === undefined} onChange={setDraft} />
      <div className="settings-actions">
        <Button type="submit" busy={change.isPending}>
          {text.save}
        </Button>
      </div>
    </form>
  )
}
