/** One model: its prices over time, what it may, and whether it is sold. */
import { useQuery } from "@tanstack/react-query"
import { SearchX } from "lucide-react"
import { Link, useParams } from "wouter"
import { ButtonLink } from "../../../components/button.tsx"
import { CopyButton } from "../../../components/copy-button.tsx"
import { EmptyState } from "../../../components/empty-state.tsx"
import { ErrorState } from "../../../components/error-state.tsx"
import { Skeleton } from "../../../components/skeleton.tsx"
import { isMeant, modelsQuery, type OperatorModel } from "../models/data.ts"
import { ModelTags } from "../models/model-tags.tsx"
import { OperatorPage } from "../section.tsx"
import { Prices } from "./prices.tsx"
import { Retirement } from "./retirement.tsx"
import { Settings } from "./settings.tsx"
import { useModelText } from "./text.ts"

export default function ModelPage() {
  const text = useModelText()
  const { model: asked = "" } = useParams()
  const { data: all, error, refetch } = useQuery(modelsQuery)
  const model = all?.find((one) => isMeant(one.model, asked))
  if (all !== undefined && model !== undefined) {
    return (
      <OperatorPage title={model.display_name} intro={<Identity model={model} />}>
        <Prices model={model} />
        <Settings model={model} />
        <Retirement model={model} all={all} />
      </OperatorPage>
    )
  }
  return (
    <OperatorPage title={text.title}>
      {all !== undefined ? (
        <EmptyState
          icon={<SearchX />}
          title={text.unknown}
          action={<ButtonLink to="/operator/models">{text.toModels}</ButtonLink>}
        >
          {text.unknownHint}
        </EmptyState>
      ) : error ? (
        <ErrorState error={error} retry={refetch} />
      ) : (
        <Skeleton lines={8} />
      )}
    </OperatorPage>
  )
}

function Identity({ model }: { readonly model: OperatorModel }) {
  const text = useModelText()
  return (
    <span className="operator-identity">
      <ModelTags model={model} />
      <span>
        <code>{model.model}</code>
        <CopyButton text={model.model} what={text.modelId} />
      </span>
      <Link href={`/operator/audit?subject=${encodeURIComponent(model.model)}`}>{text.audit}</Link>
    </span>
  )
}
