/**
 * A chart over equal steps of time, on uPlot: stacked bars, or lines. It is loaded when it is first shown. A series is hidden and shown by
 * its name in the legend. A range of steps is chosen by dragging, or with the keys: the chart is a slider over its steps, which says
 * the values of each. Screen readers get the same numbers as a table too.
 */
import { type KeyboardEvent, type ReactNode, useEffect, useMemo, useRef, useState } from "react"
import UPlot from "uplot"
import { chartOptions, type Pointed } from "./chart-options.ts"
import { type Look, lookOf, othersLook } from "./values.tsx"
import { useComponentText } from "./text.ts"

const HEIGHT = 220

export default function Chart(props: ChartProps) {
  const { kind, labels, format, before, onZoom, height = HEIGHT } = props
  const place = useRef<HTMLDivElement>(null)
  const plot = useRef<UPlot>(undefined)
  const [pointed, setPointed] = useState<Pointed>()
  const [hidden, setHidden] = useState<ReadonlySet<string>>(new Set())
  const theme = useTheme()
  const all = useMemo(() => withLooks(props.series), [props.series])
  const series = useMemo(() => all.filter(({ name }) => !hidden.has(name)), [all, hidden])
  const shownBefore = before === undefined || hidden.has(before.name) ? undefined : before
  const data = useMemo(() => plotted(kind, labels, series, shownBefore), [kind, labels, series, shownBefore])
  const chosen = useRef(onZoom)
  chosen.current = onZoom
  const canZoom = onZoom !== undefined && labels.length > 1
  useEffect(() => {
    const parent = place.current
    if (parent === null) return undefined
    const options = chartOptions({
      kind,
      looks: series.map(({ look }) => look),
      before: shownBefore !== undefined,
      labels,
      format,
      parent,
      onPoint: setPointed,
      onSelect: canZoom ? (from, to) => chosen.current?.(from, to) : undefined,
    })
    const drawn = new UPlot({ ...options, width: parent.clientWidth, height }, data, parent)
    plot.current = drawn
    const resized = new ResizeObserver(() => drawn.setSize({ width: parent.clientWidth, height }))
    resized.observe(parent)
    return () => {
      resized.disconnect()
      drawn.destroy()
    }
    // Colours are read from the style sheet, so a change of theme draws the chart again.
  }, [data, kind, labels, series, shownBefore, format, height, theme, canZoom])
  const shown: Shown = { ...props, series, before: shownBefore }
  const keys = useKeys(shown, canZoom, plot)
  const toggle = (name: string) => {
    const others = new Set(hidden)
    if (!others.delete(name)) others.add(name)
    setHidden(others)
  }
  return (
    <figure className="chart">
      <div className="chart-keys" {...keys}>
        <div className="chart-plot" style={{ minBlockSize: height }} ref={place} aria-hidden="true" />
      </div>
      {pointed !== undefined && <Tip {...shown} pointed={pointed} />}
      <Legend series={all} before={before} hidden={hidden} onToggle={toggle} />
      <ChartTable {...shown} />
    </figure>
  )
}

/** The chart as a slider. Arrows go from step to step, with Shift they take steps along, and Enter zooms to those that were taken. */
function useKeys(shown: Shown, canZoom: boolean, plot: { readonly current: UPlot | undefined }) {
  const text = useComponentText()
  const { labels, caption, onZoom } = shown
  const [at, setAt] = useState<{ readonly from: number; readonly to: number }>()
  const last = labels.length - 1
  const to = Math.min(at?.to ?? last, last)
  const from = Math.min(at?.from ?? to, last)
  const go = (step: number, takes: boolean) => {
    const next = Math.max(0, Math.min(last, step))
    const start = takes ? from : next
    setAt({ from: start, to: next })
    const drawn = plot.current
    if (drawn === undefined) return
    const pixel = (index: number) => drawn.valToPos(index, "x")
    const half = shown.kind === "bars" && last > 0 ? (pixel(1) - pixel(0)) / 2 : 0
    drawn.setCursor({ left: pixel(next), top: 0 })
    const [left, right] = [pixel(Math.min(start, next)) - half, pixel(Math.max(start, next)) + half]
    drawn.setSelect({ left, top: 0, width: takes ? right - left : 0, height: drawn.over.clientHeight }, false)
  }
  const leave = () => {
    setAt(undefined)
    plot.current?.setCursor({ left: -10, top: -10 })
    plot.current?.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false)
  }
  const onKeyDown = (event: KeyboardEvent) => {
    const { key, shiftKey } = event
    if (key === "ArrowLeft" || key === "ArrowDown") go(to - 1, shiftKey)
    else if (key === "ArrowRight" || key === "ArrowUp") go(to + 1, shiftKey)
    else if (key === "Home") go(0, shiftKey)
    else if (key === "End") go(last, shiftKey)
    else if (key === "Escape" && at !== undefined) leave()
    else if (key === "Enter" && canZoom) onZoom?.(Math.min(from, to), Math.max(from, to))
    else return
    event.preventDefault()
  }
  const values = rowsOf(shown, to).map(({ name, value }) => `${name} ${shown.format(value)}`)
  const range = from === to ? labels[to] : `${labels[Math.min(from, to)]} – ${labels[Math.max(from, to)]}`
  return {
    role: "slider",
    tabIndex: 0,
    "aria-label": caption,
    "aria-description": canZoom ? text.chartKeys : undefined,
    "data-hint": canZoom ? text.chartKeys : undefined,
    "aria-valuemin": 0,
    "aria-valuemax": Math.max(0, last),
    "aria-valuenow": to,
    "aria-valuetext": `${range}: ${values.join(", ")}`,
    onKeyDown,
    onBlur: leave,
  }
}

