/** A number over the last days in the height of a line of text: a bar a day, today the last. */

interface SparklineProps {
  readonly values: readonly number[]
  /** What it shows, in words: that is what a screen reader reads, and what is shown as a tip. */
  readonly label: string
}

const HEIGHT = 24
/** Of a day, with the space to the next one. */
const STEP = 4
const BAR = 3

export function Sparkline({ values, label }: SparklineProps) {
  const most = Math.max(...values)
  // Whatever is not nothing can be seen.
  const heightOf = (value: number) => (value <= 0 ? 1 : Math.max(2.5, (value / most) * HEIGHT))
  const bars = (shown: (value: number, day: number) => boolean) =>
    values
      .map((value, day) => (shown(value, day) ? `M${day * STEP} ${HEIGHT}v${-heightOf(value)}h${BAR}V${HEIGHT}z` : ""))
      .join("")
  const width = values.length * STEP - (STEP - BAR)
  const today = values.length - 1
  return (
    <svg
      className="sparkline"
      role="img"
      aria-label={label}
      viewBox={`0 0 ${width} ${HEIGHT}`}
      width={width}
      height={HEIGHT}
    >
      <title>{label}</title>
      <path className="sparkline-none" d={bars((value) => value <= 0)} />
      <path className="sparkline-days" d={bars((value, day) => value > 0 && day !== today)} />
      <path className="sparkline-today" d={bars((value, day) => value > 0 && day === today)} />
    </svg>
  )
}
