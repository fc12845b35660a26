/** Changes of an operator: as a table, field by field, and the dialog that shows one before it is saved. */
import { TriangleAlert } from "lucide-react"
import { type ReactNode, useState } from "react"
import { useChange } from "../../api/queries.ts"
import { FormDialog } from "../../components/dialog.tsx"
import { Money } from "../../components/values.tsx"
import { type Format, useFormat } from "../../i18n/language.tsx"
import { Confirm, useAction, useOperatorText } from "./act-dialog.tsx"
import { useModelText } from "./catalogue.tsx"

type Fields = Readonly<Record<string, unknown>>
type OperatorText = ReturnType<typeof useOperatorText>

/** The fields of a JSON object; none for anything else. */
const fieldsOf = (value: unknown): Fields =>
  typeof value === "object" && value !== null && !Array.isArray(value) ? { ...value } : {}

/** Fields that mean nothing to a person. */
const HIDDEN = new Set(["id"])

interface ChangesProps {
  readonly before: unknown
  readonly after: unknown
  readonly caption?: string
}

export function Changes({ before, after, caption }: ChangesProps) {
  const text = useOperatorText()
  const [was, is] = [fieldsOf(before), fieldsOf(after)]
  const names = [...new Set([...Object.keys(was), ...Object.keys(is)])].filter((name) => !HIDDEN.has(name))
  return (
    <table className="changes">
      {caption !== undefined && <caption>{caption}</caption>}
      <thead>
        <tr>
          <th scope="col">{text.field}</th>
          <th scope="col">{text.before}</th>
          <th scope="col">{text.after}</th>
        </tr>
      </thead>
      <tbody>
        {names.map((name) => (
          <tr key={name} className={same(was[name], is[name]) ? undefined : "is-changed"}>
            <th scope="row">{nameOf(name, text)}</th>
            <td>
              <Value name={name} value={was[name]} />
            </td>
            <td>
              <Value name={name} value={is[name]} />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  )
}

const same = (a: unknown, b: unknown): boolean => JSON.stringify(a) === JSON.stringify(b)

const isRate = (name: string): name is keyof OperatorText["rates"] =>
  ["input_micro", "output_micro", "cache_read_micro", "cache_write_micro"].includes(name)

function nameOf(name: string, text: OperatorText): ReactNode {
  if (isRate(name)) return text.rates[name]
  const known = Object.entries(text.fields).find(([field]) => field === name)
  return known === undefined ? <code>{name}</code> : known[1]
}

function Value({ name, value }: { readonly name: string; readonly value: unknown }) {
  const text = useOperatorText()
  const format = useFormat()
  if (typeof value === "number" && name.endsWith("_micro")) {
    // Prices are stored for one token and shown for a million.
    return <Money micro={isRate(name) ? BigInt(value) * 1_000_000n : value} form="exact" />
  }
  return words(name, value, text, format)
}

function words(name: string, value: unknown, text: OperatorText, format: Format): string {
  if (value === null || value === undefined) return text.nothing
  if (typeof value === "boolean") return value ? text.yes : text.no
  if (typeof value === "number") return format.number(value)
  if (Array.isArray(value)) return value.length === 0 ? text.nothing : value.map(String).join(" → ")
  if (typeof value !== "string") return JSON.stringify(value)
  const isTime = (name.endsWith("_at") || name === "until") && !Number.isNaN(Date.parse(value))
  return isTime ? format.dateTime(value) : value
}

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

/**
 * A change of a model in two steps: first the form, then a preview of the change by the server (`dry_run`), which can
 * be saved. A price that jumps needs a confirmation too.
 */
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
      <Confirm checked={confirmed} onChange={({ target }) => onConfirm(target.checked)}>
        {text.jumpConfirm}
      </Confirm>
    </div>
  )
}
