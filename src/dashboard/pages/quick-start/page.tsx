/** From nothing to the first call: the set-up of each client, with the key inside, and a tick when the call has come. */
import { useQuery } from "@tanstack/react-query"
import { useState } from "react"
import { useSearchParams } from "wouter"
import { useFreshKey } from "../../api/browser.ts"
import { type CatalogueModel, modelsQuery } from "../../api/queries.ts"
import { CopyButton } from "../../components/button.tsx"
import { EmptyState, ErrorState, Skeleton } from "../../components/feedback.tsx"
import { SelectField } from "../../components/form.tsx"
import { Card, CodeBlock, Page, Tabs } from "../../components/layout.tsx"
import { Tag } from "../../components/values.tsx"
import { useLanguage } from "../../i18n/language.tsx"
import { type Client, filledIn, firstModel } from "./client.ts"
import { clients } from "./clients.ts"
import { FirstCall, OwnKey, useQuickStartText } from "./steps.tsx"

export default function QuickStartPage() {
  const text = useQuickStartText()
  const models = useQuery(modelsQuery)
  const [query] = useSearchParams()
  const base = location.origin
  return (
    <Page title={text.title} intro={text.intro}>
      <div className="quick-start-basics">
        <Card title={text.address}>
          <p className="quick-start-address">
            <code>{base}</code>
            <CopyButton text={base} what={text.address} />
          </p>
          <p className="quick-start-hint">{text.addressHint}</p>
        </Card>
        <Card title={text.key}>
          <OwnKey />
        </Card>
        <Card title={text.firstCall}>
          <FirstCall />
        </Card>
      </div>
      <Card>
        {models.data !== undefined ? (
          <Tabs
            label={text.client}
            first={query.get("client") ?? undefined}
            upright
            tabs={clients.map((client) => ({
              id: client.id,
              label: client.name,
              content: <ClientSetup client={client} base={base} models={models.data} />,
            }))}
          />
        ) : models.error ? (
          <ErrorState error={models.error} retry={models.refetch} />
        ) : (
          <Skeleton lines={24} />
        )}
      </Card>
    </Page>
  )
}

interface ClientSetupProps {
  readonly client: Client
  readonly base: string
  readonly models: readonly CatalogueModel[]
}

/** One client's set-up, for a model of the person's choice among those that are served in its format. */
function ClientSetup({ client, base, models }: ClientSetupProps) {
  const text = useQuickStartText()
  const { language } = useLanguage()
  const key = useFreshKey()
  const [format] = client.formats
  const served = models.filter(({ endpoints }) => format !== undefined && endpoints.includes(format))
  const [chosen, setChosen] = useState<string>()
  const model = served.find((candidate) => candidate.model === chosen) ?? firstModel(served, client.example)
  if (model === undefined) return <EmptyState title={text.noModel} />
  const setting = { base, model, key: key?.secret }
  return (
    <>
      <div className="quick-start-client">
        <h2>{client.name}</h2>
        <Seen seen={client.seen} />
      </div>
      <div className="quick-start-model">
        <SelectField
          label={text.model}
          value={model.model}
          options={served.map((candidate) => ({ value: candidate.model, label: candidate.display_name }))}
          onChange={({ target }) => setChosen(target.value)}
        />
      </div>
      {client.snippets.map(({ title = text.terminal, code }) => (
        <CodeBlock key={code} title={title} code={filledIn(code, setting)} />
      ))}
      {client.notes !== undefined && (
        <ul className="quick-start-notes">
          {client.notes[language].map((note) => (
            <li key={note}>
              <Note>{filledIn(note, setting)}</Note>
            </li>
          ))}
        </ul>
      )}
    </>
  )
}

/** Whether the set-up was tried here, and with what. */
function Seen({ seen }: Pick<Client, "seen">) {
  const text = useQuickStartText()
  if ("tried" in seen) {
    return (
      <>
        <Tag tone="good">{text.tried}</Tag>
        <span className="quick-start-hint">
          <Note>{seen.tried}</Note>
        </span>
      </>
    )
  }
  return (
    <>
      <Tag>{text.untried}</Tag>
      <a className="quick-start-hint" href={seen.page} target="_blank" rel="noreferrer">
        {text.documentation}
      </a>
    </>
  )
}

/** A sentence in which what stands between backticks is code. */
const Note = ({ children }: { readonly children: string }) =>
  // Its pieces never change places.
  // oxlint-disable-next-line react/no-array-index-key
  children.split("`").map((piece, index) => (index % 2 === 0 ? piece : <code key={index}>{piece}</code>))
