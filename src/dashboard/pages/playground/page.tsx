/** A conversation with a model through the gateway's own door, with what each answer cost. Text alone, no images. */
import { useQuery } from "@tanstack/react-query"
import { Boxes } from "lucide-react"
import { useState } from "react"
import { useSearchParams } from "wouter"
import { type CatalogueModel, modelsQuery } from "../../api/queries.ts"
import { EmptyState } from "../../components/empty-state.tsx"
import { ErrorState } from "../../components/error-state.tsx"
import { Page } from "../../components/page.tsx"
import { Skeleton } from "../../components/skeleton.tsx"
import { Talk } from "./talk.tsx"
import { usePlaygroundText } from "./text.ts"

export default function PlaygroundPage() {
  const text = usePlaygroundText()
  const models = useQuery(modelsQuery)
  const [search] = useSearchParams()
  const [asked] = useState(search.get("model") ?? undefined)
  const served = models.data?.filter(({ endpoints }) => endpoints.includes("chat"))
  if (served?.[0] !== undefined) return <Talk models={served as [CatalogueModel, ...CatalogueModel[]]} asked={asked} />
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
