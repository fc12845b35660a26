/** A conversation with a model through the gateway's public API, with the cost of each answer: text, and images. */
import { useQuery, useQueryClient } from "@tanstack/react-query"
import { Boxes, Code, History, MessageSquare, Settings2 } from "lucide-react"
import { useEffect, useState } from "react"
import { useSearchParams } from "wouter"
import { keepInTab } from "../../api/browser.ts"
import { type CatalogueModel, modelsQuery } from "../../api/queries.ts"
import { Button } from "../../components/button.tsx"
import { EmptyState, ErrorState, Skeleton } from "../../components/feedback.tsx"
import { Page } from "../../components/layout.tsx"
import { firstModel } from "../quick-start/client.ts"
import { CodeDialog, Settings, unwritten, useSampling, type WrittenSettings } from "./settings.tsx"
import { Composer, MAX_IMAGES, MAX_IN_CONVERSATION, useForecast } from "./composer.tsx"
import { HistoryDrawer, type KeptConversation, useConversation, useHistory } from "./conversation.tsx"
import { Exchanges } from "./exchanges.tsx"
import { KeyChoice, KeyInUse, usePlaygroundKey } from "./key.tsx"
import type { Words } from "./stream.ts"
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

/** What is not sent yet, kept so that a look at another page loses no words. */
interface Draft {
  readonly written: WrittenSettings
  readonly message: string
  readonly images: readonly string[]
}
const DRAFT = ["playground-draft"]

interface ChatProps {
  readonly models: readonly [CatalogueModel, ...CatalogueModel[]]
  /** The model that the address asks for. */
  readonly asked: string | undefined
}

/** The conversation with its settings, its key, and the field for the next message. */
function Chat({ models, asked }: ChatProps) {
  const text = usePlaygroundText()
  const client = useQueryClient()
  const [draft] = useState(() => client.getQueryData<Draft>(DRAFT))
  const [written, setWritten] = useState<WrittenSettings>({
    ...unwritten,
    ...draft?.written,
    ...(asked !== undefined && { model: asked }),
  })
  const [message, setMessage] = useState(draft?.message ?? "")
  const [images, setImages] = useState(draft?.images ?? [])
  useEffect(() => {
    keepInTab(client, DRAFT, { written, message, images } satisfies Draft)
  }, [client, written, message, images])
  const [shown, setShown] = useState<"history" | "code">()
  // The settings are open where there is room beside the conversation, and closed on a phone.
  const [roomy] = useState(() => matchMedia("(width >= 64rem)").matches)
  const { key, make, paste, end } = usePlaygroundKey()
  const conversation = useConversation()
  const { exchanges, busy, ask, stop } = conversation
  const model = models.find((candidate) => candidate.model === written.model) ?? firstModel(models) ?? models[0]
  const { system } = written
  const history = useHistory(exchanges, { model: model.model, system })
  const { sampling, problem } = useSampling(written, model)
  const words = { question: message.trim(), images }
  const sent = exchanges.flatMap((exchange) => exchange.images).length
  const blind = !model.supports_vision && images.length + sent > 0
  const ready = key !== undefined && sampling !== undefined && !blind
  const send = (said: Words, instead?: number) => {
    if (ready) ask({ key: key.secret, model: model.model, system, ...sampling, ...said, ...(instead && { instead }) })
  }
  const begin = (from?: KeptConversation) => {
    history.begin(from)
    conversation.begin(from?.exchanges ?? [])
    if (from !== undefined) setWritten({ ...written, model: from.model, system: from.system })
    setShown(undefined)
  }
  const last = exchanges.at(-1)
  const saysSomething = words.question !== "" || images.length > 0
  const forecast = useForecast(
    ready && saysSomething && !busy
      ? { key: key.secret, model: model.model, ...sampling, messages: conversation.messages(system, words) }
      : undefined,
  )
  return (
    <Page
      title={text.title}
      intro={text.intro}
      actions={
        <>
          <Button icon={<History />} onClick={() => setShown("history")}>
            {text.history}
          </Button>
          <Button icon={<Code />} disabled={sampling === undefined} onClick={() => setShown("code")}>
            {text.getCode}
          </Button>
        </>
      }
    >
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
            <Exchanges conversation={conversation} retry={ready ? send : undefined} onNew={() => begin()} />
          ) : key === undefined ? null : (
            <Beginning ready={ready} onChoose={(question) => send({ question, images: [] })} />
          )}
          {key === undefined ? (
            <KeyChoice making={{ busy: make.isPending, error: make.error }} onMake={make.mutate} onPaste={paste} />
          ) : (
            <Composer
              value={message}
              images={images}
              room={model.supports_vision ? Math.min(MAX_IMAGES, MAX_IN_CONVERSATION - sent) : undefined}
              busy={busy}
              forecast={forecast}
              problem={problem ?? (blind ? text.blind : undefined)}
              onChange={setMessage}
              onImages={setImages}
              onSend={() => {
                send(words)
                setMessage("")
                setImages([])
              }}
              onStop={stop}
            />
          )}
        </section>
      </div>
      {shown === "history" && <HistoryDrawer onOpen={begin} onClose={() => setShown(undefined)} />}
      {shown === "code" && sampling !== undefined && (
        <CodeDialog
          asked={{
            model: model.model,
            ...sampling,
            messages: saysSomething
              ? conversation.messages(system, words)
              : conversation.messages(system, last ?? { question: text.samples[0] ?? "", images: [] }, last?.id),
          }}
          onClose={() => setShown(undefined)}
        />
      )}
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
