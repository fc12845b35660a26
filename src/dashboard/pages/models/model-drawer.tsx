/** One model: all that the catalogue says, and what a call would cost. */
import { MessageSquare } from "lucide-react"
import type { CatalogueModel } from "../../api/queries.ts"
import { ButtonLink } from "../../components/button.tsx"
import { CopyButton } from "../../components/copy-button.tsx"
import { Drawer } from "../../components/dialog.tsx"
import { Facts } from "../../components/facts.tsx"
import { Money } from "../../components/money.tsx"
import { Tag } from "../../components/tag.tsx"
import { useFormat } from "../../i18n/format.ts"
import { Calculator } from "./calculator.tsx"
import { perMillion } from "./choose.ts"
import { formatName } from "./filters.tsx"
import { useModelsText } from "./text.ts"

interface ModelDrawerProps {
  readonly model: CatalogueModel | undefined
  readonly onClose: () => void
}

export const ModelDrawer = ({ model, onClose }: ModelDrawerProps) => (
  <Drawer open={model !== undefined} title={model?.display_name ?? ""} onClose={onClose}>
    {model !== undefined && <ModelFacts model={model} />}
  </Drawer>
)

function ModelFacts({ model }: { readonly model: CatalogueModel }) {
  const text = useModelsText()
  const format = useFormat()
  const size = (tokens: number | null) => (tokens === null ? text.unknown : text.tokens(format.number(tokens)))
  return (
    <>
      <p className="model-id">
        <code>{model.model}</code>
        <CopyButton text={model.model} what={text.modelId} />
      </p>
      <Facts
        title={text.prices}
        facts={[
          { name: text.columns.input, value: <Money micro={perMillion(model.input_micro)} /> },
          { name: text.columns.output, value: <Money micro={perMillion(model.output_micro)} /> },
          { name: text.columns.cacheRead, value: <Money micro={perMillion(model.cache_read_micro)} /> },
          { name: text.columns.cacheWrite, value: <Money micro={perMillion(model.cache_write_micro)} /> },
        ]}
      />
      <Facts
        title={text.details}
        facts={[
          { name: text.columns.context, value: size(model.context_window) },
          { name: text.maxOutput, value: size(model.max_output_tokens) },
          { name: text.provider, value: model.provider },
          { name: text.tier, value: model.tier },
          { name: text.formats, value: model.endpoints.map(formatName).join(", ") },
          {
            name: text.fallback,
            value: model.fallback.length === 0 ? text.noFallback : <code>{model.fallback.join(" → ")}</code>,
          },
          {
            name: text.can,
            value: (
              <span className="model-tags">
                {model.supports_vision && <Tag>{text.vision}</Tag>}
                {model.supports_tools && <Tag>{text.tools}</Tag>}
              </span>
            ),
          },
        ]}
      />
      <Calculator model={model} />
      {model.endpoints.includes("chat") && (
        <ButtonLink to={`/playground?model=${encodeURIComponent(model.model)}`} icon={<MessageSquare />}>
          {text.toPlayground}
        </ButtonLink>
      )}
    </>
  )
}
