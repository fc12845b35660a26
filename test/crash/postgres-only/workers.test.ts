/** `WORKERS`: one command, several gateways on one port. They are replaced and killed while customers call. */
import { afterEach, beforeEach, expect, test } from "bun:test"
import { readFileSync } from "node:fs"
import { reconcile } from "../../money/reconcile.ts"
import { type ChildGateway, House, modelSeed } from "../child.ts"
import { calling } from "../load.ts"
import { freePort } from "../../free-port.ts"
import { until } from "../../eventually.ts"

/** So many connections that the kernel gives some to each worker. */
const CALLERS = 16

let house: House
let gateway: ChildGateway
let metricsPort: number
beforeEach(async () => {
  house = await House.build([modelSeed("quick", "chat", "input=1&output=20&ttft=20")])
  metricsPort = freePort()
  gateway = await house.start({ WORKERS: "2", METRICS_PORT: String(metricsPort) })
})
afterEach(async () => {
  await gateway.kill()
  await house[Symbol.asyncDispose]()
})

const metrics = async () => await (await fetch(`http://127.0.0.1:${metricsPort}/metrics`)).text()
const valueOf = (text: string, series: string): number =>
  Number(
    text
      .split("\n")
      .find((line) => line.startsWith(`${series} `))
      ?.slice(series.length + 1),
  )
const listening = async () => valueOf(await metrics(), 'loket_workers{state="listening"}')
const restarts = async (why: string) => valueOf(await metrics(), `loket_worker_restarts_total{why="${why}"}`)
const endedCalls = async () => valueOf(await metrics(), 'loket_calls_total{endpoint="chat",model="quick",status="ok"}')

const workersOf = (pid: number): number[] =>
  readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim().split(" ").filter(Boolean).map(Number)

function isAlive(pid: number): boolean {
  try {
    // One that has ended and is nobody's yet is no longer alive.
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, "utf8"))
  } catch {
    return false
  }
}

test("SIGHUP, to all of them too, replaces them under load: no call is lost, and every one is counted and paid once", async () => {
  const customer = await gateway.customer(1_000_000)
  const old = workersOf(gateway.pid)
  expect(old).toHaveLength(2)
  const calls = calling(gateway.url, customer, "quick", CALLERS)
  await calls.more(2 * CALLERS)
  // As `pkill -HUP` and a terminal that is closed do.
  for (const pid of old) process.kill(pid, "SIGHUP")
  gateway.signal("SIGHUP")
  await until(async () => (await restarts("replaced")) === 2, 50)
  await until(() => !old.some(isAlive))
  await calls.more(2 * CALLERS)
  const outcomes = await calls.stop()
  expect(outcomes.filter((outcome) => outcome !== "whole")).toEqual([])
  // One that has ended is its supervisor's until that has heard of it.
  await until(() => !workersOf(gateway.pid).some((pid) => old.includes(pid)))
  await until(async () => (await endedCalls()) >= outcomes.length, 50)
  expect(await endedCalls()).toBe(outcomes.length)

  expect(await gateway.stop()).toBe(0)
  await house.books(async (sql) => {
    const [row] = await sql<{ calls: number; processes: number }[]>`
      select count(*)::int as calls, count(distinct l.process_id)::int as processes
      from usage u join leases l on l.id = u.lease_id where u.status = 'ok' and u.charge_micro > 0`
    expect(row?.calls).toBe(outcomes.length)
    expect(row?.processes).toBeGreaterThanOrEqual(2)
    await reconcile(sql)
  })
})

test("a worker that is killed under load is started again, and its calls are billed at most once", async () => {
  const customer = await gateway.customer(1_000_000)
  const calls = calling(gateway.url, customer, "quick", CALLERS)
  await calls.more(CALLERS)
  process.kill(workersOf(gateway.pid)[0] ?? 0, "SIGKILL")
  await until(async () => (await restarts("ended")) === 1 && (await listening()) === 2, 50)
  await calls.more(2 * CALLERS)
  const outcomes = await calls.stop()
  const whole = outcomes.filter((outcome) => outcome === "whole").length
  expect(outcomes.length - whole).toBeLessThanOrEqual(CALLERS)
  expect(gateway.complaints.filter((line) => line.includes('"event":"worker ended"'))).toHaveLength(1)

  expect(await gateway.stop()).toBe(0)
  await house.books(async (sql) => {
    const [row] = await sql<{ calls: number }[]>`
      select count(*)::int as calls from usage where status = 'ok' and charge_micro > 0`
    expect(row?.calls).toBeGreaterThanOrEqual(whole)
    expect(row?.calls).toBeLessThanOrEqual(outcomes.length)
    await reconcile(sql)
  })
})

test("where the supervisor is killed, its workers end by themselves", async () => {
  const workers = workersOf(gateway.pid)
  await gateway.kill()
  await until(() => !workers.some(isAlive))
})
