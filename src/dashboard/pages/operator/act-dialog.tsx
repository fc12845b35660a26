/** An act that somebody must mean: what will happen, a reason where one is kept, and a button that names it. */
import { useMutation } from "@tanstack/react-query"
import { type FormEvent, type ReactNode, useId, useState } from "react"
import { Button } from "../../components/button.tsx"
import { Dialog } from "../../components/dialog.tsx"
import { ErrorState, useToasts } from "../../components/feedback.tsx"
import { formText, TextField } from "../../components/form.tsx"
import { useComponentText } from "../../components/text.ts"
import { useRefetchAll } from "./list.ts"
import { useOperatorText } from "./text.ts"

interface ActDialogProps {
  readonly open: boolean
  readonly title: string
  /** What will happen. */
  readonly children: ReactNode
  /** The button's word, and what is said when it is done. */
  readonly act: string
  readonly done: string
  readonly danger?: boolean
  /** What the reason's field is called; without one none is asked for. */
  readonly reason?: string
  readonly run: (reason: string) => Promise<unknown>
  readonly onClose: () => void
}

export function ActDialog({ open, title, children, act, done, danger = false, reason, run, onClose }: ActDialogProps) {
  const text = useOperatorText()
  const components = useComponentText()
  const toasts = useToasts()
  const refetchAll = useRefetchAll()
  const id = useId()
  const [wrong, setWrong] = useState(false)
  const acting = useMutation({
    mutationFn: run,
    onSuccess: async () => {
      await refetchAll()
      toasts.done(done)
      close()
    },
  })
  const close = () => {
    acting.reset()
    setWrong(false)
    onClose()
  }
  const send = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    if (acting.isPending) return
    const given = formText(new FormData(event.currentTarget), "reason").trim()
    setWrong(reason !== undefined && given === "")
    if (reason === undefined || given !== "") acting.mutate(given)
  }
  return (
    <Dialog
      open={open}
      title={title}
      onClose={close}
      footer={
        <>
          <Button onClick={close}>{components.cancel}</Button>
          <Button kind={danger ? "danger" : "primary"} type="submit" form={id} busy={acting.isPending}>
            {act}
          </Button>
        </>
      }
    >
      <form id={id} className="operator-form" onSubmit={send} noValidate>
        {acting.error !== null && <ErrorState error={acting.error} />}
        {children}
        {reason !== undefined && (
          <TextField
            label={reason}
            name="reason"
            hint={text.reasonHint}
            error={wrong ? text.reasonWrong : undefined}
            maxLength={500}
            autoComplete="off"
            data-autofocus
            onChange={() => setWrong(false)}
          />
        )}
      </form>
    </Dialog>
  )
}
