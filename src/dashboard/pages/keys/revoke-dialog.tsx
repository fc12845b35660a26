/** The end of a key, with what will stop when it comes. */
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query"
import { api } from "../../api/client.ts"
import { told } from "../../api/failure.ts"
import { type ApiKey, keysQuery } from "../../api/queries.ts"
import { Button } from "../../components/button.tsx"
import { Dialog } from "../../components/dialog.tsx"
import { ErrorState } from "../../components/error-state.tsx"
import { Facts } from "../../components/facts.tsx"
import { Skeleton } from "../../components/skeleton.tsx"
import { useToasts } from "../../components/toast.tsx"
import { useFormat } from "../../i18n/format.ts"
import { callsOfKeyQuery } from "./data.ts"
import { hintOf } from "./hint.ts"
import { useKeysText } from "./text.ts"

interface RevokeDialogProps {
  readonly apiKey: ApiKey
  readonly onClose: () => void
}

export function RevokeDialog({ apiKey, onClose }: RevokeDialogProps) {
  const text = useKeysText()
  const toasts = useToasts()
  const client = useQueryClient()
  const revoke = useMutation({
    mutationFn: () => told(api.keys({ id: apiKey.id }).revoke.post()),
    onSuccess: async ({ name }) => {
      await client.invalidateQueries(keysQuery)
      toasts.done(text.revokedDone(name))
      onClose()
    },
  })
  return (
    <Dialog
      open
      title={text.revokeTitle(apiKey.name)}
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>{text.cancel}</Button>
          <Button kind="danger" busy={revoke.isPending} onClick={() => revoke.mutate()}>
            {text.revokeNow}
          </Button>
        </>
      }
    >
      {revoke.error && <ErrorState error={revoke.error} />}
      <p>{text.revokeText(hintOf(apiKey))}</p>
      <WhatStops keyId={apiKey.id} />
    </Dialog>
  )
}

/** By model, the most called first. */
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
