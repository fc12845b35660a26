/** Single values: money, and a state as a tag. */
import type { ReactNode } from "react"
import type { RupiahForm } from "../i18n/rupiah.ts"
import { useFormat } from "../i18n/format.ts"

interface MoneyProps {
  readonly micro: number | bigint
  readonly form?: RupiahForm
}

/** An amount of micro-rupiah. A tip shows every digit when the text does not. */
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

/** A state in a word. The colour is never the only sign. */
export const Tag = ({ tone = "neutral", children }: { readonly tone?: Tone; readonly children: ReactNode }) => (
  <span className={`tag tag-${tone}`}>{children}</span>
)
