/** The account's keys: what each may spend and has used, live; making, changing, rotating and revoking them. */
import { useQuery } from "@tanstack/react-query"
import { KeyRound, Plus } from "lucide-react"
import { useState } from "react"
import { type ApiKey, keysQuery } from "../../api/queries.ts"
import { Button } from "../../components/button.tsx"
import { Card } from "../../components/card.tsx"
import { EmptyState } from "../../components/empty-state.tsx"
import { ErrorState } from "../../components/error-state.tsx"
import { Page } from "../../components/page.tsx"
import { Skeleton } from "../../components/skeleton.tsx"
import { CreateDialog } from "./create-dialog.tsx"
import { EditDialog } from "./edit-dialog.tsx"
import { type KeyAction, KeyCard } from "./key-card.tsx"
import { RevokeDialog } from "./revoke-dialog.tsx"
import { Revoked } from "./revoked.tsx"
import { RotateDialog } from "./rotate-dialog.tsx"
import { type Secret, SecretDialog } from "./secret-dialog.tsx"
import { useKeysText } from "./text.ts"
import { TryDialog } from "./try-dialog.tsx"

/** Windows empty by themselves, which no event tells. */
const WINDOW_LOOK_MS = 3_000

type Open = { readonly action: "create" } | { readonly action: KeyAction; readonly keyId: string }

export default function KeysPage() {
  const text = useKeysText()
  const keys = useQuery({
    ...keysQuery,
    refetchInterval: ({ state }) => (state.data?.keys.some(hasUsedWindow) ? WINDOW_LOOK_MS : false),
  })
  const [open, setOpen] = useState<Open>()
  const [secret, setSecret] = useState<Secret>()
  const close = () => setOpen(undefined)
  const reveal = (made: Secret) => {
    close()
    setSecret(made)
  }
  const active = keys.data?.keys.filter(({ status }) => status === "active") ?? []
  const acting = open?.action === "create" ? undefined : open
  const acted = active.find(({ id }) => id === acting?.keyId)
  const create = (
    <Button kind="primary" icon={<Plus />} onClick={() => setOpen({ action: "create" })}>
      {text.create}
    </Button>
  )
  return (
    <Page title={text.title} intro={text.intro} actions={active.length > 0 && create}>
      {keys.data === undefined ? (
        keys.error ? (
          <ErrorState error={keys.error} retry={keys.refetch} />
        ) : (
          <Skeleton lines={6} />
        )
      ) : (
        <>
          {keys.error && <ErrorState error={keys.error} retry={keys.refetch} />}
          {active.length === 0 ? (
            <Card flush>
              <EmptyState icon={<KeyRound />} title={text.none} action={create}>
                {text.noneHint}
              </EmptyState>
            </Card>
          ) : (
            <ul className="key-list" aria-label={text.list}>
              {active.map((key) => (
                <KeyCard key={key.id} apiKey={key} onAct={(action) => setOpen({ action, keyId: key.id })} />
              ))}
            </ul>
          )}
          <Revoked latest={keys.data.keys.filter(({ status }) => status === "revoked")} next={keys.data.next} />
        </>
      )}
      <CreateDialog open={open?.action === "create"} onClose={close} onCreated={reveal} />
      {acting !== undefined && acted !== undefined && (
        <Acting action={acting.action} apiKey={acted} onClose={close} onRotated={reveal} />
      )}
      <SecretDialog secret={secret} onClose={() => setSecret(undefined)} />
    </Page>
  )
}

const hasUsedWindow = ({ usage: { requests, tokens } }: ApiKey): boolean =>
  (requests?.used ?? 0) > 0 || (tokens?.used ?? 0) > 0

interface ActingProps {
  readonly action: KeyAction
  readonly apiKey: ApiKey
  readonly onClose: () => void
  readonly onRotated: (secret: Secret) => void
}

function Acting({ action, apiKey, onClose, onRotated }: ActingProps) {
  if (action === "try") return <TryDialog apiKey={apiKey} onClose={onClose} />
  if (action === "edit") return <EditDialog apiKey={apiKey} onClose={onClose} />
  if (action === "rotate") return <RotateDialog apiKey={apiKey} onClose={onClose} onRotated={onRotated} />
  return <RevokeDialog apiKey={apiKey} onClose={onClose} />
}
