/** A conversation with a model through the gateway's public API, with the cost of each answer. Text only. */
import { useQuery } from "@tanstack/react-query"
import { ArrowUp, Boxes, MessageSquare, Settings2, Square } from "lucide-react"
import { type FormEvent, type KeyboardEvent, useId, useRef, useState } from "react"
import { useSearchParams } from "wouter"
import { type CatalogueModel, modelsQuery } from "../../api/queries.ts"
import { Button } from "../../components/button.tsx"
import { indonesianFor } from "../../components/failure-words.ts"
import { EmptyState, ErrorState, Skeleton } from "../../components/feedback.tsx"
import { Field, SelectField, TextField } from "../../components/form.tsx"
import { Page } from "../../components/layout.tsx"
import { useFormat } from "../../i18n/format.ts"
import { type Language, useLanguage } from "../../i18n/language.tsx"
import { parseWhole } from "../../i18n/parse.ts"
import { perMillion } from "../models/choose.ts"
import { firstModel } from "../quick-start/clients.ts"
import { useConversation } from "./conversation.ts"
import { Exchanges } from "./exchanges.tsx"
import { type Forecast, useForecast } from "./forecast.ts"
import { KeyChoice, KeyInUse, usePlaygroundKey } from "./key.tsx"
import { usePlaygroundText } from "./text.ts"

export default function PlaygroundPage() {
  const text = usePlaygroundText()
  const models = useQuery(modelsQuery)
  const [search] = useSearchParams()
  const [asked] = useState(search.get("model") ?? undefined)
  const served = models.data?.filter(({ endpoints }) => endpoints.includes("chat"))
  if (served?.[0] !== undefined) return <Chat models={served as [CatalogueModel, ...CatalogueModel[]]} asked={asked} />
  return (
    <Page title={text.title} intro={text.intro}>
      {served !== undefined ? (
        <EmptyState icon={<Boxes />} title={text.noModel} />
      ) : models.error ? (
        <ErrorState error={models.error} retry={models.refetch} />
      ) : (
        <Skeleton lines={6} />
      )}
    </Page>
  )
}

const LIMIT = "1024"

interface ChatProps {
  readonly models: readonly [CatalogueModel, ...CatalogueModel[]]
  /** The model that the address asks for. */
  readonly asked: string | undefined
}

/** The conversation with its settings, its key, and the field for the next message. */
function Chat({ models, asked }: ChatProps) {
  const text = usePlaygroundText()
  const format = useFormat()
  const [written, setWritten] = useState<WrittenSettings>({ model: asked, system: "", limit: LIMIT })
  const [message, setMessage] = useState("")
  // The settings are open where there is room beside the conversation, and closed on a phone.
  const [roomy] = useState(() => matchMedia("(width >= 64rem)").matches)
  const { key, make, paste, end } = usePlaygroundKey()
  const conversation = useConversation()
  const { exchanges, busy, ask, stop } = conversation
  const model = models.find((candidate) => candidate.model === written.model) ?? firstModel(models) ?? models[0]
  const limit = useLimit(written, model)
  const send = (question: string, instead?: number) => {
    if (key === undefined || limit === undefined) return
    ask({ key: key.secret, model: model.model, limit, system: written.system, question, ...(instead && { instead }) })
  }
  const question = message.trim()
  const mayAsk = key !== undefined && limit !== undefined && question !== "" && !busy
  const forecast = useForecast(
    mayAsk
      ? { key: key.secret, model: model.model, limit, messages: conversation.messages(written.system, question) }
      : undefined,
  )
  return (
    <Page title={text.title} intro={text.intro}>
      <div className="playground">
        <details className="card playground-settings" open={roomy}>
          <summary>
            <Settings2 aria-hidden="true" />
            {text.settings}
            <span className="playground-model">{model.display_name}</span>
          </summary>
          <div className="playground-fields">
            <Settings models={models} model={model} written={written} onChange={setWritten} />
            {key !== undefined && (
              <KeyInUse
                playgroundKey={key}
                onEnd={() => {
                  stop()
                  end()
                }}
              />
            )}
          </div>
        </details>
        <section className="card playground-talk" aria-label={text.conversation}>
          {exchanges.length > 0 ? (
            <Exchanges conversation={conversation} retry={send} />
          ) : key === undefined ? null : (
            <Beginning ready={limit !== undefined} onChoose={send} />
          )}
          {key === undefined ? (
            <KeyChoice making={{ busy: make.isPending, error: make.error }} onMake={make.mutate} onPaste={paste} />
          ) : (
            <Composer
              value={message}
              busy={busy}
              forecast={forecast}
              problem={
                limit === undefined
                  ? `${text.limit}: ${text.limitWrong(format.number(model.max_output_tokens))}`
                  : undefined
              }
              onChange={setMessage}
              onSend={() => {
                send(question)
                setMessage("")
              }}
              onStop={stop}
            />
          )}
        </section>
      </div>
    </Page>
  )
}

interface BeginningProps {
  readonly ready: boolean
  readonly onChoose: (question: string) => void
}

