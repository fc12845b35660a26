/** The figures that the product is held to, out of a run's samples. */
import { median } from "./load.ts"
import type { Sample } from "./measure.ts"
import type { Cell } from "./report.ts"
import { type CallName, EMBEDDED_CLIENTS } from "./rows.ts"
import type { Kind, TargetName } from "./targets.ts"

type Figure = (sample: Sample) => number
const cpu: Figure = (sample) => sample.cpu
const databaseCpu: Figure = (sample) => sample.databaseCpu ?? Number.NaN
const callsPerSecond: Figure = (sample) => sample.callsPerSecond
const totalP50: Figure = (sample) => sample.totalP50

interface Goal {
  readonly name: string
  readonly goal: string
  readonly digits: number
  readonly figure: (of: Median) => number
}

/** Of a row, by itself of 64 clients in the same format; NaN when it was not measured. */
type Median = (target: TargetName, call: CallName, figure: Figure, clients?: number, kind?: Kind) => number

/** A call of one core is what CPU a call takes of it, so the ratio of both is that of their calls/s per core. */
const besidePortkey = (name: string, call: CallName, clients = 64, kind: Kind = "same"): Goal => ({
  name: `Portkey, ${name}: CPU a call, × Loket's`,
  goal: "≥ 10",
  digits: 1,
  figure: (of) => of("portkey", call, cpu, clients, kind) / of("postgres", call, cpu, clients, kind),
})

const goals: readonly Goal[] = [
  {
    name: "plain, c = 64: CPU a call, × the proxy's",
    goal: "≤ 3",
    digits: 2,
    figure: (of) => of("postgres", "plain", cpu) / of("proxy", "plain", cpu),
  },
  {
    name: "stream of 20, c = 64: CPU a call, × the proxy's",
    goal: "≤ 3.5",
    digits: 2,
    figure: (of) => of("postgres", "stream-20", cpu) / of("proxy", "stream-20", cpu),
  },
  {
    name: "an event of 2,000 paced streams: CPU, × the proxy's",
    goal: "≤ 2",
    digits: 2,
    figure: (of) => of("postgres", "paced", cpu, 2_000) / of("proxy", "paced", cpu, 2_000),
  },
  {
    name: "a stream of 200 whose events come apart, c = 64: CPU, × the proxy's",
    goal: "≤ 2",
    digits: 2,
    figure: (of) => of("postgres", "apart-200", cpu) / of("proxy", "apart-200", cpu),
  },
  {
    name: "PostgreSQL, plain, c = 64: CPU a call, µs",
    goal: "≤ 45",
    digits: 0,
    figure: (of) => of("postgres", "plain", databaseCpu),
  },
  {
    name: "PostgreSQL with 1,000,000 records, × fresh",
    goal: "0.9 to 1.1",
    digits: 2,
    figure: (of) => of("million", "plain", databaseCpu) / of("postgres", "plain", databaseCpu),
  },
  {
    name: "plain, c = 64, 1 % of traces: CPU a call, × without",
    goal: "< 1.03",
    digits: 3,
    figure: (of) => of("traced", "plain", cpu) / of("postgres", "plain", cpu),
  },
  {
    name: "stream of 20, c = 64, 1 % of traces: CPU a call, × without",
    goal: "< 1.03",
    digits: 3,
    figure: (of) => of("traced", "stream-20", cpu) / of("postgres", "stream-20", cpu),
  },
  {
    name: "plain, c = 64, as SDKs send it: CPU a call, × without their header",
    goal: "< 1.03",
    digits: 3,
    figure: (of) => of("postgres", "plain-sdk", cpu) / of("postgres", "plain", cpu),
  },
  {
    name: "stream of 20, c = 64, as SDKs send it: CPU a call, × without their header",
    goal: "< 1.03",
    digits: 3,
    figure: (of) => of("postgres", "stream-20-sdk", cpu) / of("postgres", "stream-20", cpu),
  },
  {
    name: "one client, plain: added to the last byte, p50, ms",
    goal: "≤ 2",
    digits: 2,
    figure: (of) => of("postgres", "plain", totalP50, 1) - of("backend", "plain", totalP50, 1),
  },
  {
    name: `embedded, plain, c = ${EMBEDDED_CLIENTS}: calls/s`,
    goal: "≥ 2,500",
    digits: 0,
    figure: (of) => of("embedded", "plain", callsPerSecond, EMBEDDED_CLIENTS),
  },
  besidePortkey("plain, c = 64", "plain"),
  besidePortkey("plain, c = 512", "plain", 512),
  besidePortkey("plain, translated, c = 64", "plain", 64, "translated"),
  besidePortkey("as SDKs send it, plain, c = 64", "plain-sdk"),
  besidePortkey("stream of 20, c = 64", "stream-20"),
  besidePortkey("stream of 20, translated, c = 64", "stream-20", 64, "translated"),
]

/** Lines of name, figure and goal; those that were not measured are left out. */
export function goalLines(cells: readonly Cell[]): string[][] {
  const of: Median = (target, call, figure, clients = 64, kind = "same") => {
    const cell = cells.find(
      ({ target: measured, row }) =>
        measured === target && row.call === call && row.kind === kind && row.clients === clients,
    )
    return cell === undefined || cell.samples.some(({ failed }) => failed > 0)
      ? Number.NaN
      : median(cell.samples.map(figure))
  }
  return goals.flatMap(({ name, goal, digits, figure }) => {
    const value = figure(of)
    return Number.isNaN(value) ? [] : [[name, value.toFixed(digits), goal]]
  })
}