interface Row {
  readonly name: string
  readonly look?: Look
  readonly value: number
}

/** What a step has: the series that have a value there, their sum where they can be added, and the step before. */
function rowsOf({ kind, series, before, total }: Shown, step: number): readonly Row[] {
  const rows = series.flatMap(({ name, look, values }) => {
    const value = values[step] ?? null
    return value !== null && (series.length === 1 || value !== 0) ? [{ name, look, value }] : []
  })
  const sum = rows.reduce((added, { value }) => added + value, 0)
  const past = before?.values[step] ?? null
  return [
    ...rows,
    ...(kind === "bars" && series.length > 1 && total !== undefined ? [{ name: total, value: sum }] : []),
    ...(before !== undefined && past !== null ? [{ name: before.name, value: past }] : []),
  ]
}

function Tip({ pointed, ...shown }: Shown & { readonly pointed: Pointed }) {
  const { labels, total, before, format } = shown
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
      {rowsOf(shown, pointed.index).map(({ name, look, value }) => (
        <p key={name} className={`chart-tip-row${look === undefined && name === total ? " chart-tip-total" : ""}`}>
          {look === undefined ? name === before?.name && <i className="chart-before" /> : <Swatch look={look} />}
          <span>{name}</span>
          <strong>{format(value)}</strong>
        </p>
      ))}
    </div>
  )
}

const Swatch = ({ look: { colour, pattern } }: { readonly look: Look }) => (
  <i className={`chart-colour chart-colour-${colour} chart-pattern-${pattern}`} />
)

interface LegendProps {
  readonly series: readonly Looking[]
  readonly before: Series | undefined
  readonly hidden: ReadonlySet<string>
  readonly onToggle: (name: string) => void
}

/** Nothing of one series by itself. */
function Legend({ series, before, hidden, onToggle }: LegendProps) {
  const text = useComponentText()
  if (series.length + (before === undefined ? 0 : 1) < 2) return null
  const entry = (name: string, sign: ReactNode) => (
    <li key={name}>
      <button type="button" aria-pressed={!hidden.has(name)} onClick={() => onToggle(name)}>
        {sign}
        {name}
      </button>
    </li>
  )
  return (
    <ul className="chart-legend" aria-label={text.legend}>
      {series.map(({ name, look }) => entry(name, <Swatch look={look} />))}
      {before !== undefined && entry(before.name, <i className="chart-before" />)}
    </ul>
  )
}

const withLooks = (series: readonly Series[]): readonly Looking[] =>
  series.map((each, index) => ({ ...each, look: each.others === true ? othersLook : lookOf(index) }))

/** Bars are stacked: each series is drawn as its sum with those below it, the tallest first. */
function plotted(
  kind: ChartProps["kind"],
  labels: ChartProps["labels"],
  series: readonly Series[],
  before: Series | undefined,
): UPlot.AlignedData {
  const steps = labels.map((_, index) => index)
  const past = before === undefined ? [] : [[...before.values]]
  if (kind === "lines") return [steps, ...series.map(({ values }) => [...values]), ...past]
  const heights = steps.map(() => 0)
  const sums = series.map(({ values }) =>
    steps.map((step) => (heights[step] = (heights[step] ?? 0) + (values[step] ?? 0))),
  )
  return [steps, ...sums.reverse(), ...past]
}

/** Changes whenever the page's colours do. */
function useTheme(): number {
  const [changes, setChanges] = useState(0)
  useEffect(() => {
    const changed = () => setChanges((count) => count + 1)
    const system = matchMedia("(prefers-color-scheme: dark)")
    system.addEventListener("change", changed)
    const chosen = new MutationObserver(changed)
    chosen.observe(document.documentElement, { attributeFilter: ["data-theme"] })
    return () => {
      system.removeEventListener("change", changed)
      chosen.disconnect()
    }
  }, [])
  return changes
}

/** A chart's numbers as a table, for screen readers only. */
function ChartTable({ caption, labels, series, before, format }: Shown) {
  const columns: readonly Series[] = before === undefined ? series : [...series, before]
  return (
    <div className="visually-hidden">
      <table>
        <caption>{caption}</caption>
        <thead>
          <tr>
            <td />
            {columns.map(({ name }) => (
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
              {columns.map(({ name, values }) => {
                const value = values[step]
                return <td key={name}>{value === null || value === undefined ? "" : format(value)}</td>
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

export interface Series {
  readonly name: string
  /** A value for each label; null where there is none. */
  readonly values: readonly (number | null)[]
  /** Those together that would not be told apart. */
  readonly others?: boolean
}
interface Looking extends Series {
  readonly look: Look
}

interface ChartProps {
  readonly caption: string
  readonly kind: "bars" | "lines"
  /** The names of the steps: "21 Nov". */
  readonly labels: readonly string[]
  readonly series: readonly Series[]
  /** The name of the sum of a step; without one there is none. */
  readonly total?: string
  /** The same steps of the period before, all series together. */
  readonly before?: Series | undefined
  readonly format: (value: number) => string
  /** Steps were chosen, both ends included. */
  readonly onZoom?: (from: number, to: number) => void
  /** Pixels. */
  readonly height?: number
}
type Shown = Omit<ChartProps, "series"> & { readonly series: readonly Looking[] }
