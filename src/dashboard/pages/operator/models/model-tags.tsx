/** Whether a model is sold, in words. */
import { Tag, type Tone } from "../../../components/tag.tsx"
import { useFormat } from "../../../i18n/format.ts"
import { comingPrices, type OperatorModel } from "./data.ts"
import { useModelsText } from "./text.ts"

const TONES: Readonly<Record<OperatorModel["status"], Tone>> = { on_sale: "good", retiring: "warn", retired: "neutral" }

export function ModelTags({ model }: { readonly model: OperatorModel }) {
  const text = useModelsText()
  const format = useFormat()
  const coming = comingPrices(model).length
  return (
    <span className="operator-tags">
      <Tag tone={TONES[model.status]}>{text.states[model.status]}</Tag>
      {coming > 0 && <Tag tone="accent">{text.coming(format.number(coming))}</Tag>}
      {!model.configured && <Tag tone="bad">{text.unconfigured}</Tag>}
    </span>
  )
}
