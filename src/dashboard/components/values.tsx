/** Single values: money, a state as a tag, and how much of a limit is used. */
import type { ReactNode } from "react"
import type { RupiahForm } from "../i18n/amounts.ts"
import { useFormat } from "../i18n/format.ts"
import { useComponentText } from "./text.ts"

interface MoneyProps {
  readonly micro: number | bigint
  readonly form?: RupiahForm
}

/** An amount of micro-rupiah. Every digit of it is in the tip when not every digit is shown. */
export function Money({ micro, form = "plain" }: MoneyProps) {
  const { rupiah } = useFormat()
  const shown = rupiah(micro, form)
  const exact = rupiah(micro, "exact")
  return (
    <data className="money" value={String(micro)} title={shown === exact ? undefined : exact}>
      {shown}
    </data>
  )
}

export type Tone = "neutral" | "good" | "warn" | "bad" | "accent"

/** A word about something's state. The colour never says it alone. */
export const Tag = ({ tone = "neutral", children }: { readonly tone?: Tone; readonly children: ReactNode }) => (
  <span className={`tag tag-${tone}`}>{children}</span>
)

/** A call's outcome, in a word (specification, "Usage record status"). */
interface UsageBarProps {
  readonly label: string
  /** Of one unit, such as micro-rupiah or calls. */
  readonly used: number
  readonly limit: number
  readonly format: (value: number) => string
  /** When it starts again. */
  readonly note?: string
}

/** How much of a limit is used. */
export function UsageBar({ label, used, limit, format, note }: UsageBarProps) {
  const text = useComponentText()
  const share = limit === 0 ? 1 : Math.min(used / limit, 1)
  const tone = share >= 1 ? "bad" : share >= 0.8 ? "warn" : "good"
  return (
    <div className="usage-bar">
      <div className="usage-bar-words">
        <span>{label}</span>
        <span>{text.used(format(used), format(limit))}</span>
      </div>
      <div
        className={`usage-bar-track usage-bar-${tone}`}
        role="meter"
        aria-label={label}
        aria-valuemin={0}
        aria-valuemax={limit}
        aria-valuenow={Math.min(used, limit)}
        aria-valuetext={text.used(format(used), format(limit))}
      >
        <div style={{ inlineSize: `${share * 100}%` }} />
      </div>
      {note !== undefined && <p className="usage-bar-note">{note}</p>}
    </div>
  )
}
