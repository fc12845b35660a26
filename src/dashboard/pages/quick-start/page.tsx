/** From nothing to the first call: the set-up of each well-known client, to be copied. */
import { useQuery } from "@tanstack/react-query"
import { useState } from "react"
import { type CatalogueModel, keysQuery, modelsQuery } from "../../api/queries.ts"
import { ButtonLink, CopyButton } from "../../components/button.tsx"
import { EmptyState, ErrorState, Skeleton } from "../../components/feedback.tsx"
import { SelectField } from "../../components/form.tsx"
import { Card, CodeBlock, Page } from "../../components/layout.tsx"
import { Tabs } from "../../components/tabs.tsx"
import { type Client, clients, firstModel } from "./clients.ts"
import { useQuickStartText } from "./text.ts"

export default function QuickStartPage() {
  const text = useQuickStartText()
  const models = useQuery(modelsQuery)
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
      </div>
      <Card>
        {models.data !== undefined ? (
          <Tabs
            label={text.client}
            tabs={clients.map((client) => ({
              id: client.id,
              label: client.name,
              content: <ClientSetup client={client} base={base} models={models.data} />,
            }))}
          />
        ) : models.error ? (
          <ErrorState error={models.error} retry={models.refetch} />
        ) : (
          <Skeleton lines={8} />
        )}
      </Card>
      <Card title={text.afterwards}>
        <p>{text.afterwardsText}</p>
      </Card>
    </Page>
  )
}

function OwnKey() {
  const text = useQuickStartText()
  const keys = useQuery(keysQuery)
  if (keys.error) return <ErrorState error={keys.error} retry={keys.refetch} />
  if (keys.data === undefined) return <Skeleton lines={2} />
  const active = keys.data.keys.filter(({ status }) => status === "active")
  if (active.length === 0) {
    return (
      <div className="quick-start-no-key">
        <p>{text.noKey}</p>
        <ButtonLink to="/keys" kind="primary" size="small">
          {text.makeKey}
        </ButtonLink>
      </div>
    )
  }
  return (
    <>
      <ul className="quick-start-keys">
        {active.slice(0, 3).map(({ id, name, prefix, last4 }) => (
          <li key={id}>
            <span>{name}</span>
            <code>
              {prefix}…{last4}
            </code>
          </li>
        ))}
      </ul>
      <p className="quick-start-hint">{text.keyHint}</p>
    </>
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
  const served = models.filter(({ endpoints }) => endpoints.includes(client.format))
  const [chosen, setChosen] = useState<string>()
  const model = served.find((candidate) => candidate.model === chosen) ?? firstModel(served, client.likes)
  if (model === undefined) return <EmptyState title={text.noModel} />
  const note = text.notes[client.id]
  return (
    <>
      <div className="quick-start-model">
        <SelectField
          label={text.model}
          value={model.model}
          options={served.map((candidate) => ({ value: candidate.model, label: candidate.display_name }))}
          onChange={({ target }) => setChosen(target.value)}
        />
      </div>
      {client.snippets({ base, model }).map(({ file, code }) => (
        <CodeBlock key={code} title={file ?? text.terminal} code={code} />
      ))}
      {note !== "" && <p className="quick-start-hint">{note}</p>}
    </>
  )
}
