/** What a model is called and may, and where it is served from. */
import { useState } from "react"
import { Button } from "../../../components/button.tsx"
import { Card } from "../../../components/card.tsx"
import { Facts } from "../../../components/facts.tsx"
import { useFormat } from "../../../i18n/format.ts"
import type { OperatorModel } from "../models/data.ts"
import { useOperatorText } from "../text.ts"
import { SettingsDialog } from "./settings-dialog.tsx"
import { useModelText } from "./text.ts"

export function Settings({ model }: { readonly model: OperatorModel }) {
  const text = useModelText()
  const { fields } = useOperatorText()
  const format = useFormat()
  const [editing, setEditing] = useState(false)
  const { upstream, fallback, pass, edited, context_window: context } = model
  return (
    <Card
      title={text.settings}
      action={
        <Button size="small" onClick={() => setEditing(true)}>
          {text.edit}
        </Button>
      }
    >
      <Facts
        facts={[
          { name: fields.display_name, value: model.display_name },
          { name: fields.tier, value: model.tier },
          { name: fields.max_concurrency, value: format.number(model.max_concurrency) },
          { name: fields.fallback, value: fallback.length === 0 ? text.noFallback : fallback.join(" → ") },
          { name: fields.pass, value: pass.length === 0 ? text.noPass : pass.join(", ") },
          { name: text.upstream, value: `${upstream.provider} · ${upstream.format} · ${upstream.model}` },
          { name: text.endpoints, value: model.endpoints.join(", ") },
          { name: text.context, value: context === null ? text.unpublished : text.tokens(format.number(context)) },
          { name: text.maxOutput, value: text.tokens(format.number(model.max_output_tokens)) },
          { name: text.edited, value: edited.length === 0 ? text.editedNone : edited.join(", ") },
        ]}
      />
      <SettingsDialog model={model} open={editing} onClose={() => setEditing(false)} />
    </Card>
  )
}
