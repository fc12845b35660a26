/** The options of uPlot: colours and font of the style sheet, quiet axes, no legend of its own. */
import UPlot from "uplot"

export interface Pointed {
  readonly index: number
  readonly leftPx: number
  readonly widthPx: number
}

interface ChartSettings {
  readonly kind: "bars" | "lines"
  readonly names: readonly string[]
  readonly labels: readonly string[]
  readonly format: (value: number) => string
  readonly parent: HTMLElement
  readonly onPoint: (pointed: Pointed | undefined) => void
}

const COLOURS = 8
const FONT_PX = 12
/** The width of a label of a step, with room on both sides. */
const LABEL_PX = 88

export function chartOptions({
  kind,
  names,
  labels,
  format,
  parent,
  onPoint,
}: ChartSettings): Omit<UPlot.Options, "width" | "height"> {
  const style = getComputedStyle(parent)
  const variable = (name: string) => style.getPropertyValue(name).trim()
  const colour = (index: number) => variable(`--chart-${index % COLOURS}`)
  const axis = { stroke: variable("--muted"), font: `${FONT_PX}px ${style.fontFamily}`, ticks: { show: false } }
  const order = names.map((_, index) => index)
  if (kind === "bars") order.reverse()
  return {
    legend: { show: false },
    padding: [8, 8, 0, 0],
    cursor: { y: false, drag: { x: false, y: false }, points: { show: kind === "lines" } },
    scales: {
      x: { time: false, range: (_, min, max) => (kind === "bars" ? [min - 0.5, max + 0.5] : [min, max]) },
      y: { range: (_, __, max) => [0, max === 0 ? 1 : max * 1.08] },
    },
    axes: [
      {
        ...axis,
        grid: { show: false },
        space: LABEL_PX,
        size: 28,
        gap: 8,
        incrs: [1, 2, 5, 7, 10, 14, 30, 60, 90],
        values: (_, steps) => steps.map((step) => labels[step] ?? ""),
      },
      {
        ...axis,
        grid: { stroke: variable("--line"), width: 1 },
        size: (plot, values) => widest(plot, values) + 16,
        values: (_, ticks) => ticks.map(format),
      },
    ],
    series: [
      {},
      ...order.map((index) =>
        kind === "bars"
          ? { fill: colour(index), width: 0, points: { show: false }, ...bars }
          : { stroke: colour(index), width: 2, points: { show: false }, spanGaps: true },
      ),
    ],
    hooks: {
      setCursor: [
        ({ cursor: { idx, left }, over }) => {
          const outside = idx === undefined || idx === null || left === undefined || left < 0
          onPoint(outside ? undefined : { index: idx, leftPx: left + over.offsetLeft, widthPx: parent.clientWidth })
        },
      ],
    },
  }
}

const paths = UPlot.paths.bars?.({ size: [0.7, 40], radius: 0.15 })
const bars = paths === undefined ? {} : { paths }

function widest(plot: UPlot, values: readonly string[] | null): number {
  plot.ctx.font = `${FONT_PX * devicePixelRatio}px ${getComputedStyle(plot.root).fontFamily}`
  return Math.max(24, ...(values ?? []).map((value) => plot.ctx.measureText(value).width / devicePixelRatio))
}
