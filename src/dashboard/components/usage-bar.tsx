/** How much of a limit is used. */
import { useComponentText } from "./text.ts"

interface UsageBarProps {
  readonly label: string
  /** Whether the label is shown; a screen reader reads it anyhow. */
  readonly labelled?: boolean
  /** In the same unit as `limit`, such as micro-rupiah or calls. */
  readonly used: number
  readonly limit: number
  readonly format: (value: number) => string
  /** When the limit starts again. */
  readonly note?: string
}

export function UsageBar({ label, labelled = true, used, limit, format, note }: UsageBarProps) {
  const text = useComponentText()
  const share = limit === 0 ? 1 : Math.min(used / limit, 1)
  const tone = share >= 1 ? "bad" : share >= 0.8 ? "warn" : "good"
  return (
    <div className="usage-bar">
      <div className="usage-bar-words">
        {labelled && <span>{label}</span>}
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
