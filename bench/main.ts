/**
 * `bun run bench`: Loket beside a bare proxy, nginx and Portkey, in turns in one run, with one backend behind all. The
 * thing under test has one core to itself; load, backend and PostgreSQL have the other. What counts is the ratio:
 * machines differ. Writes the samples as JSON and the tables as Markdown.
 */
import { readFileSync, writeFileSync } from "node:fs"
import { cpus, loadavg } from "node:os"
import { join } from "node:path"
import { parseArgs } from "node:util"
import { type Backend, startBackend } from "./backend.ts"
import { LOAD_CORE, pinThisProcess } from "./child.ts"
import { run } from "./load.ts"
import { measure, type Sample } from "./measure.ts"
import { type Postgres, startPostgres } from "./postgres.ts"
import { type Cell, markdown, rowName } from "./report.ts"
import { answers, bodyOf, calls, endingOf, type Row, rowsOf } from "./rows.ts"
import { type Target, type TargetName, targets } from "./targets.ts"

const usage = `bun run bench [options]
  --quick            the proxy and Loket on PostgreSQL, plain and a stream of 20, 64 clients; about a minute
  --full             every number of clients for every call
  --only a,b         of ${Object.keys(calls).join(", ")}
  --c 1,64,512       numbers of clients
  --targets a,b      of ${Object.keys(targets).join(", ")}
  --for seconds      of one measurement, default 2
  --rounds n         of each row, all targets in turns, default 2
  --out file         writes file.json and file.md, default bench-results
  --docs             puts the tables into docs/performance.md too`

const { values: options } = parseArgs({
  options: {
    quick: { type: "boolean", default: false },
    full: { type: "boolean", default: false },
    only: { type: "string" },
    c: { type: "string" },
    targets: { type: "string" },
    for: { type: "string" },
    rounds: { type: "string" },
    out: { type: "string", default: "bench-results" },
    docs: { type: "boolean", default: false },
    help: { type: "boolean", default: false },
  },
})

const WARM_UP = ["plain", "stream-20"] as const
const WARM_UP_CALLS = 16_000
const LONGEST_WARM_UP_MS = 12_000

const { quick } = options
const list = (text: string | undefined, otherwise: string | undefined) => (text ?? otherwise)?.split(",")
const durationMs = Number(options.for ?? 2) * 1_000
const rounds = Number(options.rounds ?? (quick ? 5 : 2))
const names = (list(options.targets, quick ? "backend,proxy,postgres" : undefined) ??
  Object.keys(targets)) as TargetName[]
const rows = rowsOf({
  only: list(options.only, quick ? "plain,stream-20" : undefined),
  clients: list(options.c, quick ? "64" : undefined)?.map(Number),
  full: options.full,
}).filter((row) => !quick || row.kind === "same")

async function main(): Promise<void> {
  pinThisProcess(LOAD_CORE)
  const backend = await startBackend(answers)
  const started = new Map<TargetName, Target>()
  const missing: string[] = []
  const postgres = await startPostgres()
  const stop = async () => {
    for (const { child } of started.values()) await child?.stop()
    await postgres?.stop()
    backend.stop()
  }
  for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => void stop().then(() => process.exit(1)))
  try {
    for (const name of names) {
      const target = await targets[name]({ backendUrl: backend.url, answers: Object.keys(answers), postgres })
      if (typeof target === "string") missing.push(`${name}: ${target}`)
      else started.set(name, target)
    }
    await compare(backend, started, missing)
  } finally {
    await stop()
  }
}

