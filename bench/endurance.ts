/**
 * `bun bench/endurance.ts [embedded | postgres] [calls]`: many calls of one process, half of them streamed, 32 clients.
 * Calls/s, CPU and memory of each tenth, which ought to be flat. Exit code 1 when a call failed.
 */
import { startBackend } from "./backend.ts"
import { LOAD_CORE, pinThisProcess } from "./child.ts"
import { percentile, run } from "./load.ts"
import { startPostgres } from "./postgres.ts"
import { answers, bodyOf, calls, endingOf } from "./rows.ts"
import { targets } from "./targets.ts"

const [name = "embedded", count = "200000"] = process.argv.slice(2)
const CLIENTS = 32
const PARTS = 10

async function main(): Promise<number> {
  if (name !== "embedded" && name !== "postgres") throw new Error(`no target: ${name}`)
  pinThisProcess(LOAD_CORE)
  const backend = await startBackend(answers)
  const postgres = name === "postgres" ? await startPostgres() : undefined
  const target = await targets[name]({ backendUrl: backend.url, answers: Object.keys(answers), postgres })
  if (typeof target === "string") throw new Error(target)
  if (target.child === undefined) throw new Error("it has no process of its own")
  const { child, database } = target
  let failed = 0
  try {
    console.log(["calls", "calls/s", "p50 ms", "p99 ms", "CPU µs", "PostgreSQL µs", "MiB"].map(column).join(""))
    for (let part = 1; part <= PARTS; part++) {
      const [cpu, databaseCpu] = [child.cpu(), database?.cpu() ?? 0]
      const measured = await Promise.all(
        (["plain", "stream-20"] as const).map((call) => {
          const request = target.request(calls[call].answer, "same")
          if (request === undefined) throw new Error("cannot be asked")
          return run({
            ...request,
            body: bodyOf(call, request.model),
            clients: CLIENTS / 2,
            durationMs: Number.POSITIVE_INFINITY,
            calls: Number(count) / PARTS / 2,
            ending: endingOf(call),
          })
        }),
      )
      const made = measured.reduce((sum, each) => sum + each.calls, 0)
      failed += measured.reduce((sum, each) => sum + each.failed, 0)
      const totalMs = new Float64Array(measured.flatMap((each) => [...each.totalMs])).sort()
      const figures = [
        (Number(count) / PARTS) * part,
        measured.reduce((sum, each) => sum + each.calls / each.seconds, 0),
        percentile(totalMs, 0.5),
        percentile(totalMs, 0.99),
        ((child.cpu() - cpu) * 1e6) / made,
        (((database?.cpu() ?? 0) - databaseCpu) * 1e6) / made,
        child.memory(),
      ]
      console.log(figures.map((figure) => column(figure.toFixed(0))).join(""))
    }
    console.log(`${failed} failed`)
  } finally {
    await child.stop()
    await postgres?.stop()
    backend.stop()
  }
  return failed
}

const column = (text: string): string => text.padStart(15)

process.exit((await main()) === 0 ? 0 : 1)
