/**
 * A change of a model in two steps: first the form, then a preview of the change by the server (`dry_run`), which can be
 * saved. A price that jumps needs a confirmation too.
 */
import { TriangleAlert } from "lucide-react"
import { type ReactNode, useState } from "react"
import { useChange } from "../../api/change.ts"
import { FormDialog } from "../../components/dialog.tsx"
import { useFormat } from "../../i18n/format.ts"
import { useAction } from "./act-dialog.tsx"
import { Changes } from "./changes.tsx"
import { useModelText } from "./model-text.ts"
import { useOperatorText } from "./text.ts"

interface Jump {
  readonly name: "input_micro" | "output_micro" | "cache_read_micro" | "cache_write_micro"
  readonly from: number
  readonly to: number
  readonly factor: number | null
}

/** What the server says that a change does. */
interface Preview {
  readonly before: unknown
  readonly after: unknown
  readonly jumps?: readonly Jump[]
  /** What callers pay now and then, where it is not the change itself. */
  readonly prices?: { readonly from: object | null; readonly to: object | null }
}

/** Whether a change is only tried, and whether the operator confirmed its jumps. */
interface Sending {
  readonly dryRun: boolean
  readonly confirmed: boolean
}

interface ChangeDialogProps<Change> {
  readonly title: string
  readonly done: string
  /** The word on the last button, which is red for what takes something away. */
  readonly save?: string
  readonly danger?: boolean
  /** The change that the form describes; undefined when a field is wrong, and then the form says so. */
  readonly read: () => Change | undefined
  readonly send: (change: Change, sending: Sending) => Promise<Preview>
  readonly children: ReactNode
  readonly onClose: () => void
}

export function ChangeDialog<Change>(props: ChangeDialogProps<Change>) {
  const { title, done, save, danger = false, read, send, children, onClose } = props
  const text = useModelText()
  const words = useOperatorText()
  const [confirmed, setConfirmed] = useState(false)
  const trying = useChange({
    mutationFn: async (change: Change) => ({ change, preview: await send(change, { dryRun: true, confirmed: false }) }),
  })
  const saving = useAction({
    run: (change: Change) => send(change, { dryRun: false, confirmed }),
    done: () => done,
    onClose,
  })
  const back = () => {
    trying.reset()
    saving.reset()
    setConfirmed(false)
  }
  const tried = trying.data
  const submit = () => {
    if (tried !== undefined) return saving.mutate(tried.change)
    const change = read()
    if (change !== undefined) trying.mutate(change)
  }
  const jumps = tried?.preview.jumps ?? []
  return (
    <FormDialog
      title={title}
      submit={tried === undefined ? text.review : (save ?? text.save)}
      danger={danger && tried !== undefined}
      disabled={jumps.length > 0 && !confirmed}
      busy={trying.isPending || saving.isPending}
      error={saving.error ?? trying.error}
      back={tried && { label: words.back, onBack: back }}
      onSubmit={submit}
      onClose={onClose}
    >
      {/* Hidden, so that going back finds what was written. */}
      <div className="dialog-form" hidden={tried !== undefined}>
        {children}
      </div>
      {tried !== undefined && (
        <div className="dialog-form" role="status">
          <p>{text.reviewed}</p>
          <Changes before={tried.preview.before} after={tried.preview.after} />
          {tried.preview.prices && (
            <Changes
              caption={text.retirePrices}
              before={ratesAlone(tried.preview.prices.from)}
              after={ratesAlone(tried.preview.prices.to)}
            />
          )}
        </div>
      )}
      {jumps.length > 0 && <Jumps jumps={jumps} confirmed={confirmed} onConfirm={setConfirmed} />}
    </FormDialog>
  )
}

/** A price without the time that it began at. */
const ratesAlone = (price: object | null) =>
  Object.fromEntries(Object.entries(price ?? {}).filter(([name]) => name !== "effective_at"))

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
