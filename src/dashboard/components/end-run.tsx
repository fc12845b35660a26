/** Ends a run before its time. */
import { api, unwrap } from "../api/client.ts"
import { ConfirmDialog } from "./confirm-dialog.tsx"
import { useRunText } from "./run-text.ts"

interface EndRunProps {
  readonly run: { readonly id: string; readonly name: string }
  readonly onClose: () => void
}

export function EndRunDialog({ run: { id, name }, onClose }: EndRunProps) {
  const text = useRunText()
  return (
    <ConfirmDialog
      title={text.endTitle(name)}
      act={text.endNow}
      done={text.endDone(name)}
      run={() => unwrap(api.runs({ id }).end.post())}
      stale={[["runs"], ["sums", "run", id]]}
      onClose={onClose}
    >
      <p>{text.endText}</p>
    </ConfirmDialog>
  )
}
