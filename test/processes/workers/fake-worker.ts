/** As much of a worker as its supervisor sees; `FAKE` says what is wrong with it, and is read anew by each. */
import { existsSync } from "node:fs"
import { Counter, Gauge, Histogram, Registry } from "prom-client"
import { serveAsWorker } from "../../../src/workers/worker-process.ts"

const { FAKE_BROKEN: broken = "", PORT: port = "" } = process.env
if (broken !== "" && existsSync(broken)) {
  process.stderr.write("broken\n")
  process.exit(7)
}
const registry = new Registry()
const logged = { name: "loket_log_events_total", help: "Warnings and errors of the log.", registers: [registry] }
new Counter({ ...logged, labelNames: ["level", "event"] }).inc({ level: "warn", event: "fake" })
new Counter({ name: "fake_calls_total", help: "Calls.", registers: [registry] }).inc(10)
new Gauge({ name: "fake_under_way", help: "Calls.", registers: [registry] }).set(3)
const took = new Histogram({ name: "fake_seconds", help: "Calls.", buckets: [1, 2], registers: [registry] })
for (const seconds of [0.5, 1.5, 4]) took.observe(seconds)
const body = { status: "ready", database: true, ledger: true, draining: false } as const
const worker = serveAsWorker(
  {
    url: `http://127.0.0.1:${port === "0" ? 4_321 : port}`,
    metrics: () => registry.getMetricsAsJSON(),
    readiness: async () => ({ isReady: true, body }),
  },
  () => process.exit(0),
)
process.on("SIGTERM", () => void worker.stopped().then(() => process.exit(0)))
process.stdout.write(`${process.pid} ${port} ${process.env["METRICS_PORT"]} ${process.env["REUSE_PORT"]}\n`)
setInterval(() => {}, 1_000)
