/** A new key. */
import { useMutation, useQueryClient } from "@tanstack/react-query"
import { api } from "../../api/client.ts"
import { told } from "../../api/failure.ts"
import { keysQuery } from "../../api/queries.ts"
import { KeyDialog } from "./key-dialog.tsx"
import type { Secret } from "./secret-dialog.tsx"
import { useKeysText } from "./text.ts"
import { noWishes, wishedOf, type Wishes } from "./wishes.ts"

interface CreateDialogProps {
  readonly open: boolean
  readonly onClose: () => void
  readonly onCreated: (secret: Secret) => void
}

export function CreateDialog({ open, onClose, onCreated }: CreateDialogProps) {
  const text = useKeysText()
  const client = useQueryClient()
  const create = useMutation({
    mutationFn: (wishes: Wishes) => told(api.keys.post(wishedOf(wishes))),
    onSuccess: ({ key, name }) => {
      void client.invalidateQueries(keysQuery)
      onCreated({ key, name })
    },
  })
  return (
    <KeyDialog
      open={open}
      title={text.createTitle}
      submit={text.create}
      begin={noWishes}
      busy={create.isPending}
      error={create.error}
      onSubmit={create.mutate}
      onClose={() => {
        create.reset()
        onClose()
      }}
    />
  )
}
