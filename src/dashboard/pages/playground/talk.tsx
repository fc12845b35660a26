/** The conversation with what belongs to it: its settings, its key, and where the next message is written. */
import { MessageSquare, Settings2 } from "lucide-react"
import { useState } from "react"
import type { CatalogueModel } from "../../api/queries.ts"
import { Button } from "../../components/button.tsx"
import { EmptyState } from "../../components/empty-state.tsx"
import { Page } from "../../components/page.tsx"
import { useFormat } from "../../i18n/format.ts"
import { Composer } from "./composer.tsx"
import { useConversation } from "./conversation.ts"
import { usePlaygroundKey } from "./key.ts"
import { KeyChoice, KeyInUse } from "./key-choice.tsx"
import { Said } from "./said.tsx"
import { Settings, useLimit, type WrittenSettings } from "./settings.tsx"
import { firstModel } from "../quick-start/clients.ts"
import { usePlaygroundText } from "./text.ts"

const LIMIT = "1024"

interface TalkProps {
  readonly models: readonly [CatalogueModel, ...CatalogueModel[]]
  /** The model that the address asks for. */
  readonly asked: string | undefined
}

export function Talk({ models, asked }: TalkProps) {
  const text = usePlaygroundText()
  const format = useFormat()
  const [written, setWritten] = useState<WrittenSettings>({ model: asked, system: "", limit: LIMIT })
  const [message, setMessage] = useState("")
  // Side by side there is room for the settings, on a phone they are in the way.
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
            <Said conversation={conversation} retry={send} />
          ) : key === undefined ? null : (
            <Beginning ready={limit !== undefined} onChoose={send} />
          )}
          {key === undefined ? (
            <KeyChoice making={{ busy: make.isPending, error: make.error }} onMake={make.mutate} onPaste={paste} />
          ) : (
            <Composer
              value={message}
              busy={busy}
              problem={
                limit === undefined
                  ? `${text.limit}: ${text.limitWrong(format.number(model.max_output_tokens))}`
                  : undefined
              }
              onChange={setMessage}
              onSend={() => {
                send(message.trim())
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