async function compare(
  backend: Backend,
  started: ReadonlyMap<TargetName, Target>,
  missing: readonly string[],
): Promise<void> {
  const cells: Cell[] = []
  for (const target of started.values()) await warmUp(target)
  for (const { database } of started.values()) if (database !== undefined) await untilIdle(database)
  const load = [loadavg()[0]]
  for (const row of rows) {
    cells.push(...(await compareRow(row, backend, started)))
    load.push(loadavg()[0])
  }
  const titles = Object.fromEntries([...started].map(([name, { title }]) => [name, title]))
  const average = load.map((each) => each?.toFixed(1))
  const heading = [
    `${new Date().toISOString().slice(0, 10)}, ${cpus().length} × ${cpus()[0]?.model}, Bun ${Bun.version}; ${rounds} rounds of ${durationMs / 1_000} s; load average ${average.join(" ")}`,
    ...missing.map((each) => `Left out: ${each}.`),
  ].join("\n")
  const text = `${heading}\n\n${markdown(cells, titles)}\n`
  console.log(`\n${text}`)
  writeFileSync(`${options.out}.md`, text)
  if (options.docs) intoDocument(text)
  writeFileSync(`${options.out}.json`, `${JSON.stringify({ heading, cells }, undefined, 1)}\n`)
}

/** Until most of what is hot has been compiled: in a process's first 15,000 calls the compiler costs a third as much again. */
async function warmUp(target: Target): Promise<void> {
  for (const call of WARM_UP) {
    const request = target.request(calls[call].answer, "same")
    if (target.child === undefined || request === undefined) continue
    const body = bodyOf(call, request.model)
    const load = { ...request, body, clients: 64, ending: endingOf(call) }
    await run({ ...load, calls: WARM_UP_CALLS / WARM_UP.length, durationMs: LONGEST_WARM_UP_MS / WARM_UP.length })
  }
}

/** A gateway that has just started has chores that ask of all records. */
async function untilIdle(database: Postgres): Promise<void> {
  for (let tries = 0; tries < 60; tries++) {
    const before = database.cpu()
    await Bun.sleep(1_000)
    if (database.cpu() - before < 0.05) return
  }
}

/** Between the two comments that mark the place. */
function intoDocument(text: string): void {
  const file = join(import.meta.dir, "../docs/performance.md")
  const document = readFileSync(file, "utf8")
  const [begin, end] = ["<!-- the bench writes from here -->\n", "<!-- to here -->"]
  const [from, until] = [document.indexOf(begin) + begin.length, document.indexOf(end)]
  if (from < begin.length || until < from) throw new Error(`${file} does not mark the place of the tables`)
  writeFileSync(file, `${document.slice(0, from)}\n${text}\n${document.slice(until)}`)
}

/** All targets in turns, every other round backwards, so that what else the machine does falls on all. */
async function compareRow(row: Row, backend: Backend, started: ReadonlyMap<TargetName, Target>): Promise<Cell[]> {
  const samples = new Map<TargetName, Sample[]>()
  const turns = [...started].filter(([name]) => row.targets?.includes(name) ?? true)
  if (row.call !== "paced") for (const [, target] of turns) await measure(target, row, backend, durationMs / 2)
  for (let round = 0; round < (row.call === "paced" ? 1 : rounds); round++) {
    for (const [name, target] of round % 2 === 0 ? turns : turns.toReversed()) {
      const sample = await measure(target, row, backend, durationMs)
      if (sample === undefined) continue
      samples.set(name, [...(samples.get(name) ?? []), sample])
      const {
        calls: made,
        failed,
        problem,
        callsPerSecond,
        cpu,
        databaseCpu,
        totalP50,
        totalP99,
        targetShare,
        loadShare,
      } = sample
      const shares = `cores ${(targetShare * 100).toFixed(0)} % and ${(loadShare * 100).toFixed(0)} %`
      const database = databaseCpu === undefined ? "" : `, PostgreSQL ${databaseCpu.toFixed(0)}`
      console.log(
        `${rowName(row).padEnd(30)}${name.padEnd(10)}${callsPerSecond.toFixed(0).padStart(7)}/s  CPU ${cpu.toFixed(0)} µs${database}  last byte ${totalP50.toFixed(2)} / ${totalP99.toFixed(2)} ms  ${shares}${failed > 0 ? `  ${failed} of ${made} FAILED: ${problem}` : ""}`,
      )
    }
  }
  return [...samples].map(([target, each]) => ({ row, target, samples: each }))
}

if (options.help) console.log(usage)
else await main()
process.exit(0)
