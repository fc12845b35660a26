/** What is done with a key that exists: trying it, rotating it, revoking it; and the one look at a new key's secret. */
import { queryOptions, useQuery, useQueryClient } from "@tanstack/react-query"
import { ShieldAlert } from "lucide-react"
import { useEffect, useState } from "react"
import { type ApiKey, keysQuery, modelsQuery, useChange } from "../../api/queries.ts"
import { api, unwrap } from "../../api/client.ts"
import { keepFreshKey } from "../../api/browser.ts"
import { Button, ButtonLink, CopyButton } from "../../components/button.tsx"
import { Choice } from "../../components/form.tsx"
import { ConfirmDialog, Dialog } from "../../components/dialog.tsx"
import { ErrorState, Skeleton } from "../../components/feedback.tsx"
import { CodeBlock, Facts, FormError } from "../../components/layout.tsx"
import { useFormat } from "../../i18n/language.tsx"
import { useMay } from "../../shell/session.tsx"
import { filledIn, firstModel, curl } from "../quick-start/client.ts"
import { hintOf } from "./key-detail.tsx"
import { useKeysText } from "./text.ts"

export interface Secret {
  readonly key: string
  readonly name: string
  /** After a rotation: when the old secret ends, or null when it has ended. */
  readonly previousUntil?: string | null
}

/** A key's secret, shown once: here, and for a while inside the code of the quick start. */
export function SecretDialog({ secret, onClose }: { readonly secret: Secret; readonly onClose: () => void }) {
  const text = useKeysText()
  const format = useFormat()
  const until = secret.previousUntil
  const client = useQueryClient()
  useEffect(() => keepFreshKey(client, secret.key), [client, secret.key])
  return (
    <Dialog
      title={text.secretTitle}
      onClose={onClose}
      insistent
      footer={
        <>
          <ButtonLink to="/quick-start">{text.toQuickStart}</ButtonLink>
          <Button kind="primary" onClick={onClose}>
            {text.secretKept}
          </Button>
        </>
      }
    >
      <p className="key-secret-name">{secret.name}</p>
      <div className="key-secret">
        <code>{secret.key}</code>
        <CopyButton text={secret.key} what={text.secret} />
      </div>
      <p className="key-notice">
        <ShieldAlert aria-hidden="true" />
        <span>{text.secretOnce}</span>
      </p>
      {until !== undefined && <p>{until === null ? text.oldEnded : text.oldUntil(format.dateTime(until))}</p>}
    </Dialog>
  )
}

interface TryDialogProps {
  readonly apiKey: ApiKey
  readonly onClose: () => void
}

