/**
 * A chart over equal steps of time, on uPlot: stacked bars, or lines. It is loaded when it is first shown. Screen readers get
 * the same numbers as a table.
 */
import { useEffect, useMemo, useRef, useState } from "react"
import UPlot from "uplot"
import { chartOptions, type Pointed } from "./chart-options.ts"

const HEIGHT = 220

export default function Chart(props: ChartProps) {
  const { kind, labels, series, format, height = HEIGHT } = props
  const place = useRef<HTMLDivElement>(null)
  const [pointed, setPointed] = useState<Pointed>()
  const looks = useLooks()
  const data = useMemo(() => plotted(kind, labels, series), [kind, labels, series])
  useEffect(() => {
    const parent = place.current
    if (parent === null) return undefined
    const names = series.map(({ name }) => name)
    const options = chartOptions({ kind, names, labels, format, parent, onPoint: setPointed })
    const plot = new UPlot({ ...options, width: parent.clientWidth, height }, data, parent)
    const resized = new ResizeObserver(() => plot.setSize({ width: parent.clientWidth, height }))
    resized.observe(parent)
    return () => {
      resized.disconnect()
      plot.destroy()
    }
    // Colours are read from the style sheet, so a change of theme draws the chart again.
  }, [data, kind, labels, series, format, height, looks])
  return (
    <figure className="chart">
      <div className="chart-plot" ref={place} aria-hidden="true" />
      {pointed !== undefined && <Tip {...props} pointed={pointed} />}
      {series.length > 1 && <Legend series={series} />}
      <ChartTable {...props} />
    </figure>
  )
}

function Tip({ labels, series, format, pointed }: ChartProps & { readonly pointed: Pointed }) {
  const shown = series
    .map(({ name, values }, index) => ({ name, index, value: values[pointed.index] ?? null }))
    .filter(({ value }) => value !== null && (series.length === 1 || value !== 0))
  return (
    <div
      className="chart-tip"
      aria-hidden="true"
      style={{
        left: `${pointed.leftPx}px`,
        translate: pointed.leftPx > pointed.widthPx / 2 ? "calc(-100% - 12px)" : "12px",
      }}
    >
      <p>{labels[pointed.index]}</p>
      {shown.map(({ name, index, value }) => (
        <p key={name} className="chart-tip-row">
          <i className={`chart-colour chart-colour-${index % 8}`} />
          <span>{name}</span>
          <strong>{format(value ?? 0)}</strong>
        </p>
      ))}
    </div>
  )
}

const Legend = ({ series }: { readonly series: readonly Series[] }) => (
  <ul className="chart-legend" aria-hidden="true">
    {series.map(({ name }, index) => (
      <li key={name}>
        <i className={`chart-colour chart-colour-${index % 8}`} />
        {name}
      </li>
    ))}
  </ul>
)

/** Bars are stacked: each series is drawn as its sum with those below it, the tallest first. */
function plotted(
  kind: ChartProps["kind"],
  labels: ChartProps["labels"],
  series: ChartProps["series"],
): UPlot.AlignedData {
  const steps = labels.map((_, index) => index)
  if (kind === "lines") return [steps, ...series.map(({ values }) => [...values])]
  const heights = steps.map(() => 0)
  const sums = series.map(({ values }) =>
    steps.map((step) => (heights[step] = (heights[step] ?? 0) + (values[step] ?? 0))),
  )
  return [steps, ...sums.reverse()]
}

/** Changes whenever the page's colours do. */
function useLooks(): number {
  const [looks, setLooks] = useState(0)
  useEffect(() => {
    const changed = () => setLooks((count) => count + 1)
    const system = matchMedia("(prefers-color-scheme: dark)")
    system.addEventListener("change", changed)
    const chosen = new MutationObserver(changed)
    chosen.observe(document.documentElement, { attributeFilter: ["data-theme"] })
    return () => {
      system.removeEventListener("change", changed)
      chosen.disconnect()
    }
  }, [])
  return looks
}

/** A chart's numbers as a table, for screen readers only. */
const ChartTable = ({ caption, labels, series, format }: ChartProps) => (
  <div className="visually-hidden">
    <table>
      <caption>{caption}</caption>
      <thead>
        <tr>
          <td />
          {series.map(({ name }) => (
            <th key={name} scope="col">
              {name}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {labels.map((label, step) => (
          <tr key={label}>
            <th scope="row">{label}</th>
            {series.map(({ name, values }) => {
              const value = values[step]
              return <td key={name}>{value === null || value === undefined ? "" : format(value)}</td>
            })}
          </tr>
        ))}
      </tbody>
    </table>
  </div>
)

export interface Series {
  readonly name: string
  /** A value for each label; null where there is none. */
  readonly values: readonly (number | null)[]
}

interface ChartProps {
  readonly caption: string
  readonly kind: "bars" | "lines"
  /** The names of the steps: "21 Nov". */
  readonly labels: readonly string[]
  readonly series: readonly Series[]
  readonly format: (value: number) => string
  /** Pixels. */
  readonly height?: number
}
