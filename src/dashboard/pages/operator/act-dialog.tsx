/** An operator's action that is confirmed: what will happen, a reason where one is kept, and a button that names it. */
import { type ComponentProps, type ReactNode, useState } from "react"
import { useChange } from "../../api/change.ts"
import { FormDialog } from "../../components/dialog.tsx"
import { useToasts } from "../../components/feedback.tsx"
import { formText, TextField } from "../../components/form.tsx"
import { useRefetchAll } from "./frame.tsx"
import { useOperatorText } from "./text.ts"

interface ActDialogProps {
  readonly title: string
  /** What will happen. */
  readonly children: ReactNode
  /** The word on the button, and the notice when it is done. */
  readonly act: string
  readonly done: string
  readonly danger?: boolean
  /** The label of the reason's field; without one no reason is asked for. */
  readonly reason?: string
  readonly run: (reason: string) => Promise<unknown>
  readonly onClose: () => void
}

export function ActDialog({ title, children, act, done, danger = false, reason, run, onClose }: ActDialogProps) {
  const [missing, setMissing] = useState(false)
  const action = useAction({ run, done: () => done, onClose })
  const send = (form: FormData) => {
    const given = formText(form, "reason").trim()
    setMissing(reason !== undefined && given === "")
    if (reason === undefined || given !== "") action.mutate(given)
  }
  return (
    <FormDialog
      title={title}
      submit={act}
      danger={danger}
      busy={action.isPending}
      error={action.error}
      onSubmit={send}
      onClose={onClose}
    >
      {children}
      {reason !== undefined && (
        <ReasonField label={reason} name="reason" missing={missing} data-autofocus onChange={() => setMissing(false)} />
      )}
    </FormDialog>
  )
}

interface ReasonFieldProps extends Omit<ComponentProps<typeof TextField>, "hint" | "error" | "maxLength"> {
  /** It was sent without one. */
  readonly missing: boolean
}

/** Why an operator does something: one line, kept in the audit log. */
export function ReasonField({ missing, ...field }: ReasonFieldProps) {
  const text = useOperatorText()
  return (
    <TextField
      {...field}
      hint={text.reasonHint}
      error={missing ? text.reasonWrong : undefined}
      maxLength={500}
      autoComplete="off"
    />
  )
}

interface Action<Input, Output> {
  readonly run: (input: Input) => Promise<Output>
  /** The notice when it is done. */
  readonly done: (output: Output) => string
  readonly onClose: () => void
}

/** What every dialog of an operator does with its action: run it, refetch what it may have changed, say so, and close. */
export function useAction<Input, Output>({ run, done, onClose }: Action<Input, Output>) {
  const toasts = useToasts()
  const refetchAll = useRefetchAll()
  return useChange({
    mutationFn: run,
    onSuccess: async (output) => {
      await refetchAll()
      toasts.done(done(output))
      onClose()
    },
  })
}

/** The values of a form's fields, and whether it was sent: from then on wrong fields say so. */
export function useDraft<Values>(initial: Values) {
  const [values, setValues] = useState(initial)
  const [sent, setSent] = useState(false)
  return {
    values,
    set: (change: Partial<Values>) => setValues((before) => ({ ...before, ...change })),
    sent,
    send: () => setSent(true),
  }
}
