/** A new secret for a key that stays the same, and how long the old one goes on. */
import { useMutation, useQueryClient } from "@tanstack/react-query"
import { useState } from "react"
import { api } from "../../api/client.ts"
import { told } from "../../api/failure.ts"
import { type ApiKey, keysQuery } from "../../api/queries.ts"
import { Button } from "../../components/button.tsx"
import { Choice } from "../../components/choice.tsx"
import { Dialog } from "../../components/dialog.tsx"
import { ErrorState } from "../../components/error-state.tsx"
import { useFormat } from "../../i18n/format.ts"
import type { Secret } from "./secret-dialog.tsx"
import { useKeysText } from "./text.ts"

/** Seconds. */
const OVERLAPS = ["0", "3600", "86400", "604800"] as const

interface RotateDialogProps {
  readonly apiKey: ApiKey
  readonly onClose: () => void
  readonly onRotated: (secret: Secret) => void
}

export function RotateDialog({ apiKey, onClose, onRotated }: RotateDialogProps) {
  const text = useKeysText()
  const format = useFormat()
  const client = useQueryClient()
  const [overlap, setOverlap] = useState<(typeof OVERLAPS)[number]>("86400")
  const rotate = useMutation({
    mutationFn: () => told(api.keys({ id: apiKey.id }).rotate.post({ overlap_s: Number(overlap) })),
    onSuccess: ({ key, name, previous_expires_at: previousUntil }) => {
      void client.invalidateQueries(keysQuery)
      onRotated({ key, name, previousUntil })
    },
  })
  const before = apiKey.previous_expires_at
  return (
    <Dialog
      open
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
      {rotate.error && <ErrorState error={rotate.error} />}
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
