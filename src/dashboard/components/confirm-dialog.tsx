/** A step that cannot be taken back, asked once more: what will happen, and a button that names it. */
import { type QueryKey, useQueryClient } from "@tanstack/react-query"
import type { ReactNode } from "react"
import { useChange } from "../api/change.ts"
import { FormDialog } from "./dialog.tsx"
import { useToasts } from "./feedback.tsx"

interface ConfirmDialogProps {
  readonly title: string
  /** What will happen. */
  readonly children: ReactNode
  /** The word on the button, and the notice when it is done. */
  readonly act: string
  readonly done: string
  readonly run: () => Promise<unknown>
  /** What is asked for again when it is done. */
  readonly stale: readonly QueryKey[]
  readonly onClose: () => void
}

export function ConfirmDialog({ title, children, act, done, run, stale, onClose }: ConfirmDialogProps) {
  const toasts = useToasts()
  const client = useQueryClient()
  const change = useChange({
    mutationFn: run,
    onSuccess: async () => {
      await Promise.all(stale.map((queryKey) => client.invalidateQueries({ queryKey })))
      toasts.done(done)
      onClose()
    },
  })
  return (
    <FormDialog
      title={title}
      submit={act}
      danger
      busy={change.isPending}
      error={change.error}
      onSubmit={() => change.mutate()}
      onClose={onClose}
    >
      {children}
    </FormDialog>
  )
}
