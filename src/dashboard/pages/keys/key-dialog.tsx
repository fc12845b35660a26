/** The dialog in which a key's name and limits are written, for a new key and for one that is there. */
import { type FormEvent, useId, useState } from "react"
import { Button } from "../../components/button.tsx"
import { Dialog } from "../../components/dialog.tsx"
import { ErrorState } from "../../components/error-state.tsx"
import { useLanguage } from "../../i18n/language.tsx"
import { KeyFields } from "./key-form.tsx"
import { useKeysText } from "./text.ts"
import { read, type Wishes, type WrittenWishes, type WrongField } from "./wishes.ts"

interface KeyDialogProps {
  readonly open: boolean
  readonly title: string
  /** The button's word. */
  readonly submit: string
  readonly begin: WrittenWishes
  readonly busy: boolean
  readonly error: Error | null
  readonly onSubmit: (wishes: Wishes) => void
  readonly onClose: () => void
}

export function KeyDialog({ open, title, submit, busy, onClose, ...form }: KeyDialogProps) {
  const text = useKeysText()
  const id = useId()
  return (
    <Dialog
      open={open}
      title={title}
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>{text.cancel}</Button>
          <Button kind="primary" type="submit" form={id} busy={busy}>
            {submit}
          </Button>
        </>
      }
    >
      <KeyForm id={id} busy={busy} {...form} />
    </Dialog>
  )
}

type KeyFormProps = Pick<KeyDialogProps, "begin" | "busy" | "error" | "onSubmit"> & { readonly id: string }

/** Begins anew each time that the dialog opens. */
function KeyForm({ id, begin, busy, error, onSubmit }: KeyFormProps) {
  const { language } = useLanguage()
  const [written, setWritten] = useState(begin)
  const [wrong, setWrong] = useState<ReadonlySet<WrongField>>(new Set())
  const send = (event: FormEvent) => {
    event.preventDefault()
    if (busy) return
    const wishes = read(written, language)
    if (!("name" in wishes)) return setWrong(wishes)
    setWrong(new Set())
    onSubmit(wishes)
  }
  return (
    <form id={id} className="key-form" onSubmit={send} noValidate>
      {error !== null && <ErrorState error={error} />}
      <KeyFields written={written} wrong={wrong} onChange={setWritten} />
    </form>
  )
}
