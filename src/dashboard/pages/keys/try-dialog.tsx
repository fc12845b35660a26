/** One call by hand, with the place marked where the key goes. Other clients are on the page that it leads to. */
import { useQuery } from "@tanstack/react-query"
import { type ApiKey, modelsQuery } from "../../api/queries.ts"
import { ButtonLink } from "../../components/button.tsx"
import { CodeBlock } from "../../components/code-block.tsx"
import { Dialog } from "../../components/dialog.tsx"
import { ErrorState } from "../../components/error-state.tsx"
import { Skeleton } from "../../components/skeleton.tsx"
import { clients, firstModel } from "../quick-start/clients.ts"
import { hintOf } from "./hint.ts"
import { useKeysText } from "./text.ts"

interface TryDialogProps {
  readonly apiKey: ApiKey
  readonly onClose: () => void
}

export function TryDialog({ apiKey, onClose }: TryDialogProps) {
  const text = useKeysText()
  return (
    <Dialog
      open
      title={text.tryTitle(apiKey.name)}
      onClose={onClose}
      footer={
        <>
          <ButtonLink to="/playground">{text.toPlayground}</ButtonLink>
          <ButtonLink to="/quick-start" kind="primary">
            {text.toQuickStart}
          </ButtonLink>
        </>
      }
    >
      <p>{text.tryText(hintOf(apiKey))}</p>
      <Snippet />
    </Dialog>
  )
}

function Snippet() {
  const text = useKeysText()
  const models = useQuery(modelsQuery)
  const client = clients.find(({ id }) => id === "curl")
  if (models.error) return <ErrorState error={models.error} retry={models.refetch} />
  if (models.data === undefined) return <Skeleton lines={4} />
  const model = firstModel(models.data.filter(({ endpoints }) => endpoints.includes("chat")))
  if (model === undefined || client === undefined) return <p>{text.noModel}</p>
  return client
    .snippets({ base: location.origin, model })
    .map(({ code }) => <CodeBlock key={code} title={text.terminal} code={code} />)
}
