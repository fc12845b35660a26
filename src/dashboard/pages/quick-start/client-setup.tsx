/** One client's set-up, for a model of the person's choice among those that are served in its format. */
import { useState } from "react"
import type { CatalogueModel } from "../../api/queries.ts"
import { CodeBlock } from "../../components/code-block.tsx"
import { EmptyState } from "../../components/empty-state.tsx"
import { SelectField } from "../../components/field.tsx"
import { type Client, firstModel } from "./clients.ts"
import { useQuickStartText } from "./text.ts"

interface ClientSetupProps {
  readonly client: Client
  readonly base: string
  readonly models: readonly CatalogueModel[]
}

export function ClientSetup({ client, base, models }: ClientSetupProps) {
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