/** A call for the terminal, with a placeholder for the key. Other clients are on the quick start page. */
export function TryDialog({ apiKey, onClose }: TryDialogProps) {
  const text = useKeysText()
  const mayBuild = useMay()("build")
  return (
    <Dialog
      title={text.tryTitle(apiKey.name)}
      onClose={onClose}
      footer={
        <>
          {mayBuild && <ButtonLink to="/playground">{text.toPlayground}</ButtonLink>}
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
  if (models.error) return <ErrorState error={models.error} retry={models.refetch} />
  if (models.data === undefined) return <Skeleton lines={4} />
  const model = firstModel(models.data.filter(({ endpoints }) => endpoints.includes("chat")))
  if (model === undefined) return <p>{text.noModel}</p>
  return curl.snippets.map(({ code }) => (
    <CodeBlock key={code} title={text.terminal} code={filledIn(code, { base: location.origin, model })} />
  ))
}

/** Seconds. */
const OVERLAPS = ["0", "3600", "86400", "604800"] as const

interface RotateDialogProps {
  readonly apiKey: ApiKey
  readonly onClose: () => void
  readonly onRotated: (secret: Secret) => void
}

/** A new secret for the same key, and how long the old secret still works. */
export function RotateDialog({ apiKey, onClose, onRotated }: RotateDialogProps) {
  const text = useKeysText()
  const format = useFormat()
  const client = useQueryClient()
  const [overlap, setOverlap] = useState<(typeof OVERLAPS)[number]>("86400")
  const rotate = useChange({
    mutationFn: () => unwrap(api.keys({ id: apiKey.id }).rotate.post({ overlap_s: Number(overlap) })),
    onSuccess: ({ key, name, previous_expires_at: previousUntil }) => {
      void client.invalidateQueries(keysQuery)
      onRotated({ key, name, previousUntil })
    },
  })
  const before = apiKey.previous_expires_at
  return (
    <Dialog
      title={text.rotateTitle(apiKey.name)}
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>{text.cancel}</Button>
          <Button kind="primary" busy={rotate.isPending} onClick={() => rotate.mutate()}>
            {text.rotateNow}
          </Button>
        </>
      }
    >
      {rotate.error && <FormError error={rotate.error} refused={text.rotateRefused} />}
      <p>{text.rotateText}</p>
      {before !== null && <p className="key-notice">{text.rotatingNow(format.dateTime(before))}</p>}
      <Choice
        label={text.overlap}
        values={OVERLAPS}
        chosen={overlap}
        nameOf={(value) => text.overlaps[value]}
        onChoose={setOverlap}
      />
    </Dialog>
  )
}

interface RevokeDialogProps {
  readonly apiKey: ApiKey
  readonly onClose: () => void
}

/** Revokes a key, and shows what it was used for. */
export function RevokeDialog({ apiKey, onClose }: RevokeDialogProps) {
  const text = useKeysText()
  return (
    <ConfirmDialog
      title={text.revokeTitle(apiKey.name)}
      act={text.revokeNow}
      done={text.revokedDone(apiKey.name)}
      run={() => unwrap(api.keys({ id: apiKey.id }).revoke.post())}
      stale={[keysQuery.queryKey]}
      onClose={onClose}
    >
      <p>{text.revokeText(hintOf(apiKey))}</p>
      <WhatStops keyId={apiKey.id} />
    </ConfirmDialog>
  )
}

/** In the place of a dialog whose key was revoked elsewhere while it was open. */
export function RevokedDialog({ apiKey, onClose }: RevokeDialogProps) {
  const text = useKeysText()
  return (
    <Dialog
      title={text.wasRevoked(apiKey.name)}
      onClose={onClose}
      footer={<Button onClick={onClose}>{text.close}</Button>}
    >
      <p>{text.wasRevokedText(hintOf(apiKey))}</p>
    </Dialog>
  )
}

/** The key's calls by model, the most called first. */
function WhatStops({ keyId }: { readonly keyId: string }) {
  const text = useKeysText()
  const format = useFormat()
  const calls = useQuery(callsOfKeyQuery(keyId))
  if (calls.error) return <ErrorState error={calls.error} retry={calls.refetch} />
  if (calls.data === undefined) return <Skeleton lines={3} />
  if (calls.data.length === 0) return <p className="key-quiet">{text.stopsNothing}</p>
  return (
    <Facts
      title={text.stops}
      facts={calls.data.map(({ model, requests }) => ({
        name: model,
        value: text.stopsCalls(format.number(requests), requests === 1),
      }))}
    />
  )
}

const LOOK_BACK_MS = 7 * 24 * 60 * 60 * 1_000

/** The models that a key called in the last days, the most called first. */
const callsOfKeyQuery = (keyId: string) =>
  queryOptions({
    queryKey: ["usage", "of-key", keyId],
    queryFn: async () => {
      const from = new Date(Date.now() - LOOK_BACK_MS).toISOString()
      const { data } = await unwrap(api.usage.summary.get({ query: { group_by: "key", split_by: "model", from } }))
      return data
        .filter(({ group }) => group === keyId)
        .map(({ split, requests }) => ({ model: split ?? "", requests }))
        .sort((a, b) => b.requests - a.requests)
    },
  })
