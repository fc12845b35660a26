/** The options of uPlot: colours, patterns and font of the style sheet, quiet axes, no legend of its own. */
import UPlot from "uplot"
import type { Look } from "./values.tsx"

export interface Pointed {
  readonly index: number
  readonly leftPx: number
  readonly widthPx: number
}

interface ChartSettings {
  readonly kind: "bars" | "lines"
  /** The looks of the series, in their order. */
  readonly looks: readonly Look[]
  /** Whether a line of the period before is the last series. */
  readonly before: boolean
  readonly labels: readonly string[]
  readonly format: (value: number) => string
  readonly parent: HTMLElement
  readonly onPoint: (pointed: Pointed | undefined) => void
  /** Steps that were dragged over, both ends included. */
  readonly onSelect: ((from: number, to: number) => void) | undefined
}

const FONT_PX = 12
/** The width of a label of a step, with room on both sides. */
const LABEL_PX = 88
/** A shorter drag is a press. */
const MIN_DRAG_PX = 8
const DASHES: readonly (readonly number[])[] = [[], [8, 4], [2, 3], [10, 3, 2, 3]]

export function chartOptions(settings: ChartSettings): Omit<UPlot.Options, "width" | "height"> {
  const { kind, looks, before, labels, format, parent, onPoint, onSelect } = settings
  const style = getComputedStyle(parent)
  const variable = (name: string) => style.getPropertyValue(name).trim()
  const colour = (look: Look) => variable(`--chart-${look.colour}`)
  const axis = { stroke: variable("--muted"), font: `${FONT_PX}px ${style.fontFamily}`, ticks: { show: false } }
  const drawn = kind === "bars" ? looks.toReversed() : looks
  return {
    legend: { show: false },
    padding: [8, 8, 0, 0],
    cursor: {
      y: false,
      drag: { x: onSelect !== undefined, y: false, setScale: false, dist: MIN_DRAG_PX },
      points: { show: kind === "lines" },
    },
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
      ...drawn.map((look) =>
        kind === "bars"
          ? {
              fill: (plot: UPlot) => filled(plot.ctx, colour(look), look.pattern),
              width: 0,
              points: { show: false },
              ...bars,
            }
          : {
              stroke: colour(look),
              width: 2,
              dash: [...(DASHES[look.pattern] ?? [])],
              points: { show: false },
              spanGaps: true,
            },
      ),
      ...(before
        ? [{ stroke: variable("--text"), width: 1.5, dash: [3, 4], points: { show: false }, spanGaps: true }]
        : []),
    ],
    hooks: {
      setCursor: [
        ({ cursor: { idx, left }, over }) => {
          const outside = idx === undefined || idx === null || left === undefined || left < 0
          onPoint(outside ? undefined : { index: idx, leftPx: left + over.offsetLeft, widthPx: parent.clientWidth })
        },
      ],
      setSelect: [
        (plot) => {
          const { left, width } = plot.select
          if (width < MIN_DRAG_PX) return
          const [from, to] = [plot.posToIdx(left), plot.posToIdx(left + width)]
          plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false)
          onSelect?.(from, to)
        },
      ],
    },
  }
}

const paths = UPlot.paths.bars?.({ size: [0.7, 40], radius: 0.15 })
const bars = paths === undefined ? {} : { paths }

/** Pixels of the screen: a tile that is repeated. */
const TILE = 6

/** The patterns are those of `.chart-pattern-…` in chart.css. */
function filled(ctx: CanvasRenderingContext2D, colour: string, pattern: number): string | CanvasPattern {
  if (pattern === 0) return colour
  const tile = document.createElement("canvas")
  const size = TILE * devicePixelRatio
  tile.width = size
  tile.height = size
  const pen = tile.getContext("2d")
  if (pen === null) return colour
  pen.globalAlpha = 0.3
  pen.fillStyle = colour
  pen.fillRect(0, 0, size, size)
  pen.globalAlpha = 1
  pen.strokeStyle = colour
  pen.lineWidth = size / 3
  pen.beginPath()
  if (pattern === 2) {
    pen.arc(size / 2, size / 2, size / 3, 0, 2 * Math.PI)
    pen.fill()
  } else {
    // Also what the neighbouring tiles have of it, so that the stripes meet.
    for (const shift of [-size, 0, size]) {
      pen.moveTo(shift - 1, pattern === 1 ? size + 1 : -1)
      pen.lineTo(shift + size + 1, pattern === 1 ? -1 : size + 1)
    }
    pen.stroke()
  }
  return ctx.createPattern(tile, "repeat") ?? colour
}

function widest(plot: UPlot, values: readonly string[] | null): number {
  plot.ctx.font = `${FONT_PX * devicePixelRatio}px ${getComputedStyle(plot.root).fontFamily}`
  return Math.max(24, ...(values ?? []).map((value) => plot.ctx.measureText(value).width / devicePixelRatio))
}