function Beginning({ ready, onChoose }: BeginningProps) {
  const text = usePlaygroundText()
  return (
    <EmptyState
      icon={<MessageSquare />}
      title={text.empty}
      action={
        <div className="playground-samples">
          {text.samples.map((sample) => (
            <Button key={sample} size="small" disabled={!ready} onClick={() => onChoose(sample)}>
              {sample}
            </Button>
          ))}
        </div>
      }
    >
      {text.emptyHint}
    </EmptyState>
  )
}

interface WrittenSettings {
  /** Undefined for the first model. */
  readonly model: string | undefined
  readonly system: string
  readonly limit: string
}

/** The typed answer limit, or undefined when this model does not allow it. */
function useLimit({ limit }: WrittenSettings, model: CatalogueModel): number | undefined {
  const { language } = useLanguage()
  const tokens = parseWhole(limit, language)
  return tokens === undefined || tokens < 1 || tokens > model.max_output_tokens ? undefined : tokens
}

interface SettingsProps {
  readonly models: readonly CatalogueModel[]
  readonly model: CatalogueModel
  readonly written: WrittenSettings
  readonly onChange: (written: WrittenSettings) => void
}

function Settings({ models, model, written, onChange }: SettingsProps) {
  const text = usePlaygroundText()
  const format = useFormat()
  const limit = useLimit(written, model)
  const set = (change: Partial<WrittenSettings>) => onChange({ ...written, ...change })
  return (
    <>
      <SelectField
        label={text.model}
        hint={text.price(format.rupiah(perMillion(model.input_micro)), format.rupiah(perMillion(model.output_micro)))}
        value={model.model}
        options={models.map((candidate) => ({ value: candidate.model, label: candidate.display_name }))}
        onChange={({ target }) => set({ model: target.value })}
      />
      <Field label={text.system} optional>
        {(attributes) => (
          <span className="input">
            <textarea
              rows={3}
              placeholder={text.systemPlaceholder}
              value={written.system}
              onChange={({ target }) => set({ system: target.value })}
              {...attributes}
            />
          </span>
        )}
      </Field>
      <TextField
        label={text.limit}
        inputMode="numeric"
        autoComplete="off"
        after={text.limitUnit}
        error={limit === undefined ? text.limitWrong(format.number(model.max_output_tokens)) : undefined}
        value={written.limit}
        onChange={({ target }) => set({ limit: target.value })}
      />
    </>
  )
}

interface ComposerProps {
  readonly value: string
  readonly busy: boolean
  /** Of the message as it is typed. */
  readonly forecast: Forecast | undefined
  /** Why nothing can be sent now. */
  readonly problem: string | undefined
  readonly onChange: (value: string) => void
  readonly onSend: () => void
  readonly onStop: () => void
}

/** Why the message would be refused, in the person's language. */
function refusedFor(forecast: Forecast | undefined, language: Language): string | undefined {
  if (forecast?.type !== "refused") return undefined
  return (language === "id" ? indonesianFor(forecast.code) : undefined) ?? forecast.message
}

/** The field for the next message, with the button that sends it or stops the answer. */
function Composer({ value, busy, forecast, problem, onChange, onSend, onStop }: ComposerProps) {
  const text = usePlaygroundText()
  const format = useFormat()
  const { language } = useLanguage()
  const id = useId()
  // On a touch screen Enter starts a new line, and the button sends.
  const [keyboard] = useState(() => !matchMedia("(pointer: coarse)").matches)
  const field = useRef<HTMLTextAreaElement>(null)
  const trouble = problem ?? refusedFor(forecast, language)
  const send = (event: FormEvent | KeyboardEvent) => {
    event.preventDefault()
    if (busy || problem !== undefined || value.trim() === "") return field.current?.focus()
    onSend()
  }
  return (
    <form className="composer" onSubmit={send}>
      <label className="visually-hidden" htmlFor={id}>
        {text.message}
      </label>
      <textarea
        ref={field}
        id={id}
        rows={2}
        autoFocus
        placeholder={text.messagePlaceholder}
        aria-describedby={`${id}-hint`}
        value={value}
        onChange={({ target }) => onChange(target.value)}
        onKeyDown={(event) => {
          // Enter may also confirm a word in an input method.
          const isSending = event.key === "Enter" && !event.shiftKey && !event.nativeEvent.isComposing
          if (keyboard && isSending) send(event)
        }}
      />
      <div className="composer-foot">
        <p id={`${id}-hint`} className={trouble === undefined ? undefined : "is-bad"} role="status">
          {trouble ??
            (forecast?.type === "cost"
              ? text.atMost(format.rupiah(forecast.mostMicro))
              : keyboard
                ? text.messageHint
                : "")}
        </p>
        {busy ? (
          <Button icon={<Square />} onClick={onStop}>
            {text.stop}
          </Button>
        ) : (
          <Button type="submit" kind="primary" icon={<ArrowUp />}>
            {text.send}
          </Button>
        )}
      </div>
    </form>
  )
}
