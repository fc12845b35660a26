/** The samples of a run as tables: medians over the rounds, and how far they lie apart. */
import { goalLines } from "./goals.ts"
import { median } from "./load.ts"
import type { Sample } from "./measure.ts"
import { EVENTS_BETWEEN, type Row } from "./rows.ts"
import type { Kind, TargetName } from "./targets.ts"

export interface Cell {
  readonly row: Row
  readonly target: TargetName
  /** One a round; all rounds of a row have all of its targets. */
  readonly samples: readonly Sample[]
}

type Figure = (sample: Sample) => number

interface Table {
  readonly title: string
  readonly figure: Figure
  readonly digits: number
  /** Beside the figure: what it is of the proxy's, or what it adds to the backend's. */
  readonly against?: { readonly target: TargetName; readonly how: "ratio" | "difference" }
}

const tables: readonly Table[] = [
  {
    title: "CPU of the gateway for each call (paced: for each event), µs, and × the proxy's",
    figure: (sample) => sample.cpu,
    digits: 0,
    against: { target: "proxy", how: "ratio" },
  },
  { title: "CPU of PostgreSQL for each call, µs", figure: ({ databaseCpu }) => databaseCpu ?? Number.NaN, digits: 0 },
  {
    title: "Calls/s, and × the proxy's",
    figure: (sample) => sample.callsPerSecond,
    digits: 0,
    against: { target: "proxy", how: "ratio" },
  },
  {
    title: "Last byte p50, added to the backend's, ms",
    figure: (sample) => sample.totalP50,
    digits: 2,
    against: { target: "backend", how: "difference" },
  },
  {
    title: "Last byte p99, added to the backend's, ms",
    figure: (sample) => sample.totalP99,
    digits: 2,
    against: { target: "backend", how: "difference" },
  },
  { title: "Resident memory, MiB", figure: (sample) => sample.memoryMib, digits: 0 },
  { title: "Share of the test core that was used, %", figure: (sample) => sample.targetShare * 100, digits: 0 },
  { title: "Share of the load's core that was used, %", figure: (sample) => sample.loadShare * 100, digits: 0 },
]

export const rowName = ({ call, kind, clients }: Row): string =>
  `${call}${kind === "same" ? "" : ", translated"}, c = ${clients}`

/** GitHub's Markdown. Columns are targets, lines are rows. */
export function markdown(cells: readonly Cell[], titles: Readonly<Partial<Record<TargetName, string>>>): string {
  const rows = [...new Map(cells.map(({ row }) => [rowName(row), row])).values()]
  // The backend is in the figures that are set against it, and has none of its own.
  const columns = (Object.keys(titles) as TargetName[]).filter((target) => target !== "backend")
  const find = (row: Row, target: TargetName) =>
    cells.find((cell) => rowName(cell.row) === rowName(row) && cell.target === target)
  const parts = tables.flatMap((table) => {
    const lines = rows.map((row) => [rowName(row), ...columns.map((column) => shown(table, find, row, column))])
    if (lines.every((line) => line.slice(1).every((cell) => cell === ""))) return []
    return [section(table.title, ["", ...columns.map((column) => titles[column] ?? column)], lines)]
  })
  const goals = goalLines(cells)
  const short = goals.length === 0 ? [] : [section("In short", ["", "Loket", "goal"], goals)]
  return [...short, ...parts, ...events(cells, columns, titles)].join("\n\n")
}

type Find = (row: Row, target: TargetName) => Cell | undefined

function shown({ figure, digits, against }: Table, find: Find, row: Row, target: TargetName): string {
  const samples = find(row, target)?.samples ?? []
  const values = samples.map(figure).filter(Number.isFinite)
  if (values.length === 0) return ""
  if (samples.some(({ failed }) => failed > 0)) return "failed"
  const base = against && find(row, against.target)?.samples
  if (base === undefined || against === undefined || against.target === target) return spread(values, digits)
  const paired = samples.map((sample, round) => {
    const other = figure(base[round] ?? sample)
    return against.how === "ratio" ? figure(sample) / other : figure(sample) - other
  })
  return against.how === "difference"
    ? spread(paired, digits)
    : `${spread(values, digits)} · ${median(paired).toFixed(2)}×`
}

/** The median, and half the distance between the least and the most. */
function spread(values: readonly number[], digits: number): string {
  const middle = median(values).toFixed(digits)
  return values.length < 2 ? middle : `${middle} ±${((Math.max(...values) - Math.min(...values)) / 2).toFixed(digits)}`
}

/** What an event adds to a stream that comes in one piece: the difference of the long and the short one. */
function events(
  cells: readonly Cell[],
  columns: readonly TargetName[],
  titles: Readonly<Partial<Record<TargetName, string>>>,
): string[] {
  const cpu = (call: Row["call"], kind: Kind, target: TargetName) => {
    const cell = cells.find(
      (each) => each.row.call === call && each.row.kind === kind && each.row.clients === 64 && each.target === target,
    )
    return cell && median(cell.samples.map((sample) => sample.cpu))
  }
  const lines = (["same", "translated"] as const).map((kind) => [
    kind === "same" ? "same format" : "translated",
    ...columns.map((target) => {
      const [long, short] = [cpu("stream-200", kind, target), cpu("stream-20", kind, target)]
      return long === undefined || short === undefined ? "" : ((long - short) / EVENTS_BETWEEN).toFixed(2)
    }),
  ])
  if (lines.every((line) => line.slice(1).every((cell) => cell === ""))) return []
  const heading = ["", ...columns.map((column) => titles[column] ?? column)]
  return [
    section("CPU of the gateway for each event of a long stream that comes in one piece, µs, c = 64", heading, lines),
  ]
}

const section = (title: string, heading: readonly string[], lines: readonly (readonly string[])[]): string =>
  [`### ${title}`, "", ...grid([heading, heading.map(() => "---"), ...lines])].join("\n")

function grid(lines: readonly (readonly string[])[]): string[] {
  const widths = (lines[0] ?? []).map((_, at) => Math.max(...lines.map((line) => line[at]?.length ?? 0)))
  return lines.map((line) => `| ${line.map((cell, at) => cell.padEnd(widths[at] ?? 0)).join(" | ")} |`)
}
