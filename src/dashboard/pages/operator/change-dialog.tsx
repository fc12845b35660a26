/**
 * A change of a model in two steps: what is wished, then what would be by the server's own word (`dry_run`). Only then can it
 * be saved. A price that jumps wants one confirmation more.
 */
import { useMutation } from "@tanstack/react-query"
import { TriangleAlert } from "lucide-react"
import { type FormEvent, type ReactNode, useId, useState } from "react"
import { Button } from "../../components/button.tsx"
import { Dialog } from "../../components/dialog.tsx"
import { ErrorState, useToasts } from "../../components/feedback.tsx"
import { useComponentText } from "../../components/text.ts"
import { useFormat } from "../../i18n/format.ts"
import { Changes } from "./changes.tsx"
import { useRefetchAll } from "./list.ts"
import { useModelText } from "./model-text.ts"
import { useOperatorText } from "./text.ts"

interface Jump {
  readonly name: "input_micro" | "output_micro" | "cache_read_micro" | "cache_write_micro"
  readonly from: number
  readonly to: number
  readonly factor: number | null
}

interface Told {
  readonly before: unknown
  readonly after: unknown
  readonly jumps?: readonly Jump[]
}

/** As the API is asked: tried only, or made; `confirmed` when the jumps are meant. */
interface Sending {
  readonly dryRun: boolean
  readonly confirmed: boolean
}

interface ChangeDialogProps<Change> {
  readonly open: boolean
  readonly title: string
  readonly done: string
  /** The last button's word; of what takes something away, a red one. */
  readonly save?: string
  readonly danger?: boolean
  /** What the form wishes; undefined when it is not right, and then the form says so. */
  readonly read: () => Change | undefined
  readonly send: (change: Change, sending: Sending) => Promise<Told>
  readonly children: ReactNode
  readonly onClose: () => void
}

export function ChangeDialog<Change>(props: ChangeDialogProps<Change>) {
  const { open, title, done, save, danger = false, read, send, children, onClose } = props
  const text = useModelText()
  const words = useOperatorText()
  const components = useComponentText()
  const toasts = useToasts()
  const refetchAll = useRefetchAll()
  const id = useId()
  const [confirmed, setConfirmed] = useState(false)
  const trying = useMutation({
    mutationFn: async (change: Change) => ({ change, told: await send(change, { dryRun: true, confirmed: false }) }),
  })
  const saving = useMutation({
    mutationFn: (change: Change) => send(change, { dryRun: false, confirmed }),
    onSuccess: async () => {
      await refetchAll()
      toasts.done(done)
      close()
    },
  })
  const back = () => {
    trying.reset()
    saving.reset()
    setConfirmed(false)
  }
  const close = () => {
    back()
    onClose()
  }
  const tried = trying.data
  const submit = (event: FormEvent) => {
    event.preventDefault()
    if (trying.isPending || saving.isPending) return
    if (tried !== undefined) return saving.mutate(tried.change)
    const change = read()
    if (change !== undefined) trying.mutate(change)
  }
  const error = saving.error ?? trying.error
  const jumps = tried?.told.jumps ?? []
  return (
    <Dialog
      open={open}
      title={title}
      onClose={close}
      footer={
        tried === undefined ? (
          <>
            <Button onClick={close}>{components.cancel}</Button>
            <Button kind="primary" type="submit" form={id} busy={trying.isPending}>
              {text.review}
            </Button>
          </>
        ) : (
          <>
            <Button onClick={back}>{words.back}</Button>
            <Button
              kind={danger ? "danger" : "primary"}
              type="submit"
              form={id}
              busy={saving.isPending}
              disabled={jumps.length > 0 && !confirmed}
            >
              {save ?? text.save}
            </Button>
          </>
        )
      }
    >
      <form id={id} className="operator-form" onSubmit={submit} noValidate>
        {error !== null && <ErrorState error={error} />}
        {/* Hidden, so that going back finds what was written. */}
        <div className="operator-form" hidden={tried !== undefined}>
          {children}
        </div>
        {tried !== undefined && (
          <div className="operator-form" role="status">
            <p>{text.reviewed}</p>
            <Changes before={tried.told.before} after={tried.told.after} />
          </div>
        )}
        {jumps.length > 0 && <Jumps jumps={jumps} confirmed={confirmed} onConfirm={setConfirmed} />}
      </form>
    </Dialog>
  )
}

interface JumpsProps {
  readonly jumps: readonly Jump[]
  readonly confirmed: boolean
  readonly onConfirm: (confirmed: boolean) => void
}

function Jumps({ jumps, confirmed, onConfirm }: JumpsProps) {
  const text = useModelText()
  const { rates } = useOperatorText()
  const format = useFormat()
  const perMillion = (micro: number) => format.rupiah(BigInt(micro) * 1_000_000n)
  return (
    <div className="operator-warning" role="alert">
      <p>
        <TriangleAlert aria-hidden="true" />
        <strong>{text.jump}</strong>
      </p>
      <ul>
        {jumps.map(({ name, from, to, factor }) => (
          <li key={name}>
            {text.jumpText(
              rates[name],
              perMillion(from),
              perMillion(to),
              factor === null ? text.jumpNothing : text.jumpTimes(format.number(factor)),
            )}
          </li>
        ))}
      </ul>
      <label className="check">
        <input type="checkbox" checked={confirmed} onChange={({ target }) => onConfirm(target.checked)} />
        {text.jumpConfirm}
      </label>
    </div>
  )
}
