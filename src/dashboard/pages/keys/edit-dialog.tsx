/** Another name, other limits. A running application feels them with its next call. */
import { useMutation, useQueryClient } from "@tanstack/react-query"
import { api } from "../../api/client.ts"
import { told } from "../../api/failure.ts"
import { type ApiKey, keysQuery } from "../../api/queries.ts"
import { useToasts } from "../../components/toast.tsx"
import { useLanguage } from "../../i18n/language.tsx"
import { KeyDialog } from "./key-dialog.tsx"
import { useKeysText } from "./text.ts"
import { type Wishes, writtenOf } from "./wishes.ts"

interface EditDialogProps {
  readonly apiKey: ApiKey
  readonly onClose: () => void
}

export function EditDialog({ apiKey, onClose }: EditDialogProps) {
  const text = useKeysText()
  const { language } = useLanguage()
  const toasts = useToasts()
  const client = useQueryClient()
  const change = useMutation({
    mutationFn: (wishes: Wishes) => told(api.keys({ id: apiKey.id }).patch(wishes)),
    onSuccess: async ({ name }) => {
      await client.invalidateQueries(keysQuery)
      toasts.done(text.saved(name))
      onClose()
    },
  })
  return (
    <KeyDialog
      open
      title={text.editTitle(apiKey.name)}
      submit={text.save}
      begin={writtenOf(apiKey, language)}
      busy={change.isPending}
      error={change.error}
      onSubmit={change.mutate}
      onClose={onClose}
    />
  )
}
