/** `WORKERS` of the built binary, which starts itself again: alone in a place where no sources are. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { mkdtempSync, readFileSync, readlinkSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { reconcile } from "../../money/reconcile.ts"
import { House, modelSeed } from "../child.ts"
import { calling } from "../load.ts"
import { freePort } from "../../free-port.ts"

const CALLERS = 12
const root = join(import.meta.dir, "../../..")
const place = mkdtempSync(join(tmpdir(), "loket-binary-"))
const built = join(place, "loket")
const binary = process.env["LOKET_BINARY"] || built

beforeAll(() => {
  if (binary !== built) return
  const { success, stderr } = Bun.spawnSync([process.execPath, "src/build.ts", built], { cwd: root })
  if (!success) throw new Error(stderr.toString())
})
afterAll(() => rmSync(place, { recursive: true, force: true }))

const workersOf = (pid: number): number[] =>
  readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim().split(" ").filter(Boolean).map(Number)

test("over 1 without a server's database is refused, with the reason", () => {
  const env = { PATH: process.env["PATH"], WORKERS: "2", DATA_DIR: join(place, "data") }
  const { exitCode, stderr } = Bun.spawnSync([binary, "start"], { cwd: place, env })
  expect(stderr.toString().trim()).toBe(
    "WORKERS is over 1 and DATABASE_URL is unset; the embedded database admits one process",
  )
  expect(exitCode).toBe(1)
})

test("workers of the binary are replaced under load and drain on SIGTERM: no call is lost, and all are counted once", async () => {
  await using house = await House.build([modelSeed("quick", "chat", "input=1&output=20&ttft=20")], { binary })
  const metricsPort = freePort()
  const gateway = await house.start({ WORKERS: "2", METRICS_PORT: String(metricsPort) })
  await using killed = new AsyncDisposableStack()
  killed.defer(() => gateway.kill())
  const valueOf = async (series: string) => {
    const text = await (await fetch(`http://127.0.0.1:${metricsPort}/metrics`)).text()
    const line = text.split("\n").find((each) => each.startsWith(`${series} `))
    return Number(line?.slice(series.length + 1))
  }
  const workers = workersOf(gateway.pid)
  expect(workers.map((pid) => readlinkSync(`/proc/${pid}/exe`))).toEqual([binary, binary])
  expect(await valueOf('loket_workers{state="listening"}')).toBe(2)

  const customer = await gateway.customer(1_000_000)
  const calls = calling(gateway.url, customer, "quick", CALLERS)
  await calls.more(CALLERS)
  gateway.signal("SIGHUP")
  while ((await valueOf('loket_worker_restarts_total{why="replaced"}')) < 2) await Bun.sleep(50)
  while (workersOf(gateway.pid).some((pid) => workers.includes(pid))) await Bun.sleep(50)
  await calls.more(CALLERS)
  const outcomes = await calls.stop()
  expect(outcomes.filter((outcome) => outcome !== "whole")).toEqual([])
  // Of those that ended and of those that serve.
  const ended = 'loket_calls_total{endpoint="chat",model="quick",status="ok"}'
  while ((await valueOf(ended)) < outcomes.length) await Bun.sleep(50)
  expect(await valueOf(ended)).toBe(outcomes.length)

  // One that is under way when the command is told to end is served to its end.
  const last = calling(gateway.url, customer, "quick", 1)
  while ((await valueOf("loket_in_flight")) < 1) await Bun.sleep(5)
  const stopping = last.stop()
  expect(await gateway.stop()).toBe(0)
  expect((await stopping).filter((outcome) => outcome !== "whole")).toEqual([])
  await house.books(async (sql) => {
    const [row] = await sql<{ calls: number; open: number }[]>`
      select count(*)::int as calls, (select count(*)::int from processes where closed_at is null) as open
      from usage where status = 'ok' and charge_micro > 0`
    expect(row).toEqual({ calls: outcomes.length + last.outcomes.length, open: 0 })
    await reconcile(sql)
  })
})
