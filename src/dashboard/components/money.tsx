/** An amount of micro-rupiah. Every digit of it is in the tip when not every digit is shown. */
import { useFormat } from "../i18n/format.ts"
import type { RupiahForm } from "../i18n/rupiah.ts"

interface MoneyProps {
  readonly micro: number | bigint
  readonly form?: RupiahForm
}

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
